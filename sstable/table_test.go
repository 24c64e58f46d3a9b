package sstable

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/test/itertest"
	"github.com/sievedb/sievedb/internal/test/result"
)

// tableShape is one way to write a table.
type tableShape struct {
	cmp         *base.Comparer
	blockSize   int
	interval    int
	compression Compression
	policy      filter.Policy
}

func (s tableShape) String() string {
	return fmt.Sprintf("%s/block %d/interval %d/compression %d/filter %v", s.cmp.Name, s.blockSize, s.interval, s.compression, s.policy != nil)
}

func (s tableShape) options() WriterOptions {
	return WriterOptions{Comparer: s.cmp, Filter: s.policy, BlockSize: s.blockSize, BlockRestartInterval: s.interval, Compression: s.compression}
}

func (s tableShape) policies() []filter.Policy { return []filter.Policy{s.policy} }

var bloom = filter.NewBloomPolicy(10)

var tableShapes = []tableShape{
	{base.Bytewise, 4096, 16, Snappy, bloom},
	{base.Bytewise, 64, 1, NoCompression, bloom},
	{base.Bytewise, 1, 4, NoCompression, nil},
	{base.Bytewise, 300, 3, Zstd, nil},
	{base.Bytewise, 1 << 20, 2, Snappy, constPolicy{answer: true}},
	{reverseOrder, 200, 5, Snappy, bloom},
}

func TestTableIteratorConforms(t *testing.T) {
	rnd := newRand(t)
	for _, shape := range tableShapes {
		for _, n := range []int{0, 1, 300} {
			es := trickyEntries(rnd, shape.cmp, n)
			data := buildTable(t, shape.options(), es)
			for name, o := range map[string]IterOptions{
				"cached":     {},
				"no fill":    {NoFillCache: true},
				"read ahead": {ReadAhead: 700},
			} {
				t.Run(fmt.Sprintf("%v/%d entries/%s", shape, n, name), func(t *testing.T) {
					r, _ := openTable(t, data, ReaderOptions{Comparer: shape.cmp, Cache: newCache(), Policies: shape.policies()})
					itertest.Run(t, shape.cmp, es, rnd.Uint64(), iters(t, r, o))
				})
			}
		}
	}
}

func checkGet(t *testing.T, r *Reader, cmp *base.Comparer, es entries, user []byte, seq uint64) {
	t.Helper()
	got := result.Of(get(r, string(user), seq))(t)
	requireModel(t, cmp, es, user, seq, got)
}

// requireModel checks the result of a lookup.
func requireModel(t *testing.T, cmp *base.Comparer, es entries, user []byte, seq uint64, got Result) {
	t.Helper()
	value, trailer, ok := modelGet(cmp, es, user, seq)
	require.Equal(t, ok, got.Found, "user key %q at %d", user, seq)
	if ok {
		require.Equal(t, trailer, got.Trailer)
		require.Equal(t, string(value), string(got.Value))
		require.NotEqual(t, FilterNegative, got.Filter)
	}
}

func TestApproximateOffsetRisesToTheEndOfData(t *testing.T) {
	es := plainEntries(1000, 100)
	data := buildTable(t, WriterOptions{}, es)
	r, _ := openTable(t, data, ReaderOptions{Cache: newCache()})
	var last uint64
	for i, e := range es {
		off := result.Of(r.ApproximateOffset(e.Key))(t)
		require.GreaterOrEqual(t, off, last)
		require.InDelta(t, float64(len(data))*float64(i)/1000, float64(off), 8192)
		last = off
	}
	first := result.Of(r.ApproximateOffset(ikey("", 1, base.KindSet)))(t)
	require.Zero(t, first)
	end := result.Of(r.ApproximateOffset(ikey("z", 1, base.KindSet)))(t)
	p, ok := r.Properties()
	require.True(t, ok)
	require.Equal(t, p.DataBytes, end)
}

