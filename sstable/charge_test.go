package sstable

import (
	"sync"
	"testing"

	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/stretchr/testify/require"
)

// blocksCharged charges tables to a cache.
type blocksCharged struct{ c *BlockCache }

func (b blocksCharged) Add(bytes int64) { b.c.Charge(bytes) }
func (b blocksCharged) Settle()         {}

func chargedTo(c *BlockCache, charged bool) MemoryUse {
	if !charged {
		return nil
	}
	return blocksCharged{c}
}

func TestFilterAndIndexAreChargedUntilTheTableIsClosed(t *testing.T) {
	data := buildTable(t, WriterOptions{Filter: bloom}, benchEntries(2000))
	for _, charged := range []bool{false, true} {
		c := NewBlockCache(1 << 20)
		r, _ := openTable(t, data, ReaderOptions{Policies: []filter.Policy{bloom}, Cache: c, Memory: chargedTo(c, charged)})
		want := func() int64 {
			if !charged {
				return 0
			}
			return int64(r.FilterSize() + r.IndexSize())
		}
		require.Equal(t, want(), c.Metrics().Charged, "the filter")
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				if _, _, err := r.loadIndex(); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		require.Positive(t, r.IndexSize())
		require.Equal(t, want(), c.Metrics().Charged, "and the index, once")
		require.NoError(t, r.Close())
		require.NoError(t, r.Close())
		require.Zero(t, c.Metrics().Charged)
	}
}

func TestARejectedTableChargesNothing(t *testing.T) {
	es := benchEntries(2000)
	data := buildTable(t, WriterOptions{Filter: bloom}, es)
	c := NewBlockCache(1 << 20)
	_, err := Open(&memFile{data: data}, ReaderOptions{
		Policies: []filter.Policy{bloom}, Cache: c, Memory: chargedTo(c, true),
		Smallest: es[1].Key, Largest: es[len(es)-1].Key, // another table's
	})
	require.ErrorIs(t, err, base.ErrCorruption)
	require.Zero(t, c.Metrics().Charged)
}

func TestAnIndexReadDuringCloseIsNotChargedForever(t *testing.T) {
	data := buildTable(t, WriterOptions{Filter: bloom}, benchEntries(500))
	c := NewBlockCache(1 << 20)
	for range 200 {
		r, _ := openTable(t, data, ReaderOptions{Policies: []filter.Policy{bloom}, Cache: c, Memory: chargedTo(c, true)})
		var wg sync.WaitGroup
		wg.Go(func() { _, _, _ = r.loadIndex() })
		wg.Go(func() { _ = r.Close() })
		wg.Wait()
		require.Zero(t, c.Metrics().Charged)
	}
}

func TestTheMemoryOfATableThatAnIteratorKeepsIsCounted(t *testing.T) {
	data := buildTable(t, WriterOptions{Filter: bloom}, benchEntries(2000))
	c := NewBlockCache(1 << 20)
	r, _ := openTable(t, data, ReaderOptions{Policies: []filter.Policy{bloom}, Cache: c, Memory: chargedTo(c, true)})
	result.Of(r.LoadIndex())(t)
	used := c.Metrics().Charged
	require.Equal(t, r.memory.bytes.Load(), used)
	require.True(t, r.Idle())
	require.True(t, r.Ref())
	require.False(t, r.Idle())
	require.NoError(t, r.Close())
	require.Equal(t, used, c.Metrics().Charged)
	r.Unref()
	require.Zero(t, c.Metrics().Charged)
	require.Zero(t, r.memory.bytes.Load())
}
