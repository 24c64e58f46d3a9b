package db

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/disk/tables"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/work/compact"
	"github.com/sievedb/sievedb/sstable"
	"github.com/sievedb/sievedb/vfs"
)

// piecesOptions returns options with tables so small that a compaction of a few hundred entries is
// divided. No background compaction begins as long as only level 0 grows.
func piecesOptions(fs vfs.FS, slots int) *Options {
	o := testOptions(fs)
	o.Tables.Size, o.Tables.Compression, o.Compaction.MaxConcurrent = 4<<10, NoCompression, slots
	o.Compaction.L0Trigger, o.Compaction.L0Slowdown, o.Compaction.L0Stop = 1000, 1000, 2000
	return o
}

// claimLevel0 claims the compaction of all of level 0.
func claimLevel0(t testing.TB, d *DB) *manifest.Compaction {
	t.Helper()
	c, err := d.compactor.Claim(t.Context(), func(v *manifest.Version, o manifest.PickOptions) (*manifest.Compaction, bool) {
		return v.PickFiles(0, v.Shape(o).BaseLevel, v.Levels[0].Files, compact.ManualStep, o)
	})
	require.NoError(t, err)
	require.NotNil(t, c)
	return c
}

// contentOf returns the entries of tables, in their order.
func contentOf(t testing.TB, d *DB, files []*manifest.FileMeta) (entries [][2]string) {
	t.Helper()
	for _, f := range files {
		r, err := d.tables.Ref(f)
		require.NoError(t, err)
		it, err := r.NewIter(sstable.IterOptions{})
		require.NoError(t, err)
		for ok := it.First(); ok; ok = it.Next() {
			entries = append(entries, [2]string{string(it.Key()), string(it.Value())})
		}
		require.NoError(t, it.Close())
		r.Unref()
	}
	return entries
}

// mergeBothWays merges c in one piece and in several, and returns the tables of both.
func mergeBothWays(t testing.TB, d *DB, c *manifest.Compaction) (whole, divided []*manifest.FileMeta, pieces int) {
	t.Helper()
	one, err := d.compactor.MergePiece(c, nil, nil)
	require.NoError(t, err)
	divided, pieces, err = d.compactor.MergeTables(c)
	require.NoError(t, err)
	return one.Files, divided, pieces
}

// False alarms: three in four seeds divide the compaction (131 of 180). If only half of them did,
// none of 30 would do so once in 10^9 runs.
func TestADividedCompactionHasTheResultOfAnUndividedOne(t *testing.T) {
	seed := *crashSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	most := 0
	for i := range uint64(30) {
		t.Run(fmt.Sprintf("seed=%d", seed+i), func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed+i, 1))
			d := openTest(t, piecesOptions(vfs.NewMem(), 2+rnd.IntN(4)))
			// With few keys, many versions of a key are on both sides of a place to divide at.
			keys := []int{5, 50, 2000}[rnd.IntN(3)]
			for range 2 + rnd.IntN(3) {
				for range 200 + rnd.IntN(300) {
					key := testKey(rnd.IntN(keys))
					switch rnd.IntN(10) {
					case 0, 1:
						require.NoError(t, d.Delete(key, NoSync))
					case 2:
						s := d.NewSnapshot()
						defer s.Close()
					default:
						require.NoError(t, d.Put(key, testValue(rnd.IntN(1000)), NoSync))
					}
				}
				require.NoError(t, d.Flush())
				if rnd.IntN(3) == 0 {
					require.NoError(t, d.Compact(t.Context(), testKey(keys/4), testKey(keys/2)))
				}
			}
			settle(t, d) // the background may compact the tables that Compact left in level 0
			if len(d.state().Version.Levels[0].Files) == 0 {
				return
			}
			c := claimLevel0(t, d)
			defer d.compactor.Done(c, nil)
			whole, divided, pieces := mergeBothWays(t, d, c)
			most = max(most, pieces)
			require.Equal(t, contentOf(t, d, whole), contentOf(t, d, divided), "%d pieces", pieces)
			for i, f := range divided[min(1, len(divided)):] {
				require.Negative(t, d.cmp.Compare(base.UserKey(divided[i].Largest), base.UserKey(f.Smallest)), "two tables share a key")
			}
			require.LessOrEqual(t, len(divided), len(whole)+2*(pieces-1), "tables, of %d pieces", pieces)
		})
	}
	require.Greater(t, most, 1, "nothing was divided")
}

