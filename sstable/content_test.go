package sstable

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/test/result"
)

func identityOf(t *testing.T, data []byte) ([32]byte, bool) {
	t.Helper()
	id, ok, err := Identify(&memFile{data: data})
	require.NoError(t, err)
	return id, ok
}

// Tables that differ in one bit of one value differ in their identities, although their sizes, keys,
// sequence numbers, filters, indexes and properties are the same.
func TestIdentitiesDifferWithTheValues(t *testing.T) {
	for name, o := range map[string]WriterOptions{
		"plain": {Filter: dual}, "snappy": {Filter: bloom, Compression: Snappy},
	} {
		t.Run(name, func(t *testing.T) {
			es := plainEntries(2000, 100)
			first := buildTable(t, o, es)
			id, ok := identityOf(t, first)
			require.True(t, ok)
			again, _ := identityOf(t, buildTable(t, o, es))
			require.Equal(t, id, again)
			for _, i := range []int{0, 999, 1999} {
				changed := append(entries{}, es...)
				changed[i].Value = bytes.Clone(changed[i].Value)
				changed[i].Value[50] ^= 1
				other := buildTable(t, o, changed)
				if o.Compression == NoCompression {
					require.Equal(t, len(first), len(other))
				}
				got, ok := identityOf(t, other)
				require.True(t, ok)
				require.NotEqual(t, id, got)
			}
		})
	}
}

// Value tables with the same values under other IDs are not the same.
func TestIdentitiesDifferWithTheIDs(t *testing.T) {
	ids := map[[32]byte]bool{}
	for _, of := range [][]uint64{nil, {3, 9}, {3, 8}} {
		id, ok := identityOf(t, buildTable(t, WriterOptions{Values: true, IDs: of}, plainEntries(20, 100)))
		require.True(t, ok)
		ids[id] = true
	}
	require.Len(t, ids, 3)
}

// A large entry is stored in parts, and a copied block as it was. The hash is the same for the same stored bytes.
func TestContentHashesDoNotDependOnHowBlocksWereWritten(t *testing.T) {
	for _, compression := range []Compression{NoCompression, Snappy} {
		r, _ := openTable(t, buildTable(t, WriterOptions{Compression: compression}, largeEntries()), ReaderOptions{})
		props, _ := r.Properties()
		data := result.Of(copied(r, WriterOptions{Filter: bloom}))(t)
		c, _ := openTable(t, data, ReaderOptions{Policies: []filter.Policy{bloom}})
		again, _ := c.Properties()
		require.NotZero(t, props.ContentHash)
		require.Equal(t, props.ContentHash, again.ContentHash)
	}
}

func TestTablesWithoutAHashHaveNoIdentity(t *testing.T) {
	_, ok := identityOf(t, buildTable(t, WriterOptions{}, nil))
	require.False(t, ok, "an empty table")

	build := func(meta metaEntries, compression Compression, props *Properties) []byte {
		var out bytes.Buffer
		w := NewWriter(&out, WriterOptions{})
		if props != nil {
			b := blockWriter{interval: 1}
			encodeProperties(&b, props)
			h := result.Of(w.writeBlock(b.finish(), NoCompression))(t)
			meta[propertiesKey] = h.Append(nil)
		}
		var foot footer
		foot.Metaindex = result.Of(w.writeBlock(meta.block(), compression))(t)
		foot.Index = result.Of(w.writeBlock(w.index.finish(), NoCompression))(t)
		w.out = foot.Append(w.out)
		require.NoError(t, w.flushOut())
		return out.Bytes()
	}
	many := metaEntries{"filter.aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa": make([]byte, 100)}
	for name, data := range map[string][]byte{
		"of LevelDB":             build(metaEntries{}, NoCompression, nil),
		"a compressed metaindex": build(many, Snappy, &Properties{ContentHash: 1}),
		"without the property":   build(metaEntries{}, NoCompression, &Properties{Entries: 1}),
	} {
		_, ok := identityOf(t, data)
		require.False(t, ok, name)
	}
	_, ok = identityOf(t, build(metaEntries{}, NoCompression, &Properties{ContentHash: 1}))
	require.True(t, ok)
}

// Damage to a part that is read is noticed. That to others is not, as they are not read.
func TestDamageToAnIdentityIsAnError(t *testing.T) {
	data := buildTable(t, WriterOptions{Filter: bloom}, plainEntries(500, 100))
	id, _ := identityOf(t, data)
	foot, meta := tailOf(t, data)
	read := func(i int) bool {
		at := uint64(i)
		return at >= meta.properties.Offset && at < foot.Metaindex.End() || at >= uint64(len(data)-footerLen)
	}
	for i := range data {
		if !read(i) && i%50 > 0 {
			continue
		}
		bad := bytes.Clone(data)
		bad[i] ^= 0x10
		got, ok, err := Identify(&memFile{data: bad})
		if read(i) {
			require.True(t, err != nil || !ok || got != id, "byte %d", i)
		} else {
			require.NoError(t, err)
			require.Equal(t, id, got)
		}
	}
	for _, n := range []int{0, footerLen - 1, footerLen, len(data) - 1} {
		_, _, err := Identify(&memFile{data: data[:n]})
		require.ErrorIs(t, err, base.ErrCorruption)
	}
}

// Identify reads little, whatever the size of the table.
func TestIdentifyReadsLittle(t *testing.T) {
	f := &memFile{data: buildTable(t, WriterOptions{Filter: dual}, plainEntries(20000, 100))}
	_, ok, err := Identify(f)
	require.NoError(t, err)
	require.True(t, ok)
	total := uint64(0)
	for _, r := range f.takeReads() {
		total += uint64(r.size)
	}
	require.Less(t, total, uint64(1000))
}

// Every flipped bit that changes what a reader of the table may see is found.
func TestVerifyContentFindsEveryDamage(t *testing.T) {
	for _, compression := range []Compression{NoCompression, Snappy} {
		data := buildTable(t, WriterOptions{Filter: bloom, Compression: compression, BlockSize: 512}, plainEntries(100, 40))
		require.NoError(t, VerifyContent(&memFile{data: data}, nil))
		for i := range len(data) - footerLen {
			bad := bytes.Clone(data)
			bad[i] ^= 0x10
			require.ErrorIs(t, VerifyContent(&memFile{data: bad}, nil), base.ErrCorruption, "byte %d of %d", i, len(data))
		}
	}
	// Blocks with good checksums, but those of another table.
	es := plainEntries(100, 40)
	first := buildTable(t, WriterOptions{}, es)
	es[50].Value = bytes.Repeat([]byte("x"), 40)
	other := buildTable(t, WriterOptions{}, es)
	require.Equal(t, len(first), len(other))
	r, _ := openTable(t, first, ReaderOptions{})
	_, end, err := r.DataBlocks()
	require.NoError(t, err)
	mixed := append(bytes.Clone(other[:end]), first[end:]...)
	require.ErrorContains(t, VerifyContent(&memFile{data: mixed}, nil), "the hash of the data blocks is")
}
