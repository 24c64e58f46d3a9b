package sstable

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/base"
)

// requireNewer checks that err says what a newer version wrote, and where.
func requireNewer(t *testing.T, err error, part, found string) {
	t.Helper()
	var n *base.NewerError
	require.ErrorAs(t, err, &n)
	require.ErrorIs(t, err, base.ErrNewer)
	require.NotErrorIs(t, err, base.ErrCorruption)
	require.Equal(t, "000003.ldb", n.File)
	require.Equal(t, part, n.Part)
	require.Contains(t, n.Found, found)
	require.GreaterOrEqual(t, n.Offset, int64(0))
}

// salvageNewer requires that a salvage reports data as a newer version's.
func salvageNewer(t *testing.T, data []byte, part, found string) {
	t.Helper()
	rep, err := Salvage(&memFile{data: data}, ReaderOptions{Policies: []filter.Policy{bloom}, Name: "000003.ldb"},
		func(_, _ []byte) error { return nil })
	require.NoError(t, err)
	requireNewer(t, rep.Newer, part, found)
}

// A block of a compression that a newer version knows was damage, and Repair left its entries out.
func TestAnUnknownCompressionIsNewer(t *testing.T) {
	data := rawTable(t, 9, buildBlock(2, plainEntries(5, 10)))
	r, _ := openTable(t, data, ReaderOptions{Cache: newCache(), Name: "000003.ldb"})
	_, err := get(r, "key00000000", base.MaxSeq)
	requireNewer(t, err, dataPart, "compression kind 9 is unknown")
	it := newIter(t, r, IterOptions{})
	require.False(t, it.First())
	requireNewer(t, it.Err(), dataPart, "compression kind 9 is unknown")
	require.Error(t, it.Close())
	salvageNewer(t, data, dataPart, "compression kind 9 is unknown")

	// Without the index, the block is found by its checksum.
	bare := data[:len(data)-footerLen]
	salvageNewer(t, bare, dataPart, "compression kind 9 is unknown")
	data[0] ^= 1
	_, err = get(mustOpen(t, data), "key00000000", base.MaxSeq)
	require.ErrorIs(t, err, base.ErrCorruption, "with a wrong checksum, the block is damaged")
}

func mustOpen(t *testing.T, data []byte) *Reader {
	t.Helper()
	r, _ := openTable(t, data, ReaderOptions{Cache: newCache(), Name: "000003.ldb"})
	return r
}

func TestAnEntryOfAReservedKindIsNewer(t *testing.T) {
	data := rawTable(t, NoCompression, rawBlock(rawEntry(0, 10, 1, "ka\x03\x01\x00\x00\x00\x00\x00\x00v"), 0))
	r := mustOpen(t, data)
	for _, key := range []string{"k", "ka"} {
		_, err := get(r, key, base.MaxSeq)
		requireNewer(t, err, dataPart, "unknown kind 3")
	}
	it := newIter(t, r, IterOptions{})
	require.False(t, it.First())
	requireNewer(t, it.Err(), dataPart, "unknown kind 3")
	require.Error(t, it.Close())
	salvageNewer(t, data, dataPart, "unknown kind 3")
}

// withMeta returns a table of one block whose metaindex has one more entry.
func withMeta(key string) []byte {
	file, data := appendStored(nil, buildBlock(2, plainEntries(5, 10)), NoCompression)
	index := blockWriter{interval: 1}
	index.add(ikey("zz", 1, base.KindSet), data.Append(nil))
	var foot footer
	file, foot.Metaindex = appendStored(file, metaEntries{key: data.Append(nil)}.block(), NoCompression)
	file, foot.Index = appendStored(file, index.finish(), NoCompression)
	return foot.Append(file)
}

// A table that needs something else than its data blocks, such as deleted ranges, would be misread.
func TestATableThatRequiresSomethingUnknownIsRefused(t *testing.T) {
	data := withMeta("filter.sievedb.required.ranges")
	_, err := Open(&memFile{data: data}, ReaderOptions{Policies: []filter.Policy{bloom}, Name: "000003.ldb"})
	requireNewer(t, err, "metaindex block", `the table requires "ranges"`)
	salvageNewer(t, data, "metaindex block", `the table requires "ranges"`)

	_, err = Open(&memFile{data: withMeta("filter.sievedb.later")}, ReaderOptions{Policies: []filter.Policy{bloom}, Name: "000003.ldb"})
	require.NoError(t, err, "an unknown filter is ignored")
	require.ErrorContains(t, CheckFilterNames([]filter.Policy{renamedPolicy{name: "sievedb.required.x"}}), "are reserved")
}

func TestATableWithALaterMagicIsNewer(t *testing.T) {
	data := withMeta("filter.sievedb.later")
	copy(data[len(data)-8:], "sieveTB2")
	_, err := Open(&memFile{data: data}, ReaderOptions{Name: "000003.ldb"})
	requireNewer(t, err, "footer", `the magic is "sieveTB2"`)
	salvageNewer(t, data, "footer", `the magic is "sieveTB2"`)
}
