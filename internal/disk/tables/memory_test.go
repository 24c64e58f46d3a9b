package tables

import (
	"testing"

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
