package foreign_test

import (
	"maps"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/disk/foreign"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/test/foreigntest"
	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/vfs"
)

// detect returns the finding for a directory of those files.
func detect(t testing.TB, files foreigntest.Files, o foreign.Options) *foreign.Finding {
	t.Helper()
	mem := vfs.NewMem()
	require.NoError(t, files.Write(mem, "db"))
	found := result.Of(foreign.Directory(mem, "db", slices.Sorted(maps.Keys(files)), o))(t)
	return found
}

// None of these was recognized: RocksDB's was opened and converted, Badger's got a second database
// in it, and repairs moved the tables of all of them away.
func TestForeignDirectoriesAreRecognized(t *testing.T) {
	for _, d := range foreigntest.Directories() {
		t.Run(d.Name, func(t *testing.T) {
			found := detect(t, d.Files, foreign.Options{})
			require.NotNil(t, found)
			require.Equal(t, d.Engine, found.Engine)
			shown := slices.ContainsFunc(slices.Collect(maps.Keys(d.Files)), func(name string) bool { return strings.Contains(found.Evidence, name) })
			require.True(t, shown, "the evidence names a file: %s", found.Evidence)

			quick := detect(t, d.Files, foreign.Options{Quick: true})
			if d.Name == "RocksDB, shown by an edit alone" || d.Name == "NetEase's Minecraft" {
				require.Nil(t, quick, "names alone are no evidence")
				return
			}
			require.Equal(t, found, quick)
		})
	}
}

// levelDB returns the files of a LevelDB database: with a table, or with nothing but a log.
func levelDB(table bool) foreigntest.Files {
	if table {
		return foreigntest.Files{"CURRENT": "MANIFEST-000002\n", "MANIFEST-000002": foreigntest.LevelDBManifest(),
			"000004.log": "", "000005.ldb": foreigntest.LevelDBTable, "LOCK": ""}
	}
	return foreigntest.Files{"CURRENT": "MANIFEST-000002\n", "MANIFEST-000002": foreigntest.EmptyManifest(), "000004.log": "", "LOCK": ""}
}

// A stray file in a directory of LevelDB's could make the store refuse it.
func TestStrayFilesDoNotMakeADirectoryForeign(t *testing.T) {
	strays := foreigntest.Strays()
	damaged := func(name, content string) foreigntest.Files {
		return levelDB(true).With(strays).With(foreigntest.Files{name: content})
	}
	lost := levelDB(true).With(strays)
	delete(lost, "CURRENT")
	cases := map[string]foreigntest.Files{
		"nothing":                        {},
		"LevelDB's":                      levelDB(true),
		"a log alone":                    levelDB(false),
		"all strays":                     levelDB(true).With(strays),
		"all strays, closed by us":       levelDB(false).With(strays).With(foreigntest.Files{"CLOSED": "mark"}),
		"a table that is not in use":     levelDB(true).With(foreigntest.Files{"000009.sst": foreigntest.RocksDBTable}),
		"another MANIFEST":               levelDB(true).With(foreigntest.Files{"MANIFEST-000001": foreigntest.Manifest("\x67")}),
		"the end of the MANIFEST is cut": damaged("MANIFEST-000002", foreigntest.LevelDBManifest()+"\x01\x02\x03"),
		"strays, and CURRENT is lost":    lost,
		"CURRENT is damaged":             damaged("CURRENT", "MANIF"),
		"the MANIFEST is damaged":        damaged("MANIFEST-000002", "x"+foreigntest.LevelDBManifest()[1:]),
		// Such a directory was recognized as RocksDB's, and could not be repaired.
		"the MANIFEST is empty":            damaged("MANIFEST-000002", ""),
		"the MANIFEST lost most edits":     damaged("MANIFEST-000002", foreigntest.EmptyManifest()),
		"a table is damaged":               levelDB(true).With(foreigntest.Files{"000005.ldb": "x"}),
		"an unknown tag":                   levelDB(true).With(foreigntest.Files{"MANIFEST-000002": foreigntest.Manifest("\x4d")}),
		"an edit that does not decode":     levelDB(true).With(foreigntest.Files{"MANIFEST-000002": foreigntest.Manifest("\x07\xff")}),
		"a database in the same directory": levelDB(false).With(foreigntest.Files{"app.db": foreigntest.BBolt}),
	}
	for name := range strays {
		cases["a log alone and "+name] = levelDB(false).With(foreigntest.Files{name: strays[name]})
	}
	for name, files := range cases {
		t.Run(name, func(t *testing.T) {
			require.Nil(t, detect(t, files, foreign.Options{}))
			require.Nil(t, detect(t, files, foreign.Options{Quick: true}))
		})
	}
}

func TestSingleFileDatabasesAreRecognized(t *testing.T) {
	mem := vfs.NewMem()
	require.NoError(t, foreigntest.Files{"s": foreigntest.SQLite, "b": foreigntest.BBolt, "l": foreigntest.LMDB, "t": "text", "e": ""}.Write(mem, "d"))
	for name, engine := range map[string]string{"s": "SQLite", "b": "bbolt", "l": "LMDB"} {
		found := result.Of(foreign.File(mem, "d/"+name))(t)
		require.Equal(t, engine, found.Engine)
	}
	for _, name := range []string{"t", "e"} {
		require.Nil(t, result.Of(foreign.File(mem, "d/"+name))(t))
	}
}

// A check that reads files would make every opening slower.
func TestQuickCheckReadsNothing(t *testing.T) {
	mem := vfs.NewMem()
	files := levelDB(true)
	require.NoError(t, files.Write(mem, "db"))
	counting := wrap.NewCounting(mem)
	found, err := foreign.Directory(counting, "db", slices.Sorted(maps.Keys(files)), foreign.Options{Quick: true})
	require.NoError(t, err)
	require.Nil(t, found)
	require.Zero(t, counting.Snapshot().Total.Opens)
}

// A failed read could make a directory seem not to be another engine's.
func TestAFailedReadIsReported(t *testing.T) {
	for _, d := range foreigntest.Directories() {
		mem := vfs.NewMem()
		require.NoError(t, d.Files.Write(mem, "db"))
		names := slices.Sorted(maps.Keys(d.Files))
		for n := uint64(0); ; n++ {
			faulty := wrap.NewFaulty(mem, wrap.FailNth(n, syscall.EIO))
			found, err := foreign.Directory(faulty, "db", names, foreign.Options{})
			if err == nil {
				require.NotNil(t, found, "%s, operation %d", d.Name, n)
				require.Equal(t, d.Engine, found.Engine)
			}
			if faulty.Ops() <= n {
				break
			}
		}
	}
}

// Unexpected bytes of a MANIFEST, a table or an options file could crash the recognition.
func FuzzDirectory(f *testing.F) {
	for _, d := range foreigntest.Directories() {
		f.Add(d.Files["CURRENT"], d.Files["MANIFEST-000003"], d.Files["000005.sst"], d.Files["OPTIONS-000007"])
	}
	f.Add("MANIFEST-000003\n", foreigntest.LevelDBManifest(), foreigntest.LevelDBTable, foreigntest.PebbleOptions)
	f.Fuzz(func(t *testing.T, current, manifest, table, options string) {
		files := foreigntest.Files{"CURRENT": current, "MANIFEST-000003": manifest, "000005.sst": table, "OPTIONS-000007": options}
		if found := detect(t, files, foreign.Options{}); found != nil {
			require.NotEmpty(t, found.Engine)
			require.NotEmpty(t, found.Evidence)
		}
		detect(t, files, foreign.Options{Quick: true, ManifestReadLimit: 100})
	})
}
