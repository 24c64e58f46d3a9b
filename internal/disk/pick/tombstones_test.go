package pick

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/disk/manifest"
)

// deleted is file with the given numbers of tombstones and values.
func deleted(num uint64, smallest, largest string, size, tombstones, values uint64) *manifest.FileMeta {
	f := file(num, smallest, largest, size)
	f.SetCounts(&manifest.TableCounts{Entries: tombstones + values, Tombstones: tombstones, LargestSeq: num})
	return f
}

func TestPickCompactsTablesWithManyTombstones(t *testing.T) {
	full := func(num uint64, smallest, largest string, size uint64) *manifest.FileMeta {
		return deleted(num, smallest, largest, size, 0, size/100)
	}
	o := Options{L0Trigger: 4, MaxLevelBase: 1500, TableSize: 8000, OldestReader: 50}
	cases := []struct {
		name   string
		levels map[int][]*manifest.FileMeta
		want   []uint64 // nil if nothing is picked
		output int
	}{
		{"the deleted keys are below",
			map[int][]*manifest.FileMeta{5: {deleted(1, "a", "c", 1000, 50, 0)}, 6: {full(2, "a", "c", 10000), full(3, "d", "e", 10000)}}, []uint64{1, 2}, 6},
		{"level 0 goes to the base level",
			map[int][]*manifest.FileMeta{0: {deleted(1, "a", "c", 1000, 50, 0)}, 6: {full(2, "a", "c", 7000)}}, []uint64{1, 2}, 6},
		{"the table that frees more in proportion to the bytes read",
			map[int][]*manifest.FileMeta{5: {deleted(1, "a", "c", 700, 50, 0), deleted(4, "d", "e", 700, 80, 0)}, 6: {full(2, "a", "c", 10000), full(3, "d", "e", 10000)}}, []uint64{4, 3}, 6},
		{"entries that are not counted are guessed",
			map[int][]*manifest.FileMeta{5: {deleted(1, "a", "c", 1000, 50, 0)}, 6: {file(2, "a", "c", 10000)}}, []uint64{1, 2}, 6},
		{"too few of the entries are tombstones",
			map[int][]*manifest.FileMeta{5: {deleted(1, "a", "c", 1000, 50, 150)}, 6: {full(2, "a", "c", 10000)}}, nil, 0},
		{"too much would be read for what it frees",
			map[int][]*manifest.FileMeta{5: {deleted(1, "a", "c", 1000, 50, 0)}, 6: {full(2, "a", "c", 100000)}}, nil, 0},
		{"too little to matter",
			map[int][]*manifest.FileMeta{5: {deleted(1, "a", "c", 100, 5, 0)}, 6: {full(2, "a", "c", 600), full(3, "x", "y", 20000)}}, nil, 0},
		{"it was not counted",
			map[int][]*manifest.FileMeta{5: {file(1, "a", "c", 1000)}, 6: {full(2, "a", "c", 10000)}}, nil, 0},
		{"it claims more tombstones than entries",
			map[int][]*manifest.FileMeta{5: {deleted(1, "a", "c", 1000, 50, ^uint64(40))}, 6: {full(2, "a", "c", 10000)}}, nil, 0},
		{"no table is below and all readers see the deletions: it is rewritten on its level",
			map[int][]*manifest.FileMeta{6: {deleted(49, "a", "c", 10000, 50, 50), full(2, "d", "e", 10000)}}, []uint64{49}, 6},
		{"a snapshot may need the tombstones",
			map[int][]*manifest.FileMeta{6: {deleted(51, "a", "c", 10000, 50, 50)}}, nil, 0},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			v := newPicker(t, c.levels)
			picked := v.Next(o)
			if c.want == nil {
				require.Nil(t, picked)
				return
			}
			require.NotNil(t, picked)
			require.Equal(t, c.want, numsOf(picked.AllInputs()))
			require.Equal(t, c.output, picked.OutputLevel)
			for _, f := range picked.AllInputs() {
				f.Compacting = true
			}
			if again := v.Next(o); again != nil {
				require.NotContains(t, numsOf(again.AllInputs()), c.want[0])
			}
		})
	}
}

func TestOfEqualTablesWithTombstonesTheFirstIsPicked(t *testing.T) {
	o := Options{L0Trigger: 4, MaxLevelBase: 1 << 20, TableSize: 8000, OldestReader: 50}
	levels := map[int][]*manifest.FileMeta{}
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

func TestOnlyTombstonesOfLevelZeroWaitForTheEndOfABurst(t *testing.T) {
	o := Options{L0Trigger: 4, MaxLevelBase: 1500, TableSize: 8000, OldestReader: 50, InBurst: true}
	for level, waits := range map[int]bool{0: true, 5: false} {
		v := newPicker(t, map[int][]*manifest.FileMeta{
			level: {deleted(1, "a", "c", 1000, 50, 0)}, 6: {deleted(2, "a", "c", 7000, 0, 70)},
		})
		require.Equal(t, waits, v.Next(o) == nil, "level %d", level)
	}
}

func TestFreesForeseesTheCompactionOfAFlushedTable(t *testing.T) {
	o := Options{L0Trigger: 4, MaxLevelBase: 1500, TableSize: 8000, OldestReader: 50}
	last := []*manifest.FileMeta{deleted(2, "a", "c", 7000, 0, 70), deleted(3, "d", "e", 1000, 0, 10)}
	v := newPicker(t, map[int][]*manifest.FileMeta{6: last})
	for _, c := range []struct {
		name string
		f    *manifest.FileMeta
		want bool
	}{
		{"half of what is below", deleted(0, "a", "c", 1000, 35, 0), true},
		{"a twentieth of it", deleted(0, "a", "c", 1000, 3, 0), false},
		{"few tombstones among values", deleted(0, "a", "c", 1000, 35, 100), false},
		{"nothing is below", deleted(0, "x", "z", 1000, 35, 0), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, v.Frees(c.f, o, func(*manifest.FileMeta) {}))
		})
	}
	known := last[0].Counts()
	last[0].SetCounts(nil)
	f := deleted(0, "a", "c", 20, 15, 0)
	require.False(t, v.Frees(f, o, func(*manifest.FileMeta) {}), "entries of an assumed size")
	require.True(t, v.Frees(f, o, func(f *manifest.FileMeta) { f.SetCounts(known) }), "their size is learned")
}

func TestOversizedLevelsComeBeforeTombstones(t *testing.T) {
	v := newPicker(t, map[int][]*manifest.FileMeta{
		0: {file(1, "x", "y", 1), file(2, "x", "y", 1)},
		5: {deleted(3, "a", "c", 1000, 50, 0)},
		6: {deleted(4, "a", "c", 10000, 0, 100)},
	})
	o := Options{L0Trigger: 2, MaxLevelBase: 1500, TableSize: 8000}
	require.Equal(t, 0, v.Next(o).Level)
}
