package sstable

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
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
				stored, ok, err := r.StoredValue(&lk, kind, uint64(len(e.Value)))
				require.NoError(t, err)
				if !ok { // it does not shrink, and might as a later version compresses it
					require.NoError(t, w.Add(e.Key, e.Value))
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
		ok     bool
	}{
		"the value":           {"key5", 8, Snappy, n, true},
		"another length":      {"key5", 8, Snappy, n + 1, false},
		"a length far above":  {"key5", 8, Snappy, 1 << 62, false},
		"another compression": {"key5", 8, Zstd, n, false},
		"another version":     {"key5", 9, Snappy, n, false},
		"between versions":    {"key5", 10, Snappy, n, false},
		"no such key":         {"key", 8, Snappy, n, false},
		"after the last key":  {"z", 8, Snappy, n, false},
	} {
		t.Run(name, func(t *testing.T) {
			lk.Init([]byte(c.user), c.seq)
			_, ok, err := r.StoredValue(&lk, c.kind, c.length)
			require.NoError(t, err)
			require.Equal(t, c.ok, ok)
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
	_, ok, err := r.StoredValue(&lk, Snappy, 5001)
	require.NoError(t, err)
	require.False(t, ok, "in a table of levels")
	w := NewWriter(new(bytes.Buffer), WriterOptions{})
	require.ErrorContains(t, w.AddStored(large.Key, nil, 0), "no value table")
	w = NewWriter(new(bytes.Buffer), WriterOptions{Values: true, Compression: Snappy})
	require.NoError(t, w.Add(large.Key, large.Value))
	require.ErrorContains(t, w.AddStored(large.Key, nil, 0), "does not sort after")
}
