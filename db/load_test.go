package db_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/report"
	"github.com/sievedb/sievedb/vfs"
)

// loadKeys puts keys [from, to) into a load, with the values of their numbers plus shift.
func loadKeys(t testing.TB, l *db.Loader, from, to, shift int) {
	t.Helper()
	for i := from; i < to; i++ {
		require.NoError(t, l.Put(testKey(i), testValue(i+shift)))
	}
}

func TestALoadIntoAnEmptyDatabaseGoesToTheLastLevel(t *testing.T) {
	const n = 2000
	var infos []report.LoadInfo
	o := testOptions(vfs.NewMem())
	o.EventListener = &db.EventListener{LoadEnd: func(i report.LoadInfo) { infos = append(infos, i) }}
	d := openTest(t, o)
	l := newLoader(t, d)
	loadKeys(t, l, 0, n, 0)
	requireAbsent(t, d, testKey(1))
	require.NoError(t, l.Commit())
	for i := range n {
		requireValue(t, d, testKey(i), testValue(i))
	}
	m := d.Metrics()
	require.Greater(t, m.Levels[db.NumLevels-1].Tables, 5)
	require.Equal(t, m.Total().Tables, m.Levels[db.NumLevels-1].Tables)
	require.Equal(t, []uint64{1, uint64(m.Total().Tables), m.Total().Bytes}, []uint64{m.Loads.Count, m.Loads.Tables, m.Loads.Bytes})
	require.Zero(t, m.Writes.LogBytes)
	require.Zero(t, m.Compactions.Count+m.Compactions.TrivialMoves+m.Flushes.Count)
	require.Len(t, infos, 1)
	require.NoError(t, infos[0].Err)
	require.Equal(t, uint64(n), infos[0].Entries)
	require.Equal(t, m.Loads.Bytes, infos[0].Bytes)
	require.Equal(t, m.Total().Tables, infos[0].Tables[db.NumLevels-1])
	require.Empty(t, namesOf(t, o.FS, base.FileTemp))
}

// A Loader that was forgotten without Close must not block NewLoader for ever.
func TestAForgottenLoaderIsReportedAndBlocksNothing(t *testing.T) {
	o := testOptions(vfs.NewMem())
	d := mustOpen(t, o)
	forgotten, err := d.NewLoader()
	require.NoError(t, err)
	loadKeys(t, forgotten, 0, 500, 0)
	l := newLoader(t, d)
	require.NoError(t, l.Put([]byte("k"), []byte("loaded")))
	require.NoError(t, l.Commit())
	require.NoError(t, d.Put(testKey(1), testValue(1), db.NoSync), "writes and flushes continue")
	require.NoError(t, d.Flush())
	require.ErrorContains(t, d.Close(), "load_test.go:")
	d = openTest(t, o)
	require.NoError(t, newLoader(t, d).Close())
	requireValue(t, d, testKey(1), testValue(1))
}

// A crash leaves the files of a load or a bulk transaction under temporary names. Open removes them, and Repair does not
// use them as tables, with or without a MANIFEST.
func TestFilesOfACrashedLoadAreNeverSeen(t *testing.T) {
	for _, repair := range []bool{false, true} {
		for _, bulk := range []bool{false, true} {
			mem := vfs.NewMem()
			d := mustOpen(t, testOptions(mem))
			require.NoError(t, d.Put([]byte("a"), []byte("kept"), db.Sync))
			var l interface{ Close() error }
			if bulk {
				b := newBulk(t, d)
				require.NoError(t, fillBulk(b, 1000))
				l = b
			} else {
				loader := newLoader(t, d)
				loadKeys(t, loader, 0, 1000, 0)
				l = loader
			}
			require.NoError(t, mem.SyncDir("db")) // so that the names survive, too
			after := mem.Crash()
			require.NoError(t, l.Close())
			require.Empty(t, namesOf(t, mem, base.FileTemp))
			require.NoError(t, d.Close())
			require.Greater(t, len(namesOf(t, after, base.FileTemp)), 3)
			o := testOptions(after)
			if repair {
				require.NoError(t, after.Remove("db/CURRENT"))
				require.NoError(t, db.Repair("db", o))
			}
			d = openTest(t, o)
			require.Equal(t, map[string]string{"a": "kept"}, contentsIn(t, d))
			require.Empty(t, namesOf(t, after, base.FileTemp))
			require.Less(t, d.Metrics().LastSequence, uint64(10))
		}
	}
}

// The jump of the sequence number survives an open, with and without writes after the load, and a
// repair without a MANIFEST.
func TestALoadStaysBelowLaterWritesWhenItIsOpenedAgain(t *testing.T) {
	opens := map[string]func(t *testing.T, fsys *vfs.Mem){
		"as it is": func(*testing.T, *vfs.Mem) {},
		"repaired": func(t *testing.T, fsys *vfs.Mem) { require.NoError(t, db.Repair("db", testOptions(fsys))) },
		"no CURRENT": func(t *testing.T, fsys *vfs.Mem) {
			require.NoError(t, fsys.Remove("db/CURRENT"))
			require.NoError(t, db.Repair("db", testOptions(fsys)))
		},
	}
	for name, before := range opens {
		t.Run(name, func(t *testing.T) {
			mem := vfs.NewMem()
			d := mustOpen(t, testOptions(mem))
			require.NoError(t, d.Put([]byte("old"), []byte("before"), db.NoSync))
			l := newLoader(t, d)
			require.NoError(t, l.Put([]byte("k"), []byte("loaded")))
			require.NoError(t, l.Put([]byte("old"), []byte("loaded")))
			require.NoError(t, d.Put([]byte("k"), []byte("during"), db.NoSync))
			require.NoError(t, l.Commit())
			last := d.Metrics().LastSequence
			require.Equal(t, base.LoadAhead, last)
			after := mem.Crash()
			require.NoError(t, d.Close())

			before(t, after)
			d = openTest(t, testOptions(after))
			require.Equal(t, last, d.Metrics().LastSequence)
			require.Empty(t, d.OpenReport().MissingLog)
			requireValue(t, d, []byte("k"), []byte("loaded"))
			requireValue(t, d, []byte("old"), []byte("loaded"))
			require.NoError(t, d.Put([]byte("k"), []byte("after"), db.Sync))
			final := after.Crash()
			d = openTest(t, testOptions(final))
			requireValue(t, d, []byte("k"), []byte("after"))
			for _, r := range d.OpenReport().Logs {
				require.Zero(t, r.GapBefore)
			}
		})
	}
}
