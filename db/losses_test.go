package db

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/vfs"
)

// faultsOf returns what Check of the database, opened read-only, reports.
func faultsOf(t *testing.T, fsys vfs.FS, salvage Salvage) []string {
	t.Helper()
	o := testOptions(fsys)
	o.ReadOnly, o.Salvage = true, salvage
	report, err := openTest(t, o).Check(t.Context())
	require.NoError(t, err)
	return report.Faults
}

// The bug: Check reported no fault for a database of which a log is known to be missing.
func TestCheckReportsLossesThatOpenFound(t *testing.T) {
	t.Run("a missing log", func(t *testing.T) {
		mem := vfs.NewMem()
		require.NoError(t, mustOpen(t, testOptions(mem)).Close())
		require.Empty(t, faultsOf(t, mem, 0))
		log := namesOf(t, mem, base.FileLog)[0]
		require.NoError(t, mem.Remove(filepath.Join("db", log)))
		faults := faultsOf(t, mem, 0)
		require.Len(t, faults, 1)
		require.Contains(t, faults[0], log)
	})
	t.Run("operations before a log", func(t *testing.T) {
		d := repairDir{base.FileName(base.FileLog, 3): logBytes(t, numbered(1, "v", "a")), base.FileName(base.FileLog, 4): logBytes(t, numbered(9, "v", "b"))}
		d.addManifest(t, 2, hostileEdit())
		faults := faultsOf(t, d.fs(t), 0)
		require.Len(t, faults, 1)
		require.Contains(t, faults[0], "000004.log: 7 operations are missing before it")
	})
	t.Run("skipped bytes", func(t *testing.T) {
		whole := logBytes(t, numbered(1, "v", "a"), numbered(2, "v", "b"), numbered(3, "v", "c"))
		whole[len(whole)/2] ^= 1
		d := repairDir{base.FileName(base.FileLog, 3): whole}
		d.addManifest(t, 2, hostileEdit())
		faults := faultsOf(t, d.fs(t), SalvageAll)
		require.Len(t, faults, 1)
		require.Contains(t, faults[0], "000003.log")
	})
}

// The bug: a MANIFEST that lost the edit which adds the only table, and whose log was removed after that edit,
// opened as an empty database. The first opening for writing moved the table to lost/.
func TestATableThatReplacedAMissingLogIsNotMovedToLost(t *testing.T) {
	mem := vfs.NewMem()
	d := openTest(t, testOptions(mem))
	old := copyFS(t, mem)
	require.NoError(t, d.Put([]byte("a"), []byte("1"), nil))
	require.NoError(t, d.Flush())
	files := readDir(t, mem, "db")
	for name, data := range readDir(t, old, "db") {
		if kind, _, _ := base.ParseFileName(name); kind == base.FileManifest {
			files[name] = data
		}
	}
	for _, name := range files.only(base.FileLog) {
		delete(files, name)
	}
	require.Len(t, files.tables(), 1)
	for _, readOnly := range []bool{true, false} {
		o := testOptions(files.fs(t))
		o.ReadOnly = readOnly
		_, err := Open("db", o)
		require.ErrorIs(t, err, ErrCorruption)
		require.ErrorContains(t, err, files.tables()[0])
	}
	got, _, _ := files.repaired(t)
	require.Equal(t, contents{"a": "1"}, got)
}

// The bug: without CURRENT, a directory with MANIFEST, CLOSED and an empty log opened as a new database.
func TestAClosedDatabaseWithoutCURRENTIsNotANewOne(t *testing.T) {
	mem := vfs.NewMem()
	require.NoError(t, mustOpen(t, testOptions(mem)).Close())
	require.NoError(t, mem.Remove("db/CURRENT"))
	_, err := Open("db", testOptions(mem))
	require.ErrorIs(t, err, ErrCorruption)
	require.ErrorContains(t, err, "Repair can rebuild it")
	require.NoError(t, Repair("db", testOptions(mem)))
	require.NoError(t, mustOpen(t, testOptions(mem)).Close())
}
