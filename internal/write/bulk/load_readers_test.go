package bulk_test

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

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/storetest"
	"github.com/sievedb/sievedb/report"
	"github.com/sievedb/sievedb/vfs"
)

// A load that overlaps tables of level 0 everywhere does not go there, where each of its tables would
// count towards the trigger that stops writers.
func TestALargeLoadLeavesLevel0Alone(t *testing.T) {
	const n = 3000
	o := storetest.Options(vfs.NewMem())
	o.Tables.Compression = db.NoCompression
	var info report.LoadInfo
	o.EventListener = &db.EventListener{LoadEnd: func(i report.LoadInfo) { info = i }}
	d := storetest.Open(t, o)
	require.NoError(t, d.Put(fixture.Key(0), []byte("old"), db.NoSync))
	require.NoError(t, d.Put(fixture.Key(n), []byte("old"), db.NoSync))
	require.NoError(t, d.Flush())
	l := storetest.NewLoader(t, d)
	for i := range n {
		require.NoError(t, l.Put(fixture.Key(i), fixture.Value(i)))
	}
	require.NoError(t, d.Put(fixture.Key(0), []byte("during"), db.NoSync))
	require.NoError(t, d.Put(fixture.Key(n), []byte("during"), db.NoSync))
	require.NoError(t, l.Commit())
	require.Zero(t, info.Tables[0])
	require.Greater(t, d.Metrics().Loads.Tables, uint64(20))
	for i := range n {
		storetest.RequireValue(t, d, fixture.Key(i), fixture.Value(i))
	}
	storetest.RequireValue(t, d, fixture.Key(n), []byte("during"))
}

// Loads run concurrently with writers, flushes, compactions and readers. At any moment, all keys
// come from the same load, and in a snapshot always from the same one.
func TestReadersSeeWholeLoadsOnly(t *testing.T) {
	const keys = 300
	loads := 40
	if testing.Short() {
		loads = 10
	}
	o := storetest.Options(vfs.NewMem())
	o.Compaction.MaxConcurrent = 3
	d := storetest.Open(t, o)
	load := func(number int) {
		l := storetest.NewLoader(t, d)
		for i := range keys {
			require.NoError(t, l.Put(fixture.Key(2*i), fmt.Appendf(nil, "%d-%0*d", number, 50+i%7, number)))
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
				if err := d.Put(fixture.Key(2*i+1), fixture.Value(i), db.NoSync); err != nil {
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
func sameLoad(d *db.DB, keys int, rnd *rand.Rand) error {
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
			value, err := s.Get(fixture.Key(2 * rnd.IntN(keys)))
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