// unopened returns copies of the tables that no reader has opened yet.
func unopened(files []*manifest.FileMeta) (fresh []*manifest.FileMeta) {
	for _, f := range files {
		file := manifest.NewFileMeta(f.Num, f.Size, f.Smallest, f.Largest)
		file.Handle = tables.NewHandle()
		file.Seqs.Store(f.Seqs.Load()) // otherwise all of level 0 is opened to learn them
		fresh = append(fresh, file)
	}
	return fresh
}

// Each piece reads and writes about as much as the others, and opens no table outside its range.
func TestPiecesAreOfSimilarSizeAndOpenOnlyTheirTables(t *testing.T) {
	for name, inputs := range map[string]func(t *testing.T, d *DB){
		"tables of level 0 that cover all keys": func(t *testing.T, d *DB) {
			for i := range 4 {
				for k := i; k < 4000; k += 4 {
					require.NoError(t, d.Put(testKey(k), testValue(k), NoSync))
				}
				require.NoError(t, d.Flush())
			}
		},
		"the same above a full level": func(t *testing.T, d *DB) {
			fill(t, d, 0, 4000)
			require.NoError(t, d.Compact(t.Context(), nil, nil))
			for range 2 {
				for k := 0; k < 4000; k += 7 {
					require.NoError(t, d.Put(testKey(k), testValue(k+1), NoSync))
				}
				require.NoError(t, d.Flush())
			}
		},
		"tables that do not overlap, most of them at one end": func(t *testing.T, d *DB) {
			for _, k := range []int{0, 1, 2, 3, 4, 5, 6, 7, 90} {
				fill(t, d, 1000*k, 1000*k+400)
				require.NoError(t, d.Flush())
			}
			require.NoError(t, d.Put(testKey(0), nil, NoSync))
			require.NoError(t, d.Put(testKey(90400), nil, NoSync))
			require.NoError(t, d.Flush())
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := piecesOptions(vfs.NewMem(), 4)
			o.Memtables.Size, o.Compaction.MaxLevelBase = 1<<20, 1<<30
			d := openTest(t, o)
			inputs(t, d)
			c := claimLevel0(t, d)
			defer d.compactor.Done(c, nil)
			splits, err := d.compactor.SplitKeys(c)
			require.NoError(t, err)
			require.Len(t, splits, 3)
			var total, largest uint64
			for i := range 4 {
				var lower, upper []byte
				if i > 0 {
					lower = splits[i-1]
				}
				if i < 3 {
					upper = splits[i]
				}
				fresh := *c
				fresh.Inputs, fresh.Overlaps = unopened(c.Inputs), unopened(c.Overlaps)
				out, err := d.compactor.MergePiece(&fresh, lower, upper)
				require.NoError(t, err)
				var size uint64
				for _, f := range out.Files {
					size += f.Size
				}
				total, largest = total+size, max(largest, size)
				for _, f := range fresh.AllInputs() {
					meets := (lower == nil || d.cmp.Compare(base.UserKey(f.Largest), lower) >= 0) &&
						(upper == nil || d.cmp.Compare(base.UserKey(f.Smallest), upper) < 0)
					require.Equal(t, meets, tables.Of(f).Peek() != nil, "%v is opened by piece %d", f, i)
				}
			}
			require.Less(t, largest, total/4*3/2, "the largest of four pieces")
		})
	}
}

// gate blocks the creation of tables while it is closed.
type gate struct {
	closed  atomic.Bool
	arrived chan struct{}
	open    chan struct{}
}

func newGate() *gate { return &gate{arrived: make(chan struct{}, 100), open: make(chan struct{})} }

func (g *gate) fs() vfs.FS { return wrap.NewFaulty(vfs.NewMem(), g.hook) }

func (g *gate) hook(op wrap.Op) *wrap.Fault {
	if op.Kind == wrap.OpCreate && filepath.Ext(op.Name) == ".ldb" && g.closed.Load() {
		g.arrived <- struct{}{}
		<-g.open
	}
	return nil
}

