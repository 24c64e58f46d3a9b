package sstable

import (
	"bytes"
	"encoding/hex"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/codec"
	"github.com/sievedb/sievedb/internal/test/result"
)

// hexFile reads annotated hex: bytes in hexadecimal and, after # or | on each line, their meaning.
func hexFile(t *testing.T, name string) []byte {
	t.Helper()
	text := result.Of(os.ReadFile("testdata/" + name))(t)
	var all []byte
	for line := range strings.Lines(string(text)) {
		digits, _, _ := strings.Cut(strings.ReplaceAll(line, "|", "#"), "#")
		b, err := hex.DecodeString(strings.Join(strings.Fields(digits), ""))
		require.NoError(t, err, line)
		all = append(all, b...)
	}
	return all
}

// decodeStored checks a block's trailer and returns the block.
func decodeStored(t *testing.T, stored []byte) []byte {
	t.Helper()
	data, _, err := openBlock(bytes.Clone(stored), nil, "block")
	require.NoError(t, err)
	return data
}

func TestBlockVectorDecodesAndEncodesBack(t *testing.T) {
	want := entries{
		{Key: ikey("bat", 300, base.KindSet), Value: []byte("wing")},
		{Key: ikey("bath", 299, base.KindSet), Value: []byte("tub")},
		{Key: ikey("bee", 298, base.KindDelete), Value: []byte{}},
	}
	stored := hexFile(t, "block.hex")

	block := result.Of(newBlock(decodeStored(t, stored), dataPart))(t)
	var got entries
	require.NoError(t, block.eachEntry(dataPart, func(key, value []byte) error {
		got = append(got, entries{{Key: bytes.Clone(key), Value: bytes.Clone(value)}}...)
		return nil
	}))
	require.Equal(t, want, got)

	w := blockWriter{interval: 2}
	for _, e := range want {
		w.add(e.Key, e.Value)
	}
	again, _ := appendStored(nil, w.finish(), NoCompression)
	require.Equal(t, hex.Dump(stored), hex.Dump(again))
}

// insectsAndCat is the table whose tail the vectors show: three data blocks of one entry each.
func insectsAndCat() entries {
	var es entries
	for i, user := range []string{"ant", "bee", "cat"} {
		es = append(es, entries{{
			Key: ikey(user, uint64(i+1), base.KindSet), Value: bytes.Repeat([]byte(user[:1]), 5000),
		}}...)
	}
	return es
}

func TestTheWriterWritesTheTailVectors(t *testing.T) {
	fuse := filter.FusePolicy{}
	for name, c := range map[string]struct {
		policy    filter.Policy
		filters   map[filter.Policy]string
		metaindex string // "" if there is no vector
	}{
		"LevelDB's filter":     {bloom, map[filter.Policy]string{bloom: "filter_block.hex"}, "metaindex.hex"},
		"two filters":          {dual, map[filter.Policy]string{lines: "filter_block_lines.hex", bloom: "filter_block.hex"}, "metaindex_two_filters.hex"},
		"a binary fuse filter": {fuse, map[filter.Policy]string{fuse: "filter_block_fuse.hex"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			file := buildTable(t, WriterOptions{Filter: c.policy}, insectsAndCat())
			foot, meta := tailOf(t, file)
			for p, vector := range c.filters {
				h := meta.filters[p.Name()]
				require.Equal(t, hex.Dump(hexFile(t, vector)), hex.Dump(file[h.Offset:h.End()]))
				requireDogDenied(t, vector, p)
			}
			if c.metaindex != "" {
				require.Equal(t, hex.Dump(hexFile(t, c.metaindex)), hex.Dump(file[foot.Metaindex.Offset:foot.Metaindex.End()]))
			}
			if name == "LevelDB's filter" {
				require.Equal(t, hex.Dump(hexFile(t, "footer.hex")), hex.Dump(file[len(file)-footerLen:]))
			}
		})
	}
}

// tailOf decodes the footer and the metaindex of a table.
func tailOf(t *testing.T, file []byte) (foot footer, m metaindex) {
	t.Helper()
	foot = result.Of(codec.DecodeFooter(file[len(file)-footerLen:], uint64(len(file))))(t)
	m = result.Of(decodeMetaindex(decodeStored(t, file[foot.Metaindex.Offset:foot.Metaindex.End()])))(t)
	return foot, m
}

// requireDogDenied requires that a filter block of the insects and the cat passes them and no dog.
func requireDogDenied(t *testing.T, file string, p filter.Policy) {
	t.Helper()
	f := result.Of(newFilterBlock(decodeStored(t, hexFile(t, file)), p, 0, 10057))(t)
	require.True(t, f.whole && f.understood())
	for _, user := range []string{"ant", "bee", "cat", "dog"} {
		var lk Lookup
		lk.Init([]byte(user), base.MaxSeq)
		require.Equal(t, user != "dog", f.mayContain(&lk), user)
	}
}

func TestFooterVectorDecodesAndEncodesBack(t *testing.T) {
	raw := hexFile(t, "footer.hex")
	got := result.Of(codec.DecodeFooter(raw, 15537))(t)
	require.Equal(t, footer{Metaindex: handle{Offset: 15318, Size: 94}, Index: handle{Offset: 15417, Size: 67}}, got)
	require.Equal(t, raw, got.Append(nil))
}

func TestMetaindexVectorDecodes(t *testing.T) {
	got := result.Of(decodeMetaindex(decodeStored(t, hexFile(t, "metaindex.hex"))))(t)
	require.Equal(t, map[string]handle{"leveldb.BuiltinBloomFilter2": {Offset: 15084, Size: 18}}, got.filters)
	require.Equal(t, handle{Offset: 15107, Size: 206}, got.properties)
	require.True(t, got.knowsLast)
	require.EqualValues(t, 10056, got.lastDataOffset)
	require.True(t, got.marked)
	require.Equal(t, makeBounds(ikey("ant", 1, base.KindSet), ikey("cat", 3, base.KindSet)), got.bounds)
}

// LevelDB's layout has a filter for each 2 KiB. That of one filter is in TestTheWriterWritesTheTailVectors.
func TestFilterBlockVectorOfLevelDBDecodes(t *testing.T) {
	offsets := map[string]uint64{"ant": 0, "bee": 5028, "cat": 10056}

	f := result.Of(newFilterBlock(decodeStored(t, hexFile(t, "filter_block_leveldb.hex")), bloom, 0, 10057))(t)
	require.False(t, f.whole)
	for user, home := range offsets {
		var lk Lookup
		lk.Init([]byte(user), base.MaxSeq)
		for other, offset := range offsets {
			may, consulted := f.mayContainAt(&lk, offset)
			require.True(t, consulted)
			require.Equal(t, offset == home, may, "%s probed in the block of %s", user, other)
		}
		may, consulted := f.mayContainAt(&lk, 2048)
		require.True(t, !consulted && may, "an empty filter denies nothing")
		may, consulted = f.mayContainAt(&lk, 7<<11)
		require.True(t, !consulted && may, "after the last filter nothing is denied")
	}
	// Our policy makes the same bytes as LevelDB from the same keys.
	want := bloom.CreateFilter(nil, [][]byte{[]byte("ant")})
	want = bloom.CreateFilter(want, [][]byte{[]byte("bee")})
	want = bloom.CreateFilter(want, [][]byte{[]byte("cat")})
	require.Equal(t, hex.Dump(want), hex.Dump(f.data[:f.arrayStart]))
}
