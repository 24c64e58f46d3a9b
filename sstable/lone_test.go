package sstable

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/blocks"
	"github.com/sievedb/sievedb/internal/test/itertest"
	"github.com/sievedb/sievedb/internal/test/result"
)

// entriesOfAllSizes returns entries with values of 1 byte to 2 MiB, many of which are alone in their blocks.
func entriesOfAllSizes() (es entries) {
	for i := range 300 {
		size := []int{5000, 16 << 10, 1, 1100, 70_000, 9000, 1, 1}[i%8]
		if i == 150 {
			size = 2 << 20
		}
		kind := base.KindSet
		if i%11 == 3 {
			kind, size = base.KindDelete, 0
		}
		key := fmt.Sprintf("key%05d", i-i%4/3) // some have two versions
		es = append(es, itertest.Entry{Key: ikey(key, uint64(1000-i), kind), Value: bytes.Repeat([]byte{byte(i), byte(i * i)}, size/2)})
	}
	return sortEntries(base.Bytewise, es)
}

// withoutLone returns the entries, those that are alone in their blocks with an empty value.
func withoutLone(t *testing.T, r *Reader, es entries) (keys entries, alone int) {
	keys = slices.Clone(es)
	ix, _, err := r.loadIndex()
	require.NoError(t, err)
	for i := range ix.Len() {
		at := slices.IndexFunc(es, func(e itertest.Entry) bool { return bytes.Equal(e.Key, ix.Separator(i)) })
		if ix.lone.Has(i) {
			require.GreaterOrEqual(t, len(es[at].Value), loneValue)
			require.True(t, i == 0 || !bytes.Equal(ix.Separator(i-1), ix.Separator(i)))
			keys[at].Value = []byte{}
			alone++
		}
	}
	return keys, alone
}

// An iterator that shows only keys reads no block with one large entry, and moves as any other.
func TestKeysOfLargeValuesComeFromTheIndex(t *testing.T) {
	es := entriesOfAllSizes()
	for _, o := range []WriterOptions{{}, {Compression: Snappy, Filter: bloom}, {BlockSize: 32 << 10}} {
		data := buildTable(t, o, es)
		for _, cache := range []*BlockCache{nil, NewBlockCache(1 << 20), NewBlockCache(64 << 20)} {
			r, _ := openTable(t, data, ReaderOptions{Cache: cache})
			keys, alone := withoutLone(t, r, es)
			require.Greater(t, alone, 20)
			for range 2 { // from disk, then from the cache
				itertest.Run(t, base.Bytewise, keys, 1, func() base.Iterator { return newIter(t, r, IterOptions{KeysOnly: true}) })
			}
			itertest.Run(t, base.Bytewise, es, 2, func() base.Iterator { return newIter(t, r, IterOptions{}) })
			for _, e := range es { // pivots of blocks that only an iterator over keys has searched
				checkGet(t, r, base.Bytewise, es, base.UserKey(e.Key), base.Trailer(e.Key)>>8)
			}
		}
	}
}

func TestAWalkOverKeysReadsNoLargeValue(t *testing.T) {
	var es entries
	for i := range 100 {
		es = append(es, itertest.Entry{Key: ikey(fmt.Sprintf("key%05d", i), 1, base.KindSet), Value: make([]byte, 16<<10)})
	}
	r, f := openTable(t, buildTable(t, WriterOptions{}, es), ReaderOptions{Cache: NewBlockCache(1 << 20)})
	result.Of(r.LoadIndex())(t)
	f.takeReads()
	var stats IterStats
	it := newIter(t, r, IterOptions{KeysOnly: true, Stats: &stats})
	n := 0
	for ok := it.First(); ok; ok = it.Next() {
		require.Equal(t, es[n].Key, it.Key())
		n++
	}
	require.Equal(t, len(es), n)
	requireAllocs(t, 0, 3, func() {
		for ok := it.First(); ok; ok = it.Next() {
		}
	})
	require.NoError(t, it.Close())
	require.Zero(t, stats)
	require.Empty(t, f.takeReads())
}

