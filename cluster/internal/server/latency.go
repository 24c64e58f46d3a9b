package server

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// latencyHistory is how many samples of an event are kept, as in Redis.
const latencyHistory = 160

// sample is the greatest latency of a second, in milliseconds.
type sample struct{ at, millis int64 }

type latencyEvent struct {
	samples []sample // the newest is the last one
	most    int64
}

// latencyEvents are what LATENCY reports: commands that took latency-monitor-threshold or longer. Its methods may be
// called by any goroutine.
type latencyEvents struct {
	mu  sync.Mutex
	all map[string]*latencyEvent // guarded by mu
}

func (l *latencyEvents) add(name string, at, millis int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all == nil {
		l.all = map[string]*latencyEvent{}
	}
	e := l.all[name]
	if e == nil {
		e = &latencyEvent{}
		l.all[name] = e
	}
	e.most = max(e.most, millis)
	if n := len(e.samples); n > 0 && e.samples[n-1].at == at {
		e.samples[n-1].millis = max(e.samples[n-1].millis, millis)
		return
	}
	e.samples = append(e.samples, sample{at, millis})
	if len(e.samples) > latencyHistory {
		e.samples = slices.Delete(e.samples, 0, 1)
	}
}

// reset forgets events, or all if none is named, and returns how many it forgot.
func (l *latencyEvents) reset(names [][]byte) (n int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(names) == 0 {
		n = int64(len(l.all))
		l.all = nil
	}
	for _, name := range names {
		if _, ok := l.all[string(name)]; ok {
			delete(l.all, string(name))
			n++
		}
	}
	return n
}

func (l *latencyEvents) history(name string) []sample {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.all[name]; e != nil {
		return slices.Clone(e.samples)
	}
	return nil
}

// latest returns the names of the events, and for each the newest sample and the greatest latency.
func (l *latencyEvents) latest() (names []string, last []sample, most []int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(l.all)) {
		e := l.all[name]
		names, last, most = append(names, name), append(last, e.samples[len(e.samples)-1]), append(most, e.most)
	}
	return names, last, most
}

var latencyCommands = container{Name: "latency", Subcommands: []subcommand{
	sub("doctor", 2, "DOCTOR", func(c *conn, _ request) { c.out.Verbatim(c.server.diagnose()) }),
	sub("histogram", -2, "HISTOGRAM [<command> ...]", func(c *conn, r request) { c.histograms(r.args[2:]) }),
	sub("history", 3, "HISTORY <event>", func(c *conn, r request) {
		list := c.server.events.history(string(r.args[2]))
		c.out.Array(len(list))
		for _, s := range list {
			c.out.Array(2)
			c.out.Int(s.at)
			c.out.Int(s.millis)
		}
	}),
	sub("latest", 2, "LATEST", func(c *conn, _ request) {
		names, last, most := c.server.events.latest()
		c.out.Array(len(names))
		for i := range names {
			c.out.Array(4)
			c.out.Text(names[i])
			c.out.Int(last[i].at)
			c.out.Int(last[i].millis)
			c.out.Int(most[i])
		}
	}),
	sub("reset", -2, "RESET [<event> ...]", func(c *conn, r request) { c.out.Int(c.server.events.reset(r.args[2:])) }),
}}

// diagnose is LATENCY DOCTOR: what was slow, and what to look at.
func (s *Server) diagnose() string {
	threshold := s.live.latencyThreshold.Load()
	if threshold == 0 {
		return "Latencies are not recorded: set latency-monitor-threshold to some milliseconds by CONFIG SET, and look again later.\n"
	}
	names, last, most := s.events.latest()
	if len(names) == 0 {
		return fmt.Sprintf("No command took %d ms or longer since latencies are recorded.\n", threshold)
	}
	var b strings.Builder
	for i, name := range names {
		fmt.Fprintf(&b, "%s: the longest took %d ms, the last one %d ms, %d s ago.\n", name, most[i], last[i].millis,
			max(0, time.Now().Unix()-last[i].at))
	}
	b.WriteString("SLOWLOG GET shows which commands they were. A write waits for an fsync of a majority of the replicas, and a read\n" +
		"for answers of a majority, so look at the disks, the network, and commands with many keys or long values.\n")
	return b.String()
}

// histograms is LATENCY HISTOGRAM: for each command, the calls up to each power of two of microseconds.
func (c *conn) histograms(names [][]byte) {
	all := &c.server.commands
	var list []string
	for _, name := range names {
		lower := strings.ToLower(string(name[:min(len(name), 64)]))
		for _, called := range all.called() {
			if called == lower || strings.HasPrefix(called, lower+"|") && containers[lower] != nil {
				list = append(list, called)
			}
		}
	}
	if len(names) == 0 {
		list = all.called()
	}
	c.out.Map(len(list))
	for _, name := range list {
		stat := all.byName[name]
		var bounds, counts []int64
		sum := int64(0)
		for i := range stat.buckets {
			if n := stat.buckets[i].Load(); n > 0 {
				sum += n
				bounds, counts = append(bounds, 1<<i), append(counts, sum)
			}
		}
		c.out.Text(name)
		c.out.Map(2)
		c.out.Text("calls")
		c.out.Int(sum)
		c.out.Text("histogram_usec")
		c.out.Map(len(bounds))
		for i := range bounds {
			c.out.Int(bounds[i])
			c.out.Int(counts[i])
		}
	}
}