func TestWriterRejectsBadEntries(t *testing.T) {
	a1, a2, b := ikey("a", 1, base.KindSet), ikey("a", 2, base.KindSet), ikey("b", 1, base.KindSet)
	for _, c := range []struct {
		name string
		keys [][]byte
	}{
		{"the same key twice", [][]byte{a1, a1}},
		{"a newer version after an older one", [][]byte{a1, a2}},
		{"a smaller user key", [][]byte{b, a1}},
		{"a prefix of the last user key", [][]byte{ikey("aa", 1, base.KindSet), a1}},
		{"a key without a trailer", [][]byte{[]byte("short")}},
		{"an unknown kind", [][]byte{ikey("a", 1, 7)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := NewWriter(io.Discard, WriterOptions{})
			for _, k := range c.keys[:len(c.keys)-1] {
				require.NoError(t, w.Add(k, nil))
			}
			err := w.Add(c.keys[len(c.keys)-1], nil)
			require.Error(t, err)
			require.Equal(t, err, w.Add(ikey("zzz", 1, base.KindSet), nil), "the error sticks")
			_, finishErr := w.Finish()
			require.Equal(t, err, finishErr)
		})
	}
	t.Run("use after Finish", func(t *testing.T) {
		w := NewWriter(io.Discard, WriterOptions{})
		finish(t, w)
		require.Error(t, w.Add(a1, nil))
		require.Error(t, result.Err(w.Finish()))
	})
}

// failingWriter fails after room bytes.
type failingWriter struct {
	room  int
	short bool
}

var errDiskFull = errors.New("disk full")

func (w *failingWriter) Write(p []byte) (int, error) {
	if w.room -= len(p); w.room >= 0 {
		return len(p), nil
	}
	if w.short {
		return len(p) / 2, nil
	}
	return 0, errDiskFull
}

func TestWriterReportsTheFilesErrors(t *testing.T) {
	for short, want := range map[bool]error{false: errDiskFull, true: io.ErrShortWrite} {
		for _, room := range []int{0, 100, 300 << 10, 2 << 20, 4<<20 + 5} {
			w := NewWriter(&failingWriter{room: room, short: short}, WriterOptions{})
			es := plainEntries(8000, 100)
			es[2000].Value = make([]byte, 5<<20) // some of these fail within it
			var first error
			for _, e := range es {
				if err := w.Add(e.Key, e.Value); first == nil {
					first = err
				} else {
					require.Equal(t, first, err, "it sticks")
				}
			}
			_, err := w.Finish()
			require.ErrorIs(t, err, want)
			require.True(t, first == nil || first == err)
		}
	}
}