// A lookup that needs no value finds the same versions as others, and reads no block with one large entry.
func TestLookupsOfKeysReadNoLargeValue(t *testing.T) {
	es := entriesOfAllSizes()
	r, f := openTable(t, buildTable(t, WriterOptions{Filter: bloom}, es), ReaderOptions{Policies: []filter.Policy{bloom}})
	result.Of(r.LoadIndex())(t)
	withoutReads := 0
	for i := range 400 {
		for _, seq := range []uint64{base.MaxSeq, uint64(1000 - i), uint64(1000 - i - 1), 1} {
			var whole, key Lookup
			key.KeyOnly = true
			whole.Init(fmt.Appendf(nil, "key%05d", i), seq)
			key.Init(whole.userKey, seq)
			want := result.Of(r.Get(&whole))(t)
			f.takeReads()
			got := result.Of(r.Get(&key))(t)
			require.Equal(t, want.Found, got.Found)
			require.Equal(t, want.Trailer, got.Trailer)
			if reads := f.takeReads(); got.Found && len(reads) == 0 {
				withoutReads++
			} else if len(want.Value) >= loneValue {
				t.Fatalf("%q was read, a value of %d bytes", whole.userKey, len(want.Value))
			}
			whole.Release()
			key.Release()
		}
	}
	require.Greater(t, withoutReads, 100)
}

// Copies of blocks keep the mark.
func TestCopiedBlocksStayLone(t *testing.T) {
	es := entriesOfAllSizes()
	r, _ := openTable(t, buildTable(t, WriterOptions{}, es), ReaderOptions{})
	_, alone := withoutLone(t, r, es)
	data := result.Of(copied(r, WriterOptions{Filter: bloom}))(t)
	c, _ := openTable(t, data, ReaderOptions{})
	_, still := withoutLone(t, c, es)
	require.Equal(t, alone, still)
}

// tableWithMark returns a table with one block, which has es, and a mark that says that it is lone.
func tableWithMark(t testing.TB, es entries, interval int) []byte {
	last := ikey("z", 1, base.KindSet)
	if len(es) > 0 {
		last = es[len(es)-1].Key
	}
	return tableByHand(t, WriterOptions{}, func(w *Writer) {
		listBlock(t, w, buildBlock(interval, es), NoCompression, last)
		w.smallest, w.lastKey, w.lone = last, last, blocks.Lone{1}
		w.props.Entries = max(uint64(len(es)), 1)
	})
}

// A table can say that a block has one entry although it has more, or none. Other lookups and iterators are not
// concerned, and all who check tables find it.
func TestAWrongMarkOfALoneBlockIsFound(t *testing.T) {
	for _, interval := range []int{1, 7, 16} {
		es := plainEntries(4, 20)
		es = es[:min(len(es), 4*interval)]
		data := tableWithMark(t, es, interval)
		r, _ := openTable(t, data, ReaderOptions{Cache: NewBlockCache(1 << 20)})
		for _, e := range es { // makes pivots
			checkGet(t, r, base.Bytewise, es, base.UserKey(e.Key), base.MaxSeq)
		}
		keys := es[len(es)-1:]
		keys = entries{{Key: keys[0].Key, Value: []byte{}}}
		itertest.Run(t, base.Bytewise, keys, 1, func() base.Iterator { return newIter(t, r, IterOptions{KeysOnly: true}) })
		itertest.Run(t, base.Bytewise, es, 2, func() base.Iterator { return newIter(t, r, IterOptions{}) })
		for _, e := range es {
			checkGet(t, r, base.Bytewise, es, base.UserKey(e.Key), base.MaxSeq)
		}
		require.ErrorContains(t, result.Err(lookupFault(t, r)), wrongAlone)
		require.ErrorContains(t, NewWriter(io.Discard, WriterOptions{}).CopyBlocks(r, nil), wrongAlone)
		rep := result.Of(Salvage(&memFile{data: data}, ReaderOptions{}, func(_, _ []byte) error { return nil }))(t)
		require.ErrorContains(t, rep.Err, wrongAlone)
	}
	r, _ := openTable(t, tableWithMark(t, nil, 1), ReaderOptions{})
	it := newIter(t, r, IterOptions{})
	require.False(t, it.First())
	require.ErrorContains(t, it.Close(), wrongAlone)
	require.ErrorContains(t, NewWriter(io.Discard, WriterOptions{}).CopyBlocks(r, nil), wrongAlone)
}

