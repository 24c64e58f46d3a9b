package pick

import (
	"sort"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/disk/manifest"
)

// A table that is opened after it entered the version is considered once its counts are known.
func TestTablesAreNotedWhenTheirCountsBecomeKnown(t *testing.T) {
	v := newPicker(t, map[int][]*manifest.FileMeta{6: {file(1, "a", "c", 10_000), file(2, "d", "f", 10_000)}})
	o := Options{L0Trigger: 4, MaxLevelBase: 1500, TableSize: 8000, OldestReader: 50}
	o.Expired = func(f *manifest.FileMeta) bool { return f.Counts().Expiry <= 100 }
	require.Nil(t, v.Next(o))
	v.Levels[6].Files[0].SetCounts(&manifest.TableCounts{Entries: 100, Tombstones: 60, LargestSeq: 1})
	require.Equal(t, []uint64{1}, numsOf(v.Next(o).Inputs))
	v.Levels[6].Files[1].SetCounts(&manifest.TableCounts{Entries: 100, Expiry: 100})
	c := v.Next(o)
	require.Equal(t, []uint64{2}, numsOf(c.Inputs))
	require.True(t, c.Drop)
}

func TestOnlyTablesThatExpireInTimeAreAskedFor(t *testing.T) {
	v := newPicker(t, map[int][]*manifest.FileMeta{6: {
		expiring(1, "a", "b", 100), expiring(2, "c", "d", 101), expiring(3, "e", "f", 5), file(4, "g", "h", 1),
	}})
	var asked []uint64
	o := Options{L0Trigger: 4, MaxLevelBase: 1 << 30, TableSize: 8000, ExpiredBy: 100, Expired: func(f *manifest.FileMeta) bool {
		asked = append(asked, f.Num)
		return true
	}}
	require.Equal(t, []uint64{3, 1}, numsOf(v.Next(o).Inputs))
	require.Equal(t, []uint64{3, 1}, asked)
}

func TestClaimedTablesDoNotCountAsPartOfTheirLevel(t *testing.T) {
	a, b := file(1, "a", "c", 100), file(2, "e", "g", 60)
	v := newPicker(t, map[int][]*manifest.FileMeta{5: {a, b}, 6: {file(3, "a", "z", 600)}})
	o := testPick
	require.NotNil(t, v.Next(o))
	a.Compacting = true
	require.Equal(t, []uint64{2}, numsOf(v.Next(o).Inputs), "the level would be too large")
	o.Claimed = []*manifest.FileMeta{a}
	require.Nil(t, v.Next(o))
	o.Claimed, o.Running = nil, []*Compaction{{Version: v.Version, Level: 5, OutputLevel: 4, Inputs: []*manifest.FileMeta{a}}}
	require.Nil(t, v.Next(o))
	o.Running[0].Inputs = []*manifest.FileMeta{file(1, "a", "c", 100)}
	require.NotNil(t, v.Next(o), "a table of an older version does not count")
}

// A table of level 0 may overlap all others: some of them are enough for an estimate.
func TestTombstonesOverManyTablesAreEstimated(t *testing.T) {
	levels := map[int][]*manifest.FileMeta{0: {deleted(1, "a", "zzzz", 10_000, 1000, 0)}}
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
