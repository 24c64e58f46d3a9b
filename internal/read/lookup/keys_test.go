package lookup_test

import (
	"bytes"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/internal/test/storetest"
	"github.com/sievedb/sievedb/sstable"
	"github.com/sievedb/sievedb/vfs"
)

// largeValue returns a value that has a data block of its own.
func largeValue(n int) []byte { return bytes.Repeat(fixture.Value(n), 30<<10/len(fixture.Value(n))) }

func uncached(fs vfs.FS) *db.Options {
	o := storetest.Options(fs)
	o.Memtables.Size, o.Tables.Size, o.Cache.Size = 256<<10, 256<<10, -1
	return o
}

// Has reads no large value, and neither does an iterator over keys.
func TestKeysOfLargeValuesAreFoundWithoutTheValues(t *testing.T) {
	o := uncached(vfs.NewMem())
	d := storetest.MustOpen(t, o)
	for i := range 50 {
		require.NoError(t, d.Put(fixture.Key(i), largeValue(i), nil))
	}
	require.NoError(t, d.Flush())
	require.NoError(t, d.Close())
	d, reads := storetest.OpenCounting(t, o)
	storetest.RequireValue(t, d, fixture.Key(7), largeValue(7)) // later tables are not open yet
	for i := range 50 {
		_, _ = d.Has(fixture.Key(i))
	}
	reads.Take()
	for i := range 50 {
		has := result.Of(d.Has(fixture.Key(i)))(t)
		require.True(t, has)
	}
	it := result.Of(d.NewIterator(&db.IterOptions{KeysOnly: true}))(t)
	for _, backward := range []bool{false, true} {
		require.Len(t, storetest.Walk(t, it, backward), 50)
	}
	require.NoError(t, it.Close())
	_, n := reads.Take()
	require.Zero(t, n)
	storetest.RequireValue(t, d, fixture.Key(30), largeValue(30))
	_, n = reads.Take()
	require.NotZero(t, n)
}

// The tables of a bulk transaction are read in the same way.
func TestBulkTransactionsFindKeysOfLargeValuesWithoutTheValues(t *testing.T) {
	var reads atomic.Int64
	o := uncached(vfs.NewMem())
	counting := wrap.NewCounting(o.FS)
	counting.Observe(func(op wrap.Op) {
		if op.Kind == wrap.OpRead {
			reads.Add(1)
		}
	})
	o.FS = counting
	d := storetest.Open(t, o)
	b := result.Of(d.NewBulkTransaction())(t)
	for i := range 50 {
		require.NoError(t, b.Put(fixture.Key(i), largeValue(i)))
	}
	hasAll := func() {
		for i := range 50 {
			has, err := b.Has(fixture.Key(i))
			require.NoError(t, err)
			require.True(t, has)
		}
	}
	hasAll()
	reads.Store(0)
	hasAll()
	require.Zero(t, reads.Load())
	result.Of(b.Get(fixture.Key(0)))(t)
	require.NotZero(t, reads.Load())
	require.NoError(t, b.Close())
}

// The time of a value that may expire is in the value, so it is read.
func TestLargeValuesExpireForThoseWhoWantOnlyKeys(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_000)
	o := uncached(vfs.NewMem())
	o.Expiry = db.ExpiryOptions{Prefixes: [][]byte{[]byte("t/")}, Clock: func() time.Time { return now }}
	d := storetest.Open(t, o)
	require.NoError(t, d.PutTTL([]byte("t/short"), largeValue(1), time.Minute, nil))
	require.NoError(t, d.PutTTL([]byte("t/long"), largeValue(2), time.Hour, nil))
	require.NoError(t, d.Put([]byte("u"), largeValue(3), nil))
	require.NoError(t, d.Flush())
	keys := func() []string {
		it := result.Of(d.NewIterator(&db.IterOptions{KeysOnly: true}))(t)
		defer it.Close()
		return storetest.Walk(t, it, false)
	}
	require.Equal(t, []string{"t/long", "t/short", "u"}, keys())
	now = now.Add(2 * time.Minute)
	require.Equal(t, []string{"t/long", "u"}, keys())
	for key, want := range map[string]bool{"t/short": false, "t/long": true, "u": true} {
		has := result.Of(d.Has([]byte(key)))(t)
		require.Equal(t, want, has, key)
	}
}

// A large value may be alone in its block in one table, and not in another. Those who need no value do not read it in
// the first, and must not take its absence for another value.
func TestTwinsOfALargeValueAreNoCorruption(t *testing.T) {
	large := string(largeValue(1))
	for name, other := range map[string]string{"equal": large, "unequal": large[1:]} {
		for _, recorded := range []bool{false, true} {
			for _, blockSizes := range [][2]int{{64, 1 << 20}, {1 << 20, 64}, {64, 64}} {
				files, levels := fixture.Dir{}, map[uint64]int{3: 0, 6: 0}
				files[base.FileName(base.FileTable, 3)] = tableOf(t, blockSizes[0], fixture.Put("aa", 6, "0"), fixture.Put("b", 7, large))
				files[base.FileName(base.FileTable, 6)] = tableOf(t, blockSizes[1], fixture.Put("a", 8, "1"), fixture.Put("b", 7, other), fixture.Put("c", 9, "3"))
				files.AddManifest(t, 50, files.Edit(t, 40, 9, levels))
				d := storetest.Open(t, storetest.Options(files.FS(t)))
				if recorded { // one lookup of a hundred and some
					d.SlowLookups(time.Minute)
					for range 1000 {
						has, err := d.Has([]byte("b"))
						require.Equal(t, name == "equal", has)
						require.Equal(t, name == "equal", err == nil)
					}
					require.Equal(t, name == "equal", len(d.SlowLookups(time.Minute)) > 0)
				}
				has, err := d.Has([]byte("b"))
				_, getErr := d.Get([]byte("b"))
				require.Equal(t, name == "equal", has)
				require.Equal(t, name == "equal", err == nil)
				require.Equal(t, name == "equal", getErr == nil)
				it := storetest.Iter(t, d, &db.IterOptions{KeysOnly: true})
				require.Equal(t, []string{"a", "aa", "b", "c"}, storetest.Walk(t, it, false))
				require.Equal(t, []string{"c", "b", "aa", "a"}, storetest.Walk(t, it, true))
				require.NoError(t, it.Close())
			}
		}
	}
}

// tableOf is fixture.Table with blocks of another size.
func tableOf(t *testing.T, blockSize int, entries ...fixture.Entry) []byte {
	var file bytes.Buffer
	w := sstable.NewWriter(&file, sstable.WriterOptions{BlockSize: blockSize})
	for _, e := range entries {
		require.NoError(t, w.Add(base.AppendInternalKey(nil, []byte(e.Key), e.Seq, e.Kind), []byte(e.Value)))
	}
	result.Of(w.Finish())(t)
	return file.Bytes()
}
