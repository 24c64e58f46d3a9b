package sstable

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/golang/snappy"
	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/codec"
	"github.com/sievedb/sievedb/internal/test/damage"
	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/util"
)

// smallTable has every part of the format, in few bytes.
func smallTable(t testing.TB) (entries, []byte) {
	es := entries{
		{Key: ikey("", 3, base.KindSet), Value: []byte("empty key")},
		{Key: ikey("apple", 9, base.KindSet), Value: bytes.Repeat([]byte("red "), 30)},
		{Key: ikey("apple", 7, base.KindDelete)},
		{Key: ikey("apricot", 5, base.KindSet), Value: nil},
		{Key: ikey("banana", 1, base.KindSet), Value: []byte("yellow")},
		{Key: ikey("cherry", 2, base.KindSet), Value: []byte("dark")},
	}
	return es, buildTable(t, WriterOptions{Filter: bloom, BlockSize: 64, BlockRestartInterval: 2, Compression: Snappy}, es)
}

// checkDamaged reads a table with damaged bytes: each result must be correct, or an error that is corruption.
func checkDamaged(t *testing.T, es entries, data []byte, what string) (refused bool) {
	t.Helper()
	rep := readMalformed(data, es)
	require.Empty(t, rep.panicked, what)
	require.Empty(t, rep.problems, what)
	require.False(t, rep.changed || rep.newProperties, "%s: it was read with other contents, and without an error", what)
	return rep.refused
}

func TestEveryBitFlipIsDetectedOrHarmless(t *testing.T) {
	es, data := smallTable(t)
	require.False(t, checkDamaged(t, es, data, "as written"))
	harmless := 0
	for i := range data {
		for bit := range 8 {
			damaged := bytes.Clone(data)
			damaged[i] ^= 1 << bit
			if !checkDamaged(t, es, damaged, fmt.Sprintf("byte %d bit %d", i, bit)) {
				harmless++
			}
		}
	}
	// The filter, the properties, the metaindex and the footer's padding.
	require.Less(t, harmless, 8*len(data)*2/3)
}

func TestEveryTruncationIsDetected(t *testing.T) {
	es, data := smallTable(t)
	for n := range data {
		require.True(t, checkDamaged(t, es, data[:n], fmt.Sprintf("cut to %d bytes", n)))
	}
}

func TestADamagedFilterRulesNothingOut(t *testing.T) {
	es := plainEntries(500, 50)
	data := buildTable(t, WriterOptions{Filter: bloom}, es)
	start := dataEnd(t, data) // the filter block follows the data
	data[start+20] ^= 0x10
	r, _ := openTable(t, data, ReaderOptions{Policies: []filter.Policy{bloom}, Cache: newCache()})
	st := r.FilterStatus()
	require.Equal(t, FilterDamaged, st.State)
	require.Equal(t, bloom.Name(), st.Policy)
	require.ErrorIs(t, st.Err, base.ErrCorruption)
	require.Contains(t, st.Err.Error(), "filter block at offset")
	for _, e := range es {
		checkGet(t, r, base.Bytewise, es, base.UserKey(e.Key), base.MaxSeq)
	}
}

// finishWith returns a table of es with any filter block.
func finishWith(t testing.TB, es entries, blockSize int, filterBlock []byte) []byte {
	fill := func(w *Writer) { addAll(t, w, es); endData(t, w) }
	return tableByHand(t, WriterOptions{BlockSize: blockSize}, fill, namedFilter{bloom.Name(), filterBlock})
}

