package pick

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/disk/manifest"
)

func TestTablesArePlacedAboveOverlappingTables(t *testing.T) {
	// The base level is 5: level 6 has more than MaxLevelBase.
	levels := map[int][]*manifest.FileMeta{
		0: {file(1, "a", "c", 1)},
		5: {file(2, "e", "f", 50)},
		6: {file(3, "a", "h", 600), file(4, "k", "l", 60), file(5, "m", "p", 300)},
	}
	cases := []struct {
		name    string
		files   []*manifest.FileMeta
		running func(v Picker) []*Compaction
		want    []int
	}{
		{"a table without overlap goes to the last level", []*manifest.FileMeta{file(9, "q", "z", 1)}, nil, []int{6}},
		{"between two tables too", []*manifest.FileMeta{file(9, "i", "j", 1)}, nil, []int{6}},
		{"above the last level if it overlaps a table there", []*manifest.FileMeta{file(9, "l", "la", 1)}, nil, []int{5}},
		{"the ends of a range belong to it", []*manifest.FileMeta{file(9, "j", "k", 1)}, nil, []int{5}},
		{"a level higher if it overlaps too much of the last one; that is level 0 above the base level",
			[]*manifest.FileMeta{file(9, "m", "n", 1)}, nil, []int{0}},
		{"a table that overlaps level 0 stays there", []*manifest.FileMeta{file(9, "b", "b", 1)}, nil, []int{0}},
		{"few above the base level go to level 0", []*manifest.FileMeta{file(9, "e", "e", 1)}, nil, []int{0}},
		{"so many that level 0 would be full go just above the base level", []*manifest.FileMeta{file(8, "b", "b", 1), file(9, "e", "e", 1)}, nil, []int{0, 4}},
		{"each table is placed separately", []*manifest.FileMeta{file(8, "b", "b", 1), file(9, "i", "j", 1), file(10, "l", "lb", 1), file(11, "x", "z", 1)}, nil, []int{0, 6, 5, 6}},
		{
			"a running compaction may write between its inputs", []*manifest.FileMeta{file(8, "i", "j", 1), file(9, "q", "z", 1)},
			func(v Picker) []*Compaction {
				return []*Compaction{{Version: v.Version, Level: 5, OutputLevel: 6, Inputs: v.Levels[5].Files, Overlaps: v.Levels[6].Files}}
			}, []int{5, 6},
		},
		{
			"only on its output level", []*manifest.FileMeta{file(8, "i", "j", 1)},
			func(v Picker) []*Compaction {
				return []*Compaction{{Version: v.Version, Level: 0, OutputLevel: 5, Inputs: []*manifest.FileMeta{v.Levels[0].Files[0], file(7, "x", "y", 1)}}}
			}, []int{0},
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			v := newPicker(t, levels)
			require.Equal(t, 5, v.Shape(testPick).BaseLevel)
			o := testPick
			if c.running != nil {
				o.Running = c.running(v)
			}
			placed := v.Place(c.files, o)
			var got []int
			for i, p := range placed {
				require.Same(t, c.files[i], p.File)
				got = append(got, p.Level)
			}
			require.Equal(t, c.want, got)
			_, err := v.Apply(&manifest.Edit{Added: placed})
			require.NoError(t, err)
		})
	}
}

func TestEmptyDatabasePlacesTablesOnTheLastLevel(t *testing.T) {
	placed := newPicker(t, nil).Place([]*manifest.FileMeta{file(1, "a", "b", 1), file(2, "c", "d", 1)}, testPick)
	require.Equal(t, []int{6, 6}, []int{placed[0].Level, placed[1].Level})
}

// Tables of one load that overlap each other are found in the order of their numbers, on level 0.
func TestTablesThatOverlapEarlierOnesGoToLevel0(t *testing.T) {
	files := []*manifest.FileMeta{file(1, "c", "f", 1), file(2, "a", "d", 1), file(3, "m", "p", 1), file(4, "e", "n", 1), file(5, "x", "z", 1)}
	placed := newPicker(t, nil).Place(files, testPick)
	for i, level := range []int{placed[0].Level, 0, placed[2].Level, 0, placed[4].Level} {
		require.Equal(t, level, placed[i].Level, "table %d", files[i].Num)
		require.Equal(t, files[i], placed[i].File)
	}
	require.Positive(t, placed[0].Level)
	require.Positive(t, placed[2].Level)
	require.Positive(t, placed[4].Level)
}