// Each slot is used by a piece that waits for its disk. A flush waits for none of them.
func TestPiecesAreMergedConcurrentlyAndAFlushWaitsForNone(t *testing.T) {
	g := newGate()
	o := piecesOptions(g.fs(), 3)
	var ended CompactionInfo
	o.EventListener = &EventListener{CompactionEnd: func(i CompactionInfo) {
		if !i.TrivialMove {
			ended = i
		}
	}}
	d := openTest(t, o)
	for range 2 {
		fill(t, d, 0, 2000)
		require.NoError(t, d.Flush())
	}
	g.closed.Store(true)
	done := make(chan error)
	go func() { done <- d.compactor.CompactLevel(context.Background(), 0, nil, nil) }()
	for range 3 {
		<-g.arrived
	}
	g.closed.Store(false) // the blocked pieces stay blocked
	fill(t, d, 5000, 5100)
	require.NoError(t, d.Flush())
	require.Zero(t, d.Metrics().Compactions.Count)
	close(g.open)
	require.NoError(t, <-done)
	require.EqualValues(t, 1, d.Metrics().Compactions.Count)
	require.EqualValues(t, 3, d.Metrics().Compactions.Subcompactions)
	require.Equal(t, 3, ended.Subcompactions)
	for k := range 2000 {
		requireValue(t, d, testKey(k), testValue(k))
	}
	require.NoError(t, strayFilesWhenIdle(d, d.fs))
}

// Two compactions without a common table run concurrently.
func TestDisjointCompactionsRunConcurrently(t *testing.T) {
	g := newGate()
	d := openTest(t, piecesOptions(g.fs(), 2))
	fill(t, d, 0, 2000)
	require.NoError(t, d.Compact(t.Context(), nil, nil))
	release := d.compactor.HoldBackground() // the background begins when everything is prepared
	fill(t, d, 0, 1500)
	require.NoError(t, d.Flush()) // before the gate closes, which would block it
	require.NoError(t, d.compactor.CompactLevel(t.Context(), 0, nil, nil))
	level := d.state().Version.Shape(d.compactor.PickOptions()).BaseLevel
	require.Greater(t, d.state().Version.Score(level, d.state().Version.Shape(d.compactor.PickOptions()), d.compactor.PickOptions()), 2.0)
	g.closed.Store(true)
	release()
	d.compactor.Schedule()
	<-g.arrived
	<-g.arrived
	require.Equal(t, 2, d.compactor.Status().Slots)
	running := d.compactor.PickOptions().Running
	require.Len(t, running, 2)
	for _, f := range running[0].AllInputs() {
		require.NotContains(t, running[1].AllInputs(), f)
	}
	g.closed.Store(false)
	close(g.open)
	settle(t, d)
	for k := range 2000 {
		requireValue(t, d, testKey(k), testValue(k))
	}
}

// Whatever compactions, calls of Compact and pieces coincide, at most as many tables are written at
// a time as there are slots, and one more by a flush.
func TestMergesUseNoMoreThanTheirSlots(t *testing.T) {
	const slots = 3
	var open, most atomic.Int64
	o := piecesOptions(wrap.NewFaulty(vfs.NewMem(), func(op wrap.Op) *wrap.Fault {
		if filepath.Ext(op.Name) != ".ldb" {
			return nil
		}
		switch op.Kind {
		case wrap.OpCreate:
			n := open.Add(1)
			for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
			}
		case wrap.OpWrite:
			runtime.Gosched() // so that other goroutines run in between
		case wrap.OpSync: // the merge into this table is over
			open.Add(-1)
		}
		return nil
	}), slots)
	o.Compaction.L0Trigger = 2
	d := openTest(t, o)
	done := make(chan error)
	for i := range 3 {
		go func() {
			rnd := rand.New(rand.NewPCG(7, uint64(i)))
			for n := range 3000 {
				k := rnd.IntN(3000)
				if err := d.Put(testKey(k), testValue(k), NoSync); err != nil {
					done <- err
					return
				}
				if n%500 == 0 {
					if err := d.Compact(context.Background(), testKey(k), testKey(k+1000)); err != nil {
						done <- err
						return
					}
				}
			}
			done <- nil
		}()
	}
	for range 3 {
		require.NoError(t, <-done)
	}
	settle(t, d)
	require.LessOrEqual(t, most.Load(), int64(slots+1))
	m := d.Metrics()
	t.Logf("%d compactions in %d pieces, at most %d tables at a time",
		m.Compactions.Count, m.Compactions.Subcompactions, most.Load())
	require.Greater(t, m.Compactions.Subcompactions, m.Compactions.Count)
	require.Zero(t, d.compactor.Status().Slots)
	require.Zero(t, d.compactor.Status().Waiting)
}