func TestHostileFilterBlocksHideNothing(t *testing.T) {
	es := plainEntries(200, 50)
	var keys [][]byte
	for _, e := range es {
		keys = append(keys, base.UserKey(e.Key))
	}
	good := bloom.CreateFilter(nil, keys)
	envelope := func(f []byte, offsets []uint32, arrayStart uint32, baseLg byte) []byte {
		b := bytes.Clone(f)
		for _, o := range append(offsets, arrayStart) {
			b = util.AppendFixed32(b, o)
		}
		return append(b, baseLg)
	}
	n := uint32(len(good))
	for _, c := range []struct {
		name  string
		block []byte
		state FilterState
	}{
		{"sound", envelope(good, []uint32{0}, n, 20), FilterWholeTable},
		{"empty block", []byte{}, FilterDamaged},
		{"four bytes", []byte{0, 0, 0, 0}, FilterDamaged},
		{"array beyond the block", envelope(good, []uint32{0}, n+100, 20), FilterDamaged},
		{"array at 2^32-1", envelope(good, []uint32{0}, math.MaxUint32, 20), FilterDamaged},
		{"array of a fractional number of offsets", envelope(good, []uint32{0}, n+1, 20), FilterDamaged},
		{"no filters", envelope(nil, nil, 0, 20), FilterDamaged},
		{"a filter beyond the array", envelope(good, []uint32{n + 9}, n, 20), FilterDamaged},
		{"an empty filter for the table", envelope(good, []uint32{n}, n, 20), FilterDamaged},
		{"base_lg that shifts nothing away", envelope(good, []uint32{0}, n, 0), FilterPerBlock},
		{"base_lg 63", envelope(good, []uint32{0}, n, 63), FilterWholeTable},
		{"base_lg 64", envelope(good, []uint32{0}, n, 64), FilterDamaged},
		{"base_lg 255", envelope(good, []uint32{0}, n, 255), FilterDamaged},
		{"descending offsets", envelope(good, []uint32{9, 3, 0}, n, 1), FilterDamaged},
		{"empty filters for ranges with blocks", envelope(good, []uint32{0, n, n, n, n, n, n, n, n}, n, 11), FilterPerBlock},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, _ := openTable(t, finishWith(t, es, 512, c.block), ReaderOptions{Policies: []filter.Policy{bloom}, Cache: newCache()})
			require.Equal(t, c.state, r.FilterStatus().State)
			for _, e := range es {
				checkGet(t, r, base.Bytewise, es, base.UserKey(e.Key), base.MaxSeq)
			}
		})
	}
}

// rawTable is a table of one data block as it is stored, with good checksums throughout.
func rawTable(t testing.TB, kind Compression, stored []byte) []byte {
	return tableByHand(t, WriterOptions{}, func(w *Writer) {
		var h handle
		w.out, h = appendStored(nil, stored, kind)
		w.index.add(ikey("z", 1, base.KindSet), h.Append(nil))
	})
}

func TestHostileDataBlocksAreRejected(t *testing.T) {
	sound := buildBlock(2, plainEntries(5, 10))
	bomb := util.AppendUvarint32(nil, 1<<31-1)
	for _, c := range []struct {
		name  string
		kind  Compression
		block []byte
		want  string
	}{
		{"Snappy that claims 2 GiB", Snappy, append(bomb, sound...), "want at most"},
		{"Snappy that claims more than its bytes can decode to", Snappy, append(util.AppendUvarint32(nil, 5000), 1, 2, 3), "want at most"},
		{"Snappy without a length", Snappy, bytes.Repeat([]byte{0xff}, 20), "Snappy"},
		{"Snappy of nonsense", Snappy, append([]byte{50}, sound...), "Snappy cannot decode"},
		{"Zstandard of nonsense", Zstd, sound, "a Zstandard frame"},
		{"Zstandard that claims 1 TiB", Zstd, []byte("\x28\xb5\x2f\xfd\xe0\x00\x00\x00\x00\x00\x01\x00\x00\x01\x00\x00"), "want at most"},
		{"Zstandard that claims too much", Zstd, []byte("\x28\xb5\x2f\xfd\x20\x09\x41\x00\x00abcdefgh"), "Zstandard cannot decode"},
		{"zlib of nonsense", zlibKind, append([]byte{0x78, 0x9c}, sound...), "zlib cannot decode"},
		{"deflate of nonsense", deflateKind, bytes.Repeat([]byte{0xff}, 40), "deflate cannot decode"},
		{"deflate of nothing", deflateKind, nil, "deflate cannot decode"},
		{"no block", NoCompression, []byte{1}, "want 4 to"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, _ := openTable(t, rawTable(t, c.kind, c.block), ReaderOptions{Cache: newCache(), Name: "000003.ldb"})
			_, err := get(r, "key00000000", base.MaxSeq)
			require.ErrorIs(t, err, base.ErrCorruption)
			require.ErrorContains(t, err, "000003.ldb")
			require.ErrorContains(t, err, "data block at offset 0")
			require.ErrorContains(t, err, c.want)
		})
	}
}

