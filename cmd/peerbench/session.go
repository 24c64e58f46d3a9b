package main

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/sievedb/sievedb/cmd/internal/bench"
	"github.com/sievedb/sievedb/cmd/peerbench/engine"
)

// seed is the seed of all random numbers: every engine gets the same keys in the same order.
const seed = 301

// session is one measurement in its own process.
type session struct {
	cfg    *config
	dir    string
	engine engine.Engine
	keys   keySpace
	order  permutation
	values *bench.ValueSource
	passes uint64 // passes so far; each has its own random numbers
}

func newSession(cfg *config, dir string) *session {
	const halfCompressible = 0.5
	return &session{
		cfg: cfg, dir: dir,
		keys:   keySpace{random: cfg.KeyShape == randomKeys},
		order:  newPermutation(uint64(cfg.Num), seed),
		values: bench.NewValueSource(rand.New(rand.NewPCG(seed, 0)), cfg.ValueSize, halfCompressible),
	}
}

// value returns the value of key n.
func (s *session) value(n uint64) []byte { return s.values.At(n, s.cfg.ValueSize) }

func (s *session) checkValue(th *thread, n uint64, value []byte) error {
	if len(value) != s.cfg.ValueSize || th.check && !bytes.Equal(value, s.value(n)) {
		return errors.New("a key has a different value from the one that was written")
	}
	return nil
}

// dataBytes returns the size of all keys and values.
func (s *session) dataBytes() int64 { return int64(s.cfg.Num) * int64(keySize+s.cfg.ValueSize) }

// settle flushes and waits until the engine is at rest. It returns the time at which the engine came
// to rest, which is earlier than the time of return.
func (s *session) settle() (time.Time, error) {
	if err := s.engine.Flush(); err != nil {
		return time.Time{}, err
	}
	const (
		pause   = 25 * time.Millisecond
		pauses  = 10    // at rest, in succession
		idleCPU = 0.005 // maximum CPU seconds of a pause at rest; the program itself uses a little
		longest = 6 * time.Hour
	)
	began := time.Now()
	rested, last := began, ""
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for quiet, cpu := 0, cpuSeconds(); quiet < pauses; cpu = cpuSeconds() {
		now := <-tick.C
		if now.Sub(began) > longest {
			return rested, errors.New("the engine was not at rest within six hours")
		}
		working, err := s.working()
		if err != nil {
			return rested, err
		}
		if working || cpuSeconds()-cpu > idleCPU {
			quiet, rested, last = 0, time.Now(), ""
			continue
		}
		// Only when it is idle: listing thousands of files uses CPU time of the measurement.
		listing := s.listing()
		if quiet++; last != "" && listing != last {
			quiet, rested = 0, time.Now()
		}
		last = listing
	}
	return rested, nil
}

// working reports whether the engine says that it works, or a thread waits for the device: a compaction that syncs a
// large table uses no CPU time, and its files do not grow.
func (s *session) working() (bool, error) {
	if waitsForDevice() {
		return true, nil
	}
	if w, ok := s.engine.(engine.Worker); ok {
		return w.Working()
	}
	return false, nil
}

// listing returns a text that changes whenever a file appears, disappears or grows.
func (s *session) listing() string {
	var b bytes.Buffer
	entries, _ := os.ReadDir(s.dir)
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			fmt.Fprintln(&b, e.Name(), info.Size())
		}
	}
	return b.String()
}

// diskBytes returns the disk space of the files.
func (s *session) diskBytes() (total uint64, err error) {
	err = filepath.WalkDir(s.dir, func(_ string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if errors.Is(err, os.ErrNotExist) {
			return nil // the engine has removed it
		}
		if err == nil {
			total += allocated(info)
		}
		return err
	})
	return total, err
}
