package foreign_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/foreigntest"
	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/internal/test/storetest"
	"github.com/sievedb/sievedb/vfs"
)

// filesIn returns the files of the directory "db", including LOCK.
func filesIn(t testing.TB, fsys vfs.FS) foreigntest.Files {
	t.Helper()
	names := fixture.List(t, fsys, "db")
	files := foreigntest.Files{}
	for _, name := range names {
		files[name] = string(fixture.ReadFile(t, fsys, filepath.Join("db", name)))
	}
	return files
}

// The bug: other engines' databases were opened and converted, or refused with the advice to repair
// them. A repair moved their tables away, and Destroy removed them.
func TestOtherEnginesDirectoriesAreRefusedAndLeftAlone(t *testing.T) {
	calls := map[string]func(o *db.Options) error{
		"open":    func(o *db.Options) error { _, err := db.Open("db", o); return err },
		"repair":  func(o *db.Options) error { return db.Repair("db", o) },
		"destroy": func(o *db.Options) error { return db.Destroy("db", o) },
		"read": func(o *db.Options) error {
			o.ReadOnly = true
			_, err := db.Open("db", o)
			return err
		},
		"open what exists": func(o *db.Options) error {
			o.ErrorIfMissing = true
			_, err := db.Open("db", o)
			return err
		},
		"salvage": func(o *db.Options) error {
			o.Salvage = db.SalvageAll
			_, err := db.Open("db", o)
			return err
		},
	}
	for _, d := range foreigntest.Directories() {
		for _, call := range slices.Sorted(maps.Keys(calls)) {
			t.Run(d.Name+"/"+call, func(t *testing.T) {
				mem := vfs.NewMem()
				require.NoError(t, d.Files.Write(mem, "db"))
				err := calls[call](&db.Options{FS: mem})
				require.ErrorIs(t, err, db.ErrForeign)
				require.NotErrorIs(t, err, db.ErrCorruption)
				require.ErrorContains(t, err, "db holds a database of "+d.Engine)
				require.NotContains(t, strings.ToLower(err.Error()), "repair")
				require.Equal(t, d.Files, filesIn(t, mem))
			})
		}
	}
}

// The bug: a database of one file was only reported to be a file, whatever the call.
func TestADatabaseOfOneFileIsRecognized(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct{ content, words string }{
		"b": {foreigntest.BBolt, "is a database of bbolt"}, "s": {foreigntest.SQLite, "is a database of SQLite"},
		"t": {"text", "is a file; a database is a directory"},
	} {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(c.content), 0o600))
		_, openErr := db.Open(path, nil)
		_, readErr := db.Open(path, &db.Options{ReadOnly: true})
		for _, err := range []error{openErr, readErr, db.Repair(path, nil), db.Destroy(path, nil)} {
			require.ErrorContains(t, err, path+" "+c.words)
		}
		got := result.Of(os.ReadFile(path))(t)
		require.Equal(t, c.content, string(got))
	}
}

// The bug: a SieveDB database, intact or damaged, was mistaken for another engine's because of stray
// files in its directory.
func TestStrayFilesOfOtherEnginesDoNotMatter(t *testing.T) {
	for _, lost := range []string{"", "CURRENT", "MANIFEST"} {
		t.Run("without "+lost, func(t *testing.T) {
			mem := vfs.NewMem()
			d := storetest.MustOpen(t, storetest.Options(mem))
			storetest.Fill(t, d, 0, 2000)
			require.NoError(t, d.Flush())
			require.NoError(t, d.Close())
			names := fixture.List(t, mem, "db")
			for _, name := range names {
				if lost != "" && strings.HasPrefix(name, lost) {
					require.NoError(t, mem.Remove(filepath.Join("db", name)))
				}
			}
			strays := foreigntest.Strays()
			require.NoError(t, strays.Write(mem, "db"))
			if lost != "" {
				_, err := db.Open("db", storetest.Options(mem))
				require.ErrorIs(t, err, db.ErrCorruption)
				require.ErrorContains(t, err, "Repair can rebuild")
			}
			require.NoError(t, db.Repair("db", storetest.Options(mem)))
			d = storetest.MustOpen(t, storetest.Options(mem))
			for i := range 2000 {
				storetest.RequireValue(t, d, fixture.Key(i), fixture.Value(i))
			}
			require.NoError(t, d.Close())
			require.Subset(t, namesIn(t, mem), slices.Sorted(maps.Keys(strays)))
			require.NoError(t, db.Destroy("db", storetest.Options(mem)))
			fixture.RequireNone(t, mem, "db/CURRENT")
		})
	}
}

// namesIn returns the names in the directory "db".
func namesIn(t testing.TB, fsys vfs.FS) []string {
	t.Helper()
	names := fixture.List(t, fsys, "db")
	return names
}

// The bug: a repair that could read nothing moved everything to lost/ and reported success.
func TestARepairThatReadsNothingMovesNothing(t *testing.T) {
	rubbish := strings.Repeat("rubbish ", 5000)
	for name, files := range map[string]foreigntest.Files{
		"a table":    {"000005.ldb": rubbish},
		"a log":      {"000005.log": rubbish},
		"a MANIFEST": {"MANIFEST-000005": rubbish},
		"everything": {"CURRENT": "MANIFEST-000005\n", "MANIFEST-000005": rubbish, "000006.log": rubbish, "000007.ldb": rubbish, "000008.sst": rubbish,
			"CLOSED": rubbish, "000009.dbtmp": rubbish},
	} {
		t.Run(name, func(t *testing.T) {
			mem := vfs.NewMem()
			require.NoError(t, files.Write(mem, "db"))
			report, err := db.RepairWithReport("db", &db.Options{FS: mem})
			require.ErrorIs(t, err, db.ErrCorruption)
			require.ErrorContains(t, err, "nothing was moved")
			require.Nil(t, report)
			require.Equal(t, files, filesIn(t, mem))
		})
	}
	// One readable record is enough.
	mem := vfs.NewMem()
	require.NoError(t, foreigntest.Files{"MANIFEST-000002": foreigntest.EmptyManifest(), "000004.log": rubbish}.Write(mem, "db"))
	require.NoError(t, db.Repair("db", &db.Options{FS: mem}))
}

func TestMain(m *testing.M) { os.Exit(fixture.Run(m)) }
