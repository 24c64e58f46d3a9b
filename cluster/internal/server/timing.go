package server

import (
	"math/bits"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sievedb/sievedb/cluster/internal/command"
)

// timeBuckets is the number of buckets of a histogram: bucket i counts what took less than 2^i µs, the last one all
// that took longer than a minute.
const timeBuckets = 27

// commandStat counts the executions of a command and how long they took, from when the server began with it until its
// reply was complete: writes include their replication. Its methods may be called by any goroutine.
type commandStat struct {
	micros  atomic.Int64
	buckets [timeBuckets]atomic.Int64
}

func (s *commandStat) add(d time.Duration) {
	micros := d.Microseconds()
	s.micros.Add(micros)
	s.buckets[min(bits.Len64(uint64(max(micros, 0))), timeBuckets-1)].Add(1)
}

func (s *commandStat) reset() {
	s.micros.Store(0)
	for i := range s.buckets {
		s.buckets[i].Store(0)
	}
}

func (s *commandStat) calls() (n int64) {
	for i := range s.buckets {
		n += s.buckets[i].Load()
	}
	return n
}

type (
	container  = command.Container[func(*conn, request)]
	subcommand = command.Subcommand[func(*conn, request)]
)

func sub(name string, arity int, help string, run func(*conn, request)) subcommand {
	return subcommand{Name: name, Arity: arity, Help: help, Run: run}
}

// of returns the function of a container.
func of(k *container) func(*conn, request) {
	return func(c *conn, r request) {
		if run, ok := k.Find(c.call(r.args)); ok {
			run(c, r)
		}
	}
}

// containers have the subcommands of commands, which are counted each.
var containers map[string][]string

func init() { // some subcommands show those of others
	containers = command.Containers()
	for _, k := range []*container{&clientCommands, &configCommands, &slowlogCommands, &latencyCommands} {
		containers[k.Name] = k.Names()
	}
}

// commandStats are those of all commands. They are not changed after newCommandStats.
type commandStats struct {
	byName  map[string]*commandStat // also client|list
	byIndex []*commandStat          // nil for containers
}

func newCommandStats() commandStats {
	list := append(command.All(), command.AnyOperator())
	s := commandStats{byName: map[string]*commandStat{}, byIndex: make([]*commandStat, len(list))}
	for _, c := range list {
		s.byName[c.Name] = &commandStat{}
		if containers[c.Name] == nil {
			s.byIndex[c.Index] = s.byName[c.Name]
		}
		for _, sub := range containers[c.Name] {
			s.byName[c.Name+"|"+sub] = &commandStat{}
		}
	}
	return s
}

// of returns the figures of a command.
func (s *commandStats) of(r request) *commandStat {
	if stat := s.byIndex[r.command.Index]; stat != nil {
		return stat
	}
	return s.byName[fullName(r.command, r.args)]
}

// fullName returns the name of a command, with that of its subcommand.
func fullName(cmd *command.Command, args [][]byte) string {
	if subcommands := containers[cmd.Name]; subcommands != nil && len(args) > 1 && len(args[1]) < 32 {
		sub := strings.ToLower(string(args[1]))
		if slices.Contains(subcommands, sub) {
			return cmd.Name + "|" + sub
		}
	}
	return cmd.Name
}

// called returns the names of the commands that were called, sorted.
func (s *commandStats) called() (names []string) {
	for name, stat := range s.byName {
		if stat.calls() > 0 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// elapsed is a clock that costs less than time.Now.
func (s *Server) elapsed() time.Duration { return time.Since(s.started) }

// observe is called when the reply of a command is complete, while its arguments are still valid.
func (c *conn) observe(r request, end time.Duration) {
	s, d := c.server, end-r.begun
	s.commands.of(r).add(d)
	if slower := s.live.slowerThan.Load(); slower >= 0 && d.Microseconds() >= slower {
		s.slow.add(c, r, d)
	}
	if threshold := s.live.latencyThreshold.Load(); threshold > 0 && d.Milliseconds() >= threshold {
		event := "command"
		if slices.Contains(r.command.Flags, "fast") {
			event = "fast-command"
		}
		s.events.add(event, time.Now().Unix(), d.Milliseconds())
	}
}