func TestHostileIndexesAreRejected(t *testing.T) {
	sound := handle{Offset: 0, Size: 100}.Append(nil)
	build := func(interval int, es ...[]byte) []byte {
		w := blockWriter{interval: interval}
		for i := 0; i < len(es); i += 2 {
			w.add(es[i], es[i+1])
		}
		return w.finish()
	}
	a, b := ikey("a", 1, base.KindSet), ikey("b", 1, base.KindSet)
	result.Of(decodeIndex(build(1, a, sound, b, handle{Offset: 105, Size: 100}.Append(nil)), base.Bytewise, 1000))(t)
	for _, c := range []struct {
		name string
		data []byte
	}{
		{"separators that descend", build(1, b, sound, a, sound)},
		{"a separator without a trailer", build(1, []byte("abc"), sound)},
		{"a handle beyond the file", build(1, a, handle{Offset: 900, Size: 100}.Append(nil))},
		{"a handle that overflows 64 bits", build(1, a, handle{Offset: math.MaxUint64 - 50, Size: 100}.Append(nil))},
		{"a size of 2^64-1", build(1, a, handle{Offset: 0, Size: math.MaxUint64}.Append(nil))},
		{"half a handle", build(1, a, []byte{0x80})},
		{"more blocks than the file can hold", func() []byte {
			w := blockWriter{interval: 16}
			for i := range 200 {
				w.add(base.AppendInternalKey(nil, []byte("same"), uint64(1000-i), base.KindSet), sound)
			}
			return w.finish()
		}()},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.ErrorIs(t, result.Err(decodeIndex(c.data, base.Bytewise, 1000)), base.ErrCorruption)
		})
	}
	t.Run("separators that multiply", func(t *testing.T) {
		w := blockWriter{interval: 1 << 20}
		long := bytes.Repeat([]byte("x"), 64<<10)
		for i := range 1000 {
			w.add(base.AppendInternalKey(long[:len(long):len(long)], nil, uint64(1000-i), base.KindSet), sound)
		}
		require.ErrorContains(t, result.Err(decodeIndex(w.finish(), base.Bytewise, 1<<40)), "expand")
	})
}

func TestReadErrorsAreReportedAndNotRemembered(t *testing.T) {
	es := plainEntries(100, 50)
	data := buildTable(t, WriterOptions{Filter: bloom}, es)
	r, f := openInPieces(t, data, ReaderOptions{Policies: []filter.Policy{bloom}, Cache: newCache()})
	broken := errors.New("EIO")
	f.readErr = broken
	user := string(base.UserKey(es[50].Key))
	_, err := get(r, user, base.MaxSeq)
	require.ErrorIs(t, err, broken)
	require.NotErrorIs(t, err, base.ErrCorruption)
	require.ErrorIs(t, result.Err(r.NewIter(IterOptions{})), broken)
	f.readErr = nil
	checkGet(t, r, base.Bytewise, es, []byte(user), base.MaxSeq)

	require.ErrorIs(t, result.Err(Open(&memFile{data: data, readErr: broken}, ReaderOptions{})), broken)
}

// sealBlocks corrects the checksums of a mutated table, so that the checks after them are tested.
func sealBlocks(data []byte, hs []handle) {
	for _, h := range hs {
		end := h.Offset + h.Size + 1
		util.PutFixed32(data[end:], util.MaskCRC(util.CRC32C(data[h.Offset:end])))
	}
}

// tableBlocks returns the handles of all blocks of a sound table.
func tableBlocks(t testing.TB, data []byte) []handle {
	r, _ := openTable(t, data, ReaderOptions{Policies: []filter.Policy{bloom}})
	ix, _, err := r.loadIndex()
	require.NoError(t, err)
	hs := []handle{r.foot.Index, r.foot.Metaindex, r.meta.properties}
	for i := range ix.Len() {
		hs = append(hs, ix.Handle(i))
	}
	end := ix.End()
	return append(hs, handle{Offset: end, Size: uint64(len(r.filter.data))})
}

func FuzzTable(f *testing.F) {
	es, sound := smallTable(f)
	hs := tableBlocks(f, sound)
	f.Add(sound, false)
	f.Add(sound, true)
	f.Add(buildTable(f, WriterOptions{}, nil), false)
	f.Add(buildTable(f, WriterOptions{Compression: Zstd}, plainEntries(300, 100)), false)
	f.Add(tableWithMark(f, plainEntries(4, 20), 1), false)
	f.Fuzz(func(t *testing.T, data []byte, seal bool) {
		defer damage.Watch("a forged table")()
		if seal && len(data) == len(sound) {
			sealBlocks(data, hs)
		}
		rep := readMalformed(data, es)
		require.Empty(t, rep.panicked)
		require.Empty(t, rep.problems)
	})
}

