package pages

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/vfs"
)

// These tests hold what cookbook.md says about its recipes: in concurrent use, and after a power cut.

// The next snippet.

// The next snippet.

// The next snippet.

// The next snippet.

// The next snippet.

// The next snippet.

// atOnce runs fn in n goroutines.
func atOnce(n int, fn func(worker int)) {
	var all sync.WaitGroup
	for worker := range n {
		all.Go(func() { fn(worker) })
	}
	all.Wait()
}

func try(err error) {
	if err != nil {
		panic(err)
	}
}

func get[T any](v T, err error) T {
	try(err)
	return v
}

// clock is one that a test moves.
type clock struct{ seconds atomic.Int64 }

func (c *clock) now() time.Time {
	return time.Date(2030, 1, 1, 12, 0, int(c.seconds.Load()), 0, time.UTC)
}

func open(t *testing.T, mem *vfs.Mem, c *clock) *db.DB {
	store := get(db.Open("db", &db.Options{FS: mem, Expiry: db.ExpiryOptions{
		Namespaces: []string{"locks", "cache"}, Prefixes: [][]byte{[]byte("request/")}, Clock: c.now,
	}}))
	t.Cleanup(func() { _ = store.Close() })
	return store
}

func TestIndexStaysTrueWhenWritersMeet(t *testing.T) {
	store := open(t, vfs.NewMem(), new(clock))
	p := get(openPeople(store))
	atOnce(4, func(worker int) {
		for i := range 20 {
			try(p.put(person{"17", "Anna", strconv.Itoa((worker + i) % 3)}))
		}
	})
	var found []person
	for city := range 3 {
		for _, one := range get(p.in(strconv.Itoa(city))) {
			require.Equal(t, strconv.Itoa(city), one.City, "the index leads to a person who is elsewhere")
			found = append(found, one)
		}
	}
	require.Len(t, found, 1)
	require.Error(t, p.put(person{ID: "18"}), "an empty city")

	late := store.NewTransaction(nil)
	try(p.removeFromIndex(late, "17"))
	anna, ben := person{"17", "Anna", "Graz"}, person{"18", "Ben", "Graz"}
	try(p.put(anna))
	try(p.put(ben))
	require.Equal(t, []person{anna, ben}, get(p.in("Graz")))
	try(late.Put([]byte("any"), nil))
	require.ErrorIs(t, late.Commit(), db.ErrConflict, "it removed an entry that is not the present one")
}

func TestCounterLosesNoAddition(t *testing.T) {
	mem, c, visits := vfs.NewMem(), new(clock), []byte("visits")
	store := open(t, mem, c)
	atOnce(8, func(int) {
		for i := range 25 {
			get(add(store, visits, 2))
			try(addOnce(store, visits, strconv.Itoa(i), 1000))
		}
	})
	require.EqualValues(t, 8*25*2+25*1000, get(add(open(t, mem.Crash(), c), visits, 0)))

	try(store.Put([]byte("text"), []byte("12"), nil))
	_, err := add(store, []byte("text"), 1)
	require.ErrorContains(t, err, "2 bytes instead of 8")
}

func TestQueueNeitherSkipsNorRepeats(t *testing.T) {
	var takes atomic.Int64
	toOutbox := func(t *db.Transaction, number uint64, entry []byte) error { // a repeated take would be seen
		return t.Put(fmt.Appendf(nil, "outbox/%d/%d", number, takes.Add(1)), entry)
	}
	mem := vfs.NewMem()
	q := get(openQueue(open(t, mem, new(clock)), "work"))
	crashed := make([]*vfs.Mem, 6)
	atOnce(6, func(worker int) {
		for i := range 20 {
			if worker%2 == 0 {
				try(q.push(fmt.Appendf(nil, "%d-%d", worker, i)))
			} else {
				get(q.take(toOutbox))
			}
			if i == 10 { // a power cut while the others write
				crashed[worker] = mem.Crash()
			}
		}
	})
	last := mem.Crash()
	for _, at := range append(crashed, last) {
		store := open(t, at, new(clock))
		q = get(openQueue(store, "work"))
		for get(q.take(toOutbox)) {
		}
		got := map[string]int{}
		entries, failed := store.All(db.PrefixBounds([]byte("outbox/")))
		for _, value := range entries {
			got[string(value)]++
			require.Equal(t, 1, got[string(value)], "%s was taken again", value)
		}
		try(failed())
		all := get(q.number(store.NewTransaction(nil), pushed))
		require.EqualValues(t, all, len(got), "entries were skipped")
		if at == last {
			require.Len(t, got, 60, "an entry that was acknowledged is missing")
		}
	}
}

