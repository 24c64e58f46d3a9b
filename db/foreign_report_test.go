package db_test

import (
	"encoding/binary"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/report"
	"github.com/sievedb/sievedb/vfs"
)

//make:portable
func TestFilterReportsOfGoldenDatabases(t *testing.T) {
	dirs, err := os.ReadDir(goldenDir)
	require.NoError(t, err)
	verdicts := map[report.FilterVerdict]int{}
	for _, dir := range dirs {
		if !dir.IsDir() || dir.Name() == "features" { // see TestGoldenFeatures
			continue
		}
		t.Run(dir.Name(), func(t *testing.T) {
			g := loadGolden(t, dir.Name())
			d := g.open(t, g.copy(t), db.Options{ReadOnly: true})
			r, err := d.Filters(t.Context(), 1000)
			require.NoError(t, err)
			infos, err := d.Tables()
			require.NoError(t, err)
			require.Len(t, r.Tables, len(infos))
			for _, f := range r.Tables {
				require.NotContains(t, []report.FilterVerdict{report.VerdictDamaged, report.VerdictDenies, report.VerdictHighRate, report.VerdictSaturated}, f.Verdict, f.Detail)
				require.Zero(t, f.Probes.Denied)
				if f.Verdict == report.VerdictGood {
					require.Positive(t, f.Predicted)
					require.InDelta(t, 12, f.BitsPerKey, 6, "small filters have bits to spare")
				}
				verdicts[f.Verdict]++
			}
		})
	}
	require.Positive(t, verdicts[report.VerdictGood])
	require.Positive(t, verdicts[report.VerdictNoFilter])
}

// LevelDB's tables have a small filter for each 2 KiB and do not record the number of their keys.
func TestFilterReportsOfBlockRangeFilters(t *testing.T) {
	const n = 20000
	rng := rand.New(rand.NewPCG(3, 4))
	random, _ := binaryKeys(rng, n, 16)
	oddTails, _ := binaryKeys(rng, n, 7)
	var bigEndian [][]byte
	for i := range n {
		bigEndian = append(bigEndian, binary.BigEndian.AppendUint64(nil, uint64(2*i)))
	}
	cases := []struct {
		name     string
		policy   filter.Policy
		perBlock bool
		keys     [][]byte
		verdict  report.FilterVerdict
	}{
		{"random keys", filter.NewBloomPolicy(10), true, random, report.VerdictGood},
		{"random keys, one filter per table", filter.NewBloomPolicy(10), false, random, report.VerdictGood},
		{"big-endian counters", filter.NewBloomPolicy(10), true, bigEndian, report.VerdictCollisions},
		{"big-endian counters, one filter per table", filter.NewBloomPolicy(10), false, bigEndian, report.VerdictGood},
		{"goleveldb's", goleveldb, true, oddTails, report.VerdictGood},
		{"LevelDB's before 1.18", leveldb117, true, oddTails, report.VerdictGood},
		{"two bits per key", filter.NewBloomPolicy(2), true, random, report.VerdictGood},
		{"one bit per key, one filter per table", filter.NewBloomPolicy(1), false, random, report.VerdictSaturated},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			fsys := vfs.NewMem()
			foreignDB(t, fsys, c.policy, c.perBlock, c.keys)
			d := openTest(t, &db.Options{FS: fsys, ReadOnly: true})
			r, err := d.Filters(t.Context(), 4000)
			require.NoError(t, err)
			require.Len(t, r.Tables, 4)
			var keys uint64
			for _, f := range r.Tables {
				require.Equal(t, c.verdict, f.Verdict, f.Detail)
				keys += f.Keys
				require.Zero(t, f.Probes.Denied)
				require.Positive(t, f.BlockBytes)
			}
			if c.verdict != report.VerdictCollisions { // keys of one hash count as one
				require.InEpsilon(t, n, keys, 0.15, "the number of keys is estimated")
			}
			require.Equal(t, keys, r.Levels[0].Keys+r.Levels[1].Keys)
		})
	}
}

//make:portable
func TestGoldenDatabasesGetTheFiltersOfTheOptions(t *testing.T) {
	for _, name := range []string{"leveldb-1.23-levels-filter", "leveldb-1.23-levels-no-filter", "leveldb-1.17-signed-filter", "goleveldb-filter"} {
		g := loadGolden(t, name)
		t.Run(name+", by UpgradeFilters", func(t *testing.T) {
			d := g.open(t, g.copy(t), db.Options{})
			r, err := d.UpgradeFilters(background, nil, nil)
			require.NoError(t, err)
			require.Positive(t, r.Tables)
			require.Equal(t, name != "goleveldb-filter", r.Upgraded > 0,
				"the only table of that one comes from its log")
			require.Zero(t, r.Damaged)
			filters, err := d.Filters(background, 100)
			require.NoError(t, err)
			for _, f := range filters.Tables {
				require.Equal(t, filter.NewCacheLineBloomPolicy(10).Name(), f.Policy)
			}
			g.requireHeldBy(t, d)
		})
		t.Run(name+", by Compact, with a budget", func(t *testing.T) {
			d := g.open(t, g.copy(t), db.Options{Filters: db.FilterOptions{Budget: 1 << 20}})
			require.NoError(t, d.Compact(t.Context(), nil, nil))
			g.requireHeldBy(t, d)
			filters, err := d.Filters(t.Context(), 100)
			require.NoError(t, err)
			for _, f := range filters.Tables {
				require.Greater(t, f.BitsPerKey, 15.0, "the budget has room")
			}
		})
	}
}
