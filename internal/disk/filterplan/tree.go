package filterplan

import (
	"math"

	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/disk/version"
)

// Tree returns the levels of a store with that many keys, with the sizes that
// version.Version.Shape assigns. From the last level up, each level has a tenth of the one below,
// down to MaxLevelBase; level 0 has the number of memtables that triggers a compaction.
func (o *Options) Tree(keys, entryBytes float64) []filter.LevelLoad {
	tree := make([]filter.LevelLoad, version.NumLevels)
	perRun := max(1, float64(o.WriteBufferSize)/entryBytes)
	runs := min(float64(o.L0CompactionTrigger), math.Ceil(keys/perRun))
	tree[0] = filter.LevelLoad{Keys: min(keys, runs*perRun), Weight: runs}
	rest := keys - tree[0].Keys
	if rest <= 0 {
		return tree
	}
	const last = version.NumLevels - 1
	shares, levels := 1.0, 1
	for share := 0.1; levels < last && rest*entryBytes*share/(shares+share) > float64(o.MaxLevelBase)/10; share /= 10 {
		shares += share
		levels++
	}
	for i := range levels {
		tree[last-i] = filter.LevelLoad{Keys: rest * math.Pow(0.1, float64(i)) / shares, Weight: 1}
	}
	return tree
}
