package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/sievedb/sievedb/cmd/internal/bench"
	"github.com/sievedb/sievedb/cmd/peerbench/engine"
)

// What a process may be asked for in place of a workload. The names are also those
// of their results.
const (
	loading    = "load"
	opening    = "open"        // of what was closed
	openLazily = "open-lazily" // the same; tables are opened when they are first needed
	abandoning = "abandon"     // fills a log and ends, as if it were killed
	recovering = "recovery"    // opens what was abandoned
)

// timedOpen opens the database into s.engine, and returns how long that took.
func (s *session) timedOpen(d engine.Driver, o engine.Options) (*result, error) {
	began := time.Now()
	e, err := d.Open(s.dir, o)
	took := time.Since(began).Seconds()
	s.engine = e
	return &result{Engine: d.Name, Threads: 1, OpenSeconds: &took}, err
}

func (q *request) open(d engine.Driver) (*result, error) {
	s := newSession(q.Config, q.Dir)
	o := q.Config.Options
	o.OpenLazily = q.Workload == openLazily
	r, err := s.timedOpen(d, o)
	if err != nil {
		return nil, err
	}
	return r, s.engine.Close()
}

// logKeys is how many keys make a log whose memtable is nearly full and not yet
// written out: what a memtable adds to keys and values takes the rest.
func logKeys(c *config) int {
	return min(c.WriteBufferSize/4*3/(keySize+c.ValueSize), c.Num)
}

// abandon does not close what it writes to: the process ends.
func (q *request) abandon(d engine.Driver) (*result, error) {
	s := newSession(q.Config, q.Dir)
	var err error
	if s.engine, err = d.Open(q.Dir, q.Config.Options); err != nil {
		return nil, err
	}
	th := &thread{}
	for i := range uint64(logKeys(q.Config)) {
		if err := s.putKey(th, s.logged(th, i)); err != nil {
			return nil, err
		}
	}
	return &result{Ops: uint64(logKeys(q.Config))}, nil
}

// logged makes th.key the i-th key that is abandoned, none of them stored before,
// and returns the number whose value it has.
func (s *session) logged(th *thread, i uint64) uint64 { return s.inserted(th, uint64(s.cfg.Num)+i) }

// recover opens what was abandoned, and looks for what was written last.
func (q *request) recover(d engine.Driver) (*result, error) {
	s := newSession(q.Config, q.Dir)
	r, err := s.timedOpen(d, q.Config.Options)
	if err != nil {
		return nil, err
	}
	r.Ops = uint64(logKeys(q.Config))
	th := &thread{check: true}
	for i := range r.Ops {
		if err := s.getKey(th, s.logged(th, i)); err != nil {
			return nil, errors.Join(err, s.engine.Close())
		}
	}
	r.Found = th.found
	if err := s.engine.Close(); err != nil {
		return nil, err
	}
	if r.Found != r.Ops && !d.LosesUnsynced {
		return nil, fmt.Errorf("%s of %s acknowledged writes are there after the process ended", bench.Grouped(r.Found), bench.Grouped(r.Ops))
	}
	return r, nil
}
