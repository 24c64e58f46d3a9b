package sstable

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/util"
)

// laidOut writes a table with one data block for each entry, with a filter, and with the
// index entries that list returns.
func laidOut(t *testing.T, es entries, kind Compression, list func(blocks []handle) []handle) []byte {
	t.Helper()
	return tableByHand(t, WriterOptions{Filter: bloom}, func(w *Writer) {
		var blocks []handle
		for _, e := range es {
			h := result.Of(w.writeBlock(buildBlock(16, entries{e}), kind))(t)
			blocks = append(blocks, h)
			w.addToFilters(base.UserKey(e.Key))
		}
		for i, h := range list(blocks) {
			key := ikey(fmt.Sprintf("%s%04d", base.UserKey(es[min(i, len(es)-1)].Key), i), 1, base.KindSet)
			w.index.add(key, h.Append(nil))
		}
	})
}

// Handles of an index could repeat, overlap and go backward. If one listed a block of 63 MiB,
// compressed to 2 KiB, a thousand times, an iterator was busy for minutes.
func TestAnIndexMustListEachByteOnce(t *testing.T) {
	es := plainEntries(3, 20)
	listed := func(numbers ...int) func([]handle) []handle {
		return func(blocks []handle) (list []handle) {
			for _, n := range numbers {
				list = append(list, blocks[n])
			}
			return list
		}
	}
	whole := func(b []handle) handle {
		return handle{Offset: b[0].Offset, Size: b[2].Offset + b[2].Size - b[0].Offset}
	}
	for name, list := range map[string]func([]handle) []handle{
		"a block twice":                   listed(0, 0),
		"a block twice, not adjacent":     listed(0, 1, 0),
		"blocks backward":                 listed(1, 0),
		"a block within the previous one": func(b []handle) []handle { return []handle{whole(b), b[1]} },
		"a block that begins in the last trailer": func(b []handle) []handle {
			return []handle{b[0], {Offset: b[0].Offset + b[0].Size + 4, Size: b[1].Size}}
		},
		"a block within the next one": func(b []handle) []handle { return []handle{b[1], whole(b)} },
		"empty handles at one place":  func(b []handle) []handle { return []handle{{Offset: 0, Size: 0}, {Offset: 0, Size: 0}} },
	} {
		t.Run(name, func(t *testing.T) {
			data := laidOut(t, es, NoCompression, list)
			r, _ := openTable(t, data, ReaderOptions{Policies: []filter.Policy{bloom}})
			_, err := r.NewIter(IterOptions{})
			require.ErrorIs(t, err, base.ErrCorruption)
			require.ErrorContains(t, err, "index block")
			require.ErrorIs(t, result.Err(get(r, string(base.UserKey(es[0].Key)), base.MaxSeq)), base.ErrCorruption)
		})
	}
	t.Run("a block of 63 MiB a thousand times", func(t *testing.T) {
		bomb := entries{{Key: es[0].Key, Value: make([]byte, 63<<20)}}
		data := laidOut(t, bomb, Zstd, func(b []handle) []handle { return repeated(b[0], 1000) })
		require.Less(t, len(data), 64<<10)
		r, _ := openTable(t, data, ReaderOptions{})
		require.ErrorIs(t, result.Err(r.NewIter(IterOptions{})), base.ErrCorruption)
	})
	t.Run("in order, with bytes between", func(t *testing.T) {
		r, _ := openTable(t, laidOut(t, es, NoCompression, listed(0, 2)), ReaderOptions{})
		it := newIter(t, r, IterOptions{})
		require.NoError(t, it.Close())
	})
}

func repeated(h handle, times int) (list []handle) {
	for range times {
		list = append(list, h)
	}
	return list
}

// Filters, properties, metaindex and index that are listed as data blocks, or data blocks that
// are listed as one of them, would be read as something else.
func TestDataBlocksMustPrecedeOtherBlocks(t *testing.T) {
	es := plainEntries(3, 20)
	sound := laidOut(t, es, NoCompression, func(b []handle) []handle { return b })
	r, _ := openTable(t, sound, ReaderOptions{Policies: []filter.Policy{bloom}})
	m := result.Of(r.readMetaindex())(t)
	others := map[string]handle{
		"the filter": m.filters[bloom.Name()], "the properties": r.meta.properties, "the metaindex": r.foot.Metaindex,
		"from the filter to the properties": {Offset: m.filters[bloom.Name()].Offset, Size: r.meta.properties.End() - m.filters[bloom.Name()].Offset - blockTrailerLen},
	}
	for name, h := range others {
		t.Run(name, func(t *testing.T) {
			data := laidOut(t, es, NoCompression, func(b []handle) []handle { return append(b, h) })
			r, _ := openTable(t, data, ReaderOptions{Policies: []filter.Policy{bloom}})
			require.ErrorContains(t, result.Err(r.LoadIndex()), "its data blocks end at offset")
			require.ErrorIs(t, result.Err(r.LoadIndex()), base.ErrCorruption)
		})
	}
	t.Run("a footer whose index is the first data block's place", func(t *testing.T) {
		foot := footer{Metaindex: r.foot.Metaindex, Index: handle{Offset: 0, Size: r.foot.Index.Size}}
		data := foot.Append(bytes.Clone(sound[:len(sound)-footerLen]))
		stored := sound[r.foot.Index.Offset:r.foot.Index.End()]
		copy(data, stored)
		r, _ := openTable(t, data, ReaderOptions{})
		require.ErrorContains(t, result.Err(r.LoadIndex()), "its data blocks end at offset")
	})
}

// Names in a metaindex that share a long prefix were each copied completely. A compressed
// block of a few kilobytes could use hours and all memory.
func TestMetaindexNamesAreBounded(t *testing.T) {
	long := append([]byte(filterKeyPrefix), make([]byte, 60<<10)...)
	for name, c := range map[string]struct{ before, want string }{
		"of filters": {"", "bytes of names"}, "that are unknown": {"x", "expand too far"},
	} {
		t.Run(name, func(t *testing.T) {
			key := append([]byte(c.before), long...)
			value := handle{}.Append(nil)
			raw := util.AppendUvarint32(util.AppendUvarint32(util.AppendUvarint32(nil, 0), uint32(len(key))), uint32(len(value)))
			raw = append(append(raw, key...), value...)
			for range 200_000 {
				raw = util.AppendUvarint32(raw, uint32(len(key)))
				raw = append(raw, 0, byte(len(value)))
				raw = append(raw, value...)
			}
			raw = util.AppendFixed32(util.AppendFixed32(raw, 0), 1)
			require.ErrorContains(t, result.Err(decodeMetaindex(raw)), c.want)
		})
	}
}
