package replay_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/storetest"
	"github.com/sievedb/sievedb/vfs"
)

// faultsOf returns what Check of the database, opened read-only, reports.
func faultsOf(t *testing.T, fsys vfs.FS, salvage db.Salvage) []string {
	t.Helper()
	o := storetest.Options(fsys)
	o.ReadOnly, o.Salvage = true, salvage
	report, err := storetest.Open(t, o).Check(t.Context())
	require.NoError(t, err)
	return report.Faults
}

// The bug: Check reported no fault for a database of which a log is known to be missing.
func TestCheckReportsLossesThatOpenFound(t *testing.T) {
	t.Run("a missing log", func(t *testing.T) {
		mem := vfs.NewMem()
		require.NoError(t, storetest.MustOpen(t, storetest.Options(mem)).Close())
		require.Empty(t, faultsOf(t, mem, 0))
		log := fixture.Names(t, mem, base.FileLog)[0]
		require.NoError(t, mem.Remove(filepath.Join("db", log)))
		faults := faultsOf(t, mem, 0)
		require.Len(t, faults, 1)
		require.Contains(t, faults[0], log)
	})
	t.Run("operations before a log", func(t *testing.T) {
		d := fixture.Dir{base.FileName(base.FileLog, 3): fixture.Log(t, fixture.Batch(1, "v", "a")), base.FileName(base.FileLog, 4): fixture.Log(t, fixture.Batch(9, "v", "b"))}
		d.AddManifest(t, 2, fixture.EmptyEdit())
		faults := faultsOf(t, d.FS(t), 0)
		require.Len(t, faults, 1)
		require.Contains(t, faults[0], "000004.log: 7 operations are missing before it")
	})
	t.Run("skipped bytes", func(t *testing.T) {
		whole := fixture.Log(t, fixture.Batch(1, "v", "a"), fixture.Batch(2, "v", "b"), fixture.Batch(3, "v", "c"))
		whole[len(whole)/2] ^= 1
		d := fixture.Dir{base.FileName(base.FileLog, 3): whole}
		d.AddManifest(t, 2, fixture.EmptyEdit())
		faults := faultsOf(t, d.FS(t), db.SalvageAll)
		require.Len(t, faults, 1)
		require.Contains(t, faults[0], "000003.log")
	})
}

// The bug: a MANIFEST that lost the edit which adds the only table, and whose log was removed after that edit,
// opened as an empty database. The first opening for writing moved the table to lost/.
func TestATableThatReplacedAMissingLogIsNotMovedToLost(t *testing.T) {
	mem := vfs.NewMem()
	d := storetest.Open(t, storetest.Options(mem))
	old := fixture.CopyFS(t, mem)
	require.NoError(t, d.Put([]byte("a"), []byte("1"), nil))
	require.NoError(t, d.Flush())
	files := fixture.ReadDir(t, mem, "db")
	for name, data := range fixture.ReadDir(t, old, "db") {
		if kind, _, _ := base.ParseFileName(name); kind == base.FileManifest {
			files[name] = data
		}
	}
	for _, name := range files.Only(base.FileLog) {
		delete(files, name)
	}
	require.Len(t, files.Tables(), 1)
	for _, readOnly := range []bool{true, false} {
		o := storetest.Options(files.FS(t))
		o.ReadOnly = readOnly
		_, err := db.Open("db", o)
		require.ErrorIs(t, err, db.ErrCorruption)
		require.ErrorContains(t, err, files.Tables()[0])
	}
	got, _, _ := storetest.Repaired(t, files)
	require.Equal(t, fixture.Contents{"a": "1"}, got)
}

// The bug: without CURRENT, a directory with MANIFEST, CLOSED and an empty log opened as a new database.
func TestAClosedDatabaseWithoutCURRENTIsNotANewOne(t *testing.T) {
	mem := vfs.NewMem()
	require.NoError(t, storetest.MustOpen(t, storetest.Options(mem)).Close())
	require.NoError(t, mem.Remove("db/CURRENT"))
	_, err := db.Open("db", storetest.Options(mem))
	require.ErrorIs(t, err, db.ErrCorruption)
	require.ErrorContains(t, err, "Repair can rebuild it")
	require.NoError(t, db.Repair("db", storetest.Options(mem)))
	require.NoError(t, storetest.MustOpen(t, storetest.Options(mem)).Close())
}
