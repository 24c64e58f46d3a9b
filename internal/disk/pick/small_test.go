package pick

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/disk/manifest"
)

// smallTables returns a version whose last level has n tables of a size.
func smallTables(t *testing.T, n int, size uint64) Picker {
	t.Helper()
	files := make([]*manifest.FileMeta, n)
	for i := range files {
		files[i] = file(uint64(i+1), fmt.Sprintf("%06d", i), fmt.Sprintf("%06d+", i), size)
	}
	return newPicker(t, map[int][]*manifest.FileMeta{6: files})
}

func TestNeighboursAreMergedIfThereAreManySmallTables(t *testing.T) {
	o := Options{L0Trigger: 4, MaxLevelBase: 16 << 20, TableSize: 8 << 20}
	v := smallTables(t, fewTables+1, 1<<20)
	require.Equal(t, fewTables+1-(fewTables+1)/8, v.TablesToMerge(o))
	c := v.Next(o)
	require.NotNil(t, c)
	require.Len(t, c.Inputs, 64)
	require.Equal(t, []int{6, 6}, []int{c.Level, c.OutputLevel})
	require.True(t, c.Unhurried)
	require.EqualValues(t, 8<<20, c.TableSize)

	busy := o
	busy.Running = []*Compaction{c}
	require.Nil(t, v.Next(busy), "one at a time")
	busy = o
	busy.InBurst = true
	require.Nil(t, v.Next(busy), "while memtables become full, there is something else to do")

	v.Levels[6].Files[3].Compacting = true
	require.Len(t, v.Next(o).Inputs, 3)
}

func TestTablesThatAreFewOrLargeEnoughAreNotMerged(t *testing.T) {
	o := Options{L0Trigger: 4, MaxLevelBase: 16 << 20, TableSize: 8 << 20}
	for name, v := range map[string]Picker{
		"few":          smallTables(t, fewTables, 1<<20),
		"large enough": smallTables(t, fewTables+1, 2<<20),
		"none":         newPicker(t, nil),
	} {
		require.Zero(t, v.TablesToMerge(o), name)
		require.Nil(t, v.Next(o), name)
	}
}

// Each merge halves the number of its tables, so all of them end.
func TestMergesOfSmallTablesEnd(t *testing.T) {
	const size = 8 << 20
	o := Options{L0Trigger: 4, MaxLevelBase: 16 << 20, TableSize: size}
	v := smallTables(t, 2*fewTables, 1<<20)
	num := uint64(1 << 20)
	for merges := 0; ; merges++ {
		require.Less(t, merges, 2*fewTables/64+1)
		c := v.Next(o)
		if c == nil {
			break
		}
		e := &manifest.Edit{}
		var bytes uint64
		for _, f := range c.Inputs {
			bytes += f.Size
			e.Deleted = append(e.Deleted, manifest.DeletedFile{Level: 6, Num: f.Num})
		}
		for i := range (bytes + size - 1) / size {
			f := c.Inputs[i]
			e.Added = append(e.Added, manifest.LevelFile{Level: 6, File: manifest.NewFileMeta(num, min(size, bytes), f.Smallest, f.Largest)})
			num++
			bytes -= min(size, bytes)
		}
		next, err := v.Apply(e)
		require.NoError(t, err)
		v = From(next)
	}
	require.Zero(t, v.TablesToMerge(o))
}
