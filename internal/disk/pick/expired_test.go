package pick

import (
	"sort"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/internal/test/result"
)

func TestTheTablesWithTheMostGarbageAreCollected(t *testing.T) {
	e := version.Change{Added: []version.LevelFile{{Level: 0, File: file(4, "a", "b", 1)}}}
	for i := range uint64(10) { // table 10+i has i tenths of garbage
		f := file(10+i, "a", "z", 10<<20)
		f.SetValueBytes(20 << 20)
		e.Added = append(e.Added, version.LevelFile{Level: version.ValuesLevel, File: f})
		e.Values = append(e.Values, version.ValueDelta{ID: 10 + i, File: 10 + i, Live: int64((20 << 20) / 10 * (10 - i))})
	}
	applied := result.Of(version.New(base.Bytewise, new(version.Owner)).Apply(e))(t)
	v := From(applied)
	size, garbage := v.ValueBytes()
	require.EqualValues(t, 100<<20, size)
	require.InDelta(t, 45<<20, garbage, 100)
	o := Options{MaxLevelBase: 10 << 20, L0Trigger: 4}
	nums := func(c *Compaction) (nums []uint64) {
		require.NotNil(t, c)
		require.Equal(t, version.ValuesLevel, c.Level)
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
	o.Running = []*Compaction{{Version: v.Version, Level: version.ValuesLevel, OutputLevel: version.ValuesLevel, Inputs: []*version.FileMeta{v.ValueTableOf(19)}}}
	require.Nil(t, v.Next(o), "one at a time")
	require.Zero(t, v.GarbageLoad(nil, 0))
}

// A table of level 0 may overlap all others: some of them are enough for an estimate.
func TestTombstonesOverManyTablesAreEstimated(t *testing.T) {
	levels := map[int][]*version.FileMeta{0: {deleted(1, "a", "zzzz", 10_000, 1000, 0)}}
	for i := range 500 {
		k := string([]byte{byte('a' + i/20), byte('a' + i%20)})
		levels[6] = append(levels[6], deleted(uint64(i+2), k, k+"a", 100, 0, 1))
	}
	v := newPicker(t, levels)
	f := v.Levels[0].Files[0]
	freed, _, read := v.freedBy(0, f, Options{})
	require.Equal(t, uint64(10_000+500*100), read)
	require.Equal(t, uint64(10_000+500*100), freed)
}

func TestGallopFindsTheFirst(t *testing.T) {
	for n := range 70 {
		for first := range n + 1 {
			found := func(i int) bool {
				require.Less(t, i, n)
				return i >= first
			}
			require.Equal(t, sort.Search(n, found), gallop(n, found), "%d of %d", first, n)
		}
	}
}

// deleted is file with the given numbers of tombstones and values.
func deleted(num uint64, smallest, largest string, size, tombstones, values uint64) *version.FileMeta {
	f := file(num, smallest, largest, size)
	f.SetCounts(&version.TableCounts{Entries: tombstones + values, Tombstones: tombstones, LargestSeq: num})
	return f
}

func TestOfEqualTablesWithTombstonesTheFirstIsPicked(t *testing.T) {
	o := Options{L0Trigger: 4, MaxLevelBase: 1 << 20, TableSize: 8000, OldestReader: 50}
	levels := map[int][]*version.FileMeta{}
	for i := range 20 {
		k := string(byte('a' + i))
		levels[6-i/10] = append(levels[6-i/10], deleted(uint64(40-i), k, k+"x", 10_000, 50, 50))
	}
	v := newPicker(t, levels)
	for range 20 { // the order in which they are considered is random
		require.Equal(t, []uint64{21}, numsOf(v.pickFreeing(v.Shape(o), o).Inputs))
	}
	v.Levels[5].Files[9].Compacting = true
	require.Equal(t, []uint64{22}, numsOf(v.pickFreeing(v.Shape(o), o).Inputs))
}
