package compact

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/expiry"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/disk/pick"
	"github.com/sievedb/sievedb/internal/disk/tables"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/limit/share"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/vfs"
)

// piecesStore returns a store that divides the compaction of a few hundred entries, and compacts level 0 only when a
// test wants it.
func piecesStore(t testing.TB, fs vfs.FS, slots int) *testStore {
	return newTestStore(t, func(o *storeOptions) {
		o.fs, o.Tuning.MaxConcurrent, o.Tuning.L0Trigger, o.Tuning.L0SlowdownTrigger = fs, slots, 1000, 1000
	})
}

// mergedInPieces merges c, divided, and returns the tables, which the caller removes.
func (st *testStore) mergedInPieces(c *pick.Compaction) (files []*version.FileMeta, pieces int) {
	st.t.Helper()
	j := st.newMergeJob(context.Background(), c)
	defer j.end()
	files, pieces, err := j.mergeTables(new(manifest.Edit))
	require.NoError(st.t, err)
	return files, pieces
}

func TestADividedCompactionHasTheResultOfAnUndividedOne(t *testing.T) {
	seed := rand.Uint64()
	most := 0
	for i := range uint64(30) {
		t.Run(fmt.Sprintf("seed=%d", seed+i), func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed+i, 1))
			st := piecesStore(t, vfs.NewMem(), 2+rnd.IntN(4))
			// With few keys, many versions of a key are on both sides of a place to divide at.
			keys := []int{5, 50, 2000}[rnd.IntN(3)]
			for range 2 + rnd.IntN(3) {
				var entries []entry
				for range 200 + rnd.IntN(300) {
					key := testKey(rnd.IntN(keys))
					st.last++
					switch rnd.IntN(10) {
					case 0, 1:
						entries = append(entries, entry{key: key, seq: st.last, kind: base.KindDelete})
					case 2:
						st.read()
						fallthrough
					default:
						entries = append(entries, entry{key, st.last, base.KindSet, fmt.Sprintf("%0100d", rnd.IntN(1000))})
					}
				}
				st.put(0, entries...)
			}
			c := st.claimFiles(0, 6)
			defer st.finish(c, nil)
			whole := result.Of(st.mergePiece(c, nil, nil))(t)
			divided, pieces := st.mergedInPieces(c)
			most = max(most, pieces)
			require.Equal(t, st.contentOf(whole.Files), st.contentOf(divided), "%d pieces", pieces)
			for i, f := range divided[min(1, len(divided)):] {
				require.Negative(t, st.o.Cmp.Compare(base.UserKey(divided[i].Largest), base.UserKey(f.Smallest)), "two tables share a key")
			}
			require.LessOrEqual(t, len(divided), len(whole.Files)+2*(pieces-1), "tables, of %d pieces", pieces)
		})
	}
	require.Greater(t, most, 1, "nothing was divided")
}

// unopened returns copies of the tables that no reader has opened yet.
func unopened(files []*version.FileMeta) (fresh []*version.FileMeta) {
	for _, f := range files {
		file := version.NewFileMeta(f.Num, f.Size, f.Smallest, f.Largest)
		file.Handle = tables.NewHandle()
		file.Seqs.Store(f.Seqs.Load()) // otherwise all of level 0 is opened to learn them
		fresh = append(fresh, file)
	}
	return fresh
}

