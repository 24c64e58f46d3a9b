package db_test

import (
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/vfs"
)

// These tests hold what docs/cookbook.md says about the recipes: what happens in concurrent use and after a crash.

// atOnce runs fn in n goroutines and returns the first error.
func atOnce(n int, fn func(worker int) error) error {
	errs := make(chan error, n)
	for worker := range n {
		go func() { errs <- fn(worker) }()
	}
	var first error
	for range n {
		if err := <-errs; first == nil {
			first = err
		}
	}
	return first
}

func openOn(t *testing.T, fsys vfs.FS, expiry db.ExpiryOptions) *db.DB {
	t.Helper()
	store, err := db.Open("example", &db.Options{FS: fsys, Expiry: expiry})
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	return store
}

func TestCookbookIndexStaysTrueWhenWritersMeet(t *testing.T) {
	store := openOn(t, vfs.NewMem(), db.ExpiryOptions{})
	p, err := openPeople(store)
	require.NoError(t, err)
	require.NoError(t, atOnce(4, func(worker int) error {
		for i := range 20 {
			moved := person{ID: "17", Name: "Anna", City: strconv.Itoa((worker + i) % 3)}
			if err := p.put(moved); err != nil {
				return err
			}
		}
		return nil
	}))
	var found []person
	for city := range 3 {
		in, err := p.in(strconv.Itoa(city))
		require.NoError(t, err)
		for _, one := range in {
			require.Equal(t, strconv.Itoa(city), one.City, "the index leads to a person who is elsewhere")
		}
		found = append(found, in...)
	}
	require.Len(t, found, 1)
	require.Error(t, p.put(person{ID: "18"}), "an empty city")

	late := store.NewTransaction(nil)
	require.NoError(t, p.removeFromIndex(late, "17"))
	require.NoError(t, p.put(person{ID: "17", Name: "Anna", City: "Graz"}))
	require.NoError(t, late.Put([]byte("any"), nil))
	require.ErrorIs(t, late.Commit(), db.ErrConflict, "it removed an entry that is not the present one")
}

func TestCookbookCounterLosesNoAddition(t *testing.T) {
	mem := vfs.NewMem()
	expiry := db.ExpiryOptions{Prefixes: [][]byte{[]byte("request/")}}
	store := openOn(t, mem, expiry)
	require.NoError(t, atOnce(8, func(int) error {
		for i := range 25 {
			if _, err := add(store, []byte("visits"), 2); err != nil {
				return err
			}
			if err := addOnce(store, []byte("visits"), strconv.Itoa(i), 1000); err != nil {
				return err
			}
		}
		return nil
	}))
	after := openOn(t, mem.Crash(), expiry)
	sum, err := add(after, []byte("visits"), 0)
	require.NoError(t, err)
	require.EqualValues(t, 8*25*2+25*1000, sum)

	require.NoError(t, store.Put([]byte("text"), []byte("12"), nil))
	_, err = add(store, []byte("text"), 1)
	require.ErrorContains(t, err, "2 bytes instead of 8")
}

// outbox returns how often each entry was taken.
func outbox(t *testing.T, store *db.DB) map[string]int {
	t.Helper()
	got := map[string]int{}
	entries, failed := store.All(db.PrefixBounds([]byte("outbox/")))
	for _, value := range entries {
		got[string(value)]++
	}
	require.NoError(t, failed())
	return got
}

// toOutbox is work whose keys differ for each take, so that a repeated one would be seen.
func toOutbox(takes *atomic.Int64) func(*db.Transaction, uint64, []byte) error {
	return func(t *db.Transaction, number uint64, entry []byte) error {
		return t.Put(fmt.Appendf(nil, "outbox/%d/%d", number, takes.Add(1)), entry)
	}
}

func TestCookbookQueueNeitherSkipsNorRepeats(t *testing.T) {
	mem := vfs.NewMem()
	store := openOn(t, mem, db.ExpiryOptions{})
	q, err := openQueue(store, "work")
	require.NoError(t, err)
	var takes atomic.Int64
	var mu sync.Mutex
	var crashed []*vfs.Mem
	require.NoError(t, atOnce(6, func(worker int) error {
		for i := range 20 {
			if worker%2 == 0 {
				if err := q.push(fmt.Appendf(nil, "%d-%d", worker, i)); err != nil {
					return err
				}
			} else if _, err := q.take(toOutbox(&takes)); err != nil {
				return err
			}
			if i == 10 { // a power cut while the others write
				mu.Lock()
				crashed = append(crashed, mem.Crash())
				mu.Unlock()
			}
		}
		return nil
	}))
	for i, at := range append(crashed, mem.Crash()) {
		after := openOn(t, at, db.ExpiryOptions{})
		q, err := openQueue(after, "work")
		require.NoError(t, err)
		for ok := true; ok; {
			ok, err = q.take(toOutbox(&takes))
			require.NoError(t, err)
		}
		got := outbox(t, after)
		for entry, times := range got {
			require.Equal(t, 1, times, entry)
		}
		require.NoError(t, after.View(func(t2 *db.Transaction) error {
			all, err := q.number(t2, pushed)
			require.EqualValues(t, all, len(got), "entries were skipped")
			return err
		}))
		if i == len(crashed) {
			require.Len(t, got, 60, "an entry that was acknowledged is missing")
		}
	}
}

