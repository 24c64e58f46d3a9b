package sstable

import (
	"fmt"
	"slices"
	"sort"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
)

// These tests are for iterations that read several blocks together, see Iter.fetch.

func readAheadTable(t *testing.T) (es entries, data []byte) {
	es = plainEntries(10_000, 100)
	return es, buildTable(t, WriterOptions{BlockSize: 1 << 10}, es)
}

func TestBlocksBeyondTheBoundsAreNotReadAhead(t *testing.T) {
	es, data := readAheadTable(t)
	lower, upper := base.UserKey(es[3000].Key), base.UserKey(es[7000].Key)
	for _, o := range []IterOptions{{}, {NoFillCache: true}, {ReadAhead: 64 << 10}} {
		for _, forward := range []bool{true, false} {
			t.Run(fmt.Sprintf("NoFillCache=%t,ReadAhead=%d,forward=%t", o.NoFillCache, o.ReadAhead, forward), func(t *testing.T) {
				r, f := openTable(t, data, ReaderOptions{Cache: newCache()})
				o.Lower, o.Upper = lower, upper
				it := newIter(t, r, o)
				f.takeReads()
				begin, step := func() bool { return it.SeekGE(es[3000].Key) }, it.Next
				if !forward {
					begin, step = func() bool { return it.SeekLT(es[7000].Key) }, it.Prev
				}
				n := 0
				for ok := begin(); ok; ok = step() {
					n++
				}
				require.GreaterOrEqual(t, n, 4000)
				require.NoError(t, it.Close())
				ix, seek := r.index.Load(), base.MakeTrailer(base.MaxSeq, base.KindSeek)
				reads := f.takeReads()
				require.Less(t, len(reads), 40, "several blocks per read")
				for _, s := range reads {
					require.GreaterOrEqual(t, s.offset, ix.Offset(ix.find(r.cmp, lower, seek)))
					require.LessOrEqual(t, s.offset+s.size, ix.Handle(ix.find(r.cmp, upper, seek)).End())
				}
			})
		}
	}
}

// An unreadable block must not prevent an iterator from reading the blocks before it.
func TestAFailedReadIsReportedAtItsBlock(t *testing.T) {
	es, data := readAheadTable(t)
	for _, o := range []IterOptions{{}, {NoFillCache: true}} {
		for _, forward := range []bool{true, false} {
			t.Run(fmt.Sprintf("NoFillCache=%t,forward=%t", o.NoFillCache, forward), func(t *testing.T) {
				r, f := openTable(t, data, ReaderOptions{Cache: newCache()})
				it := newIter(t, r, o)
				ix := r.index.Load()
				bad := ix.Len() / 2
				f.bad = blockSpan{offset: ix.Offset(bad), size: uint64(ix.Size(bad))}
				place := func(key []byte) int { // of the first entry after a separator
					return sort.Search(len(es), func(i int) bool { return base.CompareInternal(base.Bytewise, es[i].Key, key) > 0 })
				}
				begin, step, want := it.First, it.Next, slices.Clone(es[:place(ix.Separator(bad-1))])
				if !forward {
					begin, step, want = it.Last, it.Prev, slices.Clone(es[place(ix.Separator(bad)):])
					slices.Reverse(want)
				}
				n := 0
				for ok := begin(); ok; ok = step() {
					require.Equal(t, string(want[n].Key), string(it.Key()))
					n++
				}
				require.Len(t, want, n)
				require.ErrorIs(t, it.Err(), errBadPlace)
				require.ErrorIs(t, it.Close(), errBadPlace)
			})
		}
	}
}