// Each piece reads and writes about as much as the others, and opens no table outside its range.
func TestPiecesAreOfSimilarSizeAndOpenOnlyTheirTables(t *testing.T) {
	every := func(from, step int) (all []entry) {
		for k := from; k < 4000; k += step {
			all = append(all, numbered(k, k+1)...)
		}
		return all
	}
	for name, inputs := range map[string]func(st *testStore){
		"tables of level 0 that cover all keys": func(st *testStore) {
			for i := range 4 {
				st.put(0, every(i, 4)...)
			}
		},
		"the same above a full level": func(st *testStore) {
			for i := range 40 {
				st.put(6, numbered(100*i, 100*i+100)...)
			}
			st.put(0, every(0, 7)...)
			st.put(0, every(0, 7)...)
		},
		"tables that do not overlap, most of them at one end": func(st *testStore) {
			for _, k := range []int{0, 1, 2, 3, 4, 5, 6, 7, 90} {
				st.put(0, numbered(1000*k, 1000*k+400)...)
			}
			st.put(0, set(testKey(0), ""), set(testKey(90400), ""))
		},
	} {
		t.Run(name, func(t *testing.T) {
			st := piecesStore(t, vfs.NewMem(), 4)
			inputs(st)
			c := st.claimFiles(0, 6)
			defer st.finish(c, nil)
			splits := result.Of(st.splitKeys(c))(t)
			require.Len(t, splits, 3)
			bounds := append(append([][]byte{nil}, splits...), nil)
			var total, largest uint64
			for i := range 4 {
				lower, upper := bounds[i], bounds[i+1]
				fresh := *c
				fresh.Inputs, fresh.Overlaps = unopened(c.Inputs), unopened(c.Overlaps)
				out := result.Of(st.mergePiece(&fresh, lower, upper))(t)
				var size uint64
				for _, f := range out.Files {
					size += f.Size
				}
				total, largest = total+size, max(largest, size)
				for _, f := range fresh.AllInputs() {
					meets := (lower == nil || st.o.Cmp.Compare(base.UserKey(f.Largest), lower) >= 0) &&
						(upper == nil || st.o.Cmp.Compare(base.UserKey(f.Smallest), upper) < 0)
					require.Equal(t, meets, tables.Of(f).Peek() != nil, "%v is opened by piece %d", f, i)
				}
			}
			require.Less(t, largest, total/4*3/2, "the largest of four pieces")
		})
	}
}

// Each slot is used by a piece that waits for its disk. What is asked for meanwhile waits for a slot.
func TestPiecesAreMergedConcurrently(t *testing.T) {
	g := fixture.NewGate()
	st := piecesStore(t, g.FS(), 3)
	for range 2 {
		st.put(0, numbered(0, 1000)...)
	}
	resume, err := st.Pause(t.Context()) // no other compaction begins
	require.NoError(t, err)
	defer resume()
	g.Closed.Store(true)
	done := make(chan error)
	go func() { done <- st.compactLevel(context.Background(), 0, nil, nil) }()
	for range 3 {
		<-g.Arrived
	}
	g.Closed.Store(false) // the blocked pieces stay blocked
	require.Equal(t, 3, st.Status().Slots)
	running := st.Running()
	require.Len(t, running, 1)
	require.Equal(t, []int{0, 6, 2}, []int{running[0].InputLevel, running[0].OutputLevel, running[0].InputTables})
	st.put(3, numbered(5000, 5010)...)
	waiting := make(chan *pick.Compaction)
	go func() {
		c, err := st.claim(context.Background(), pickLevel3)
		if err != nil {
			c = nil
		}
		waiting <- c
	}()
	st.settled(func() bool { return st.slots.claimers == 1 })
	close(g.Open)
	require.NoError(t, <-done)
	c := <-waiting
	require.NotNil(t, c)
	st.finish(c, nil)
	require.EqualValues(t, 1, st.Counters().Compactions)
	require.EqualValues(t, 3, st.Counters().Subcompactions)
	require.Equal(t, 3, st.infos[0].Subcompactions)
	require.Len(t, st.content(6), 1000)
	require.Empty(t, st.strayTables())
}

// Two compactions without a common table run concurrently.
func TestDisjointCompactionsRunConcurrently(t *testing.T) {
	g := fixture.NewGate()
	st := piecesStore(t, g.FS(), 2)
	for i := range 2 {
		st.put(6, numbered(1000*i, 1000*i+400)...)
		st.put(5, numbered(1000*i, 1000*i+400)...)
	}
	g.Closed.Store(true)
	st.Schedule() // nothing should stay in level 5, since both fit into one level
	<-g.Arrived
	<-g.Arrived
	st.Scheduler.mu.Lock()
	require.Equal(t, 2, st.slots.used)
	require.Len(t, st.work.running, 2)
	for _, f := range st.work.running[0].AllInputs() {
		require.NotContains(t, st.work.running[1].AllInputs(), f)
	}
	st.Scheduler.mu.Unlock()
	g.Closed.Store(false)
	close(g.Open)
	st.idle()
	require.Len(t, st.content(6), 800)
}

