package manifest

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTablesGrowWithTheLastLevel(t *testing.T) {
	const mib = 1 << 20
	for lastLevel, want := range map[uint64]uint64{
		0: 2 * mib, 4096 * mib: 2 * mib, 8192 * mib: 4 * mib, 65536 * mib: 32 * mib, 1 << 40: 64 * mib, 1 << 62: 64 * mib,
	} {
		require.Equal(t, want, GrownTableSize(lastLevel, MaxTableSize), lastLevel)
	}
	require.EqualValues(t, 8*mib, GrownTableSize(1<<40, 8*mib))
	require.EqualValues(t, 2*mib, GrownTableSize(1<<40, 0))
	require.EqualValues(t, 4*mib, LoadTableSize(2048*mib, MaxTableSize))
}

func TestTableSizesHalveAboveTheLastTwoLevels(t *testing.T) {
	const mib = 1 << 20
	v := newVersion(t, map[int][]*FileMeta{6: {file(1, "a", "b", 64<<30)}, 5: {file(2, "a", "b", 1)}})
	var sizes []uint64
	for level := range NumLevels {
		sizes = append(sizes, v.TableSizeIn(level, PickOptions{LargestTable: MaxTableSize})/mib)
	}
	require.Equal(t, []uint64{2, 2, 4, 8, 16, 32, 32}, sizes)
	require.EqualValues(t, 4, v.TableSizeIn(6, PickOptions{LargestTable: 4 * mib})/mib)
	require.EqualValues(t, 77, v.TableSizeIn(6, PickOptions{TableSize: 77}), "a fixed size is exact")

	c, _ := v.PickFiles(5, 6, v.Levels[5].Files, 1, PickOptions{LargestTable: MaxTableSize, MaxLevelBase: mib})
	require.EqualValues(t, 32*mib, c.TableSize)
}

// A store of LevelDB may have no table in the last levels.
func TestTableSizesBelowTheLastLevelInUseAreThoseOfThatLevel(t *testing.T) {
	v := newVersion(t, map[int][]*FileMeta{2: {file(1, "a", "b", 8<<30)}})
	o := PickOptions{LargestTable: MaxTableSize}
	require.EqualValues(t, 4<<20, v.TableSizeIn(2, o))
	require.EqualValues(t, 4<<20, v.TableSizeIn(3, o))
	require.EqualValues(t, LeastTableSize, newVersion(t, nil).TableSizeIn(6, o))
}
