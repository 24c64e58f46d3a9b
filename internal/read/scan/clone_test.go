package scan_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/filter/rangefilter"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/internal/test/storetest"
	"github.com/sievedb/sievedb/vfs"
)

// A clone shows the moment of its iterator, keeps the files of that moment by itself, and outlives the
// iterator, the snapshot and the transaction.
func TestAClonesMomentStays(t *testing.T) {
	for _, of := range []string{"DB", "snapshot", "transaction"} {
		t.Run(of, func(t *testing.T) {
			counting := wrap.NewCounting(vfs.NewMem())
			d := storetest.Open(t, storetest.Options(counting))
			storetest.Fill(t, d, 0, 900)
			storetest.Settle(t, d)
			var r db.Reader = d
			end := func() error { return nil }
			switch of {
			case "snapshot":
				s := d.NewSnapshot()
				r, end = s, s.Close
			case "transaction":
				tx := d.NewTransaction(nil)
				require.NoError(t, tx.Put(fixture.Key(5), []byte("own")))
				r, end = tx, tx.Close
			}
			it := storetest.Iter(t, r, nil)
			require.NoError(t, end())
			storetest.Fill(t, d, 900, 1000)
			require.NoError(t, d.DeleteRange(t.Context(), nil, nil, nil))
			clone := result.Of(it.Clone(nil))(t)
			require.NoError(t, it.Close())
			_, err := it.Clone(nil)
			require.Equal(t, db.ErrClosed, err)
			require.NoError(t, d.Compact(t.Context(), nil, nil))
			require.Len(t, storetest.Walk(t, clone, false), 900)
			require.Len(t, storetest.Walk(t, clone, true), 900)
			require.True(t, clone.SeekGE(fixture.Key(5)))
			if of == "transaction" {
				require.Equal(t, "own", string(clone.Value()))
			}
			require.NotEmpty(t, fixture.Names(t, counting, base.FileTable), "the clone keeps them")
			require.NoError(t, clone.Close())
			fixture.Eventually(t, func() bool { return len(fixture.Names(t, counting, base.FileTable)) == 0 })
			require.Zero(t, d.Metrics().OpenIterators)
		})
	}
}

// Clones are used by goroutines of their own, while others write and compact.
func TestClonesWalkConcurrently(t *testing.T) {
	o := storetest.Options(vfs.NewMem())
	o.Filters.RangePolicies = []rangefilter.Policy{rangefilter.NewPrefix(rangefilter.FixedPrefix(6), 10)}
	d := storetest.Open(t, o)
	storetest.Fill(t, d, 0, 900)
	it := storetest.Iter(t, d, nil)
	var group sync.WaitGroup
	var wrong atomic.Uint64
	for g := range 4 {
		clone := result.Of(it.Clone(&db.IterOptions{KeysOnly: g%2 == 0}))(t)
		group.Go(func() {
			for round := range 10 {
				from := 90 * round
				clone.SetBounds(fixture.Key(from), fixture.Key(from+90))
				n := 0
				for range clone.Backward() {
					n++
				}
				if n != 90 || clone.Err() != nil {
					wrong.Add(1)
				}
			}
			if clone.Close() != nil {
				wrong.Add(1)
			}
		})
	}
	group.Go(func() {
		if len(storetest.Walk(t, it, false)) != 900 {
			wrong.Add(1)
		}
	})
	for i := range 900 {
		require.NoError(t, d.Delete(fixture.Key(i), db.NoSync))
	}
	require.NoError(t, d.Compact(t.Context(), nil, nil))
	group.Wait()
	require.Zero(t, wrong.Load())
	require.NoError(t, it.Close())
}

// An iterator that failed stays so with other bounds. A clone of it reads again.
func TestAFailureOutlastsSetBoundsAndNotClone(t *testing.T) {
	mem := vfs.NewMem()
	o := storetest.Options(mem)
	storetest.Compacted(t, o, 900)
	failing := false
	o.ReadOnly, o.Cache.Size = true, 4<<10
	o.FS = wrap.NewFaulty(mem, wrap.FailIf(nil, func(op wrap.Op) bool {
		return failing && fixture.IsTable(op.Name) && op.Kind == wrap.OpRead
	}))
	d := storetest.MustOpen(t, o)
	it := storetest.Iter(t, d, nil)
	failing = true
	require.False(t, it.Next())
	failing = false
	it.SetBounds(nil, fixture.Key(10))
	require.False(t, it.First())
	require.ErrorIs(t, it.Err(), wrap.ErrInjected)
	clone := result.Of(it.Clone(nil))(t)
	require.Len(t, storetest.Walk(t, clone, false), 900)
	require.NoError(t, clone.Close())
	require.ErrorIs(t, it.Close(), wrap.ErrInjected)

	clone, err := it.Clone(nil)
	require.Equal(t, db.ErrClosed, err)
	require.Nil(t, clone)
	it.SetBounds(nil, nil)
	require.False(t, it.Next())
	require.NoError(t, d.Close())
}