// If one piece fails, the others end too, and none of the written tables remains.
func TestAFailureOfOnePieceEndsTheOthers(t *testing.T) {
	for at := range 24 {
		t.Run(fmt.Sprintf("creation %d", at), func(t *testing.T) {
			var failing atomic.Bool
			var creations atomic.Int64
			st := piecesStore(t, wrap.NewFaulty(vfs.NewMem(), func(op wrap.Op) *wrap.Fault {
				if failing.Load() && op.Kind == wrap.OpCreate && creations.Add(1) == int64(at)+1 {
					return &wrap.Fault{Err: syscall.ENOSPC}
				}
				return nil
			}), 3)
			for range 2 {
				st.put(0, numbered(0, 1000)...)
			}
			c := st.claimFiles(0, 6)
			failing.Store(true)
			err := st.compactClaimed(context.Background(), c)
			require.ErrorIs(t, err, base.ErrNoSpace)
			require.NotErrorIs(t, err, ErrStopped)
			require.Empty(t, st.strayTables())
			require.Zero(t, st.Status().Slots)
			require.Zero(t, st.Status().Waiting)
			require.NoError(t, st.Compact(t.Context(), nil, nil))
			require.Len(t, st.content(6), 1000)
		})
	}
}

// The other pieces need not write tables that will be discarded.
func TestPiecesEndSoonOnceOneHasFailed(t *testing.T) {
	g := fixture.NewGate()
	var arrivals, creations atomic.Int64
	st := piecesStore(t, wrap.NewFaulty(g.FS(), func(op wrap.Op) *wrap.Fault {
		if op.Kind == wrap.OpCreate && g.Closed.Load() {
			if arrivals.Add(1) == 1 {
				return &wrap.Fault{Err: syscall.EIO}
			}
			creations.Add(1)
		}
		return nil
	}), 3)
	var small []entry
	for k := range 9000 {
		small = append(small, set(testKey(k), "v"))
	}
	for range 2 {
		st.put(0, slices.Clone(small)...)
	}
	c := st.claimFiles(0, 6)
	g.Closed.Store(true)
	done := make(chan error)
	go func() { done <- st.compactClaimed(context.Background(), c) }()
	<-g.Arrived
	<-g.Arrived
	st.settled(func() bool { return st.slots.used == 2 }) // the failed piece has released its slot
	close(g.Open)
	require.ErrorIs(t, <-done, syscall.EIO)
	some := creations.Swap(0)
	require.Empty(t, st.strayTables())
	require.NoError(t, st.Compact(t.Context(), nil, nil))
	require.Greater(t, creations.Load(), 2*some)
}

func TestCloseEndsAllPieces(t *testing.T) {
	g := fixture.NewGate()
	st := piecesStore(t, g.FS(), 3)
	for range 2 {
		st.put(0, numbered(0, 9000)...)
	}
	g.Closed.Store(true)
	st.Tune(func() Tuning { o := *st.tuning.Load(); o.L0Trigger = 2; return o }())
	for range 3 {
		<-g.Arrived
	}
	st.Close()
	g.Closed.Store(false)
	close(g.Open)
	st.Wait()
	require.Zero(t, st.Counters().Compactions, "each piece has more entries than it merges between its checks for Close")
	require.Zero(t, st.Status().Slots)
	require.Len(t, st.files(0), 2)
	require.Empty(t, st.strayTables())
	require.Empty(t, st.outcomes, "the end of the store is no failure")
}

// If one piece finds damage, all inputs are set aside, once.
func TestDamageInOnePieceSetsTheInputsAside(t *testing.T) {
	st := piecesStore(t, vfs.NewMem(), 3)
	st.put(0, numbered(0, 1000)...)
	st.damage(st.put(0, numbered(0, 1000)...))
	c := st.claimFiles(0, 6)
	require.ErrorIs(t, st.compactClaimed(context.Background(), c), base.ErrCorruption)
	require.Equal(t, 2, st.Status().ParkedTables)
	require.Empty(t, st.strayTables())
	require.Error(t, st.compactLevel(t.Context(), 0, nil, nil), "the inputs stay set aside")
}

// The index says of some blocks that they end before their last key. The piece that begins with
// such a key would not reach it, so the piece before must report it.
func TestAPieceReportsALastKeyAfterItsSeparator(t *testing.T) {
	var lying atomic.Bool // while the table is written
	isCut := func(key, cut []byte) bool { return len(key) == len(testKey(0)) && len(cut) == len(key)-1 }
	cmp := &base.Comparer{
		Name: "sievedb.test.lying",
		Compare: func(a, b []byte) int {
			if lying.Load() && isCut(a, b) {
				return -1
			}
			return bytes.Compare(a, b)
		},
		Separator: func(dst, a, _ []byte) []byte {
			if a[len(a)-1] == '3' { // the block holds the keys that end with 0 to 3
				a = a[:len(a)-1]
			}
			return append(dst, a...)
		},
	}
	st := newTestStore(t, func(o *storeOptions) { o.Cmp, o.Tuning.Table.Comparer, o.Tuning.MaxConcurrent = cmp, cmp, 2 })
	lying.Store(true)
	st.put(0, numbered(0, 100)...)
	lying.Store(false)
	c := st.claimFiles(0, 6)
	defer st.finish(c, nil)
	r := result.Of(st.cache.Ref(c.Inputs[0]))(t)
	defer r.Unref()
	var begins [][]byte
	require.NoError(t, r.Stretches(0, func(key []byte, _ uint64) {
		if isCut([]byte(testKey(0)), key) {
			begins = append(begins, append(bytes.Clone(key), '3'))
		}
	}))
	require.NotEmpty(t, begins)
	for _, key := range begins {
		out, err := st.mergePiece(c, nil, key)
		require.ErrorIs(t, err, base.ErrCorruption)
		out.Abandon()
		out = result.Of(st.mergePiece(c, key, nil))(t)
		require.NotEqual(t, key, base.UserKey(out.Files[0].Smallest), "the piece cannot find its first key")
		out.Abandon()
	}
}