// lockClock is a clock that a test moves.
type lockClock struct{ seconds atomic.Int64 }

func (c *lockClock) expiry() db.ExpiryOptions {
	return db.ExpiryOptions{Namespaces: []string{"locks"}, Clock: func() time.Time {
		return time.Date(2030, 1, 1, 12, 0, int(c.seconds.Load()), 0, time.UTC)
	}}
}

func TestCookbookLockHasOneHolder(t *testing.T) {
	var clock lockClock
	mem := vfs.NewMem()
	store := openOn(t, mem, clock.expiry())
	l, err := openLocks(store)
	require.NoError(t, err)
	var holders atomic.Int64
	require.NoError(t, atOnce(8, func(int) error {
		_, ok, err := l.acquire("printer", time.Minute)
		if ok {
			holders.Add(1)
		}
		return err
	}))
	require.EqualValues(t, 1, holders.Load())

	// After a power cut the lease is still held, and fences continue after it has ended.
	l, err = openLocks(openOn(t, mem.Crash(), clock.expiry()))
	require.NoError(t, err)
	_, ok, err := l.acquire("printer", time.Minute)
	require.NoError(t, err)
	require.False(t, ok)
	clock.seconds.Add(60)
	second, ok, err := l.acquire("printer", time.Minute)
	require.NoError(t, err)
	require.True(t, ok)
	require.EqualValues(t, 2, second.Fence)

	ok, err = l.renew(lease{Name: "printer", Fence: 1}, time.Minute)
	require.NoError(t, err)
	require.False(t, ok, "a lease that has ended must not be renewed")
	ok, err = l.release(lease{Name: "printer", Fence: 1})
	require.NoError(t, err)
	require.False(t, ok, "the first holder must not release the lease of the second one")
	ok, err = l.release(second)
	require.NoError(t, err)
	require.True(t, ok)
	third, ok, err := l.acquire("printer", time.Minute)
	require.NoError(t, err)
	require.True(t, ok)
	require.EqualValues(t, 3, third.Fence)
}

func TestCookbookLockThatEndsBeforeTheCommitWritesNothing(t *testing.T) {
	var clock lockClock
	store := openOn(t, vfs.NewMem(), clock.expiry())
	l, err := openLocks(store)
	require.NoError(t, err)
	held, ok, err := l.acquire("printer", time.Minute)
	require.NoError(t, err)
	require.True(t, ok)
	calls := 0
	require.ErrorIs(t, l.update(held, func(tx *db.Transaction) error {
		calls++
		clock.seconds.Add(60) // the holder pauses, and does not know it
		return tx.Put([]byte("printed"), []byte("late"))
	}), errLost)
	require.Equal(t, 1, calls)
	_, err = store.Get([]byte("printed"))
	require.ErrorIs(t, err, db.ErrNotFound)
}

func TestCookbookSeriesIsInOrderOverDays(t *testing.T) {
	store := openOn(t, vfs.NewMem(), db.ExpiryOptions{})
	ns, err := store.Namespace("points")
	require.NoError(t, err)
	midnight := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	var b db.Batch
	for i := -300; i < 300; i++ {
		addPoint(&b, ns, 7, midnight.Add(time.Duration(i)*time.Nanosecond), float64(i))
		addPoint(&b, ns, 8, midnight.Add(time.Duration(i)*time.Nanosecond), 1000)
	}
	require.NoError(t, store.Apply(&b, db.NoSync))
	next := -256.0
	require.NoError(t, eachPoint(ns, 7, midnight.Add(-256), midnight.Add(257), func(at time.Time, value float64) {
		require.Equal(t, next, value)
		require.Equal(t, midnight.Add(time.Duration(next)), at)
		next++
	}))
	require.Equal(t, 257.0, next)
	require.NoError(t, dropBefore(t.Context(), ns, midnight.Add(time.Hour)))
	first := -1.0
	require.NoError(t, eachPoint(ns, 7, midnight.Add(-300), midnight.Add(1), func(_ time.Time, value float64) { first = value }))
	require.Equal(t, 0.0, first, "the day before is gone, and this one is whole")
}

func TestCookbookCacheKeepsNoValueThatChangedMeanwhile(t *testing.T) {
	store := openOn(t, vfs.NewMem(), db.ExpiryOptions{Namespaces: []string{"cache"}})
	ns, err := store.Namespace("cache")
	require.NoError(t, err)
	source := "sunny"
	value, err := cached(store, ns, []byte("weather"), time.Minute, func() ([]byte, error) {
		old := source
		source = "rainy" // it changes while the old value is on its way
		return []byte(old), invalidate(ns, []byte("weather"))
	})
	require.NoError(t, err)
	require.Equal(t, "sunny", string(value))
	value, err = cached(store, ns, []byte("weather"), time.Minute, func() ([]byte, error) { return []byte(source), nil })
	require.NoError(t, err)
	require.Equal(t, "rainy", string(value), "the old value was kept")
}