func TestLockHasOneHolder(t *testing.T) {
	mem, c := vfs.NewMem(), new(clock)
	l := get(openLocks(open(t, mem, c)))
	acquire := func() uint64 {
		held, ok, err := l.acquire("printer", time.Minute)
		try(err)
		require.Equal(t, ok, held.Fence > 0)
		return held.Fence
	}
	var fences atomic.Uint64
	atOnce(8, func(int) { fences.Add(acquire()) })
	require.EqualValues(t, 1, fences.Load())
	first := lease{"printer", 1}
	require.True(t, get(l.renew(first, time.Minute)))

	// After a power cut the lease is still held, and fences continue after it has ended.
	l = get(openLocks(open(t, mem.Crash(), c)))
	require.Zero(t, acquire())
	c.seconds.Add(60)
	require.EqualValues(t, 2, acquire())
	require.False(t, get(l.renew(first, time.Minute)), "a lease that has ended must not be renewed")
	require.False(t, get(l.release(first)), "the first holder must not release the lease of the second one")
	require.True(t, get(l.release(lease{"printer", 2})))
	require.EqualValues(t, 3, acquire())

	calls := 0
	require.ErrorIs(t, l.update(lease{"printer", 3}, func(tx *db.Transaction) error {
		calls++
		c.seconds.Add(60) // the holder pauses, and does not know it
		return tx.Put([]byte("printed"), []byte("late"))
	}), errLost)
	require.Equal(t, 1, calls)
	require.False(t, get(l.store.Has([]byte("printed"))))
}

func TestSeriesIsInOrderOverDays(t *testing.T) {
	store := open(t, vfs.NewMem(), new(clock))
	ns := get(store.Namespace("points"))
	midnight := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	var b db.Batch
	for i := -300; i < 300; i++ {
		addPoint(&b, ns, 7, midnight.Add(time.Duration(i)), float64(i))
		addPoint(&b, ns, 8, midnight.Add(time.Duration(i)), 1000)
	}
	try(store.Apply(&b, db.NoSync))
	requirePoints := func(first, end int) {
		try(eachPoint(ns, 7, midnight.Add(-256), midnight.Add(257), func(at time.Time, value float64) {
			require.Equal(t, float64(first), value)
			require.Equal(t, midnight.Add(time.Duration(first)), at)
			first++
		}))
		require.Equal(t, end, first)
	}
	requirePoints(-256, 257)
	try(dropBefore(t.Context(), ns, midnight.Add(time.Hour)))
	requirePoints(0, 257) // the day before is gone, and this one is whole
}

func TestCacheKeepsNoValueThatChangedMeanwhile(t *testing.T) {
	store := open(t, vfs.NewMem(), new(clock))
	ns := get(store.Namespace("cache"))
	source, weather, loads := "sunny", []byte("weather"), 0
	requireWeather := func(want string, meanwhile func() error) {
		value := get(cached(store, ns, weather, time.Minute, func() ([]byte, error) {
			loads++
			old := source
			return []byte(old), meanwhile()
		}))
		require.Equal(t, want, string(value))
	}
	requireWeather("sunny", func() error { // it changes while the old value is on its way, which is not kept
		source = "rainy"
		return invalidate(ns, weather)
	})
	nothing := func() error { return nil }
	requireWeather("rainy", nothing)
	requireWeather("rainy", nothing)
	require.Equal(t, 2, loads)
}