func TestWriterWritesInLargePieces(t *testing.T) {
	var sizes []int
	w := NewWriter(writerFunc(func(p []byte) (int, error) {
		sizes = append(sizes, len(p))
		return len(p), nil
	}), WriterOptions{})
	for _, e := range plainEntries(20000, 100) {
		require.NoError(t, w.Add(e.Key, e.Value))
		require.GreaterOrEqual(t, w.EstimatedSize(), w.Size())
	}
	finish(t, w)
	for _, n := range sizes[:len(sizes)-1] {
		require.GreaterOrEqual(t, n, writeBufferBytes)
	}
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestPropertiesDescribeTheTable(t *testing.T) {
	var file bytes.Buffer
	w := NewWriter(&file, WriterOptions{Filter: bloom, BlockSize: 64, Compression: Snappy})
	require.Nil(t, w.Smallest())
	require.Nil(t, w.Largest())
	require.NoError(t, w.Add(ikey("a", 9, base.KindDelete), nil))
	require.NoError(t, w.Add(ikey("a", 3, base.KindSet), []byte("one")))
	require.NoError(t, w.Add(ikey("b", 12, base.KindSet), bytes.Repeat([]byte("x"), 100)))
	require.NoError(t, w.Add(ikey("c", 5, base.KindSet), []byte("three")))
	p := result.Of(w.Finish())(t)
	require.Equal(t, ikey("a", 9, base.KindDelete), w.Smallest())
	require.Equal(t, ikey("c", 5, base.KindSet), w.Largest())

	r, _ := openTable(t, file.Bytes(), ReaderOptions{})
	got, ok := r.Properties()
	require.True(t, ok)
	require.Equal(t, p, got)
	require.NotZero(t, p.DataBytes)
	require.NotZero(t, p.ContentHash)
	p.DataBytes, p.ContentHash = 0, 0
	require.Equal(t, Properties{
		Entries: 4, Deletions: 1, FilterKeys: 3, RawKeyBytes: 36, RawValueBytes: 108, DataBlocks: 2,
		SmallestSeq: 3, LargestSeq: 12,
	}, p)
}

func TestEachUserKeyIsFilteredOnce(t *testing.T) {
	var added []string
	es := sortEntries(base.Bytewise, entries{
		{Key: ikey("", 9, base.KindSet)}, {Key: ikey("", 8, base.KindSet)},
		{Key: ikey("a", 9, base.KindSet)}, {Key: ikey("a", 1, base.KindDelete)},
		{Key: ikey("a\x01\x09", 9, base.KindSet)}, {Key: ikey("b", 4, base.KindSet)},
	})
	buildTable(t, WriterOptions{Filter: constPolicy{answer: true, added: &added}, BlockSize: 1}, es)
	require.Equal(t, []string{"", "a", "a\x01\x09", "b"}, added)
}

func TestForeignIndexWithSharedPrefixesIsRead(t *testing.T) {
	es := plainEntries(2000, 30)
	var file bytes.Buffer
	w := NewWriter(&file, WriterOptions{BlockSize: 200, Filter: bloom})
	w.index.interval = 16
	addAll(t, w, es)
	finish(t, w)
	r, _ := openTable(t, file.Bytes(), ReaderOptions{Cache: newCache(), Policies: []filter.Policy{bloom}})
	for _, e := range es {
		checkGet(t, r, base.Bytewise, es, base.UserKey(e.Key), base.MaxSeq)
	}
}

// A lookup as of the greatest sequence number has the same trailer as a shortened separator. The block that the index
// names ends before it, and the key begins the next one.
func TestGreatestSequenceFindsAKeyThatIsASeparator(t *testing.T) {
	es := entries{
		{Key: ikey("aaaa", 1, base.KindSet), Value: []byte("1")},
		{Key: ikey("b", 5, base.KindSet), Value: []byte("2")}, // also the separator of "aaaa" and "c"
		{Key: ikey("c", 5, base.KindSet), Value: []byte("3")},
	}
	var file bytes.Buffer
	w := NewWriter(&file, WriterOptions{BlockSize: 1, Comparer: &base.Comparer{
		Name: "test.LongSeparator", Compare: bytes.Compare,
		Separator: func(dst, _, b []byte) []byte { return append(dst, b[:1]...) },
	}})
	addAll(t, w, es)
	finish(t, w)
	r, _ := openTable(t, file.Bytes(), ReaderOptions{Cache: newCache()})
	for _, e := range es {
		checkGet(t, r, base.Bytewise, es, base.UserKey(e.Key), base.MaxSeq)
	}
}

func TestBlocksDoNotExceedTheirSizeSlightly(t *testing.T) {
	for _, tc := range []struct {
		name                   string
		blockSize, value       int
		least, most            int // bytes of the blocks except the last
		entriesAtMost, atLeast int
	}{
		{"small entries", 4096, 100, 3900, 4096, 40, 30},
		{"entries of a few hundred bytes", 4096, 300, 3687, 4096, 13, 11},
		{"less than nine tenths, then a large entry", 4096, 1500, 4500, 4700, 3, 3},
		{"each entry is larger", 1024, 1500, 1500, 1600, 1, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			es := plainEntries(300, tc.value)
			r, _ := openTable(t, buildTable(t, WriterOptions{BlockSize: tc.blockSize}, es), ReaderOptions{})
			ix, _, err := r.loadIndex()
			require.NoError(t, err)
			require.InDelta(t, len(es), ix.Len()*(tc.entriesAtMost+tc.atLeast)/2, float64(len(es))/4)
			for i := range ix.Len() - 1 {
				b := result.Of(r.readData(ix, i))(t)
				require.GreaterOrEqual(t, len(b.data), tc.least)
				require.LessOrEqual(t, len(b.data), tc.most)
			}
		})
	}
}