// sharing returns two stores that share one slot. Each has a compaction that is due.
func sharing(t *testing.T) (stores [2]*testStore) {
	r := share.New(share.Options{MaxStores: 2, MaxOpenFiles: 100, MemtableSize: 1 << 20, MaxMerges: 1})
	for i := range stores {
		part := result.Of(r.Join())(t)
		stores[i] = newTestStore(t, func(o *storeOptions) { o.Slots, o.Tuning.MaxConcurrent = part.Slots(), 2 })
		for range 4 {
			stores[i].put(0, numbered(0, 10)...)
		}
		stores[i].WatchSlots()
	}
	return stores
}

func TestStoresTakeTurnsWithASharedSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stores := sharing(t)
		proceed := make(chan struct{})
		for _, st := range stores {
			st.onBegin = func(Info) { <-proceed }
			st.Schedule()
		}
		synctest.Wait()
		require.Equal(t, []int{1, 0}, []int{stores[0].Status().Running, stores[1].Status().Running})
		proceed <- struct{}{}
		synctest.Wait()
		require.Empty(t, stores[0].files(0))
		require.Equal(t, 1, stores[1].Status().Running, "it got the slot that became free")
		claims := make(chan error, 1)
		go func() { claims <- stores[0].compactLevel(context.Background(), 6, nil, nil) }()
		go func() { _ = stores[0].Compact(context.Background(), nil, nil) }()
		synctest.Wait()
		require.Zero(t, stores[0].Status().Running, "a caller waits for the slot too")
		close(proceed)
		synctest.Wait()
		require.Empty(t, stores[1].files(0))
	})
}

// A store that cannot use the slot for which it waits gives it up.
func TestAHeldStoreGivesItsSharedSlotUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stores := sharing(t)
		proceed := make(chan struct{})
		stores[0].onBegin = func(Info) { <-proceed }
		stores[0].Schedule()
		stores[1].Schedule()
		release := stores[1].Hold()
		synctest.Wait()
		close(proceed)
		synctest.Wait()
		require.Empty(t, stores[0].files(0))
		require.Len(t, stores[1].files(0), 4)
		for range 4 {
			stores[0].flush(numbered(0, 10)...)
		}
		synctest.Wait()
		require.Empty(t, stores[0].files(0), "the slot is not reserved for the other store")
		release()
		stores[1].Schedule()
		synctest.Wait()
		require.Empty(t, stores[1].files(0))
	})
}

// A merge reads and writes no more than the limit allows, until writers wait for level 0, or the limit changes.
func TestMergesKeepWithinTheirRate(t *testing.T) {
	for name, c := range map[string]struct {
		during            func(st *testStore)
		shortest, longest time.Duration
	}{
		"all the time":             {func(*testStore) {}, 20 * time.Second, 300 * time.Second},
		"until the limit is gone":  {func(st *testStore) { st.Tune(unlimited(st)) }, 2 * time.Second, 3 * time.Second},
		"until writers are slowed": {func(st *testStore) { st.fillLevel0() }, 2 * time.Second, 3 * time.Second},
		"until the store closes":   {func(st *testStore) { st.Close() }, 2 * time.Second, 3 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := newTestStore(t, func(o *storeOptions) { o.Tuning.MaxBytesPerSecond = 20_000 })
				st.put(0, numbered(0, 3000)...)
				st.put(0, numbered(0, 3000)...)
				go func() { time.Sleep(2 * time.Second); c.during(st) }()
				start := time.Now()
				_ = st.compactLevel(context.Background(), 0, nil, nil)
				require.GreaterOrEqual(t, time.Since(start), c.shortest)
				require.LessOrEqual(t, time.Since(start), c.longest)
				time.Sleep(3 * time.Second) // the other goroutine
			})
		})
	}
}

