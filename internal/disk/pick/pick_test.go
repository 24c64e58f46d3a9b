package pick

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/disk/manifest"
)

var testPick = Options{L0Trigger: 2, MaxLevelBase: 100, TableSize: 10}

func TestShapeSizesLevelsFromTheLastOneUp(t *testing.T) {
	cases := []struct {
		name   string
		sizes  map[int]uint64
		base   int
		target map[int]uint64
	}{
		{"an empty database fills the last level", nil, 6, map[int]uint64{6: 100}},
		{"level 0 is compacted into a small last level", map[int]uint64{6: 90}, 6, nil},
		{"a larger last level gets a level above", map[int]uint64{6: 900}, 5, map[int]uint64{5: 100}},
		{"up to five times the minimum size", map[int]uint64{6: 500}, 6, nil},
		{"or up to a tenth of the last level, if that is more", map[int]uint64{6: 5000}, 5, map[int]uint64{5: 500}},
		{"a large last level gets two levels above", map[int]uint64{6: 20000}, 4, map[int]uint64{5: 2000, 4: 200}},
		{"no level is smaller than the minimum size", map[int]uint64{6: 6000}, 4, map[int]uint64{5: 600, 4: 100}},
		{"levels that LevelDB filled stay in use", map[int]uint64{1: 50, 2: 900}, 1, map[int]uint64{1: 100}},
		{"too few levels for the data are sized from the top", map[int]uint64{1: 100, 2: 50000}, 1, map[int]uint64{1: 100, 2: 1000, 3: 10000}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			levels := map[int][]*manifest.FileMeta{}
			num := uint64(0)
			for level, size := range c.sizes {
				num++
				levels[level] = []*manifest.FileMeta{file(num, "a", "z", size)}
			}
			s := newPicker(t, levels).Shape(testPick)
			require.Equal(t, c.base, s.BaseLevel)
			for level, want := range c.target {
				require.Equal(t, want, s.Target[level], "level %d", level)
			}
		})
	}
}

// A program that opens the store for one write each time leaves a table with each run.
func TestSmallTablesOfLevel0AreMergedWithEachOtherAndTheirNeighbours(t *testing.T) {
	o := Options{L0Trigger: 2, MaxLevelBase: 10_000, TableSize: 1600} // 100 bytes are small
	levels := map[int][]*manifest.FileMeta{
		0: {file(1, "g", "g", 20), file(2, "m", "m", 20), file(3, "r", "r", 90), file(4, "s", "s", 10)},
		6: {file(10, "a", "b", 30), file(11, "c", "d", 1000), file(12, "e", "f", 10), file(13, "h", "l", 15), file(14, "n", "o", 20), file(15, "p", "q", 90)},
	}
	c := newPicker(t, levels).Next(o)
	require.Equal(t, []uint64{2, 1}, numsOf(c.Inputs), "the third one would be too much")
	require.Equal(t, []uint64{12, 13, 14}, numsOf(c.Overlaps), "neighbours as long as all are small")
	require.LessOrEqual(t, c.InputBytes(), o.smallInputs())

	o.Running = []*Compaction{{Version: c.Version, OutputLevel: 6, Inputs: []*manifest.FileMeta{file(20, "n", "n", 1)}}}
	require.Equal(t, []uint64{12, 13}, numsOf(From(c.Version).Next(o).Overlaps), "not what another compaction may write")
	o.Running = nil
	levels[6][2].Compacting = true
	require.Equal(t, []uint64{13, 14}, numsOf(newPicker(t, levels).Next(o).Overlaps))

	o.TableSize = 100
	c = newPicker(t, levels).Next(o)
	require.Equal(t, []uint64{1}, numsOf(c.Inputs), "large tables are taken one by one")
	require.True(t, c.TrivialMove())

	o.TableSize = 1600
	levels[6][3].Size = 1000
	c = newPicker(t, levels).Next(o)
	require.Equal(t, []uint64{1}, numsOf(c.Inputs), "a large table is between their keys")
	require.True(t, c.TrivialMove(), "and its neighbours are in a compaction, or large")
}

func TestPickTakesAllOverlappingTablesOfLevel0(t *testing.T) {
	v := newPicker(t, map[int][]*manifest.FileMeta{
		0: {file(1, "a", "c", 1), file(2, "c", "f", 1), file(3, "f", "h", 1), file(4, "x", "z", 1)},
		6: {file(10, "b", "d", 1), file(11, "g", "i", 1), file(12, "j", "k", 1)},
	})
	c := v.Next(testPick)
	require.NotNil(t, c)
	require.Equal(t, []uint64{3, 2, 1}, numsOf(c.Inputs), "closed over the ranges, without the separate table")
	require.Equal(t, []uint64{10, 11}, numsOf(c.Overlaps))
	require.Equal(t, 6, c.OutputLevel)
}

func TestPickPrefersTheLeastOverlap(t *testing.T) {
	v := newPicker(t, map[int][]*manifest.FileMeta{
		5: {file(1, "a", "c", 100), file(2, "e", "g", 100)},
		6: {file(3, "a", "b", 600), file(4, "f", "f", 10), file(5, "x", "z", 100)},
	})
	c := v.Next(testPick)
	require.NotNil(t, c)
	require.Equal(t, []uint64{2}, numsOf(c.Inputs))
	require.Equal(t, []uint64{4}, numsOf(c.Overlaps))
}

