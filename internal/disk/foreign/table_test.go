package foreign_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/codec"
	"github.com/sievedb/sievedb/internal/disk/foreign"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/util"
	"github.com/sievedb/sievedb/vfs"
)

// appendBlock appends a block with one entry, and its trailer, to a file.
func appendBlock(file []byte, key string, value []byte) ([]byte, codec.Handle) {
	h := codec.Handle{Offset: uint64(len(file)), Size: uint64(3 + len(key) + len(value) + 8)}
	file = append(append(append(file, 0, byte(len(key)), byte(len(value))), key...), value...)
	file = append(file, 0, 0, 0, 0, 1, 0, 0, 0, codec.None)
	return util.AppendFixed32(file, util.MaskCRC(util.CRC32C(file[h.Offset:]))), h
}

// checkTable checks a table whose metaindex has that entry; the properties that it may list are the file's beginning.
func checkTable(t *testing.T, file []byte, key string, value []byte) error {
	file, meta := appendBlock(slices.Clone(file), key, value)
	fsys := vfs.NewMem()
	fixture.WriteFile(t, fsys, "t", codec.Footer{Metaindex: meta, Index: meta}.Append(file))
	f, err := fsys.Open("t")
	require.NoError(t, err)
	defer f.Close()
	return foreign.CheckTable(f, "t", base.Bytewise.Name)
}

func TestForeignPartsOfATableAreFound(t *testing.T) {
	other, handle := appendBlock(nil, "rocksdb.other", nil)
	for key, want := range map[string]string{
		"filter.sievedb.properties": "",
		"rocksdb.range_del":         "deletions of ranges",
		"rocksdb.range_del2":        "deletions of ranges",
		"pebble.range_key":          "keys of ranges",
		"rocksdb.other":             "",
		"rocksdb.properties":        "", // without the name of a comparer
	} {
		if err := checkTable(t, other, key, handle.Append(nil)); want != "" {
			require.ErrorContains(t, err, want)
		} else {
			require.NoError(t, err, key)
		}
	}
}

func TestTheComparerOfForeignPropertiesIsCompared(t *testing.T) {
	for name, want := range map[string]string{
		base.Bytewise.Name: "",
		"another":          `its keys are in the order of comparer "another"; want "leveldb.BytewiseComparator"`,
	} {
		file, h := appendBlock(nil, "rocksdb.comparator", []byte(name))
		check := func(value []byte) error { return checkTable(t, file, "rocksdb.properties", value) }
		if err := check(h.Append(nil)); want == "" {
			require.NoError(t, err)
		} else {
			require.EqualError(t, err, want)
		}
		require.ErrorIs(t, check(codec.Handle{Offset: 1 << 30, Size: h.Size}.Append(nil)), base.ErrCorruption, "the properties are not in the file")
		require.ErrorIs(t, check(codec.Handle{Offset: 1, Size: h.Size}.Append(nil)), base.ErrCorruption, "no block")
		require.ErrorIs(t, check(nil), base.ErrCorruption, "no handle")
	}
	f, err := vfs.NewMem().Create("t")
	require.NoError(t, err)
	require.ErrorIs(t, foreign.CheckTable(f, "t", ""), base.ErrCorruption, "no footer")
}
