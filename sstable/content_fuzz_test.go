package sstable

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/test/damage"
)

// A table that Identify identifies has a hash of its content in its properties. Its identity depends on its size,
// footer, metaindex, properties and IDs, and on nothing else: two tables of one identity have the same data blocks, by
// their hash.
func FuzzIdentify(f *testing.F) {
	for _, o := range []WriterOptions{{}, {Filter: bloom, BlockSize: 200}, {Compression: Snappy}} {
		f.Add(buildTable(f, o, plainEntries(30, 20)))
	}
	f.Add(buildTable(f, WriterOptions{Values: true, IDs: []uint64{3, 9}}, plainEntries(3, 20)))
	f.Add(buildTable(f, WriterOptions{}, nil))
	f.Add(unmarked(f, WriterOptions{}, plainEntries(3, 3)))
	f.Fuzz(func(t *testing.T, data []byte) {
		before := damage.Allocated()
		id, ok, err := Identify(&memFile{data: data})
		require.LessOrEqual(t, damage.Allocated()-before, damage.MemoryBound(len(data)))
		if err != nil {
			require.False(t, ok)
			require.True(t, base.IsUnreadable(err), err)
			return
		}
		if !ok {
			return
		}
		r := &Reader{cmp: base.Bytewise, name: "x", file: &memFile{data: data}}
		r.refs.Store(1)
		require.NoError(t, r.open(nil))
		p, has, err := r.CheckProperties()
		require.NoError(t, err)
		require.True(t, has)
		require.NotZero(t, p.ContentHash)
		first := min(r.foot.Metaindex.Offset, r.foot.Index.Offset, r.meta.properties.Offset)
		if r.meta.ids.Size > 0 {
			first = min(first, r.meta.ids.Offset)
		}
		if first == 0 {
			return
		}
		other := bytes.Clone(data)
		other[0] ^= 1
		again, ok, err := Identify(&memFile{data: other})
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, id, again)
		longer, ok, err := Identify(&memFile{data: append([]byte{0}, data...)})
		require.True(t, err != nil || !ok || longer != id, "every offset is wrong now")
	})
}

// The mark of the first and the last key is the first eight bytes, and further bytes are for later versions.
func FuzzBounds(f *testing.F) {
	f.Add([]byte(nil))
	f.Add(makeBounds([]byte("a"), []byte("z")).append(nil))
	f.Add(makeBounds(nil, nil).append(nil)[:7])
	f.Fuzz(func(t *testing.T, b []byte) {
		m, ok := decodeBounds(b)
		require.Equal(t, len(b) >= boundsLen, ok)
		if !ok {
			require.Zero(t, m)
			return
		}
		require.Equal(t, b[:boundsLen], m.append(nil))
		same := makeBounds(b, b)
		decoded, ok := decodeBounds(same.append(nil))
		require.True(t, ok)
		require.Equal(t, same, decoded)
	})
}