func TestPickLeavesTablesInCompactionAlone(t *testing.T) {
	a, b := file(1, "a", "c", 100), file(2, "e", "g", 100)
	below := file(3, "a", "z", 600)
	v := newPicker(t, map[int][]*manifest.FileMeta{5: {a, b}, 6: {below}})
	below.Compacting = true
	require.Nil(t, v.Next(testPick))
	below.Compacting, a.Compacting = false, true
	v = newPicker(t, map[int][]*manifest.FileMeta{5: {a, b, file(4, "h", "i", 80)}, 6: {below}})
	c := v.Next(testPick)
	require.NotNil(t, c)
	require.NotContains(t, numsOf(c.Inputs), uint64(1))
}

// LevelDB issues 320 and 376: versions of one user key were in two tables of a level, and only the
// newer one was moved below the older.
func TestInputsAreClosedOverUserKeys(t *testing.T) {
	newer := manifest.NewFileMeta(1, 100, ikey("a", 9), ikey("k", 7))
	older := manifest.NewFileMeta(2, 100, ikey("k", 5), ikey("p", 3))
	v := newPicker(t, map[int][]*manifest.FileMeta{5: {newer, older, file(3, "q", "r", 1)}, 6: {file(9, "x", "z", 900)}})
	c, busy := v.OfFiles(5, 6, v.Overlapping(5, []byte("a"), []byte("b")), 1<<30, testPick)
	require.False(t, busy)
	require.Equal(t, []uint64{1, 2}, numsOf(c.Inputs))
}

// The second table shares a key with the first, and the third one with the second.
func TestInputsAreClosedOverChainsOfTablesThatShareKeys(t *testing.T) {
	first := manifest.NewFileMeta(1, 100, ikey("a", 9), ikey("k", 7))
	second := manifest.NewFileMeta(2, 100, ikey("k", 5), ikey("p", 8))
	third := manifest.NewFileMeta(3, 100, ikey("p", 3), ikey("q", 2))
	below := manifest.NewFileMeta(9, 100, ikey("q", 1), ikey("z", 1))
	v := newPicker(t, map[int][]*manifest.FileMeta{5: {first, second, third, file(4, "r", "s", 1)}, 6: {below}})
	for _, start := range []string{"a", "l", "q"} {
		c, busy := v.OfFiles(5, 6, v.Overlapping(5, []byte(start), []byte(start)), 1<<30, testPick)
		require.False(t, busy)
		require.Equal(t, []uint64{1, 2, 3}, numsOf(c.Inputs), "from %s", start)
		require.Equal(t, []uint64{9}, numsOf(c.Overlaps), "from %s", start)
	}
}

func TestTombstonesStayWhileADeeperLevelMayHoldTheKey(t *testing.T) {
	v := newPicker(t, map[int][]*manifest.FileMeta{
		4: {file(1, "a", "z", 1)}, 5: {file(2, "a", "z", 1)}, 6: {file(3, "c", "e", 1), file(4, "k", "m", 1)},
	})
	c, _ := v.OfFiles(4, 5, v.Overlapping(4, nil, nil), 1, testPick)
	var pos [manifest.NumLevels]int
	for _, k := range []struct {
		key  string
		want bool
	}{{"a", false}, {"c", true}, {"d", true}, {"e", true}, {"f", false}, {"k", true}, {"n", false}} {
		require.Equal(t, k.want, c.HasKeyBelow([]byte(k.key), &pos), "key %s", k.key)
	}
}

func TestTrivialMoveNeedsNoOverlapAndFewGrandparents(t *testing.T) {
	build := func(grandparent uint64) *Compaction {
		v := newPicker(t, map[int][]*manifest.FileMeta{4: {file(1, "a", "c", 1)}, 5: {file(2, "x", "z", 1)}, 6: {file(3, "a", "z", grandparent)}})
		c, _ := v.OfFiles(4, 5, v.Overlapping(4, nil, nil), 1, testPick)
		return c
	}
	require.True(t, build(100).TrivialMove())
	require.False(t, build(101).TrivialMove(), "compacting the moved table later would be expensive")
}

func TestPickAvoidsGapsOfRunningCompactions(t *testing.T) {
	v := newPicker(t, map[int][]*manifest.FileMeta{
		0: {file(1, "m", "n", 1)},
		5: {file(2, "a", "b", 1), file(3, "p", "q", 1), file(4, "x", "z", 1)},
		6: {file(5, "e", "f", 1)},
	})
	running := func(output int, files ...*manifest.FileMeta) Options {
		o := testPick
		o.Running = []*Compaction{{Version: v.Version, Level: 5, OutputLevel: output, Inputs: files}}
		return o
	}
	files := v.Levels[5].Files
	cases := []struct {
		name string
		o    Options
		busy bool
	}{
		{"one may write a table across the gap", running(5, files[0], files[1]), true},
		{"the gap is after its inputs", running(5, files[0]), false},
		{"the gap is before its inputs", running(5, files[1], files[2]), false},
		{"it writes to another level", running(6, files[0], files[1]), false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			picked, busy := v.OfFiles(0, 5, v.Overlapping(0, []byte("m"), []byte("m")), 1, c.o)
			require.Equal(t, c.busy, busy)
			require.Equal(t, c.busy, picked == nil)
		})
	}
}
