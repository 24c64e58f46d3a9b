package sstable

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sort"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/test/itertest"
	"github.com/sievedb/sievedb/internal/test/race"
	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/util"
)

// memFile is a table file in memory that records every range read.
type memFile struct {
	data []byte

	mu      sync.Mutex
	reads   []blockSpan // offset and size only
	closed  int
	readErr error
	// inPieces fails reads of the file's end that are longer than the footer, so that
	// the table is opened with a separate read for each part.
	inPieces bool
	bad      blockSpan // reads of any byte of it fail
}

var errBadPlace = errors.New("this place cannot be read")

var errTail = errors.New("the tail cannot be read")

func (f *memFile) ReadAt(p []byte, off int64) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed > 0 {
		return 0, errors.New("read of a closed file")
	}
	if f.readErr != nil {
		return 0, f.readErr
	}
	if uint64(off) < f.bad.offset+f.bad.size && uint64(off)+uint64(len(p)) > f.bad.offset {
		return 0, errBadPlace
	}
	if f.inPieces && len(p) > footerLen && off+int64(len(p)) == int64(len(f.data)) {
		return 0, errTail
	}
	f.reads = append(f.reads, blockSpan{offset: uint64(off), size: uint64(len(p))})
	if off > int64(len(f.data)) {
		return 0, io.EOF
	}
	n := copy(p, f.data[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *memFile) Write([]byte) (int, error) { return 0, errors.New("the file is read-only") }
func (f *memFile) Sync() error               { return nil }
func (f *memFile) Size() (int64, error)      { return int64(len(f.data)), nil }
func (f *memFile) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed++
	return nil
}

// takeReads returns the ranges read since the last call.
func (f *memFile) takeReads() []blockSpan {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := f.reads
	f.reads = nil
	return r
}

type entries = []itertest.Entry

func ikey(user string, seq uint64, kind base.Kind) []byte {
	return base.AppendInternalKey(nil, []byte(user), seq, kind)
}

// sortEntries sorts by internal key and drops duplicates.
func sortEntries(cmp *base.Comparer, es entries) entries {
	sort.Slice(es, func(i, j int) bool { return base.CompareInternal(cmp, es[i].Key, es[j].Key) < 0 })
	out := es[:0]
	for i, e := range es {
		if i == 0 || base.CompareInternal(cmp, out[len(out)-1].Key, e.Key) != 0 {
			out = append(out, e)
		}
	}
	return out
}

// trickyEntries makes n entries or fewer whose user keys are prefixes of each
// other, hold 0x00 and 0x01 where trailers begin, and have many versions.
func trickyEntries(rnd *rand.Rand, cmp *base.Comparer, n int) entries {
	es := make(entries, 0, n)
	users := [][]byte{{}}
	for len(es) < n {
		user := bytes.Clone(users[rnd.IntN(len(users))])
		if rnd.IntN(3) > 0 {
			for range 1 + rnd.IntN(3) {
				user = append(user, []byte{0, 1, 1, 2, 'a', 0xff, byte(rnd.UintN(256))}[rnd.IntN(7)])
			}
			if rnd.IntN(4) == 0 { // a key that continues another with the bytes of its trailer
				user = base.AppendInternalKey(user, nil, rnd.Uint64N(4), base.Kind(rnd.UintN(2)))
				user = user[:len(user)-rnd.IntN(8)]
			}
			if len(user) < 40 {
				users = append(users, user)
			}
		}
		for range 1 + rnd.IntN(4)*rnd.IntN(3) {
			seq := rnd.Uint64N(6)
			if rnd.IntN(4) == 0 {
				seq = rnd.Uint64N(base.MaxSeq + 1)
			}
			es = append(es, itertest.Entry{
				Key:   base.AppendInternalKey(nil, user, seq, base.Kind(rnd.UintN(2))),
				Value: bytes.Repeat([]byte{byte(len(es))}, rnd.IntN(20)*rnd.IntN(12)),
			})
		}
	}
	return sortEntries(cmp, es)
}

// plainEntries makes n entries with decimal keys, one version each, at sequence numbers from 1.
func plainEntries(n, valueLen int) entries {
	es := make(entries, n)
	for i := range es {
		es[i] = itertest.Entry{
			Key:   ikey(fmt.Sprintf("key%08d", 2*i), uint64(i+1), base.KindSet),
			Value: bytes.Repeat([]byte(fmt.Sprintf("%03d.", i%1000)), valueLen/4+1)[:valueLen],
		}
	}
	return es
}

// reverseOrder is a comparer that is not bytewise.
var reverseOrder = &base.Comparer{
	Name:    "test.Reverse",
	Compare: func(a, b []byte) int { return bytes.Compare(b, a) },
}

func buildTable(t testing.TB, o WriterOptions, es entries) []byte {
	t.Helper()
	var file bytes.Buffer
	w := NewWriter(&file, o)
	addAll(t, w, es)
	p := result.Of(w.Finish())(t)
	require.Equal(t, uint64(len(es)), p.Entries)
	require.Equal(t, uint64(file.Len()), w.Size())
	require.Equal(t, w.Size(), w.EstimatedSize())
	return file.Bytes()
}

func newCache() *BlockCache { return NewBlockCache(64 << 20) }

func openTable(t testing.TB, data []byte, o ReaderOptions) (*Reader, *memFile) {
	t.Helper()
	return openFile(t, &memFile{data: data}, o)
}

// openInPieces is openTable, but Open cannot read the tail, and so reads no index.
func openInPieces(t testing.TB, data []byte, o ReaderOptions) (*Reader, *memFile) {
	t.Helper()
	return openFile(t, &memFile{data: data, inPieces: true}, o)
}

