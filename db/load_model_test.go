package db

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/vfs"
)

// Loads of the whole range or of parts of it, and writes, are compared with a map, while
// compactions run.
func TestLoadsAndWritesAgreeWithAMap(t *testing.T) {
	testSeeds(t, func(t *testing.T, seed uint64) {
		rnd := rand.New(rand.NewPCG(seed, 77))
		o := testOptions(vfs.NewMem())
		o.Compaction.MaxConcurrent, o.Tables.Size, o.Tables.Compression = 2, 4<<10, NoCompression
		d := openTest(t, o)
		want := map[int]int{}
		for round := range 60 {
			l := newLoader(t, d)
			from, step := rnd.IntN(1000), 1+rnd.IntN(40)
			to := from + rnd.IntN(1500)
			loaded := map[int]int{}
			for i := from; i < to; i += step {
				if rnd.IntN(5) == 0 {
					require.NoError(t, l.Delete(testKey(i)))
					loaded[i] = -1
				} else {
					loaded[i] = rnd.IntN(1e6)
					require.NoError(t, l.Put(testKey(i), testValue(loaded[i])))
				}
				if w := rnd.IntN(2500); w%4 == 0 && round%3 > 0 {
					want[w] = rnd.IntN(1e6)
					require.NoError(t, d.Put(testKey(w), testValue(want[w]), NoSync))
				}
			}
			if rnd.IntN(6) == 0 {
				require.NoError(t, l.Close())
				continue
			}
			require.NoError(t, l.Commit())
			for i, v := range loaded {
				want[i] = v
			}
			for range 300 {
				i := rnd.IntN(2500)
				got, err := d.Get(testKey(i))
				if v, ok := want[i]; ok && v >= 0 {
					require.NoError(t, err, "key %d, round %d", i, round)
					require.Equal(t, string(testValue(v)), string(got), "key %d, round %d", i, round)
				} else {
					require.Equal(t, ErrNotFound, err, "key %d, round %d", i, round)
				}
			}
		}
		report, err := d.Check(context.Background())
		require.NoError(t, err)
		require.Empty(t, report.Faults)
		m := d.Metrics()
		t.Logf("%d loads of %d tables, %d compactions, %d moves", m.Loads.Count, m.Loads.Tables, m.Compactions.Count, m.Compactions.TrivialMoves)
	})
}

// A load that overlaps tables of level 0 everywhere does not go there, where each of its tables would
// count towards the trigger that stops writers.
func TestALargeLoadLeavesLevel0Alone(t *testing.T) {
	const n = 3000
	o := testOptions(vfs.NewMem())
	o.Tables.Compression = NoCompression
	d := openTest(t, o)
	require.NoError(t, d.Put(testKey(0), []byte("old"), NoSync))
	require.NoError(t, d.Put(testKey(n), []byte("old"), NoSync))
	require.NoError(t, d.Flush())
	l := newLoader(t, d)
	loadKeys(t, l, 0, n, 0)
	require.NoError(t, d.Put(testKey(0), []byte("during"), NoSync))
	require.NoError(t, d.Put(testKey(n), []byte("during"), NoSync))
	var info LoadInfo
	d.opts.EventListener.LoadEnd = func(i LoadInfo) { info = i }
	require.NoError(t, l.Commit())
	require.Zero(t, info.Tables[0])
	require.Greater(t, d.Metrics().Loads.Tables, uint64(20))
	for i := range n {
		requireValue(t, d, testKey(i), testValue(i))
	}
	requireValue(t, d, testKey(n), []byte("during"))
}

// Loads run concurrently with writers, flushes, compactions and readers. At any moment, all keys
// come from the same load, and in a snapshot always from the same one.
func TestReadersSeeWholeLoadsOnly(t *testing.T) {
	const keys, loads = 300, 40
	o := testOptions(vfs.NewMem())
	o.Compaction.MaxConcurrent = 3
	d := openTest(t, o)
	load := func(number int) {
		l := newLoader(t, d)
		for i := range keys {
			require.NoError(t, l.Put(testKey(2*i), fmt.Appendf(nil, "%d-%0*d", number, 50+i%7, number)))
		}
		require.NoError(t, l.Commit())
	}
	load(0)
	var stop atomic.Bool
	var group sync.WaitGroup
	for writer := range 2 {
		group.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(writer), 3))
			for !stop.Load() {
				i := rnd.IntN(keys) // between the keys of the loads
				if err := d.Put(testKey(2*i+1), testValue(i), NoSync); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for reader := range 2 {
		group.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(reader), 4))
			for !stop.Load() && !t.Failed() {
				if err := sameLoad(d, keys, rnd); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for i := range loads {
		load(i + 1)
	}
	stop.Store(true)
	group.Wait()
	m := d.Metrics()
	t.Logf("%d writes, %d flushes, %d compactions, %d moves, %d tables loaded", m.Writes.Batches, m.Flushes.Count, m.Compactions.Count, m.Compactions.TrivialMoves, m.Loads.Tables)
	require.NoError(t, m.BackgroundError)
	report, err := d.Check(context.Background())
	require.NoError(t, err)
	require.Empty(t, report.Faults)
}

// sameLoad gets some keys of a snapshot twice and walks over all of them, and returns an error if
// they are not all of one load.
func sameLoad(d *DB, keys int, rnd *rand.Rand) error {
	s := d.NewSnapshot()
	defer s.Close()
	number := ""
	same := func(value []byte) error {
		got, _, _ := strings.Cut(string(value), "-")
		if number == "" {
			number = got
		}
		if got != number {
			return fmt.Errorf("keys of the loads %s and %s are visible together", number, got)
		}
		return nil
	}
	getSome := func() error {
		for range 20 {
			value, err := s.Get(testKey(2 * rnd.IntN(keys)))
			if err == nil {
				err = same(value)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	if err := getSome(); err != nil {
		return err
	}
	it, err := s.NewIterator(nil)
	if err != nil {
		return err
	}
	defer it.Close()
	found := 0
	for ok := it.First(); ok; ok = it.Next() {
		if bytes.HasPrefix(it.Value(), []byte("value")) {
			continue // a writer's
		}
		found++
		if err := same(it.Value()); err != nil {
			return err
		}
	}
	if err := it.Err(); err != nil {
		return err
	}
	if found != keys {
		return fmt.Errorf("found %d keys of a load, want %d", found, keys)
	}
	return getSome()
}
