package damage_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/internal/test/damage"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/sstable"
)

// hostileTable returns an intact table to be forged, with n keys and incompressible values of valueBytes.
func hostileTable(t testing.TB, policy filter.Policy, n, valueBytes int) forgedSource {
	rnd := rand.NewChaCha8([32]byte{1})
	value := make([]byte, valueBytes)
	var entries []fixture.Entry
	for i := range n {
		_, _ = rnd.Read(value)
		entries = append(entries, fixture.Put(string(fixture.Key(i)), 4, string(value)))
	}
	return sourceOf(t, sstable.WriterOptions{Filter: policy}, entries)
}

// reportAndUpgrade calls everything that uses the filter's figures on a store with this table. Any result is allowed,
// but the calls must end, use little memory, write little and not panic. It returns the first report with probes.
func reportAndUpgrade(t testing.TB, s forgedSource, table []byte) (report *db.FilterReport) {
	e := fixture.EmptyEdit()
	e.Added = []version.LevelFile{{Level: 1, File: s.meta(5, table)}}
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
		s := hostileTable(t, policy, 1000, fileBytes/1000)
		for _, keys := range []uint64{0, 1, 1001, fileBytes, 1 << 60, math.MaxUint64} {
			t.Run(fmt.Sprintf("%s, %d keys", policy.Name(), keys), func(t *testing.T) {
				r := reportAndUpgrade(t, s, s.forge.WithProperty("filter-keys", keys))
				require.Len(t, r.Tables, 1)
				if i == 0 && keys > 0 && keys <= fileBytes {
					require.Equal(t, keys, r.Tables[0].Keys, "the report has the forged property")
				}
			})
		}
		for _, name := range []string{"entries", "data-blocks", "data-bytes"} {
			for _, value := range []uint64{0, math.MaxUint64} {
				t.Run(fmt.Sprintf("%s, %s of %d", policy.Name(), name, value), func(t *testing.T) {
					reportAndUpgrade(t, s, s.forge.WithProperty(name, value))
				})
			}
		}
	}
}

func FuzzReportsAndUpgradesOfForgedTables(f *testing.F) {
	s := hostileTable(f, filter.NewCacheLineBloomPolicy(10), 20, 10)
	f.Add(s.forge.Sound())
	f.Add(s.forge.WithProperty("filter-keys", 1<<60))
	legacy := hostileTable(f, filter.NewBloomPolicy(10), 20, 10)
	f.Add(legacy.forge.WithProperty("filter-keys", math.MaxUint64))
	f.Fuzz(func(t *testing.T, table []byte) { reportAndUpgrade(t, s, table) })
}
