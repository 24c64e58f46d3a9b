package sstable

import (
	"bytes"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/base"
)

func TestAResetWriterWritesTheSameAsANewOne(t *testing.T) {
	cases := []struct {
		name    string
		options WriterOptions
	}{
		{"both bloom filters, Snappy", WriterOptions{Filter: filter.NewDualBloomPolicy(10), Compression: Snappy}},
		{"a binary fuse filter", WriterOptions{Filter: filter.FusePolicy{}, Compression: Snappy}},
		{"no filter, raw", WriterOptions{}},
		{"a policy without a generator", WriterOptions{Filter: constPolicy{answer: true}, BlockSize: 200}},
		{"another order", WriterOptions{Comparer: reverseOrder, Filter: filter.NewBloomPolicy(4), BlockRestartInterval: 3}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			cmp := c.options.Comparer
			if cmp == nil {
				cmp = base.Bytewise
			}
			var file bytes.Buffer
			w := NewWriter(&file, c.options)
			// Tables larger and smaller than the previous one, and an empty one.
			for round, n := range []int{300, 2000, 40, 0, 700} {
				es := trickyEntries(rand.New(rand.NewPCG(7, uint64(round))), cmp, n)
				if round > 0 {
					w.Reset(&file)
				}
				file.Reset()
				addAll(t, w, es)
				finish(t, w)
				require.True(t, bytes.Equal(buildTable(t, c.options, es), file.Bytes()), "round %d", round)
				if len(es) > 0 {
					require.Equal(t, es[0].Key, w.Smallest())
					require.Equal(t, es[len(es)-1].Key, w.Largest())
				}
			}
		})
	}
}

func TestAnUnfinishedWriterIsNotReset(t *testing.T) {
	w := NewWriter(io.Discard, WriterOptions{})
	require.Panics(t, func() { w.Reset(io.Discard) })
}

func TestAResetWriterAllocatesHardlyAnyMemory(t *testing.T) {
	es := plainEntries(2000, 50)
	w := NewWriter(io.Discard, WriterOptions{Filter: filter.NewDualBloomPolicy(10), Compression: Snappy})
	write := func() {
		for _, e := range es {
			_ = w.Add(e.Key, e.Value)
		}
		_, _ = w.Finish()
	}
	write()
	const handful = 50 // for the tail of the file; entries and blocks need none
	requireAllocs(t, handful, 10, func() { w.Reset(io.Discard); write() })
}
