package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/sievedb/sievedb/cmd/peerbench/engine"
	"github.com/sievedb/sievedb/cmd/peerbench/engine/cpp"
)

// childMark is the environment variable with which the program does one request, read from
// standard input, and writes the result to standard output.
const childMark = "PEERBENCH_CHILD"

// A request is the task of a process: measure a workload, or one of the steps in opens.go and rates.go.
type request struct {
	Config   *config `json:"config"`
	Dir      string  `json:"dir"`
	Engine   string  `json:"engine"`
	Workload string  `json:"workload"`
	Threads  int     `json:"threads"`
	// Rate is that of all writers, per second, for the request "rates"; 0: as fast as possible.
	Rate float64 `json:"rate,omitempty"`
}

// allDrivers are the drivers of all engines, including those left out of this build.
var allDrivers = slices.Concat(engine.Go(), cpp.Drivers())

func childMain(in io.Reader, out io.Writer) int {
	var q request
	r := &result{}
	if err := json.NewDecoder(in).Decode(&q); err != nil {
		r.Error = err.Error()
	} else if r, err = q.measure(); err != nil {
		r = &result{Error: err.Error()}
	}
	if json.NewEncoder(out).Encode(r) != nil {
		return 1
	}
	return 0
}

func (q *request) measure() (*result, error) {
	d, ok := findDriver(allDrivers, q.Engine)
	if !ok || d.Open == nil {
		return nil, fmt.Errorf("this program has no engine %q", q.Engine)
	}
	switch q.Workload {
	case loading:
		return q.load(d)
	case opening, openLazily:
		return q.open(d)
	case abandoning:
		return q.abandon(d)
	case recovering:
		return q.recover(d)
	case rated:
		return q.writeAtRate(d)
	}
	w, ok := findWorkload(q.Workload)
	if !ok {
		return nil, fmt.Errorf("unknown workload %q", q.Workload)
	}
	s := newSession(q.Config, q.Dir)
	o := q.Config.Options
	o.Sync = w.sync
	if w.cache != nil {
		o.CacheBytes = w.cache(s.dataBytes())
	}
	if w.cold {
		if err := dropPageCache(q.Dir); err != nil {
			return nil, err
		}
	}
	var err error
	if s.engine, err = d.Open(q.Dir, o); err != nil {
		return nil, err
	}
	r, err := s.run(w, d, q.Threads)
	return r, errors.Join(err, s.engine.Close())
}

// load creates the database for reads.
func (q *request) load(d engine.Driver) (*result, error) {
	s := newSession(q.Config, q.Dir)
	var err error
	if s.engine, err = d.Open(q.Dir, q.Config.Options); err != nil {
		return nil, err
	}
	_, err = s.pass(load(s), passOptions{ops: q.Config.Num, threads: 1})
	if err == nil {
		_, err = s.settle()
	}
	return &result{}, errors.Join(err, s.engine.Close())
}

// run warms up the engine and measures. Latencies are measured in the same pass if operations are
// slow, and in a second pass if the clock would distort the rate.
func (s *session) run(w *workload, d engine.Driver, threads int) (*result, error) {
	r := &result{Engine: d.Name, Workload: w.name, Threads: threads}
	ops := w.ops(s.cfg, threads)
	if err := s.warmUp(w, ops, threads); err != nil {
		return nil, err
	}
	if w.cold {
		if err := dropPageCache(s.dir); err != nil { // drops the pages that opening has read
			return nil, err
		}
	}
	t := w.make(s)
	stopProfile, err := s.cfg.profile(r)
	if err != nil {
		return nil, err
	}
	once := w.writes() || w.cold
	p, err := s.pass(t, passOptions{ops: ops, threads: threads, timed: once})
	if err != nil {
		return nil, err
	}
	r.setMeasured(p, d.Native)
	if !once {
		timed, err := s.pass(t, passOptions{ops: max(ops/2, 1), threads: threads, timed: true})
		if err != nil {
			return nil, err
		}
		r.Latency = summarize(timed.latencies)
	}
	if w.settles {
		rested, err := s.settle()
		if err != nil {
			return nil, err
		}
		r.setSettled(p, readCounters(), rested.Sub(p.after.time).Seconds())
	}
	if err := stopProfile(); err != nil {
		return nil, err
	}
	if s.cfg.scaled() && !d.Native {
		r.setHeap()
	}
	if r.DiskBytes, err = s.diskBytes(); err != nil {
		return nil, err
	}
	return r, s.checkLeft(w, ops)
}

// warmUp opens tables, fills the block cache, and compares values with those that were written. If the
// workload is to find all data in the cache, everything is read in order first.
func (s *session) warmUp(w *workload, ops, threads int) error {
	if w.base == empty || w.cold {
		return nil
	}
	if w.cached {
		if _, err := s.pass(readSeq(s), passOptions{ops: s.cfg.Num, threads: 1, check: true}); err != nil {
			return err
		}
	}
	t := readStored(s)
	if w.base == loaded {
		t = w.make(s)
	}
	_, err := s.pass(t, passOptions{ops: max(ops/4, 1), threads: threads, check: true})
	return err
}

// checkLeft checks the number of keys after a workload.
func (s *session) checkLeft(w *workload, ops int) error {
	if w.left == nil {
		return nil
	}
	n, err := s.count()
	if want := w.left(s.cfg.Num, ops); err == nil && n != want {
		return fmt.Errorf("the database has %d keys; want %d", n, want)
	}
	return err
}
