package scan_test

import (
	"slices"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/storetest"
	"github.com/sievedb/sievedb/vfs"
)

// Each read of a walk fails in turn. A walk that did not see everything reports that by Err, not
// only by Close, and does not move on.
func TestAnIteratorThatCannotReadReportsIt(t *testing.T) {
	mem := vfs.NewMem()
	o := storetest.Options(mem)
	o.Compaction.L0Trigger = 100
	d := storetest.MustOpen(t, o)
	storetest.Fill(t, d, 0, 900)
	require.NoError(t, d.Compact(t.Context(), nil, nil))
	for i := range 300 { // a run above
		require.NoError(t, d.Put(fixture.Key(3*i), fixture.Value(3*i), db.NoSync))
	}
	require.NoError(t, d.Flush())
	require.NoError(t, d.Close())

	var forward []string
	for i := range 900 {
		forward = append(forward, string(fixture.Key(i)))
	}
	backward := slices.Clone(forward)
	slices.Reverse(backward)
	walks := map[string]struct {
		begin, step func(*db.Iterator) bool
		want        []string
	}{
		"forward":  {(*db.Iterator).First, (*db.Iterator).Next, forward},
		"backward": {(*db.Iterator).Last, (*db.Iterator).Prev, backward},
	}
	for name, walk := range walks {
		t.Run(name, func(t *testing.T) {
			reads, failed := uint64(0), 0
			for fail := uint64(0); fail <= reads; fail++ { // with 0, no read fails
				var done atomic.Uint64
				o.ReadOnly, o.Cache.Size = true, 4<<10
				o.FS = wrap.NewFaulty(mem, wrap.FailIf(nil, func(op wrap.Op) bool {
					return fixture.IsTable(op.Name) && op.Kind == wrap.OpRead && done.Add(1) == fail
				}))
				d := storetest.MustOpen(t, o)
				it, err := d.NewIterator(nil)
				if err == nil {
					seen := []string{}
					for ok := walk.begin(it); ok; ok = walk.step(it) {
						seen = append(seen, string(it.Key()))
					}
					if err = it.Err(); err == nil {
						require.Equal(t, walk.want, seen, "read %d failed, and the walk ended cleanly", fail)
					} else {
						require.False(t, it.Next())
						require.False(t, it.Prev())
					}
					require.Equal(t, walk.want[:len(seen)], seen)
					require.False(t, it.Valid())
					require.Equal(t, err, it.Close())
				}
				if err != nil {
					require.ErrorIs(t, err, wrap.ErrInjected)
					failed++
				}
				reads = max(reads, done.Load())
				require.NoError(t, d.Close())
			}
			require.Greater(t, failed, 20, "most reads; a walk can do without some reads that open tables")
		})
	}
}

// The bug: the file of the table that a walk had come from stayed open permanently.
func TestAWalkToATableThatCannotBeOpenedLeavesNoFileOpen(t *testing.T) {
	mem := vfs.NewMem()
	o := storetest.Options(mem)
	storetest.Compacted(t, o, 900)

	var opened atomic.Uint64
	counting := wrap.NewCounting(wrap.NewFaulty(mem, wrap.FailIf(nil, func(op wrap.Op) bool {
		return fixture.IsTable(op.Name) && op.Kind == wrap.OpOpen && opened.Add(1) > 1
	})))
	o.FS = counting
	d := storetest.MustOpen(t, o)
	it := storetest.Iter(t, d, nil)
	require.True(t, it.First())
	for it.Next() {
	}
	require.ErrorIs(t, it.Err(), wrap.ErrInjected)
	require.ErrorIs(t, it.Close(), wrap.ErrInjected)
	require.NoError(t, d.Close())
	require.Zero(t, counting.Snapshot().Total.OpenFiles)
}
