package tables_test

import (
	"encoding/binary"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/storetest"
	"github.com/sievedb/sievedb/report"
	"github.com/sievedb/sievedb/util"
	"github.com/sievedb/sievedb/vfs"
)

// rewriteFilter changes the filter block of a table, except its trailer. If restamp is set, it makes
// the checksum match.
func rewriteFilter(t testing.TB, fsys vfs.FS, table string, p filter.Policy, restamp bool, change func(block []byte)) {
	t.Helper()
	data := fixture.ReadFile(t, fsys, table)
	at, size := fixture.FilterBlock(t, data, p)
	change(data[at : at+size])
	if restamp {
		binary.LittleEndian.PutUint32(data[at+size+1:], util.MaskCRC(util.CRC32C(data[at:at+size+1])))
	}
	require.NoError(t, fsys.Remove(table))
	fixture.WriteFile(t, fsys, table, data)
}

func TestAnUnusableFilterIsReportedOnceAndChangesNoAnswer(t *testing.T) {
	bloom := filter.NewBloomPolicy(10)
	for _, c := range []struct {
		name    string
		policy  filter.Policy // of the table
		restamp bool
		change  func(block []byte)
		corrupt bool
		says    string
	}{
		{"a flipped bit", bloom, false, func(b []byte) { b[3] ^= 0x10 }, true, "checksum"},
		{"an unknown name", fixture.Renamed{As: "test.Mine"}, false, nil, false, `"test.Mine" is not known`},
		{"base_lg out of range", bloom, true, func(b []byte) { b[len(b)-1] = 64 }, true, "base_lg is 64"},
		{"no array of offsets", bloom, true, func(b []byte) { b[len(b)-2] = 0xff }, true, "array of offsets"},
		{"offsets that fall", bloom, true, func(b []byte) { b[len(b)-7] = 0x7f }, true, "filter 0 of 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			mem := vfs.NewMem()
			o := storetest.Options(mem)
			o.Filters.Policy = c.policy
			d := storetest.MustOpen(t, o)
			storetest.Fill(t, d, 0, 100)
			require.NoError(t, d.Flush())
			require.NoError(t, d.Close())
			table := fixture.Names(t, mem, base.FileTable)[0]
			if c.change != nil {
				rewriteFilter(t, mem, filepath.Join("db", table), c.policy, c.restamp, c.change)
			}

			var mu sync.Mutex
			var reported []report.FilterInfo
			o = storetest.Options(mem)
			o.EventListener = &db.EventListener{FilterUnusable: func(i report.FilterInfo) {
				storetest.RequireValue(t, d, fixture.Key(5), fixture.Value(5)) // no lock is held, so the callback may read the same table
				mu.Lock()
				defer mu.Unlock()
				reported = append(reported, i)
			}}
			d = storetest.Open(t, o)
			require.Empty(t, reported, "Open reads no table")
			var readers sync.WaitGroup
			for range 4 {
				readers.Go(func() {
					for i := range 100 {
						storetest.RequireValue(t, d, fixture.Key(i), fixture.Value(i))
					}
				})
			}
			readers.Wait()
			_, err := d.Get([]byte("key000050x")) // within the table's range
			require.ErrorIs(t, err, db.ErrNotFound)

			require.Len(t, reported, 1)
			_, num, _ := base.ParseFileName(table)
			require.Equal(t, num, reported[0].FileNum)
			require.Equal(t, 0, reported[0].Level)
			require.Equal(t, c.policy.Name(), reported[0].Policy)
			require.ErrorContains(t, reported[0].Err, c.says)
			if c.corrupt {
				require.ErrorIs(t, reported[0].Err, db.ErrCorruption)
				require.ErrorContains(t, reported[0].Err, table)
				require.Equal(t, 1, d.Metrics().Tables.WithDamagedFilter)
			} else {
				require.NotErrorIs(t, reported[0].Err, db.ErrCorruption)
				require.Equal(t, 1, d.Metrics().Tables.WithUnknownFilter)
			}
		})
	}
}

func TestIntactAndAbsentFiltersAreNotReported(t *testing.T) {
	for _, p := range []filter.Policy{filter.NewBloomPolicy(10), filter.None} {
		t.Run(p.Name(), func(t *testing.T) {
			o := storetest.Options(vfs.NewMem())
			o.Filters.Policy = p
			d := storetest.MustOpen(t, o)
			storetest.Fill(t, d, 0, 100)
			require.NoError(t, d.Flush())
			require.NoError(t, d.Close())
			o.Filters.Policy = nil
			o.EventListener = &db.EventListener{FilterUnusable: func(i report.FilterInfo) { t.Errorf("FilterUnusable was called with %+v", i) }}
			storetest.RequireValue(t, storetest.Open(t, o), fixture.Key(5), fixture.Value(5))
		})
	}
}

// A table that was closed to limit the open files is reopened without another report.
func TestATableThatIsReopenedIsNotReportedAgain(t *testing.T) {
	o := storetest.Options(vfs.NewMem())
	o.Filters.Policy, o.Compaction.L0Trigger, o.Compaction.L0Slowdown, o.Compaction.L0Stop = fixture.Renamed{As: "test.Mine"}, 100, 100, 200
	d := storetest.MustOpen(t, o)
	for i := range 25 {
		storetest.Fill(t, d, 100*i, 100*i+100)
		require.NoError(t, d.Flush())
	}
	require.NoError(t, d.Close())
	reported := map[uint64]int{}
	o.Filters.Policy, o.Cache.MaxOpenFiles = nil, 10
	o.EventListener = &db.EventListener{FilterUnusable: func(i report.FilterInfo) { reported[i.FileNum]++ }}
	d = storetest.Open(t, o)
	for range 3 {
		for i := range 25 {
			storetest.RequireValue(t, d, fixture.Key(100*i), fixture.Value(100*i))
		}
	}
	require.Len(t, reported, 25)
	for num, times := range reported {
		require.Equal(t, 1, times, "table %d", num)
	}
}
