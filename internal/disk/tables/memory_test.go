package tables

import (
	"runtime"
	"testing"
	"time"
	"weak"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/sstable"
)

func TestTablesDisplaceOnlyBlocksThatMemoryHasNoRoomFor(t *testing.T) {
	blocks := sstable.NewBlockCache(1000)
	c := NewCache(CacheOptions{MaxOpen: 10, Reader: sstable.ReaderOptions{Cache: blocks}})
	defer c.Close()
	c.memory.Add(10)
	require.Zero(t, blocks.Metrics().Charged, "nothing was said")
	c.SetBeside(500, 800)
	c.memory.Add(390)
	require.Zero(t, blocks.Metrics().Charged, "beside the blocks")
	c.memory.Add(400)
	require.EqualValues(t, 300, blocks.Metrics().Charged)
	c.memory.Add(4000)
	require.EqualValues(t, 800, blocks.Metrics().Charged, "the blocks keep the rest")
	c.SetBeside(0, -1)
	require.EqualValues(t, 4800, blocks.Metrics().Charged)
	c.memory.Add(-4800)
	require.Zero(t, blocks.Metrics().Charged)
}

// The tables of a store that its owner lost without closing it are freed, as everything else that nobody refers to.
func TestTheTablesOfACacheThatWasLostAreFreed(t *testing.T) {
	lost := func() weak.Pointer[sstable.Reader] {
		s := newShelf(t, 10)
		f := s.write(t, numbered(0, 10, 1), 10)[0]
		c := NewCache(CacheOptions{FS: s.dir.FS, Dir: s.dir.Path, MaxOpen: 10, Reader: s.cache.options.Reader})
		r, err := c.Get(f)
		require.NoError(t, err)
		return weak.Make(r)
	}()
	require.Eventually(t, func() bool { runtime.GC(); return lost.Value() == nil }, 10*time.Second, 10*time.Millisecond)
}