func FuzzFooterAndHandle(f *testing.F) {
	f.Add(footer{Metaindex: handle{Offset: 1, Size: 2}, Index: handle{Offset: 3, Size: 4}}.Append(nil), uint64(1000))
	f.Fuzz(func(t *testing.T, b []byte, size uint64) {
		foot, err := codec.DecodeFooter(b, size)
		if err != nil {
			require.True(t, base.IsUnreadable(err), err)
			return
		}
		require.LessOrEqual(t, foot.Index.End(), size)
		require.LessOrEqual(t, foot.Metaindex.End(), size)
		again := result.Of(codec.DecodeFooter(foot.Append(nil), size))(t)
		require.Equal(t, foot, again)
	})
}

func FuzzFilterBlock(f *testing.F) {
	f.Add(appendFilterEnvelope(bloom.CreateFilter(nil, [][]byte{[]byte("k")}), 0), []byte("k"), uint64(0))
	f.Fuzz(func(t *testing.T, data, key []byte, offset uint64) {
		fb, err := newFilterBlock(data, bloom, 0, offset)
		if err != nil {
			require.True(t, base.IsUnreadable(err), err)
			return
		}
		var lk Lookup
		lk.Init(key, 1)
		if fb.whole {
			require.Equal(t, bloom.KeyMayMatch(key, fb.filter), fb.mayContain(&lk))
		}
		fb.mayContainAt(&lk, offset)
		fb.mayContainAt(&lk, 0)
	})
}

func FuzzProperties(f *testing.F) {
	var w blockWriter
	w.interval = 1
	encodeProperties(&w, &Properties{Entries: 1, LargestSeq: 1 << 40})
	f.Add(w.finish())
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := decodeProperties(data)
		if err != nil {
			require.True(t, base.IsUnreadable(err), err)
			return
		}
		w := blockWriter{interval: 1}
		encodeProperties(&w, &p)
		again := result.Of(decodeProperties(w.finish()))(t)
		require.Equal(t, p, again)
	})
}

func FuzzMetaindexAndIndex(f *testing.F) {
	_, sound := smallTable(f)
	r, _ := openTable(f, sound, ReaderOptions{})
	for _, h := range []handle{r.foot.Metaindex, r.foot.Index} {
		f.Add(sound[h.Offset : h.Offset+h.Size])
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, err := decodeMetaindex(data); err != nil {
			require.True(t, base.IsUnreadable(err), err)
		}
		ix, err := decodeIndex(data, base.Bytewise, 1<<20)
		requirePlainAgrees(t, data, ix)
		if err != nil {
			require.True(t, base.IsUnreadable(err), err)
			return
		}
		for i := range ix.Len() {
			sep := ix.Separator(i)
			require.LessOrEqual(t, ix.find(base.Bytewise, base.UserKey(sep), base.Trailer(sep)), i)
		}
	})
}

func FuzzDecompress(f *testing.F) {
	text := bytes.Repeat([]byte("some text "), 50)
	f.Add(byte(Snappy), snappy.Encode(nil, text))
	z, _, err := appendCompressed(nil, text, Zstd)
	require.NoError(f, err)
	f.Add(byte(Zstd), z)
	f.Add(byte(3), text)
	for kind, vectors := range deflateVectors(f) {
		for _, raw := range vectors {
			f.Add(byte(kind), raw)
		}
	}
	f.Fuzz(func(t *testing.T, kind byte, raw []byte) {
		out, err := decompress(Compression(kind), raw, nil, dataPart)
		if err != nil {
			require.True(t, base.IsUnreadable(err), err)
			return
		}
		require.LessOrEqual(t, uint64(len(out)), codec.DecodedCap(len(raw)))
		if n, ok := codec.DecodedLen(kind, raw); ok {
			require.Len(t, out, int(n))
		}
		stored, storedKind := deflateStream(t, out), deflateKind
		if Compression(kind) != deflateKind {
			stored, storedKind, err = appendCompressed(nil, out, Compression(kind))
			require.NoError(t, err)
		}
		again := result.Of(decompress(storedKind, stored, nil, dataPart))(t)
		require.True(t, bytes.Equal(out, again))
	})
}