func openFile(t testing.TB, f *memFile, o ReaderOptions) (*Reader, *memFile) {
	t.Helper()
	if o.Name == "" {
		o.Name = "000007.ldb"
	}
	r := result.Of(Open(f, o))(t)
	t.Cleanup(func() {
		require.NoError(t, r.Close())
		require.Equal(t, 1, f.closed, "the file must be closed once when the table is")
	})
	return r, f
}

// newIter returns an iterator over a table.
func newIter(t testing.TB, r *Reader, o IterOptions) *Iter {
	t.Helper()
	it := result.Of(r.NewIter(o))(t)
	return it
}

// iters returns new iterators over a table to itertest.Run.
func iters(t testing.TB, r *Reader, o IterOptions) func() base.Iterator {
	return func() base.Iterator { return newIter(t, r, o) }
}

// addAll adds the entries to a new table.
func addAll(t testing.TB, w *Writer, es entries) {
	t.Helper()
	for _, e := range es {
		require.NoError(t, w.Add(e.Key, e.Value))
	}
}

// finish ends a new table.
func finish(t testing.TB, w *Writer) {
	t.Helper()
	result.Of(w.Finish())(t)
}

// tableByHand returns a table of the data blocks that fill writes and lists in the index. It has these filters, if any,
// and otherwise those of the Writer.
func tableByHand(t testing.TB, o WriterOptions, fill func(w *Writer), filters ...namedFilter) []byte {
	t.Helper()
	var file bytes.Buffer
	w := NewWriter(&file, o)
	fill(w)
	if filters == nil {
		filters = result.Of(w.filterBlocks())(t)
	}
	require.NoError(t, w.finishTail(filters))
	return file.Bytes()
}

// listBlock writes a data block and lists it in the index.
func listBlock(t testing.TB, w *Writer, block []byte, kind Compression, separator []byte) {
	t.Helper()
	h := result.Of(w.writeBlock(block, kind))(t)
	w.index.add(separator, h.Append(nil))
}

// endData ends the last data block of a table that has entries.
func endData(t testing.TB, w *Writer) {
	t.Helper()
	require.NoError(t, w.finishDataBlock())
	w.indexPending(nil)
}

// appendStored appends the stored bytes of a block and its trailer to a file, and returns the block's handle.
func appendStored(file, stored []byte, kind Compression) ([]byte, handle) {
	h := handle{Offset: uint64(len(file)), Size: uint64(len(stored))}
	file = append(append(file, stored...), byte(kind))
	return util.AppendFixed32(file, util.MaskCRC(util.CRC32C(file[h.Offset:]))), h
}

// newRand returns random numbers of a new seed, which it logs.
func newRand(t testing.TB) *rand.Rand {
	t.Helper()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// requireAllocs requires that a call of f allocates at most so often. The race detector allocates too: with it, f only
// runs.
func requireAllocs(t testing.TB, most float64, runs int, f func()) {
	t.Helper()
	if allocs := testing.AllocsPerRun(runs, f); !race.Enabled {
		require.LessOrEqual(t, allocs, most)
	}
}

func get(r *Reader, user string, seq uint64) (Result, error) {
	var lk Lookup
	lk.Init([]byte(user), seq)
	return r.Get(&lk)
}

// place returns the index of the first entry of es at or after an internal key.
func place(cmp *base.Comparer, es entries, ikey []byte) int {
	return sort.Search(len(es), func(i int) bool { return base.CompareInternal(cmp, es[i].Key, ikey) >= 0 })
}

// modelGet returns the entry that Get must find among es.
func modelGet(cmp *base.Comparer, es entries, user []byte, seq uint64) (value []byte, trailer uint64, found bool) {
	i := place(cmp, es, base.AppendInternalKey(nil, user, seq, base.KindSeek))
	if i == len(es) || cmp.Compare(base.UserKey(es[i].Key), user) != 0 {
		return nil, 0, false
	}
	return es[i].Value, base.Trailer(es[i].Key), true
}

// randomUser returns a user key at or near an entry's.
func randomUser(rnd *rand.Rand, es entries) []byte {
	var user []byte
	if len(es) > 0 {
		user = bytes.Clone(base.UserKey(es[rnd.IntN(len(es))].Key))
	}
	switch rnd.IntN(5) {
	case 0:
		user = append(user, byte(rnd.UintN(3)))
	case 1:
		user = user[:rnd.IntN(len(user)+1)]
	case 2:
		if len(user) > 0 {
			user[rnd.IntN(len(user))] += byte(rnd.UintN(3))
		}
	}
	return user
}

func randomSeq(rnd *rand.Rand) uint64 {
	switch rnd.IntN(3) {
	case 0:
		return base.MaxSeq
	case 1:
		return rnd.Uint64N(7)
	}
	return rnd.Uint64N(base.MaxSeq + 1)
}

// constPolicy has filters that give the same answer for every key. It may record its keys and the keys probed.
type constPolicy struct {
	answer bool
	added  *[]string
	onAsk  func()
}

func (p constPolicy) Name() string { return "test.Const" }
func (p constPolicy) CreateFilter(dst []byte, keys [][]byte) []byte {
	for _, k := range keys {
		if p.added != nil {
			*p.added = append(*p.added, string(k))
		}
	}
	return append(dst, "any bytes"...)
}
func (p constPolicy) KeyMayMatch(_, _ []byte) bool {
	if p.onAsk != nil {
		p.onAsk()
	}
	return p.answer
}

var _ filter.Policy = constPolicy{}
