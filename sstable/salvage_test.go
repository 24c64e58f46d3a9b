package sstable

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/test/damage"
	"github.com/sievedb/sievedb/internal/test/itertest"
	"github.com/sievedb/sievedb/internal/test/result"
)

func salvageAll(t testing.TB, data []byte, o ReaderOptions) (entries, SalvageReport) {
	t.Helper()
	var got entries
	rep, err := Salvage(&memFile{data: data}, o, func(ikey, value []byte) error {
		got = append(got, itertest.Entry{Key: bytes.Clone(ikey), Value: bytes.Clone(value)})
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, uint64(len(got)), rep.Entries)
	return got, rep
}

// blocksOf returns the handles of a sound table's data blocks.
func blocksOf(t testing.TB, data []byte) (*Reader, []handle) {
	t.Helper()
	r, _ := openTable(t, data, ReaderOptions{})
	ix, _, err := r.loadIndex()
	require.NoError(t, err)
	handles := make([]handle, ix.Len())
	for i := range handles {
		handles[i] = ix.Handle(i)
	}
	return r, handles
}

// withoutBlock returns the entries except those of block i.
func withoutBlock(t testing.TB, r *Reader, i int) entries {
	t.Helper()
	var want entries
	for j := range r.index.Load().Len() {
		if j == i {
			continue
		}
		b := result.Of(r.readData(r.index.Load(), j))(t)
		var it blockIter
		it.init(r.cmp, b, dataPart)
		for ok := it.First(); ok; ok = it.Next() {
			want = append(want, itertest.Entry{Key: bytes.Clone(it.Key()), Value: bytes.Clone(it.Value())})
		}
	}
	return want
}

var salvageKinds = []struct {
	name  string
	write WriterOptions
	read  ReaderOptions
}{
	{"raw", WriterOptions{BlockSize: 300}, ReaderOptions{}},
	{"Snappy and a filter", WriterOptions{BlockSize: 300, Compression: Snappy, Filter: filter.NewBloomPolicy(10)},
		ReaderOptions{Policies: []filter.Policy{filter.NewBloomPolicy(10)}}},
	{"Zstandard in another order", WriterOptions{BlockSize: 300, Compression: Zstd, Comparer: reverseOrder},
		ReaderOptions{Comparer: reverseOrder}},
}

func TestSalvageContinuesAfterADamagedBlock(t *testing.T) {
	for _, k := range salvageKinds[:2] {
		t.Run(k.name, func(t *testing.T) {
			data := buildTable(t, k.write, plainEntries(400, 20))
			r, handles := blocksOf(t, data)
			for _, i := range []int{0, 1, len(handles) / 2, len(handles) - 1} {
				bad := bytes.Clone(data)
				bad[handles[i].Offset+handles[i].Size/2] ^= 0x20
				got, rep := salvageAll(t, bad, k.read)
				require.Equal(t, withoutBlock(t, r, i), got)
				require.ErrorIs(t, rep.Err, base.ErrCorruption)
				require.Equal(t, uint64(1), rep.BlocksLost)
				require.Equal(t, handles[i].Size+blockTrailerLen, rep.BytesLost)
				require.False(t, rep.IndexLost)
			}
		})
	}
}

func TestSalvageFindsAllEntriesAlsoWithoutAnIndex(t *testing.T) {
	rnd := newRand(t)
	for _, k := range salvageKinds {
		t.Run(k.name, func(t *testing.T) {
			cmp := k.write.Comparer
			if cmp == nil {
				cmp = base.Bytewise
			}
			es := trickyEntries(rnd, cmp, 800)
			data := buildTable(t, k.write, es)
			r, _ := openTable(t, data, ReaderOptions{Comparer: cmp})
			index := r.foot.Index

			got, rep := salvageAll(t, data, k.read)
			require.NoError(t, rep.Err)
			require.Equal(t, es, got)
			require.Greater(t, rep.Blocks, uint64(10))
			require.Zero(t, rep.BlocksLost)

			bad := bytes.Clone(data)
			bad[index.Offset] ^= 1
			got, rep = salvageAll(t, bad, k.read)
			require.Equal(t, es, got, "index damaged")
			require.True(t, rep.IndexLost)
			require.ErrorIs(t, rep.Err, base.ErrCorruption)

			got, rep = salvageAll(t, data[:len(data)-1], k.read)
			require.Equal(t, es, got, "footer cut")
			require.True(t, rep.IndexLost)

			got, rep = salvageAll(t, append(bytes.Clone(data[:index.Offset]), make([]byte, 4096)...), k.read)
			require.Equal(t, es, got, "zeros from the index on")
			require.True(t, rep.IndexLost)
		})
	}
}

func TestSalvageOfATruncatedTableReturnsItsWholeBlocks(t *testing.T) {
	data := buildTable(t, WriterOptions{BlockSize: 300}, plainEntries(100, 20))
	r, handles := blocksOf(t, data)
	all := withoutBlock(t, r, -1)
	for n := range data {
		got, rep := salvageAll(t, data[:n], ReaderOptions{})
		whole := uint64(0)
		for _, h := range handles {
			if h.End() <= uint64(n) {
				whole++
			}
		}
		require.Equal(t, whole, rep.Blocks, "cut at %d", n)
		require.Equal(t, all[:len(got)], append(entries{}, got...))
		require.ErrorIs(t, rep.Err, base.ErrCorruption)
		require.True(t, whole == uint64(len(handles)) || len(rep.Gaps) > 0, "cut at %d", n)
	}
}

// The blocks of RocksDB's tables can have the same checksums, and keys that mean something else.
func TestSalvageReadsNothingOfAnotherEnginesTable(t *testing.T) {
	file := buildTable(t, WriterOptions{}, plainEntries(100, 10))
	binary.LittleEndian.PutUint64(file[len(file)-8:], 0x88e241b785f4cff7)
	got, rep := salvageAll(t, file, ReaderOptions{})
	require.Empty(t, got)
	require.ErrorIs(t, rep.Err, base.ErrForeign)
	require.Zero(t, rep.Blocks)
}

// If the index is lost, an index block must not be read as data: its keys were never written.
func TestSalvageNeverReadsAnIndexAsData(t *testing.T) {
	for _, n := range []int{1, 3, 40} {
		es := plainEntries(n, 20)
		data := buildTable(t, WriterOptions{BlockSize: 100}, es)
		got, rep := salvageAll(t, data[:len(data)-footerLen], ReaderOptions{})
		require.Equal(t, es, got)
		require.True(t, rep.IndexLost)

		// LevelDB writes an empty metaindex if there is no filter.
		r, handles := blocksOf(t, data)
		end := handles[len(handles)-1].End()
		var w Writer
		meta := blockWriter{interval: 1}
		result.Of(w.writeBlock(meta.finish(), NoCompression))(t)
		foreign := append(append(bytes.Clone(data[:end]), w.out...), data[r.foot.Index.Offset:len(data)-footerLen]...)
		got, _ = salvageAll(t, foreign, ReaderOptions{})
		require.Equal(t, es, got)
	}
}

func TestSalvageFindsFaultsThatMisleadLookups(t *testing.T) {
	bloom := filter.NewBloomPolicy(10)
	es := plainEntries(60, 20)
	t.Run("a filter that denies a key", func(t *testing.T) {
		data := buildTable(t, WriterOptions{Filter: unchecked(constPolicy{})}, es)
		got, rep := salvageAll(t, data, ReaderOptions{Policies: []filter.Policy{constPolicy{answer: false}}})
		require.ErrorContains(t, rep.Err, `the filter "test.Const" denies`)
		require.Equal(t, es, got)
	})
	t.Run("a damaged filter", func(t *testing.T) {
		data := buildTable(t, WriterOptions{Filter: bloom}, es)
		r, _ := openTable(t, data, ReaderOptions{})
		m := make([]byte, r.foot.Metaindex.Size+blockTrailerLen)
		require.NoError(t, r.readAt(m, r.foot.Metaindex.Offset, "metaindex"))
		meta := result.Of(decodeMetaindex(m[:r.foot.Metaindex.Size]))(t)
		bad := bytes.Clone(data)
		bad[meta.filters[bloom.Name()].Offset] ^= 1
		got, rep := salvageAll(t, bad, ReaderOptions{Policies: []filter.Policy{bloom}})
		require.ErrorIs(t, rep.Err, base.ErrCorruption)
		require.Zero(t, rep.BlocksLost)
		require.Equal(t, es, got)
	})
	t.Run("entries out of order", func(t *testing.T) {
		data := tableOfBlocks(t, [][]int{{4, 5}, {1, 2}}, []int{5, 5}, es)
		got, rep := salvageAll(t, data, ReaderOptions{})
		require.ErrorContains(t, rep.Err, "does not sort after the previous one")
		require.Len(t, got, 4)
	})
	t.Run("a separator before the last entry", func(t *testing.T) {
		data := tableOfBlocks(t, [][]int{{1, 2}, {3, 4}}, []int{1, 4}, es)
		got, rep := salvageAll(t, data, ReaderOptions{})
		require.ErrorContains(t, rep.Err, "after its separator")
		require.Len(t, got, 4)
	})
	t.Run("a separator after the next entry", func(t *testing.T) {
		data := tableOfBlocks(t, [][]int{{1, 2}, {3, 4}}, []int{3, 4}, es)
		got, rep := salvageAll(t, data, ReaderOptions{})
		require.ErrorContains(t, rep.Err, "separator of the previous block")
		require.Len(t, got, 4)
	})
}

// tableOfBlocks makes a table whose data blocks hold the entries with those
// numbers, and whose index has the keys of those entries as separators.
func tableOfBlocks(t *testing.T, blocks [][]int, separators []int, es entries) []byte {
	t.Helper()
	contents, keys := make([]entries, len(blocks)), make([][]byte, len(separators))
	for i, numbers := range blocks {
		for _, n := range numbers {
			contents[i] = append(contents[i], es[n])
		}
		keys[i] = es[separators[i]].Key
	}
	return tableOf(t, contents, keys)
}

// tableOf makes a table with these data blocks and separators.
func tableOf(t *testing.T, blocks []entries, separators [][]byte) []byte {
	t.Helper()
	return tableByHand(t, WriterOptions{}, func(w *Writer) {
		for i, es := range blocks {
			listBlock(t, w, buildBlock(16, es), NoCompression, separators[i])
		}
	})
}

// versionsOf returns an entry without a value for each user key.
func versionsOf(users ...string) (es entries) {
	for _, user := range users {
		es = append(es, itertest.Entry{Key: ikey(user, 1, base.KindSet)})
	}
	return es
}

func TestSalvageReadsABlockListedTwiceOnce(t *testing.T) {
	data := laidOut(t, plainEntries(1, 20), NoCompression, func(b []handle) []handle { return repeated(b[0], 2) })
	got, rep := salvageAll(t, data, ReaderOptions{})
	require.Len(t, got, 1)
	require.ErrorContains(t, rep.Err, "data block 1 begins at offset 0")
}

// Salvage, and with it Repair, found no fault in a table whose mark of the first and last key
// is that of another table, although Open rejects it.
func TestSalvageChecksTheMarkOfTheFirstAndLastKey(t *testing.T) {
	es := plainEntries(60, 20)
	for name, change := range map[string]func(w *Writer){
		"the first key": func(w *Writer) { w.smallest = es[1].Key },
		"the last key":  func(w *Writer) { w.lastKey = es[1].Key },
		"none":          func(*Writer) {},
	} {
		t.Run(name, func(t *testing.T) {
			file := tableByHand(t, WriterOptions{Filter: bloom}, func(w *Writer) {
				addAll(t, w, es)
				endData(t, w)
				change(w)
			})
			_, refused := Open(&memFile{data: file}, ReaderOptions{Smallest: es[0].Key, Largest: es[59].Key})
			got, rep := salvageAll(t, file, ReaderOptions{})
			require.Equal(t, es, got)
			require.Equal(t, refused, rep.Err)
			require.Equal(t, name == "none", refused == nil)
		})
	}
}

// One long key that a million entries share fits in a small block and expands to more than any machine could copy.
func TestSalvageBoundsRebuiltKeys(t *testing.T) {
	var raw []byte
	key := ikey(string(bytes.Repeat([]byte{'k'}, 1<<20)), 1, base.KindSet)
	raw = append(raw, 0)
	raw = append(raw, 0x88, 0x80, 0x40, 0) // 1 MiB and 8 bytes, no value
	raw = append(raw, key...)
	for range 1 << 15 {
		raw = append(raw, 0x88, 0x80, 0x40, 0, 0) // shares all of it
	}
	raw = append(raw, 0, 0, 0, 0, 1, 0, 0, 0)
	file := tableByHand(t, WriterOptions{Compression: Snappy}, func(w *Writer) {
		listBlock(t, w, raw, Snappy, key)
		require.Less(t, w.Size(), uint64(100<<10))
	})
	n := 0
	rep := result.Of(Salvage(&memFile{data: file}, ReaderOptions{}, func(_, _ []byte) error { n++; return nil }))(t)
	require.Less(t, n, 300)
	require.ErrorIs(t, rep.Err, base.ErrCorruption)
}

func TestSalvageReturnsErrorsOfReadingAndOfItsCaller(t *testing.T) {
	data := buildTable(t, WriterOptions{BlockSize: 300}, plainEntries(100, 20))
	broken := errors.New("a disk is broken")
	_, err := Salvage(&memFile{data: data, readErr: broken}, ReaderOptions{}, func(_, _ []byte) error { return nil })
	require.ErrorIs(t, err, broken)
	enough := errors.New("enough")
	_, err = Salvage(&memFile{data: data}, ReaderOptions{}, func(_, _ []byte) error { return enough })
	require.ErrorIs(t, err, enough)
}

func FuzzSalvage(f *testing.F) {
	for _, k := range salvageKinds[:2] {
		data := buildTable(f, k.write, plainEntries(30, 10))
		f.Add(data)
		f.Add(data[:len(data)-9])
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		defer damage.Watch("a salvage")()
		var prev []byte
		var entries int
		rep, err := Salvage(&memFile{data: data}, ReaderOptions{Policies: []filter.Policy{filter.NewBloomPolicy(10)}}, func(ikey, _ []byte) error {
			require.True(t, base.ValidInternalKey(ikey))
			prev = append(prev[:0], ikey...)
			entries++
			return nil
		})
		require.NoError(t, err)
		require.Equal(t, uint64(entries), rep.Entries)
		if rep.Err == nil {
			// A Reader reads the same entries from a sound table.
			r := result.Of(Open(&memFile{data: data}, ReaderOptions{}))(t)
			it := newIter(t, r, IterOptions{})
			n := 0
			for ok := it.First(); ok; ok = it.Next() {
				n++
			}
			require.NoError(t, it.Close())
			require.Equal(t, entries, n)
			require.NoError(t, r.Close())
		}
	})
}

func TestSalvageOfMalformedTablesWithGoodChecksums(t *testing.T) {
	rnd := newRand(t)
	data := buildTable(t, WriterOptions{Filter: filter.NewBloomPolicy(10), BlockSize: 200, BlockRestartInterval: 4}, plainEntries(60, 20))
	forge := result.Of(damage.NewForge(data))(t)
	for range 1500 {
		bad, changed := forge.Build(rnd, forge.Sites())
		n := 0
		stop := damage.Watch(fmt.Sprintf("salvage of a table: %q", changed))
		before := damage.Allocated()
		rep, err := Salvage(&memFile{data: bad}, ReaderOptions{Policies: []filter.Policy{filter.NewBloomPolicy(10)}}, func(ikey, _ []byte) error {
			require.True(t, base.ValidInternalKey(ikey))
			n++
			return nil
		})
		require.NoError(t, err, "%q", changed)
		stop()
		require.LessOrEqual(t, damage.Allocated()-before, damage.MemoryBound(len(bad)), "%q", changed)
		require.Equal(t, uint64(n), rep.Entries)
	}
}
