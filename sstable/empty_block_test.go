package sstable

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/test/itertest"
)

// Copying a table whose first data block is empty panicked: it compared the last key copied, which did not exist, with
// the block's separator. Other code expected the table's first key in the first block, and rejected such a table.
func TestEmptyDataBlocksAreReadByAll(t *testing.T) {
	es := plainEntries(6, 10)
	for name, c := range map[string]struct {
		blocks     [][]int
		separators []int
	}{
		"the first":       {[][]int{{}, {1, 2}, {3, 4}}, []int{0, 2, 4}},
		"the first two":   {[][]int{{}, {}, {1, 2, 3, 4}}, []int{0, 0, 4}},
		"one between":     {[][]int{{1, 2}, {}, {3, 4}}, []int{2, 2, 4}},
		"the last":        {[][]int{{1, 2}, {3, 4}, {}}, []int{2, 4, 5}},
		"all but one":     {[][]int{{}, {}, {1, 2, 3, 4}, {}, {}}, []int{0, 0, 4, 5, 5}},
		"the whole table": {[][]int{{}, {}}, []int{1, 2}},
	} {
		t.Run(name, func(t *testing.T) {
			want := es[1:5]
			o := ReaderOptions{Smallest: es[1].Key, Largest: es[4].Key}
			if name == "the whole table" {
				want, o = nil, ReaderOptions{}
			}
			data := tableOfBlocks(t, c.blocks, c.separators, es)
			for _, cached := range []*BlockCache{nil, newCache()} {
				o.Cache = cached
				r, _ := openTable(t, data, o)
				requireEntries(t, r, want)
				copied, err := copied(r, WriterOptions{Filter: bloom})
				require.NoError(t, err)
				r, _ = openTable(t, copied, ReaderOptions{Policies: []filter.Policy{bloom}, Smallest: o.Smallest, Largest: o.Largest})
				requireEntries(t, r, want)
			}
			got, rep := salvageAll(t, data, ReaderOptions{})
			require.NoError(t, rep.Err)
			require.Equal(t, want, got)
		})
	}
}

// requireEntries reads a table in every way, and compares its entries with want.
func requireEntries(t *testing.T, r *Reader, want entries) {
	t.Helper()
	itertest.Run(t, base.Bytewise, want, 1, iters(t, r, IterOptions{}))
	for i := range 7 {
		checkGet(t, r, base.Bytewise, want, fmt.Appendf(nil, "key%08d", i), base.MaxSeq)
	}
	var sum uint64
	require.NoError(t, r.Stretches(1, func(_ []byte, n uint64) { sum += n }))
	_, size, err := r.DataBlocks()
	require.NoError(t, err)
	require.Equal(t, size, sum)
	var sampled entries
	require.NoError(t, r.SampleBlocks(100, func(_ uint64, ikey, _ []byte) error {
		sampled = append(sampled, itertest.Entry{Key: bytes.Clone(ikey)})
		return nil
	}))
	require.Len(t, sampled, len(want))
}
