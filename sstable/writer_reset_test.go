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
		{"a packed fuse filter and LevelDB's", WriterOptions{Filter: filter.Several(filter.NewFusePolicy(7), bloom)}},
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

// With a budget, each table has a policy of its own, which is often equal to that of an earlier table.
func TestAResetWriterKeepsTheMemoryOfEqualPolicies(t *testing.T) {
	es := plainEntries(2000, 50)
	for name, policy := range map[string]func(bits int) filter.Policy{
		"both bloom filters": func(bits int) filter.Policy { return filter.NewDualBloomPolicy(bits) },
		"binary fuse":        func(bits int) filter.Policy { return filter.NewFusePolicy(bits) },
		"fuse and bloom": func(bits int) filter.Policy {
			return filter.Several(filter.NewFusePolicy(bits), filter.NewBloomPolicy(10))
		},
	} {
		w := NewWriter(io.Discard, WriterOptions{Filter: policy(7), Compression: Snappy})
		require.True(t, w.MakesFilter(policy(7)), name)
		require.False(t, w.MakesFilter(policy(6)), name)
		require.False(t, w.MakesFilter(filter.NewBloomPolicy(10)), name)
		require.False(t, w.MakesFilter(filter.Several(policy(7), constPolicy{answer: true})), name)
		require.False(t, w.MakesFilter(filter.None), name)
		write := func() {
			w.SetFilter(policy(7))
			for _, e := range es {
				_ = w.Add(e.Key, e.Value)
			}
			_, _ = w.Finish()
		}
		write()
		if name != "both bloom filters" {
			require.Greater(t, w.MemoryKept(), uint64(32*2000), "%s: the hashes and the solver", name)
		}
		const handful = 70 // for the tail of the file and the policies; the keys need none
		requireAllocs(t, handful, 10, func() { w.Reset(io.Discard); write() })
	}
	require.False(t, NewWriter(io.Discard, WriterOptions{}).MakesFilter(filter.None))
}