// A later version may write entries of other kinds, which lookups of the key alone must not overlook.
func TestAKeyOfANewerKindIsNotTakenFromTheIndex(t *testing.T) {
	for kind, wants := range map[base.Kind]error{base.KindRef + 1: base.ErrNewer, 200: base.ErrCorruption} {
		es := entries{{Key: ikey("key", 7, kind), Value: make([]byte, loneValue)}}
		r, _ := openTable(t, tableWithMark(t, es, 1), ReaderOptions{})
		for _, keyOnly := range []bool{false, true} {
			lk := Lookup{KeyOnly: keyOnly}
			lk.Init([]byte("key"), base.MaxSeq)
			require.ErrorIs(t, result.Err(r.Get(&lk)), wants)
			it := newIter(t, r, IterOptions{KeysOnly: keyOnly})
			require.False(t, it.First())
			require.ErrorIs(t, it.Close(), wants)
		}
	}
}

// Keys that are nearly as large as their values, and values that are not large, stay out of the index.
func TestSmallValuesAndLargeKeysAreNotLone(t *testing.T) {
	es := entries{
		{Key: ikey("a", 1, base.KindSet), Value: make([]byte, loneValue-1)},
		{Key: ikey("b"+strings.Repeat("k", 1000), 1, base.KindSet), Value: make([]byte, loneValue)},
		{Key: ikey("c"+strings.Repeat("k", 2<<20), 1, base.KindSet), Value: make([]byte, loneValue)},
		{Key: ikey("d"+strings.Repeat("k", 2<<20), 1, base.KindDelete)},
		{Key: ikey("e", 1, base.KindSet), Value: make([]byte, 2<<20)},
		{Key: ikey("f", 1, base.KindSet), Value: make([]byte, loneValue)},
	}
	r, _ := openTable(t, buildTable(t, WriterOptions{}, es), ReaderOptions{})
	ix, _, err := r.loadIndex()
	require.NoError(t, err)
	require.Equal(t, 6, ix.Len())
	require.Equal(t, blocks.Lone{1<<4 | 1<<5}, ix.lone)
}

// Reading ahead ends before a lone block, which an iterator over keys does not need.
func TestReadingAheadOverKeysReadsNoLargeValue(t *testing.T) {
	var es entries
	for i := range 400 {
		size := 1000
		if i%40 == 39 {
			size = 40_000
		}
		value := make([]byte, size)
		_, _ = rand.NewChaCha8([32]byte{byte(i)}).Read(value)
		es = append(es, itertest.Entry{Key: ikey(fmt.Sprintf("key%05d", i), 1, base.KindSet), Value: value})
	}
	data := buildTable(t, WriterOptions{}, es)
	for _, how := range []struct{ ahead, cache int }{{0, 0}, {1 << 20, 0}, {0, 64 << 20}} {
		o := ReaderOptions{}
		if how.cache > 0 {
			o.Cache = NewBlockCache(int64(how.cache))
		}
		r, f := openTable(t, data, o)
		_, alone := withoutLone(t, r, es)
		require.Equal(t, 10, alone)
		f.takeReads()
		it := newIter(t, r, IterOptions{KeysOnly: true, ReadAhead: how.ahead})
		n := 0
		for ok := it.First(); ok; ok = it.Next() {
			n++
		}
		require.Equal(t, r.index.Load().Len()-alone, it.inOrder, "blocks that were not read do not count")
		for ok := it.Last(); ok; ok = it.Prev() {
			n++
		}
		require.NoError(t, it.Close())
		require.Equal(t, 2*len(es), n)
		reads := f.takeReads()
		require.Greater(t, len(reads), 10)
		for _, read := range reads {
			for i := range r.index.Load().Len() {
				h := r.index.Load().Handle(i)
				if r.index.Load().lone.Has(i) {
					require.True(t, read.offset+read.size <= h.Offset || read.offset >= h.End(), "%+v has the block at %d", read, h.Offset)
				}
			}
		}
	}
}
