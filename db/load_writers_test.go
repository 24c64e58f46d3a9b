package db

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/vfs"
)

// loadWriter writes to its own keys, which are between those of the others, so it knows their
// values. Its loads range over all of its keys.
type loadWriter struct {
	number int
	rnd    *rand.Rand
	now    map[int]string // the values of its keys

	mu    sync.Mutex
	ops   []map[int]string // since the store was opened; "" deletes
	acked int              // of ops
}

const (
	loadWriters     = 4
	loadWriterKeys  = 120
	loadWriterSteps = 80
)

func (w *loadWriter) key(i int) []byte { return fmt.Appendf(nil, "key%04d-%d", i, w.number) }

// do performs an operation with write, and records when it begins and when it is acknowledged.
func (w *loadWriter) do(op map[int]string, write func() error) error {
	w.mu.Lock()
	w.ops = append(w.ops, op)
	w.mu.Unlock()
	if err := write(); err != nil {
		return err
	}
	w.mu.Lock()
	w.acked = len(w.ops)
	w.mu.Unlock()
	apply(w.now, op)
	return nil
}

func apply(state, op map[int]string) {
	for i, v := range op {
		if state[i] = v; v == "" {
			delete(state, i)
		}
	}
}

func (w *loadWriter) value() string {
	if w.rnd.IntN(5) == 0 {
		return ""
	}
	return fmt.Sprintf("%d %0*d", len(w.ops), 1+w.rnd.IntN(80), w.number)
}

func (w *loadWriter) batch(d *DB) error {
	op, b := map[int]string{}, new(Batch)
	for range 1 + w.rnd.IntN(12) {
		i := w.rnd.IntN(loadWriterKeys)
		if op[i] = w.value(); op[i] == "" {
			b.Delete(w.key(i))
		} else {
			b.Put(w.key(i), []byte(op[i]))
		}
	}
	return w.do(op, func() error { return d.Apply(b, NoSync) })
}

// load loads some keys and writes to the same ones meanwhile.
func (w *loadWriter) load(d *DB) error {
	l, err := d.NewLoader()
	if err != nil {
		return err
	}
	defer l.Close()
	op := map[int]string{}
	for i := w.rnd.IntN(loadWriterKeys); i < loadWriterKeys; i += 1 + w.rnd.IntN(4) {
		if op[i] = w.value(); op[i] == "" {
			err = l.Delete(w.key(i))
		} else {
			err = l.Put(w.key(i), []byte(op[i]))
		}
		if err == nil && w.rnd.IntN(20) == 0 {
			err = w.batch(d)
		}
		if err != nil {
			return err
		}
	}
	if w.rnd.IntN(8) == 0 {
		return l.Close()
	}
	return w.do(op, l.Commit)
}

// readKeys returns the values of the writer's keys, found by an iterator.
func (w *loadWriter) readKeys(newIterator func(*IterOptions) (*Iterator, error)) (map[int]string, error) {
	it, err := newIterator(nil)
	if err != nil {
		return nil, err
	}
	defer it.Close()
	got := map[int]string{}
	for key, value := range it.All() {
		var i, number int
		if _, err := fmt.Sscanf(string(key), "key%d-%d", &i, &number); err != nil {
			return nil, err
		}
		if number == w.number {
			got[i] = string(value)
		}
	}
	return got, it.Err()
}

func (w *loadWriter) compare(what string, newIterator func(*IterOptions) (*Iterator, error), want map[int]string) error {
	got, err := w.readKeys(newIterator)
	if err == nil && !maps.Equal(got, want) {
		err = fmt.Errorf("%s of writer %d, after %d operations, shows %v, want %v",
			what, w.number, len(w.ops), got, want)
	}
	return err
}

