package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// kindOfWork is what clients do.
type kindOfWork string

const (
	writes kindOfWork = "writes"
	reads  kindOfWork = "linearizable reads"
)

// figures are what a measurement found.
type figures struct {
	perSecond         float64
	p50, p99          time.Duration
	cpuPerOp          time.Duration
	bytesWrittenPerOp float64
}

// workload is a row of the tables, without its system.
type workload struct {
	kind    kindOfWork
	clients int
}

// results are all measurements.
type results struct {
	order []string // of systems
	all   map[string]map[workload][]figures
}

func newResults() *results { return &results{all: map[string]map[workload][]figures{}} }

func (r *results) add(system string, w workload, f figures) {
	if r.all[system] == nil {
		r.all[system] = map[workload][]figures{}
		r.order = append(r.order, system)
	}
	r.all[system][w] = append(r.all[system][w], f)
}

// measureSystem starts a system, measures all workloads, and stops it. Its data remain for the next round.
func measureSystem(c config, s system, results *results) (err error) {
	dir := filepath.Join(c.dir, strings.NewReplacer(",", "", " ", "-").Replace(s.name))
	_, err = os.Stat(dir)
	fresh := errors.Is(err, os.ErrNotExist)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	running, err := s.start(dir, s.addrs)
	if running != nil {
		defer func() { err = errors.Join(err, running.stop()) }()
	}
	if err != nil {
		return err
	}
	value := make([]byte, c.valueLen)
	for i := range value {
		value[i] = byte('a' + rand.IntN(26))
	}
	if fresh {
		if err := load(c, running, value); err != nil {
			return err
		}
	}
	for _, clients := range c.clients {
		for _, kind := range []kindOfWork{writes, reads} {
			w := workload{kind, clients}
			f, err := measure(c, running, w, value)
			if err != nil {
				return fmt.Errorf("%s by %d clients: %w", kind, clients, err)
			}
			results.add(s.name, w, f)
		}
	}
	return nil
}

// load writes each key once.
func load(c config, s *servers, value []byte) error {
	const loaders = 256
	return each(s, loaders, func(i int, ses session) error {
		for key := i; key < c.keys; key += loaders {
			if err := ses.set(key, value); err != nil {
				return err
			}
		}
		return nil
	})
}

// each runs f with a session on each of some goroutines.
func each(s *servers, count int, f func(i int, ses session) error) error {
	errs := make([]error, count)
	var clients sync.WaitGroup
	for i := range count {
		clients.Go(func() {
			ses, err := s.connect()
			if err != nil {
				errs[i] = err
				return
			}
			defer ses.close()
			errs[i] = f(i, ses)
		})
	}
	clients.Wait()
	return errors.Join(errs...)
}

// warmup is how long clients work before a measurement begins: connections open, and leaders become known.
const warmup = 300 * time.Millisecond

func measure(c config, s *servers, w workload, value []byte) (f figures, err error) {
	begin := time.Now().Add(warmup)
	end := begin.Add(time.Duration(c.seconds * float64(time.Second)))
	latencies := make([][]time.Duration, w.clients)
	var before, after used
	var errBefore, errAfter error
	var sampling sync.WaitGroup
	sampling.Go(func() {
		time.Sleep(time.Until(begin))
		before, errBefore = s.used()
		time.Sleep(time.Until(end))
		after, errAfter = s.used()
	})
	err = each(s, w.clients, func(i int, ses session) error {
		rnd := rand.New(rand.NewPCG(uint64(i), uint64(begin.UnixNano())))
		for {
			key, start := rnd.IntN(c.keys), time.Now()
			if start.After(end) {
				return nil
			}
			var err error
			if w.kind == writes {
				err = ses.set(key, value)
			} else {
				err = ses.get(key)
			}
			if err != nil {
				return err
			}
			if start.After(begin) {
				latencies[i] = append(latencies[i], time.Since(start))
			}
		}
	})
	sampling.Wait()
	if err = errors.Join(err, errBefore, errAfter); err != nil {
		return f, err
	}
	all := slices.Concat(latencies...)
	slices.Sort(all)
	if len(all) == 0 {
		return f, errors.New("no operation was completed")
	}
	n := float64(len(all))
	return figures{
		perSecond: n / c.seconds, p50: all[len(all)/2], p99: all[len(all)*99/100],
		cpuPerOp:          time.Duration(float64(after.cpu-before.cpu) / n),
		bytesWrittenPerOp: float64(after.written-before.written) / n,
	}, nil
}
