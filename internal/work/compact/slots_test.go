package compact

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/expiry"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/limit/share"
	"github.com/sievedb/sievedb/vfs"
)

// sharing returns two stores that share one slot. Each has a compaction that is due.
func sharing(t *testing.T) (stores [2]*testStore) {
	r := share.New(share.Options{MaxStores: 2, MaxOpenFiles: 100, MemtableSize: 1 << 20, MaxMerges: 1})
	for i := range stores {
		part, err := r.Join()
		require.NoError(t, err)
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
		resume, err := st.Pause(t.Context())
		require.NoError(t, err)
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