func (w *loadWriter) run(d *DB, steps *atomic.Int64) error {
	s, then := d.NewSnapshot(), maps.Clone(w.now)
	defer func() { _ = s.Close() }() // the last one
	for range loadWriterSteps {
		steps.Add(1)
		var err error
		switch n := w.rnd.IntN(20); {
		case n < 14:
			err = w.batch(d)
		case n < 17:
			err = w.load(d)
		case n < 18:
			err = w.compare("a snapshot", s.NewIterator, then)
			_ = s.Close()
			s, then = d.NewSnapshot(), maps.Clone(w.now)
		default:
			err = w.compare("the store", d.NewIterator, w.now)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// survived compares the writer's keys in a store that was killed with the values before its
// operations and the effect of the first ones, at least acked and at most begun of them. The writer
// continues from there.
func (w *loadWriter) survived(d *DB, before map[int]string, acked, begun int) error {
	got, err := w.readKeys(d.NewIterator)
	if err != nil {
		return err
	}
	state := maps.Clone(before)
	for n, op := range w.ops[:begun] {
		if n >= acked && maps.Equal(got, state) {
			break
		}
		apply(state, op)
	}
	if !maps.Equal(got, state) {
		return fmt.Errorf("of writer %d, killed after %d to %d operations, found %v; after the last one, want %v",
			w.number, acked, begun, got, state)
	}
	w.now, w.ops, w.acked = got, nil, 0
	return nil
}

// Writers write, load and read concurrently with flushes, compactions and filter upgrades, and the
// process dies meanwhile.
func TestLoadsOfSeveralWritersAreWhole(t *testing.T) {
	testSeeds(t, func(t *testing.T, seed uint64) {
		rnd := rand.New(rand.NewPCG(seed, 21))
		var writers []*loadWriter
		for number := range loadWriters {
			writers = append(writers, &loadWriter{number: number, rnd: rand.New(rand.NewPCG(seed, uint64(number))), now: map[int]string{}})
		}
		mem, loads := vfs.NewMem(), uint64(0)
		for round := range 3 {
			o := testOptions(mem)
			o.Compaction.MaxConcurrent, o.Compaction.L0Trigger, o.Memtables.Size = 1+round%3, 1+round, 8<<10
			d := mustOpen(t, o)
			var before []map[int]string
			for _, w := range writers {
				before = append(before, maps.Clone(w.now))
			}
			var acked, begun []int
			die := func() {
				for _, w := range writers {
					acked = append(acked, w.count(func() int { return w.acked }))
				}
				mem = mem.Kill()
				for _, w := range writers {
					begun = append(begun, w.count(func() int { return len(w.ops) }))
				}
			}
			runAllWriters(t, d, writers, rnd, die)
			loads += d.Metrics().Loads.Count
			require.NoError(t, d.Close())

			d = openTest(t, testOptions(mem))
			for i, w := range writers {
				require.NoError(t, w.survived(d, before[i], acked[i], begun[i]), "round %d", round)
			}
			report, err := d.Check(context.Background())
			require.NoError(t, err)
			require.Empty(t, report.Faults)
			require.NoError(t, d.Close())
		}
		t.Logf("%d loads", loads)
	})
}

func (w *loadWriter) count(of func() int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return of()
}

// runAllWriters runs the writers to their ends concurrently with flushes, compactions and filter
// upgrades, and calls die once at a random moment.
func runAllWriters(t *testing.T, d *DB, writers []*loadWriter, rnd *rand.Rand, die func()) {
	var over atomic.Bool
	var steps atomic.Int64
	var group, background sync.WaitGroup
	for _, w := range writers {
		group.Go(func() {
			if err := w.run(d, &steps); err != nil {
				t.Error(err)
			}
		})
	}
	for _, call := range []func() error{
		d.Flush,
		func() error { return d.Compact(context.Background(), writers[0].key(20), writers[0].key(70)) },
		func() error {
			_, err := d.UpgradeFilters(context.Background(), filter.NewBloomPolicy(4+int(steps.Load()%8)), nil)
			return err
		},
	} {
		background.Go(func() {
			for !over.Load() && !t.Failed() {
				if err := call(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for enough := rnd.Int64N(loadWriters * loadWriterSteps / 2); steps.Load() < enough && !t.Failed(); {
		runtime.Gosched()
	}
	die()
	group.Wait()
	over.Store(true)
	background.Wait()
}
