package sstable

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/test/result"
)

// valueTable returns a value table that is compressed as kind, and its entries.
func valueTable(t *testing.T, kind Compression) ([]byte, entries) {
	var es entries
	for i, n := range []int{0, 1, 127, 128, 5000, 16 << 10, largeEntry - 1, largeEntry, 3 << 20, 9} {
		for seq := range 2 { // two versions of each key
			e := plainEntries(1, 0)[0]
			e.Key, e.Value = ikey(fmt.Sprintf("key%d", i), uint64(9-seq), base.KindSet), mixed(n+seq, float64(seq)/2)
			es = append(es, e)
		}
	}
	return buildTable(t, WriterOptions{Values: true, Compression: kind}, es), es
}

func TestValuesAreMovedAsTheyAreStored(t *testing.T) {
	for _, kind := range []Compression{NoCompression, Snappy, Zstd} {
		t.Run(fmt.Sprint(kind), func(t *testing.T) {
			file, es := valueTable(t, kind)
			r, _ := openTable(t, file, ReaderOptions{})
			var out bytes.Buffer
			w := NewWriter(&out, WriterOptions{Values: true, Compression: kind})
			var lk Lookup
			defer lk.Release()
			moved := 0
			for _, e := range es {
				seq, _ := base.SplitTrailer(base.Trailer(e.Key))
				lk.Init(base.UserKey(e.Key), seq)
				stored, value, err := r.StoredValue(&lk, kind, uint64(len(e.Value)))
				require.NoError(t, err)
				if stored == nil { // it does not shrink, and is tried again
					require.True(t, bytes.Equal(e.Value, value))
					require.NoError(t, w.Add(e.Key, value))
					continue
				}
				moved++
				require.NoError(t, w.AddStored(e.Key, stored, uint64(len(e.Value))))
			}
			finish(t, w)
			require.GreaterOrEqual(t, moved, len(es)/4)
			require.True(t, bytes.Equal(file, out.Bytes()), "as if all had been added")
		})
	}
}

func TestOnlyWholeValuesAreMoved(t *testing.T) {
	file, es := valueTable(t, Snappy)
	r, _ := openTable(t, file, ReaderOptions{})
	var lk Lookup
	defer lk.Release()
	large := es[11] // 16 KiB, of which half is saved
	n := uint64(len(large.Value))
	for name, c := range map[string]struct {
		user   string
		seq    uint64
		kind   Compression
		length uint64

		moved, read bool
	}{
		"the value":           {"key5", 8, Snappy, n, true, false},
		"another length":      {"key5", 8, Snappy, n + 1, false, false},
		"a length far above":  {"key5", 8, Snappy, 1 << 62, false, false},
		"another compression": {"key5", 8, Zstd, n, false, true},
		"another version":     {"key5", 9, Snappy, n, false, false},
		"not compressed":      {"key5", 9, Snappy, n - 1, false, true},
		"between versions":    {"key5", 10, Snappy, n, false, false},
		"no such key":         {"key", 8, Snappy, n, false, false},
		"after the last key":  {"z", 8, Snappy, n, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			lk.Init([]byte(c.user), c.seq)
			stored, value, err := r.StoredValue(&lk, c.kind, c.length)
			require.NoError(t, err)
			require.Equal(t, c.moved, stored != nil)
			require.Equal(t, c.read, value != nil)
		})
	}

	i := r.index.Load().find(r.cmp, []byte("key5"), base.Trailer(large.Key))
	damaged := bytes.Clone(file)
	damaged[r.index.Load().Offset(i)+100] ^= 1
	broken, _ := openTable(t, damaged, ReaderOptions{})
	lk.Init([]byte("key5"), 8)
	_, _, err := broken.StoredValue(&lk, Snappy, n)
	require.ErrorIs(t, err, base.ErrCorruption)

	levels := buildTable(t, WriterOptions{}, es)
	r, _ = openTable(t, levels, ReaderOptions{})
	lk.Init([]byte("key4"), 8)
	stored, value, err := r.StoredValue(&lk, Snappy, 5001)
	require.NoError(t, err)
	require.Nil(t, append(stored, value...), "in a table of levels")
	w := NewWriter(new(bytes.Buffer), WriterOptions{})
	require.ErrorContains(t, w.AddStored(large.Key, nil, 0), "no value table")
	w = NewWriter(new(bytes.Buffer), WriterOptions{Values: true, Compression: Snappy})
	require.NoError(t, w.Add(large.Key, large.Value))
	require.ErrorContains(t, w.AddStored(large.Key, make([]byte, 50), 0), "does not sort after")
	w = NewWriter(new(bytes.Buffer), WriterOptions{Values: true, Compression: Snappy})
	require.ErrorContains(t, w.AddStored(ikey("k", 1, base.KindDelete), make([]byte, 50), 0), "the internal key of a value")

	r, _ = openTable(t, file, ReaderOptions{})
	result.Of(r.LoadIndex())(t)
	r.CloseFile()
	lk.Init([]byte("key5"), 8)
	_, _, err = r.StoredValue(&lk, Snappy, n)
	require.True(t, err == base.ErrClosed, "callers compare it: %v", err)
}

// An iterator holds the memory that it takes until it is closed.
func TestIteratorsGetNoLargeMemoryOfLookups(t *testing.T) {
	large, _ := openTable(t, buildTable(t, WriterOptions{Compression: Snappy}, entries{{Key: ikey("a", 1, base.KindSet), Value: mixed(3<<20, 0.5)}}), ReaderOptions{})
	for _, kind := range []Compression{NoCompression, Snappy} {
		r, _ := openTable(t, buildTable(t, WriterOptions{Compression: kind}, plainEntries(2000, 100)), ReaderOptions{})
		held := 0
		for range 50 {
			var lk Lookup
			lk.Init([]byte("a"), 9)
			result.Of(large.Get(&lk))(t)
			lk.Release()
			it := newIter(t, r, IterOptions{NoFillCache: true})
			require.True(t, it.First())
			held = max(held, cap(it.scratch.stored), cap(it.scratch.decoded))
			defer it.Close()
		}
		require.LessOrEqual(t, held, maxScratch)
	}
}

// Scans add values to a cache that has room, and displace nothing in one that is full.
func TestScansOfValuesFillACacheWithRoom(t *testing.T) {
	file, es := valueTable(t, NoCompression)
	for _, size := range []int64{64 << 20, 40 << 10} {
		c := NewBlockCache(size)
		r, _ := openTable(t, file, ReaderOptions{Cache: c})
		lk := Lookup{Scanning: true}
		defer lk.Release()
		for _, e := range es[:12] {
			seq, _ := base.SplitTrailer(base.Trailer(e.Key))
			lk.Init(base.UserKey(e.Key), seq)
			res := result.Of(r.Get(&lk))(t)
			require.Equal(t, e.Value, append([]byte{}, res.Value...))
		}
		if m := c.Metrics(); size > 1<<20 {
			require.EqualValues(t, 12, m.Count)
		} else {
			require.EqualValues(t, 10, m.Count, "those of 16 KiB need three times as much to be sure")
		}
	}
}
