package dbdir_test

import (
	"io/fs"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/storetest"
	"github.com/sievedb/sievedb/report"
	"github.com/sievedb/sievedb/vfs"
)

// Every file of the directory counts once, where it belongs.
func TestDiskUsageCountsEachFileOnce(t *testing.T) {
	mem := vfs.NewMem()
	d := storetest.Open(t, storetest.Options(mem))
	storetest.Fill(t, d, 0, 2000)
	storetest.Settle(t, d)
	snapshot, err := d.NewIterator(nil) // keeps the tables of this moment
	require.NoError(t, err)
	storetest.Fill(t, d, 0, 500)
	require.NoError(t, d.Compact(t.Context(), nil, nil))
	storetest.Fill(t, d, 0, 3)
	require.NoError(t, d.SyncLog())
	require.NoError(t, vfs.MkdirAllSynced(mem, filepath.Join("db", base.LostDir)))
	fixture.WriteFile(t, mem, filepath.Join("db", base.LostDir, "000007.ldb"), make([]byte, 777))
	fixture.WriteFile(t, mem, filepath.Join("db", "notes.txt"), make([]byte, 55))

	storetest.WaitUntilIdle(d)
	var u report.DiskUsage
	fixture.Eventually(t, func() bool { // files are removed in the background
		u, err = d.DiskUsage()
		require.NoError(t, err)
		return u.Total == sizeOfFiles(t, mem)+777
	})
	require.Equal(t, d.Metrics().Total().Bytes, u.Tables)
	require.Positive(t, u.UnlistedTables, "of the iterator")
	require.Positive(t, u.Logs)
	require.Positive(t, u.Manifest)
	require.EqualValues(t, 777, u.Lost)
	require.Greater(t, u.Other, uint64(55))
	require.Equal(t, u.Total, u.Tables+u.UnlistedTables+u.Logs+u.Manifest+u.Lost+u.Other)

	require.NoError(t, snapshot.Close())
	fixture.Eventually(t, func() bool {
		u, err = d.DiskUsage()
		require.NoError(t, err)
		return u.UnlistedTables == 0
	})
}

// sizeOfFiles adds up the sizes of the files in the database's directory, without that of lost files.
func sizeOfFiles(t *testing.T, mem *vfs.Mem) (total uint64) {
	t.Helper()
	names := fixture.List(t, mem, "db")
	for _, name := range names {
		info, err := mem.Stat(filepath.Join("db", name))
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed meanwhile
		}
		require.NoError(t, err)
		if !info.IsDir() {
			total += uint64(info.Size())
		}
	}
	return total
}

// A program may have put a file where Repair makes a directory.
func TestDiskUsageWithAFileNamedLost(t *testing.T) {
	mem := vfs.NewMem()
	d := storetest.Open(t, storetest.Options(mem))
	before, err := d.DiskUsage()
	require.NoError(t, err)
	fixture.WriteFile(t, mem, filepath.Join("db", base.LostDir), make([]byte, 5))
	after, err := d.DiskUsage()
	require.NoError(t, err)
	require.Equal(t, before.Other+5, after.Other)
	require.Zero(t, after.Lost)
}

func TestDiskUsageReturnsErrorsOfTheFileSystem(t *testing.T) {
	mem := vfs.NewMem()
	failing := false
	fail := wrap.OpKind(0)
	o := storetest.Options(wrap.NewFaulty(mem, wrap.FailIf(nil, func(op wrap.Op) bool {
		return failing && op.Kind == fail
	})))
	d := storetest.Open(t, o)
	for _, fail = range []wrap.OpKind{wrap.OpList, wrap.OpStat} {
		failing = true
		_, err := d.DiskUsage()
		failing = false
		require.ErrorIs(t, err, wrap.ErrInjected, "%v", fail)
		require.ErrorContains(t, err, "sievedb: DiskUsage: ")
	}
}