func unlimited(st *testStore) Tuning {
	t := *st.tuning.Load()
	t.MaxBytesPerSecond = 0
	return t
}

func (st *testStore) fillLevel0() {
	for len(st.files(0)) < st.tuning.Load().L0SlowdownTrigger {
		st.put(0, set(testKey(9999), ""))
	}
}

// A kilobyte of a table can stand for megabytes of its entries. That is in the log, once.
func TestAMergeThatWritesFarMoreThanItReadsSaysSo(t *testing.T) {
	st := newTestStore(t, nil)
	file := st.put(0, set("a", ""))
	c := st.claimFiles(0, 6)
	defer st.finish(c, nil)
	j := st.newMergeJob(t.Context(), c)
	j.logGrowth(growthFree - 1)
	require.False(t, j.grown.Load())
	j.logGrowth(growthFree)
	require.True(t, j.grown.Load())
	require.Equal(t, file.Name(), tableNames(c))
}

// expiringStore is a store in which all values have envelopes, and whose clock is that of the test.
func expiringStore(t *testing.T, change func(o *storeOptions)) *testStore {
	return newTestStore(t, func(o *storeOptions) {
		o.Expiry = expiry.New([][]byte{nil}, time.Now)
		o.Tuning.Table.ExpiryKeys = o.Expiry.Sum()
		o.Tuning.Table.Expiry = func(_, value []byte) (uint64, bool) {
			at, ok := expiry.Decode(value)
			return at, ok && at != expiry.Never
		}
		if change != nil {
			change(o)
		}
	})
}

// lasting returns a value that expires after so long.
func lasting(d time.Duration) string {
	return string(expiry.Append(nil, uint64(time.Now().Add(d).UnixMilli()), []byte("value")))
}

// A table is removed soon after its last value has expired, without being read.
func TestTheWatchRemovesExpiredTables(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reads atomic.Int64
		st := expiringStore(t, func(o *storeOptions) {
			o.fs = wrap.NewFaulty(vfs.NewMem(), func(op wrap.Op) *wrap.Fault {
				if op.Kind == wrap.OpRead {
					reads.Add(1)
				}
				return nil
			})
		})
		st.put(6, set("a", lasting(time.Minute)), set("b", lasting(2*time.Minute)))
		st.put(6, set("c", lasting(time.Hour)))
		st.put(6, set("d", lasting(time.Minute)), set("e", string(expiry.Append(nil, expiry.Never, nil))))
		resume := result.Of(st.Pause(t.Context()))(t)
		st.WatchExpiry()
		time.Sleep(90 * time.Second)
		resume()
		synctest.Wait()
		require.Len(t, st.files(6), 3)
		early := st.read()
		time.Sleep(time.Minute)
		require.Len(t, st.files(6), 3, "a snapshot sees it")
		early()
		time.Sleep(longestWatch + time.Second)
		require.Len(t, st.files(6), 2)
		require.EqualValues(t, 1, st.Counters().TablesExpired)
		time.Sleep(2 * time.Hour)
		require.Len(t, st.files(6), 1, "one has a value that does not expire")
		require.Equal(t, "all values have expired", st.infos[0].Reason)
		require.Zero(t, reads.Load())
	})
}

// The watch looks at the clock often enough, and not more often than it needs.
func TestTheWatchWaitsForTheNextTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := expiringStore(t, nil)
		require.Equal(t, longestWatch, st.nextWatch())
		st.put(6, set("a", lasting(time.Hour)))
		require.Equal(t, longestWatch, st.nextWatch())
		st.put(5, set("b", lasting(3*time.Second)))
		require.Equal(t, 3*time.Second, st.nextWatch())
		st.put(4, set("c", lasting(time.Millisecond)))
		require.Equal(t, shortestWatch, st.nextWatch())
	})
}

// Without what they watch, the watches are none. A clock that panics ends the edits of the store and not the program.
func TestWatchesThatEnd(t *testing.T) {
	st := newTestStore(t, nil)
	st.WatchExpiry()
	st.WatchSlots()
	st.Wait()
	st = newTestStore(t, func(o *storeOptions) {
		o.Expiry = expiry.New([][]byte{nil}, func() time.Time { panic("clock") })
	})
	st.WatchExpiry()
	st.Wait()
	var p *base.PanicError
	require.ErrorAs(t, st.failed, &p)
}
