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

func TestSampledBlocksAreSpreadOverTheTable(t *testing.T) {
	const n = 2000
	r := figuresTable(t, filter.NewDualBloomPolicy(10), n)
	blocks, size, err := r.DataBlocks()
	require.NoError(t, err)
	p, ok := r.Properties()
	require.True(t, ok)
	require.EqualValues(t, p.DataBlocks, blocks)
	require.Equal(t, p.DataBytes, size)
	require.Greater(t, blocks, 20)
	for _, want := range []int{0, 1, 7, blocks, 10 * blocks} {
		var offsets []uint64
		entries, last := 0, []byte(nil)
		require.NoError(t, r.SampleBlocks(want, func(offset uint64, ikey, _ []byte) error {
			if len(offsets) == 0 || offsets[len(offsets)-1] != offset {
				offsets = append(offsets, offset)
			}
			require.True(t, last == nil || base.CompareInternal(base.Bytewise, last, ikey) < 0)
			last = append(last[:0], ikey...)
			require.Equal(t, FilterPassed, r.VerdictAt(base.UserKey(ikey), offset))
			entries++
			return nil
		}))
		require.Len(t, offsets, min(want, blocks))
		require.True(t, entries == n == (want >= blocks))
		if want == 7 {
			require.Greater(t, offsets[6], size*3/4)
		}
	}
	require.ErrorIs(t, r.SampleBlocks(3, func(uint64, []byte, []byte) error { return errTail }), errTail)
}

func TestFilterSummary(t *testing.T) {
	r := figuresTable(t, filter.NewDualBloomPolicy(10), 2000)
	g := r.FilterSummary()
	require.Equal(t, 1, g.Filters)
	require.EqualValues(t, 2000, g.Keys)
	require.EqualValues(t, 64, g.HashBits)
	require.InDelta(t, 0.0097, g.Predicted, 0.001)
	var lk Lookup
	denied := 0
	for i := range 1000 {
		lk.Init(fmt.Appendf(nil, "absent%06d", i), base.MaxSeq)
		if r.Verdict(&lk) == FilterNegative {
			denied++
			require.True(t, r.Denies(&lk))
		}
	}
	require.Greater(t, denied, 950)

	none := figuresTable(t, nil, 100)
	require.Equal(t, FilterSummary{Predicted: -1}, none.FilterSummary())
	require.Equal(t, FilterNone, none.Verdict(&lk))
	require.Equal(t, FilterNone, none.VerdictAt([]byte("k"), 0))
}

func TestSetFilterChangesTheNextTablesFilter(t *testing.T) {
	var w *Writer
	for _, c := range []struct {
		bits int
		size uint64
	}{{10, 100 * 10 / 8}, {20, 100 * 20 / 8}, {0, 0}, {5, 100 * 5 / 8}, {5, 100 * 5 / 8}} {
		f := new(bytes.Buffer)
		if w == nil {
			w = NewWriter(f, WriterOptions{Filter: filter.NewBloomPolicy(3)})
		} else {
			w.Reset(f)
		}
		p, ok := filter.WithBitsPerKey(filter.NewBloomPolicy(3), c.bits)
		require.True(t, ok)
		w.SetFilter(p)
		for i := range 100 {
			require.NoError(t, w.Add(base.AppendInternalKey(nil, fmt.Appendf(nil, "%06d", i), 1, base.KindSet), nil))
		}
		require.EqualValues(t, 100, w.Entries())
		require.Panics(t, func() { w.SetFilter(p) })
		finish(t, w)
		require.InDelta(t, c.size, w.FilterSize(), 20)
		r, err := Open(&memFile{data: f.Bytes()}, ReaderOptions{Policies: []filter.Policy{filter.NewBloomPolicy(10)}})
		require.NoError(t, err)
		require.InDelta(t, c.size, r.FilterSummary().Bytes, 20)
		require.NoError(t, r.Close())
	}
}

// figuresTable has n keys, a few dozen per block.
func figuresTable(t *testing.T, p filter.Policy, n int) *Reader {
	es := make(entries, n)
	for i := range es {
		es[i] = itertest.Entry{Key: ikey(fmt.Sprintf("key%06d", i), 1, base.KindSet), Value: []byte("value")}
	}
	data := buildTable(t, WriterOptions{Filter: p, BlockSize: 1024}, es)
	r, _ := openTable(t, data, ReaderOptions{Policies: filter.Kinds(filter.NewDualBloomPolicy(10))})
	return r
}
