package sstable

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
)

func TestForeignPartsOfATableAreFound(t *testing.T) {
	data := buildTable(t, WriterOptions{}, plainEntries(50, 20))
	r, _ := openTable(t, data, ReaderOptions{})
	require.NoError(t, r.CheckForeign())
	for key, want := range map[string]string{
		"rocksdb.range_del":  "deletions of ranges",
		"rocksdb.range_del2": "deletions of ranges",
		"pebble.range_key":   "keys of ranges",
		"rocksdb.other":      "",
		"rocksdb.properties": "", // without the name of a comparer
	} {
		foreign, _ := withMetaindex(t, data, func(string) string { return key })
		r, _ := openTable(t, foreign, ReaderOptions{})
		if err := r.CheckForeign(); want != "" {
			require.ErrorContains(t, err, want)
		} else {
			require.NoError(t, err, key)
		}
	}
	require.NoError(t, r.Close())
	require.ErrorIs(t, r.CheckForeign(), ErrReaderClosed)
}

func TestTheComparerOfForeignPropertiesIsCompared(t *testing.T) {
	foreign, _ := withMetaindex(t, buildTable(t, WriterOptions{}, plainEntries(50, 20)), func(string) string { return foreignProperties })
	for _, name := range []string{base.Bytewise.Name, "another"} {
		r, file := openTable(t, foreign, ReaderOptions{})
		properties, meta := blockWriter{interval: 1}, metaEntries{}
		properties.add([]byte(comparerProperty), []byte(name))
		add := func(block []byte) (h handle) {
			file.data, h = appendStored(file.data, block, NoCompression)
			return h
		}
		h := add(properties.finish())
		meta[foreignProperties] = h.Append(nil)
		r.foot.Metaindex, r.limit = add(meta.block()), uint64(len(file.data))
		err := r.CheckForeign()
		if name == base.Bytewise.Name {
			require.NoError(t, err)
		} else {
			require.EqualError(t, err, `its keys are in the order of comparer "another"; want "leveldb.BytewiseComparator"`)
		}
		r.limit = h.Offset
		require.ErrorIs(t, r.CheckForeign(), base.ErrCorruption, "the properties are not in the file")
		meta[foreignProperties] = nil
		r.foot.Metaindex, r.limit = add(meta.block()), uint64(len(file.data))
		require.ErrorIs(t, r.CheckForeign(), base.ErrCorruption, "no handle")
	}
}
