//go:build !race

package tables_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/filter/rangefilter"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/storetest"
	"github.com/sievedb/sievedb/vfs"
)

func TestRangeFiltersAddNoAllocations(t *testing.T) {
	allocs := func(ranges ...rangefilter.Policy) (bounded, unbounded float64) {
		d, _ := openTables(t, storetest.Options(vfs.NewMem()), ranges...)
		fillHoles(t, d, 3, 20)
		scan := func(o *db.IterOptions) func() {
			return func() {
				it, err := d.NewIterator(o)
				if err != nil || it.SeekGE([]byte("grp0000005")) != (o.UpperBound == nil) || it.Close() != nil {
					panic("the scan has a wrong result")
				}
			}
		}
		return testing.AllocsPerRun(100, scan(group(5))), testing.AllocsPerRun(100, scan(&db.IterOptions{}))
	}
	bounded, unbounded := allocs()
	filteredBounded, filteredUnbounded := allocs(fixture.PrefixOfTen, rangefilter.NewGrafite(rangefilter.FixedPrefix(3), rangefilter.Decimal(7), 16))
	require.LessOrEqual(t, filteredBounded, bounded)
	require.InDelta(t, unbounded, filteredUnbounded, 0.5)
}
