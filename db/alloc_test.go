//go:build !race

package db_test

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/vfs"
)

// The race detector allocates too, so these tests run without it.

// cachedStore returns a store of n keys whose blocks are in the cache once they were read.
func cachedStore(t *testing.T, n int) *db.DB {
	o := testOptions(vfs.NewMem())
	o.Cache.Size = 8 << 20
	d := openTest(t, o)
	fill(t, d, 0, n)
	settle(t, d)
	return d
}

func TestGetOfACachedKeyAllocatesOnlyItsResult(t *testing.T) {
	d := cachedStore(t, 4000)
	for i := range 4000 {
		_, err := d.Get(testKey(i))
		require.NoError(t, err)
	}
	key, absent := testKey(1234), []byte("key0012345")
	buf := make([]byte, 0, 1024)
	cases := []struct {
		name   string
		allocs float64
		get    func()
	}{
		{"Get", 1, func() { _, _ = d.Get(key) }},
		{"Get of an absent key", 0, func() { _, _ = d.Get(absent) }},
		{"GetTo with room", 0, func() { buf, _ = d.GetTo(buf[:0], key) }},
		{"GetWith", 0, func() { buf, _ = d.GetWith(buf[:0], key, &db.GetOptions{}) }},
		{"GetTo of an absent key", 0, func() { buf, _ = d.GetTo(buf[:0], absent) }},
		{"Has", 0, func() { _, _ = d.Has(key) }},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) { require.Equal(t, c.allocs, testing.AllocsPerRun(1000, c.get)) })
	}
	t.Run("MultiGet, whatever the number of keys", func(t *testing.T) {
		var keys [][]byte
		for i := range 200 {
			keys = append(keys, testKey(i*7))
		}
		// The values of 100 bytes share one allocation; the slice of them is the other.
		require.Equal(t, 2.0, testing.AllocsPerRun(100, func() { _, _ = d.MultiGet(keys) }))
		require.Equal(t, 2.0, testing.AllocsPerRun(100, func() { _, _ = d.MultiGet(keys[:10]) }))
	})
	require.NoError(t, d.Put(key, []byte("in the memtable"), db.NoSync))
	t.Run("GetTo from the memtable", func(t *testing.T) {
		require.Zero(t, testing.AllocsPerRun(1000, func() { buf, _ = d.GetTo(buf[:0], key) }))
	})
}

func TestPutAllocatesNothingInSteadyState(t *testing.T) {
	// The memtable is too large to be switched here, and there is no order checker, which would allocate.
	d, err := db.Open("db", &db.Options{FS: vfs.NewMem(), Memtables: db.MemtableOptions{Size: 64 << 20}})
	require.NoError(t, err)
	defer d.Close()
	fill(t, d, 0, 1000)
	key, value := testKey(5), testValue(5)
	for name, wo := range map[string]*db.WriteOptions{"Sync": db.Sync, "NoSync": db.NoSync, "Buffered": db.Buffered} {
		require.Less(t, testing.AllocsPerRun(5000, func() { _ = d.Put(key, value, wo) }), 0.1,
			"%s: the file system in memory allocates now and then", name)
	}
}

func TestPutOfALoaderAllocatesNothing(t *testing.T) {
	d, err := db.Open("db", &db.Options{FS: vfs.NewMem()}) // no checker, which allocates
	require.NoError(t, err)
	defer d.Close()
	l := newLoader(t, d)
	key, value, n := make([]byte, 16), bytes.Repeat([]byte("v"), 100), uint64(0)
	put := func() {
		n++
		binary.BigEndian.PutUint64(key, n)
		if err := l.Put(key, value); err != nil {
			t.Fatal(err)
		}
	}
	for range 50000 { // the writer's memory grows with its first tables
		put()
	}
	require.Less(t, testing.AllocsPerRun(5000, put), 0.1,
		"the table's buffers and the file in memory grow now and then")
	require.NoError(t, l.Commit())
}

