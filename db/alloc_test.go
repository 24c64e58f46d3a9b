//go:build !race

package db_test

import (
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

// A transaction that has written nothing reads like the DB. One that may write keeps a copy of each key, in chunks of
// memory. A lookup in a namespace adds the prefix in memory that is reused.
func TestGetOfACachedKeyAllocatesOnlyItsResult(t *testing.T) {
	d := cachedStore(t, 4000)
	n, err := d.Namespace("users")
	require.NoError(t, err)
	require.NoError(t, n.Put(testKey(1234), testValue(0), db.NoSync))
	settle(t, d)
	readOnly, tx := d.NewTransaction(&db.TransactionOptions{ReadOnly: true}), d.NewTransaction(nil)
	defer tx.Close()
	defer readOnly.Close()
	key, absent, recent := testKey(1234), []byte("key0012345"), []byte("in the memtable")
	require.NoError(t, d.Put(recent, recent, db.NoSync))
	for i := range 4000 {
		_, err := d.Get(testKey(i))
		require.NoError(t, err)
	}
	buf, keys := make([]byte, 0, 1024), make([][]byte, 200)
	for i := range keys {
		keys[i] = testKey(i * 7)
	}
	for name, c := range map[string]struct {
		allocs float64
		get    func()
	}{
		"Get":                            {1, func() { _, _ = d.Get(key) }},
		"Get of an absent key":           {0, func() { _, _ = d.Get(absent) }},
		"GetTo with room":                {0, func() { buf, _ = d.GetTo(buf[:0], key) }},
		"GetTo from the memtable":        {0, func() { buf, _ = d.GetTo(buf[:0], recent) }},
		"GetWith":                        {0, func() { buf, _ = d.GetWith(buf[:0], key, &db.GetOptions{}) }},
		"GetTo of an absent key":         {0, func() { buf, _ = d.GetTo(buf[:0], absent) }},
		"Has":                            {0, func() { _, _ = d.Has(key) }},
		"Get of a read-only transaction": {1, func() { _, _ = readOnly.Get(key) }},
		"GetTo of one":                   {0, func() { buf, _ = readOnly.GetTo(buf[:0], key) }},
		"Get of a transaction":           {1, func() { _, _ = tx.Get(key) }},
		"GetTo of a transaction":         {0, func() { buf, _ = tx.GetTo(buf[:0], key) }},
		"Get of a namespace":             {1, func() { _, _ = n.Get(key) }},
		"GetTo of a namespace":           {0, func() { buf, _ = n.GetTo(buf[:0], key) }},
		"Has of a namespace":             {0, func() { _, _ = n.Has(key) }},
		// The values of 100 bytes share one allocation; the slice of them is the other.
		"MultiGet of many": {2, func() { _, _ = d.MultiGet(keys) }},
		"MultiGet of few":  {2, func() { _, _ = d.MultiGet(keys[:10]) }},
	} {
		require.Equal(t, c.allocs, testing.AllocsPerRun(1000, c.get), name)
	}
}

func TestWritesAllocateNothingInSteadyState(t *testing.T) {
	// The memtable is too large to be switched here, and there is no order checker, which would allocate.
	d, err := db.Open("db", &db.Options{FS: vfs.NewMem(), Memtables: db.MemtableOptions{Size: 64 << 20}})
	require.NoError(t, err)
	defer d.Close()
	fill(t, d, 0, 1000)
	l, key, value, n := newLoader(t, d), testKey(5), testValue(5), uint64(0)
	number := make([]byte, 8)
	load := func() {
		n++
		binary.BigEndian.PutUint64(number, n)
		if err := l.Put(number, value); err != nil {
			t.Fatal(err)
		}
	}
	for range 50000 { // the writer's memory grows with its first tables
		load()
	}
	for name, put := range map[string]func(){
		"Sync":     func() { _ = d.Put(key, value, db.Sync) },
		"NoSync":   func() { _ = d.Put(key, value, db.NoSync) },
		"Buffered": func() { _ = d.Put(key, value, db.Buffered) },
		"Loader":   load,
	} {
		require.Less(t, testing.AllocsPerRun(5000, put), 0.1, "%s: buffers and files in memory grow now and then", name)
	}
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
		for range 2 * n {
			c.do()
		}
		require.Zero(t, testing.AllocsPerRun(2*n, c.do), c.name)
	}
	bounds := &db.IterOptions{LowerBound: keys[100], UpperBound: keys[200]}
	loop := func(o *db.IterOptions) {
		entries, failed := d.All(o)
		for range entries {
		}
		_ = failed()
	}
	// A little above what they need for themselves, because the pool of their parts is emptied now and then.
	for name, c := range map[string]struct {
		below float64
		do    func()
	}{
		"a clone": {2, func() {
			c, _ := it.Clone(nil)
			c.SeekGE(keys[150])
			_ = c.Close()
		}},
		"a new iterator": {2, func() {
			it, _ := d.NewIterator(bounds)
			it.SeekGE(keys[150])
			for range 10 {
				it.Next()
			}
			_ = it.Close()
		}},
		"a short loop": {8, func() { loop(bounds) }},
		"a long loop":  {8, func() { loop(nil) }},
	} {
		require.Less(t, testing.AllocsPerRun(200, c.do), c.below, name)
	}
}
