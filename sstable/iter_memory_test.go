package sstable

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
)

// Thousands of iterators that are open at once each kept a block as it is stored beside the decompressed one.
func TestAnIteratorKeepsOneFormOfItsBlock(t *testing.T) {
	es := plainEntries(2000, 100)
	for kind, keeps := range map[Compression]bool{Snappy: false, NoCompression: true} {
		data := buildTable(t, WriterOptions{Compression: kind}, es)
		r, _ := openTable(t, data, ReaderOptions{Cache: NewBlockCache(0)})
		its := make([]*Iter, 50)
		for i := range its {
			var err error
			its[i], err = r.NewIter(IterOptions{})
			require.NoError(t, err)
			its[i].scratch = new(scratch) // not one with memory of another test
			require.True(t, its[i].SeekGE(es[30*i].Key))
		}
		for i, it := range its {
			require.Equal(t, es[30*i].Key, it.Key(), "the memory is another iterator's as well")
			require.Equal(t, es[30*i].Value, it.Value())
			require.Equal(t, keeps, it.scratch.stored != nil)
			require.True(t, it.Next())
			require.Zero(t, base.CompareInternal(base.Bytewise, es[30*i+1].Key, it.Key()))
			require.NoError(t, it.Close())
		}
	}
}
