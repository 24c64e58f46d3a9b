package pick

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/manifest"
)

func TestTheTablesWithTheMostGarbageAreCollected(t *testing.T) {
	s := manifest.New(manifest.SetOptions{Cmp: base.Bytewise})
	e := &manifest.Edit{Added: []manifest.LevelFile{{Level: 0, File: file(4, "a", "b", 1)}}}
	for i := range uint64(10) { // table 10+i has i tenths of garbage
		f := file(10+i, "a", "z", 10<<20)
		f.SetValueBytes(20 << 20)
		e.Added = append(e.Added, manifest.LevelFile{Level: manifest.ValuesLevel, File: f})
		e.Values = append(e.Values, manifest.ValueDelta{ID: 10 + i, File: 10 + i, Live: int64((20 << 20) / 10 * (10 - i))})
	}
	applied, err := s.Current().Apply(e)
	require.NoError(t, err)
	v := From(applied)
	size, garbage := v.ValueBytes()
	require.EqualValues(t, 100<<20, size)
	require.InDelta(t, 45<<20, garbage, 100)
	o := Options{MaxLevelBase: 10 << 20, L0Trigger: 4}
	nums := func(c *Compaction) (nums []uint64) {
		require.NotNil(t, c)
		require.Equal(t, manifest.ValuesLevel, c.Level)
		for _, f := range c.Inputs {
			nums = append(nums, f.Num)
		}
		return nums
	}
	require.Equal(t, []uint64{19, 18, 17, 16, 15, 14, 13, 12}, nums(v.Next(o)))
	require.Nil(t, v.pickValues(46, o), "less is garbage")
	o.NoValues = true
	require.Nil(t, v.Next(o), "a collection has failed a moment ago")
	o.NoValues = false
	o.MaxLevelBase = 8 * 46 << 20
	require.Nil(t, v.pickValues(garbageDue, o), "it is not worth it")
	o.MaxLevelBase = 10 << 20
	v.ValueTableOf(19).Compacting = true
	require.Equal(t, []uint64{18, 17, 16, 15, 14, 13, 12}, nums(v.Next(o)))
	o.Running = []*Compaction{{Version: v.Version, Level: manifest.ValuesLevel, OutputLevel: manifest.ValuesLevel, Inputs: []*manifest.FileMeta{v.ValueTableOf(19)}}}
	require.Nil(t, v.Next(o), "one at a time")
	require.Zero(t, v.GarbageLoad(nil, 0))
}
