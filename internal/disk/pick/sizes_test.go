package pick

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/disk/manifest"
)

func TestTableSizesHalveAboveTheLastTwoLevels(t *testing.T) {
	const mib = 1 << 20
	v := newPicker(t, map[int][]*manifest.FileMeta{6: {file(1, "a", "b", 64<<30)}, 5: {file(2, "a", "b", 1)}})
	var sizes []uint64
	for level := range manifest.NumLevels {
		sizes = append(sizes, v.TableSizeIn(level, Options{LargestTable: manifest.MaxTableSize})/mib)
	}
	require.Equal(t, []uint64{2, 2, 4, 8, 16, 32, 32}, sizes)
	require.EqualValues(t, 4, v.TableSizeIn(6, Options{LargestTable: 4 * mib})/mib)
	require.EqualValues(t, 77, v.TableSizeIn(6, Options{TableSize: 77}), "a fixed size is exact")

	c, _ := v.OfFiles(5, 6, v.Levels[5].Files, 1, Options{LargestTable: manifest.MaxTableSize, MaxLevelBase: mib})
	require.EqualValues(t, 32*mib, c.TableSize)
}

// A store of LevelDB may have no table in the last levels.
func TestTableSizesBelowTheLastLevelInUseAreThoseOfThatLevel(t *testing.T) {
	v := newPicker(t, map[int][]*manifest.FileMeta{2: {file(1, "a", "b", 8<<30)}})
	o := Options{LargestTable: manifest.MaxTableSize}
	require.EqualValues(t, 4<<20, v.TableSizeIn(2, o))
	require.EqualValues(t, 4<<20, v.TableSizeIn(3, o))
	require.EqualValues(t, manifest.LeastTableSize, newPicker(t, nil).TableSizeIn(6, o))
}
