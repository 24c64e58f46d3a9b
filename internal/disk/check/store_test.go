package check_test

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/filter/rangefilter"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/internal/test/storetest"
	"github.com/sievedb/sievedb/util"
	"github.com/sievedb/sievedb/vfs"
)

func TestCheckFindsNoFaultInAnIntactDatabase(t *testing.T) {
	d := storetest.Open(t, storetest.Options(vfs.NewMem()))
	storetest.Fill(t, d, 0, 3000)
	require.NoError(t, d.Delete(fixture.Key(5), db.NoSync))
	storetest.Settle(t, d)
	report := result.Of(d.Check(t.Context()))(t)
	require.Empty(t, report.Faults)
	require.GreaterOrEqual(t, report.Entries, uint64(2999))
	require.Equal(t, d.Metrics().Total().Tables, report.Tables)

	tables := result.Of(d.Tables())(t)
	require.Len(t, tables, report.Tables)
	var entries int64
	for _, table := range tables {
		entries += table.Entries
		require.Equal(t, "sievedb.CacheLineBloom", table.FilterPolicy)
		require.Equal(t, "whole table", table.Filter)
		require.Positive(t, table.FilterBytes)
	}
	require.EqualValues(t, report.Entries, entries)
}

func TestCheckReportsAFilterThatDeniesStoredKeys(t *testing.T) {
	o := storetest.Options(vfs.NewMem())
	o.Filters.Policy = fixture.Never
	storetest.Compacted(t, o, 100)
	report := result.Of(storetest.Open(t, o).Check(t.Context()))(t)
	require.NotEmpty(t, report.Faults)
	require.Contains(t, report.Faults[0], "filter denies")
}

// The bug: the first damaged block ended the check of a table, and its other faults were not reported.
func TestCheckContinuesAfterADamagedBlock(t *testing.T) {
	const entries = 20_000
	mem := vfs.NewMem()
	o := storetest.Options(mem)
	o.Memtables.Size, o.Tables.BlockSize = 8<<20, 1024
	storetest.FillUnder(t, o, nil, 0, entries)
	require.Len(t, fixture.Names(t, mem, base.FileTable), 1)
	table := filepath.Join("db", fixture.Names(t, mem, base.FileTable)[0])
	damage := func(places int) (*db.CheckReport, *db.RepairReport) {
		sound := fixture.ReadFile(t, mem, table)
		fixture.ChangeFile(t, mem, table, func(data []byte) {
			for i := range places {
				data[len(data)*3/4/places*i+10] ^= 1
			}
		})
		planned := result.Of(db.PlanRepair("db", o))(t)
		d := storetest.MustOpen(t, o)
		report := result.Of(d.Check(t.Context()))(t)
		require.NoError(t, d.Close())
		require.NotZero(t, report.Unread)
		require.EqualValues(t, entries, report.Entries+report.Unread)
		require.Equal(t, planned.EntriesLost, report.Unread)
		fixture.WriteFile(t, mem, table, sound)
		return report, planned
	}
	report, planned := damage(3)
	require.Len(t, report.Faults, 3)
	require.Len(t, planned.Ranges, 3)
	require.Less(t, report.Unread, uint64(300))

	report, _ = damage(150)
	require.Len(t, report.Faults, 101)
	require.Contains(t, report.Faults[100], "it has 50 more faults")
}

// The bug: Check skipped the filters that lookups did not use: block-range filters next to a whole-table filter, range
// filters whose policy is not configured, and all filters without Options.Filters.Policy.
func TestCheckQueriesEveryFilterOfATable(t *testing.T) {
	bloom := filter.NewBloomPolicy(10)
	for name, c := range map[string]struct {
		change func(block []byte) // of LevelDB's filter
		reopen func(*db.Options)
		fault  string
	}{
		"the second filter": {clearFilter, nil, fixture.BloomName},
		"a second filter, of block ranges": {func(block []byte) {
			block[len(block)-1] = 11
			clearFilter(block)
		}, nil, fixture.BloomName},
		"without Options.Filters.Policy": {clearFilter, func(o *db.Options) { o.Filters.Policy = filter.None }, fixture.BloomName},
		"no fault if all filters match":  {func([]byte) {}, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			mem := vfs.NewMem()
			o := storetest.Options(mem)
			o.Filters.RangePolicies = []rangefilter.Policy{fixture.PrefixOfTen}
			storetest.FillUnder(t, o, nil, 0, 500)
			table := filepath.Join("db", fixture.Names(t, mem, base.FileTable)[0])
			data := fixture.ReadFile(t, mem, table)
			at, size := fixture.FilterBlock(t, data, bloom)
			c.change(data[at : at+size])
			binary.LittleEndian.PutUint32(data[at+size+1:], util.MaskCRC(util.CRC32C(data[at:at+size+1])))
			fixture.WriteFile(t, mem, table, data)
			o.Filters.RangePolicies = nil
			if c.reopen != nil {
				c.reopen(o)
			}
			report := result.Of(storetest.Open(t, o).Check(t.Context()))(t)
			if c.fault == "" {
				require.Empty(t, report.Faults)
				return
			}
			require.Len(t, report.Faults, 1)
			require.Contains(t, report.Faults[0], c.fault)
			require.Contains(t, report.Faults[0], "denies a key")
		})
	}
}

// clearFilter clears every bit of a filter of LevelDB's policy and keeps its envelope.
func clearFilter(block []byte) { clear(block[:len(block)-10]) }

// The bug: two value tables with the same bounds, sizes and sequence numbers had each other's names, and the values of
// one were returned as those of the other.
func TestValueTablesWithEachOthersNamesAreFound(t *testing.T) {
	mem := vfs.NewMem()
	o := storetest.Options(mem)
	o.Tables.SeparateValues = 10
	d := storetest.MustOpen(t, o)
	for value, keys := range map[string][]string{"older value": {"a", "b", "z"}, "newer value": {"a", "c", "z"}} {
		l := storetest.NewLoader(t, d)
		for _, key := range keys {
			require.NoError(t, l.Put([]byte(key), []byte(value)))
		}
		require.NoError(t, l.Commit())
		require.NoError(t, d.Compact(t.Context(), nil, nil))
	}
	require.NoError(t, d.Close())
	names := fixture.Names(t, mem, base.FileValues)
	require.Len(t, names, 2)
	for i, data := range [][]byte{fixture.ReadFile(t, mem, filepath.Join("db", names[1])), fixture.ReadFile(t, mem, filepath.Join("db", names[0]))} {
		fixture.WriteFile(t, mem, filepath.Join("db", names[i]), data)
	}
	d = storetest.Open(t, o)
	_, err := d.Get([]byte("a"))
	require.ErrorIs(t, err, db.ErrCorruption)
	require.ErrorContains(t, err, "may have got the name of another")
	report := result.Of(d.Check(t.Context()))(t)
	require.Len(t, report.Faults, 4, "the value tables, and a reference to each of them")
}

func TestMain(m *testing.M) { os.Exit(fixture.Run(m)) }