func TestIteratorsAllocateNothingInSteadyState(t *testing.T) {
	const n = 4000
	d := cachedStore(t, n)
	fill(t, d, 0, 20) // a memtable
	it, err := d.NewIterator(nil)
	require.NoError(t, err)
	defer it.Close()
	keys := make([][]byte, n)
	for i := range keys {
		keys[i] = testKey(i)
	}
	i := 0
	step := func(move func() bool, again func() bool) func() {
		return func() { _ = move() || again() }
	}
	cases := []struct {
		name string
		do   func()
	}{
		{"SeekGE", func() { i = (i + 1237) % n; it.SeekGE(keys[i]) }},
		{"SeekGE nearby", func() { i = (i + 3) % n; it.SeekGE(keys[i]) }},
		{"SeekLT", func() { i = (i + 1237) % n; it.SeekLT(keys[i]) }},
		{"Next", step(it.Next, it.First)},
		{"Prev", step(it.Prev, it.Last)},
		{"SetBounds", func() {
			i = (i + 1237) % (n - 10)
			it.SetBounds(keys[i], keys[i+10])
			for it.Next() {
			}
			it.SetBounds(nil, nil)
		}},
		{"Next and Prev", func() { i = (i + 1237) % n; it.SeekGE(keys[i]); it.Next(); it.Prev(); it.Next() }},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			for range 2 * n {
				c.do()
			}
			require.Zero(t, testing.AllocsPerRun(2*n, c.do))
		})
	}
	t.Run("a clone allocates only itself", func(t *testing.T) {
		require.Less(t, testing.AllocsPerRun(1000, func() {
			c, _ := it.Clone(nil)
			c.SeekGE(keys[150])
			_ = c.Close()
		}), 2.0)
	})
	bounds := &db.IterOptions{LowerBound: keys[100], UpperBound: keys[200]}
	t.Run("a loop allocates a little for itself, nothing for its rounds", func(t *testing.T) {
		for _, o := range []*db.IterOptions{bounds, nil} {
			require.Less(t, testing.AllocsPerRun(200, func() {
				entries, failed := d.All(o)
				for range entries {
				}
				_ = failed()
			}), 8.0)
		}
	})
	t.Run("a new iterator allocates only itself", func(t *testing.T) {
		// A little above 1, because the pool of its parts is emptied now and then.
		require.Less(t, testing.AllocsPerRun(1000, func() {
			it, _ := d.NewIterator(bounds)
			it.SeekGE(keys[150])
			for range 10 {
				it.Next()
			}
			_ = it.Close()
		}), 2.0)
	})
}

// A transaction that has written nothing reads like the DB. One that may write keeps a copy of each
// key, in chunks of memory.
func TestTransactionAllocations(t *testing.T) {
	d := cachedStore(t, 100)
	key, buf := testKey(50), make([]byte, 0, 1000)
	for _, readOnly := range []bool{true, false} {
		tx := d.NewTransaction(&db.TransactionOptions{ReadOnly: readOnly})
		require.Equal(t, 1.0, testing.AllocsPerRun(1000, func() { _, _ = tx.Get(key) }))
		require.Zero(t, testing.AllocsPerRun(1000, func() { buf, _ = tx.GetTo(buf[:0], key) }))
		require.NoError(t, tx.Close())
	}
}

// A lookup in a namespace adds the prefix in memory that is reused.
func TestNamespaceAllocations(t *testing.T) {
	d := openTest(t, testOptions(vfs.NewMem()))
	n, err := d.Namespace("users")
	require.NoError(t, err)
	key, buf := []byte("anna"), make([]byte, 0, 100)
	require.NoError(t, n.Put(key, []byte("value"), db.NoSync))
	settle(t, d)
	_, err = n.Get(key)
	require.NoError(t, err)
	require.Equal(t, 1.0, testing.AllocsPerRun(1000, func() { _, _ = n.Get(key) }))
	require.Zero(t, testing.AllocsPerRun(1000, func() { buf, _ = n.GetTo(buf[:0], key) }))
	require.Zero(t, testing.AllocsPerRun(1000, func() { _, _ = n.Has(key) }))
}
