package db

import (
	"path/filepath"
	"testing"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/stretchr/testify/require"
)

func TestCheckFindsASoundDatabaseSound(t *testing.T) {
	d := openTest(t, testOptions(NewMemFS()))
	fill(t, d, 0, 3000)
	require.NoError(t, d.Delete(testKey(5), NoSync))
	settle(t, d)
	report, err := d.Check(t.Context())
	require.NoError(t, err)
	require.Empty(t, report.Faults)
	require.GreaterOrEqual(t, report.Entries, uint64(2999))
	require.Equal(t, d.Metrics().Total().Tables, report.Tables)

	tables, err := d.Tables()
	require.NoError(t, err)
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

func TestCheckTellsFaults(t *testing.T) {
	build := func(o *Options) *DB {
		d := mustOpen(t, o)
		fill(t, d, 0, 100)
		settle(t, d)
		require.NoError(t, d.Close())
		return nil
	}
	t.Run("a damaged block", func(t *testing.T) {
		mem := NewMemFS()
		o := testOptions(mem)
		build(o)
		table := filepath.Join("db", namesOf(t, mem, base.FileTable)[0])
		data := readFile(t, mem, table)
		data[10] ^= 1
		writeFile(t, mem, table, data)
		report, err := openTest(t, o).Check(t.Context())
		require.NoError(t, err)
		require.Len(t, report.Faults, 1)
		require.Contains(t, report.Faults[0], filepath.Base(table))
	})
	t.Run("a filter that denies what is there", func(t *testing.T) {
		o := testOptions(NewMemFS())
		o.Filter = never
		build(o)
		report, err := openTest(t, o).Check(t.Context())
		require.NoError(t, err)
		require.NotEmpty(t, report.Faults)
		require.Contains(t, report.Faults[0], "filter denies")
	})
}
