package scan_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/race"
	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/internal/test/storetest"
	"github.com/sievedb/sievedb/vfs"
)

// A refreshed iterator shows what a new one shows, whatever happened to memtables and tables meanwhile, and until then
// what it showed before.
func TestARefreshedIteratorShowsThePresent(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	d := storetest.Open(t, storetest.Options(vfs.NewMem()))
	bounds := &db.IterOptions{LowerBound: fixture.Key(20), UpperBound: fixture.Key(180)}
	it := storetest.Iter(t, d, bounds)
	defer func() { require.NoError(t, it.Close()) }()
	for range 150 {
		before := storetest.Walk(t, it, rnd.IntN(2) == 0)
		for range rnd.IntN(20) {
			if i := rnd.IntN(200); rnd.IntN(4) == 0 {
				require.NoError(t, d.Delete(fixture.Key(i), db.NoSync))
			} else {
				require.NoError(t, d.Put(fixture.Key(i), fmt.Append(nil, rnd.Uint32()), db.NoSync))
			}
		}
		switch rnd.IntN(8) {
		case 0:
			require.NoError(t, d.Flush())
		case 1:
			require.NoError(t, d.Compact(t.Context(), nil, nil))
		case 2:
			it.SeekGE(fixture.Key(rnd.IntN(200)))
		case 3:
			it.SeekLT(fixture.Key(rnd.IntN(200)))
		}
		backward := rnd.IntN(2) == 0
		if rnd.IntN(3) == 0 {
			require.Len(t, storetest.Walk(t, it, backward), len(before))
		}
		it.Refresh()
		require.False(t, it.Valid())
		fresh := storetest.Iter(t, d, bounds)
		want := storetest.Walk(t, fresh, backward)
		require.NoError(t, fresh.Close())
		if rnd.IntN(2) == 0 {
			seekEach(t, d, it)
		}
		require.Equal(t, want, storetest.Walk(t, it, backward))
	}
}

// seekEach compares seeks of it with lookups in d.
func seekEach(t *testing.T, d *db.DB, it *db.Iterator) {
	t.Helper()
	for i := 20; i < 180; i += 3 {
		found := it.SeekGE(fixture.Key(i)) && string(it.Key()) == string(fixture.Key(i))
		value, err := d.Get(fixture.Key(i))
		require.Equal(t, err == nil, found)
		if found {
			require.Equal(t, value, it.Value())
		}
	}
}

func TestARefreshKeepsThePinnedMoments(t *testing.T) {
	d := storetest.Open(t, storetest.Options(vfs.NewMem()))
	storetest.PutAll(t, d, "a", "1", "c", "3")
	snapshot := d.NewSnapshot()
	txn := d.NewTransaction(nil)
	require.NoError(t, txn.Put([]byte("d"), []byte("4")))
	ofSnapshot := result.Of(snapshot.NewIterator(nil))(t)
	ofTxn := result.Of(txn.NewIterator(nil))(t)
	clone := result.Of(ofSnapshot.Clone(nil))(t)
	storetest.PutAll(t, d, "b", "2")
	for it, want := range map[*db.Iterator]string{ofSnapshot: "ac", ofTxn: "acd", clone: "ac"} {
		require.True(t, it.Last())
		it.Refresh()
		require.False(t, it.Valid())
		got := ""
		for it.Next() {
			got += string(it.Key())
		}
		require.Equal(t, want, got)
		require.NoError(t, it.Close())
	}
	require.NoError(t, snapshot.Close())
	txn.Close()
}

func TestARefreshAfterTheEnd(t *testing.T) {
	var none *db.Iterator
	none.Refresh()
	d := storetest.MustOpen(t, storetest.Options(vfs.NewMem()))
	storetest.PutAll(t, d, "a", "1")
	it := storetest.Iter(t, d, nil)
	closed := storetest.Iter(t, d, nil)
	require.NoError(t, closed.Close())
	closed.Refresh()
	require.False(t, closed.Next())
	require.ErrorIs(t, closed.Err(), db.ErrClosed)
	require.NoError(t, closed.Close())
	require.NoError(t, it.Close())
	require.NoError(t, d.Close())
	it.Refresh()
	require.False(t, it.First())
}

// What only the old moment of an iterator needs is removed after a refresh, as after Close.
func TestARefreshReleasesOldFiles(t *testing.T) {
	o := storetest.Options(vfs.NewMem())
	d := storetest.Open(t, o)
	storetest.Fill(t, d, 0, 2000)
	require.NoError(t, d.Compact(t.Context(), nil, nil))
	it := storetest.Iter(t, d, nil)
	require.True(t, it.First())
	storetest.Fill(t, d, 0, 2000)
	require.NoError(t, d.Compact(t.Context(), nil, nil))
	files := func() int {
		names := result.Of(o.FS.List("db"))(t)
		return len(names)
	}
	before := files()
	it.Refresh()
	require.NoError(t, storetest.StrayFilesWhenIdle(d, o.FS))
	require.Less(t, files(), before)
	require.Len(t, storetest.Walk(t, it, false), 2000)
	require.NoError(t, it.Close())
}

func TestARefreshDoesNotAllocate(t *testing.T) {
	if race.Enabled {
		return // the detector allocates
	}
	d := storetest.Open(t, storetest.Options(vfs.NewMem()))
	storetest.Fill(t, d, 0, 500)
	require.NoError(t, d.Flush())
	storetest.Fill(t, d, 0, 10)
	it := storetest.Iter(t, d, nil)
	require.True(t, it.First())
	key := fixture.Key(250)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		it.Refresh()
		it.SeekGE(key)
	}))
	require.NoError(t, it.Close())
}

// Refreshes see each write that was acknowledged before them, and whole batches, while others write, flush and compact.
func TestRefreshesBesideWriters(t *testing.T) {
	d := storetest.Open(t, storetest.Options(vfs.NewMem()))
	var writers sync.WaitGroup
	const rounds = 300
	writers.Go(func() {
		for i := range rounds {
			var b db.Batch
			for k := range 10 {
				b.Put(fixture.Key(k), fmt.Append(nil, i))
			}
			if err := d.Apply(&b, db.NoSync); err != nil {
				t.Error(err)
			}
			if i%50 == 49 {
				if err := d.Flush(); err != nil {
					t.Error(err)
				}
			}
		}
	})
	it := storetest.Iter(t, d, nil)
	for last, seen := 0, -1; last < rounds-1; {
		it.Refresh()
		values := map[string]int{}
		for it.Next() {
			values[string(it.Value())]++
		}
		require.NoError(t, it.Err())
		require.LessOrEqual(t, len(values), 1, "a part of a batch")
		for v, n := range values {
			require.Equal(t, 10, n)
			result.Of(fmt.Sscan(v, &last))(t)
			require.GreaterOrEqual(t, last, seen)
			seen = last
		}
	}
	writers.Wait()
	require.NoError(t, it.Close())
}
