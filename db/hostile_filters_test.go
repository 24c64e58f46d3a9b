package db_test

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/test/damage"
	"github.com/sievedb/sievedb/sstable"
	"github.com/stretchr/testify/require"
)

// hostileTable returns an intact table to be forged, with n keys and incompressible values of valueBytes.
func hostileTable(t testing.TB, policy filter.Policy, n, valueBytes int) (*damage.Forge, *manifest.FileMeta) {
	var file bytes.Buffer
	rnd := rand.NewChaCha8([32]byte{1})
	value := make([]byte, valueBytes)
	w := sstable.NewWriter(&file, sstable.WriterOptions{Filter: policy})
	for i := range n {
		_, _ = rnd.Read(value)
		require.NoError(t, w.Add(base.AppendInternalKey(nil, testKey(i), 4, base.KindSet), value))
	}
	_, err := w.Finish()
	require.NoError(t, err)
	forge, err := damage.NewForge(file.Bytes())
	require.NoError(t, err)
	require.Equal(t, file.Bytes(), forge.Sound())
	return forge, manifest.NewFileMeta(5, w.Size(), w.Smallest(), bytes.Clone(w.Largest()))
}

// reportAndUpgrade calls everything that uses the filter's figures on a store with this table. Any result is allowed,
// but the calls must end, use little memory, write little and not panic. It returns the first report with probes.
func reportAndUpgrade(t testing.TB, table []byte, meta *manifest.FileMeta) (report *db.FilterReport) {
	e := hostileEdit()
	e.Added = []manifest.LevelFile{{Level: 1, File: manifest.NewFileMeta(5, uint64(len(table)), meta.Smallest, meta.Largest)}}
	im := hostileImage(t, [][]byte{e.Encode(nil)}, damage.Image{"000005.ldb": table})
	defer damage.Watch("a report or an upgrade of a forged table")()
	for _, o := range []db.Options{{}, {Filters: db.FilterOptions{Policy: filter.FusePolicy{}}}, {Filters: db.FilterOptions{Budget: 1000}}} {
		mem, err := im.FS("db")
		require.NoError(t, err)
		var written func() uint64
		o.FS, written = countWrites(mem)
		o.Cache.Size, o.Memtables.Size = 64<<10, 64<<10
		before := damage.Allocated()
		d, err := db.Open("db", &o)
		if err != nil {
			require.True(t, base.IsUnreadable(err), "%v", err)
			continue
		}
		for _, probes := range []int{0, 100} {
			r, err := d.Filters(t.Context(), probes)
			require.NoError(t, err)
			if probes > 0 && report == nil {
				report = r
			}
		}
		for _, dry := range []bool{true, false} {
			_, err = d.UpgradeFilters(t.Context(), nil, &db.UpgradeOptions{DryRun: dry})
			if err != nil {
				require.True(t, base.IsUnreadable(err), "%v", err)
			}
		}
		require.NoError(t, d.Close())
		require.LessOrEqual(t, damage.Allocated()-before, damage.MemoryBound(im.Size()))
		require.LessOrEqual(t, written(), damage.WriteBound(im.Size()))
	}
	return report
}

func TestForgedPropertiesCostLittleMemory(t *testing.T) {
	const fileBytes = 4 << 20
	for i, policy := range []filter.Policy{filter.NewBloomPolicy(10), filter.FusePolicy{}, filter.NewFusePolicy(7)} {
		forge, meta := hostileTable(t, policy, 1000, fileBytes/1000)
		for _, keys := range []uint64{0, 1, 1001, fileBytes, 1 << 60, math.MaxUint64} {
			t.Run(fmt.Sprintf("%s, %d keys", policy.Name(), keys), func(t *testing.T) {
				r := reportAndUpgrade(t, forge.WithProperty("filter-keys", keys), meta)
				require.Len(t, r.Tables, 1)
				if i == 0 && keys > 0 && keys <= fileBytes {
					require.Equal(t, keys, r.Tables[0].Keys, "the report has the forged property")
				}
			})
		}
		for _, name := range []string{"entries", "data-blocks", "data-bytes"} {
			for _, value := range []uint64{0, math.MaxUint64} {
				t.Run(fmt.Sprintf("%s, %s of %d", policy.Name(), name, value), func(t *testing.T) {
					reportAndUpgrade(t, forge.WithProperty(name, value), meta)
				})
			}
		}
	}
}

// Numbers and bytes anywhere in a table are forged, including its filter and properties.
func TestForgedTablesAreReportedAndUpgradedOrRefused(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 3))
	tables := 100
	if sampled() {
		tables = 25
	}
	for _, policy := range []filter.Policy{
		filter.NewBloomPolicy(10), filter.NewCacheLineBloomPolicy(10), filter.FusePolicy{}, filter.NewFusePolicy(7),
	} {
		forge, meta := hostileTable(t, policy, 20, 10)
		sites := forge.Sites()
		for range tables {
			table, changed := forge.Build(rnd, sites)
			t.Run(fmt.Sprint(changed), func(t *testing.T) { reportAndUpgrade(t, table, meta) })
		}
	}
}

func FuzzReportsAndUpgradesOfForgedTables(f *testing.F) {
	forge, meta := hostileTable(f, filter.NewCacheLineBloomPolicy(10), 20, 10)
	f.Add(forge.Sound())
	f.Add(forge.WithProperty("filter-keys", 1<<60))
	legacy, _ := hostileTable(f, filter.NewBloomPolicy(10), 20, 10)
	f.Add(legacy.WithProperty("filter-keys", math.MaxUint64))
	f.Fuzz(func(t *testing.T, table []byte) { reportAndUpgrade(t, table, meta) })
}
