package db_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/storetest"
	"github.com/sievedb/sievedb/vfs"
)

// filterOptions returns options whose compactions begin only when a test wants one.
func filterOptions(filter func(key, value []byte) ([]byte, bool)) *db.Options {
	o := testOptions(vfs.NewMem())
	o.Compaction.Filter = filter
	o.Compaction.L0Trigger, o.Compaction.L0Slowdown, o.Compaction.L0Stop = 1000, 1000, 2000
	return o
}

// A filter runs in the goroutine of a compaction. Calls that may wait for compactions are refused.
func TestNoCallFromACompactionFilterHangs(t *testing.T) {
	p := &listenerProbe{}
	o := filterOptions(func(_, value []byte) ([]byte, bool) { p.callAll("Filter"); return value, true })
	d := openTest(t, o)
	p.d.Store(d)
	within(t, "a call from the filter", func() {
		fill(t, d, 0, 50)
		require.NoError(t, d.Compact(t.Context(), nil, nil))
	})
	require.Positive(t, p.calls.Load())
	require.Empty(t, p.wrong)
	require.NoError(t, d.Put(testKey(1), nil, db.NoSync), "outside of the filter the calls work")
}

// Snapshots are opened and compared while compactions call the filter in several goroutines.
func TestSnapshotsAndFilteringCompactionsTogether(t *testing.T) {
	o := storetest.DividedOptions(vfs.NewMem(), 3)
	o.Compaction.Filter = fixture.DropOrRaise
	o.Compaction.L0Trigger, o.Memtables.Size = 2, 8<<10
	d := openTest(t, o)
	stop := make(chan struct{})
	done := make(chan error)
	go func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				done <- nil
				return
			default:
			}
			value := fmt.Sprintf("%s %d %080d", []string{"keep", "drop", "raise"}[i%3], i, i)
			if err := d.Put(testKey(i*7919%1000), []byte(value), db.NoSync); err != nil {
				done <- err
				return
			}
		}
	}()
	for d.Metrics().Compactions.ValuesDropped < 2000 {
		s := d.NewSnapshot()
		first := contentsIn(t, s)
		for i := range 20 {
			key := testKey(i * 50)
			value, err := s.Get(key)
			if err != db.ErrNotFound {
				require.NoError(t, err)
				require.Equal(t, first[string(key)], string(value))
			}
		}
		require.Equal(t, first, contentsIn(t, s))
		require.NoError(t, s.Close())
	}
	close(stop)
	require.NoError(t, <-done)
	requireNoFaults(t, d)
}
