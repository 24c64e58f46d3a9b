package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/sievedb/sievedb/cmd/internal/bench"
	"github.com/sievedb/sievedb/cmd/peerbench/engine"
)

// The requests other than workloads. Their results have the same names.
const (
	loading    = "load"
	opening    = "open"        // opens a database that was closed
	openLazily = "open-lazily" // the same; tables are opened when they are first needed
	abandoning = "abandon"     // fills a log and exits as if it were killed
	recovering = "recovery"    // opens the abandoned database
)

// timedOpen opens the database as s.engine. The result has the time that it took.
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

// logKeys returns the number of keys in a log whose memtable is nearly full, but not yet flushed.
// A quarter of the write buffer is left for the memtable's overhead.
func logKeys(c *config) int {
	return min(engine.WriteBufferSize/4*3/(keySize+c.ValueSize), c.Num)
}

// abandon does not close the engine: the process exits.
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

// logged sets th.key to the i-th abandoned key and returns the number of its value. These keys are
// not in the database before.
func (s *session) logged(th *thread, i uint64) uint64 { return s.inserted(th, uint64(s.cfg.Num)+i) }

// recover opens the abandoned database and looks up the keys in its log.
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
		return nil, fmt.Errorf("only %s of %s acknowledged writes survived the end of the process",
			bench.Grouped(r.Found), bench.Grouped(r.Ops))
	}
	return r, nil
}
