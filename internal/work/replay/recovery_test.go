package replay_test

import (
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/batch"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/internal/test/storetest"
	"github.com/sievedb/sievedb/vfs"
)

// killedWithKeysInTheLog returns the files of a killed process that put keys 0 to n-1: the file
// system, the path of the only log, and its bytes.
func killedWithKeysInTheLog(t *testing.T, n int) (killed *vfs.Mem, log string, data []byte) {
	t.Helper()
	mem := vfs.NewMem()
	d := storetest.Open(t, &db.Options{FS: mem})
	for i := range n {
		require.NoError(t, d.Put(fixture.Key(i), fixture.Value(i), db.NoSync))
	}
	killed = fixture.CopyFS(t, mem)
	log = filepath.Join("db", fixture.Names(t, killed, base.FileLog)[0])
	data = fixture.ReadLog(t, killed, log)
	fixture.WriteFile(t, killed, log, data)
	return killed, log, data
}

//make:gates
//make:portable
func TestATornLogIsTheEndOfTheLog(t *testing.T) {
	killed, log, whole := killedWithKeysInTheLog(t, 20)
	step := 7
	if testing.Short() {
		step = 31
	}
	for cut := len(whole) - 1; cut > 0; cut -= step {
		fixture.WriteFile(t, killed, log, whole[:cut])
		torn := storetest.MustOpen(t, &db.Options{FS: fixture.CopyFS(t, killed)})
		report := torn.OpenReport()
		require.Len(t, report.Logs, 1)
		n := 0
		for ; n < 20; n++ {
			if _, err := torn.Get(fixture.Key(n)); err == db.ErrNotFound {
				break
			}
		}
		require.EqualValues(t, n, report.Logs[0].Entries)
		require.Equal(t, report.Logs[0].Tail == "torn", report.Logs[0].BytesDropped > 0)
		for i := n; i < 20; i++ {
			_, err := torn.Get(fixture.Key(i))
			require.Equal(t, db.ErrNotFound, err)
		}
		require.NoError(t, torn.Close())
	}
}

func TestDamageInsideALogIsCorruptionWithItsOffset(t *testing.T) {
	killed, log, data := killedWithKeysInTheLog(t, 20)
	data[len(data)/2] ^= 4
	fixture.WriteFile(t, killed, log, data)
	before := result.Of(killed.List("db"))(t)
	_, err := db.Open("db", &db.Options{FS: killed})
	require.ErrorIs(t, err, db.ErrCorruption)
	var c *db.CorruptionError
	require.ErrorAs(t, err, &c)
	require.Equal(t, log, c.File)
	require.Positive(t, c.Offset)
	after := result.Of(killed.List("db"))(t)
	require.Subset(t, append(before, base.LockName), after, "a refused Open leaves no files")
}

// Bytes that a crash may leave at the end of the newest log are damage at the end of an older one. The
// newest is the last log with records, because a crash may come when the next one was just made.
func TestOnlyTheNewestLogWithRecordsMayEndInGarbage(t *testing.T) {
	killed, log, data := killedWithKeysInTheLog(t, 20)
	data[len(data)-1] ^= 0x55
	data[len(data)-30] ^= 0x55
	fixture.WriteFile(t, killed, log, data)
	_, num, _ := base.ParseFileName(filepath.Base(log))
	next := func(n uint64) string { return filepath.Join("db", base.FileName(base.FileLog, num+n)) }
	for _, c := range []struct {
		name  string
		newer [][]byte
		opens bool
	}{
		{"there is no newer log", nil, true},
		{"the newer log is empty", [][]byte{{}}, true},
		{"two newer logs are empty", [][]byte{{}, {}}, true},
		{"the newer log has a batch", [][]byte{fixture.Log(t, fixture.Batch(21, "", "later"))}, false},
		{"the log after an empty one has a batch", [][]byte{{}, fixture.Log(t, fixture.Batch(21, "", "later"))}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			fs := fixture.CopyFS(t, killed)
			for i, bytes := range c.newer {
				fixture.WriteFile(t, fs, next(uint64(i)+1), bytes)
			}
			d, err := db.Open("db", &db.Options{FS: fs})
			if !c.opens {
				require.ErrorIs(t, err, db.ErrCorruption)
				return
			}
			require.NoError(t, err)
			storetest.RequireValue(t, d, fixture.Key(18), fixture.Value(18))
			_, err = d.Get(fixture.Key(19))
			require.Equal(t, db.ErrNotFound, err)
			require.NoError(t, d.Close())
		})
	}
}

// LevelDB's MANIFEST may record a last sequence number that is ahead of records in the live log.
// goleveldb silently drops such records.
//
//make:portable
func TestLogRecordsBelowTheManifestsLastSequenceAreKept(t *testing.T) {
	files := fixture.Dir{"000003.log": fixture.Log(t, fixture.Batch(5, "v", "k"))}
	files.AddManifest(t, 2, &manifest.Edit{LogNum: manifest.Num(3), NextFileNum: manifest.Num(4), LastSeq: manifest.Num(1000)})
	d := storetest.Open(t, &db.Options{FS: files.FS(t)})
	storetest.RequireValue(t, d, []byte("k"), []byte("v"))
	require.EqualValues(t, 1000, d.Metrics().LastSequence, "numbers never decrease")
}

// Conversely, the last sequence number that SieveDB records must not be ahead of the live log either.
//
//make:portable
func TestRecordedLastSequenceIsNeverAheadOfTheLiveLog(t *testing.T) {
	mem := vfs.NewMem()
	d := storetest.Open(t, storetest.Options(mem))
	for i := range 3000 {
		require.NoError(t, d.Put(fixture.Key(i), fixture.Value(i), db.NoSync))
		if i%500 == 0 {
			storetest.WaitUntilIdle(d)
			killed := fixture.CopyFS(t, mem)
			_, state, err := manifest.Load(manifest.SetOptions{FS: killed, Dir: "db", Cmp: base.Bytewise})
			require.NoError(t, err)
			for _, name := range fixture.Names(t, killed, base.FileLog) {
				_, num, _ := base.ParseFileName(name)
				data := fixture.ReadFile(t, killed, filepath.Join("db", name))
				if num < state.LogNum || len(data) < fixture.PreambleSize+7+batch.HeaderLen {
					continue
				}
				first, err := batch.NewReader(data[fixture.PreambleSize+7:])
				if err == nil || len(data) > fixture.PreambleSize+7+batch.HeaderLen {
					require.Greater(t, first.Seq, state.LastSeq, name)
				}
			}
		}
	}
}

func TestAFailedLogEndsWritesButNotReads(t *testing.T) {
	for _, op := range []wrap.OpKind{wrap.OpWrite, wrap.OpSync} {
		t.Run(op.String(), func(t *testing.T) {
			var fail atomic.Bool
			mem := vfs.NewMem()
			fsys := wrap.NewFaulty(mem, func(o wrap.Op) *wrap.Fault {
				// Only once, because the store must not retry.
				if o.Kind == op && filepath.Ext(o.Name) == ".log" && fail.CompareAndSwap(true, false) {
					return &wrap.Fault{Short: 5}
				}
				return nil
			})
			var reported error
			o := storetest.Options(fsys)
			o.EventListener = &db.EventListener{BackgroundError: func(err error) { reported = err }}
			d := storetest.MustOpen(t, o)
			require.NoError(t, d.Put([]byte("a"), []byte("1"), db.Sync))
			fail.Store(true)
			require.ErrorIs(t, d.Put([]byte("b"), []byte("2"), db.Sync), wrap.ErrInjected)
			require.ErrorIs(t, reported, wrap.ErrInjected)
			for range 3 {
				err := d.Put([]byte("c"), []byte("3"), db.Sync)
				require.ErrorIs(t, err, db.ErrReadOnly)
				require.ErrorIs(t, err, wrap.ErrInjected, "the error says why")
			}
			require.ErrorIs(t, d.Metrics().BackgroundError, wrap.ErrInjected)
			storetest.RequireValue(t, d, []byte("a"), []byte("1"))
			_ = d.Close()
			d = storetest.MustOpen(t, storetest.Options(mem))
			storetest.RequireValue(t, d, []byte("a"), []byte("1"))
			_, err := d.Get([]byte("c"))
			require.Equal(t, db.ErrNotFound, err)
			require.NoError(t, d.Put([]byte("c"), []byte("3"), db.Sync))
			require.NoError(t, d.Close())
		})
	}
}

// The MANIFEST's next file number may be lower than those of existing files, because no edit
// records the creation of a log, and a crash may lose an uncertain edit. A new file with such a
// number would replace one that recovery still reads.
func TestNumbersOfUnlistedFilesAreNotReused(t *testing.T) {
	mem := vfs.NewMem()
	require.NoError(t, storetest.MustOpen(t, storetest.Options(mem)).Close())
	fixture.WriteFile(t, mem, filepath.Join("db", base.FileName(base.FileLog, 900)), nil)
	fixture.WriteFile(t, mem, filepath.Join("db", base.FileName(base.FileTable, 901)), []byte("left by a crash"))
	d := storetest.Open(t, storetest.Options(mem))
	require.NoError(t, d.Put([]byte("k"), []byte("v"), db.Sync))
	require.NoError(t, d.Flush())
	for _, kind := range []base.FileKind{base.FileLog, base.FileTable, base.FileManifest} {
		for _, name := range fixture.Names(t, mem, kind) {
			_, num, ok := base.ParseFileName(name)
			require.True(t, ok)
			require.Greater(t, num, uint64(901), name)
		}
	}
}

// A caller whose write failed must not read it and then find it gone after the next open. Data that
// the next open shows stay, even if the power fails.
func TestAFailedWriteIsInvisibleUntilTheNextOpenDecides(t *testing.T) {
	for _, op := range []wrap.OpKind{wrap.OpWrite, wrap.OpSync} {
		t.Run(op.String(), func(t *testing.T) {
			fsys := fixture.NewFailing()
			mem := fsys.Mem
			d := storetest.MustOpen(t, storetest.Options(fsys))
			key := []byte("k")
			require.NoError(t, d.Put(key, []byte("old"), db.Sync))
			fsys.On(func(o wrap.Op) *wrap.Fault {
				if o.Kind == op && filepath.Ext(o.Name) == ".log" {
					return &wrap.Fault{Short: o.Length}
				}
				return nil
			})
			require.ErrorIs(t, d.Put(key, []byte("new"), db.Sync), wrap.ErrInjected)
			storetest.RequireValue(t, d, key, []byte("old"))
			it := storetest.Iter(t, d, nil)
			require.True(t, it.First())
			require.Equal(t, "old", string(it.Value()))
			require.NoError(t, it.Close())
			_ = d.Close()

			d = storetest.MustOpen(t, storetest.Options(mem))
			shown := result.Of(d.Get(key))(t)
			storetest.RequireValue(t, storetest.Open(t, storetest.Options(mem.Crash())), key, shown)
			require.NoError(t, d.Close())
			storetest.RequireValue(t, storetest.Open(t, storetest.Options(mem)), key, shown)
		})
	}
}

// faultsOf returns what Check of the database, opened read-only, reports.
func faultsOf(t *testing.T, fsys vfs.FS, salvage db.Salvage) []string {
	t.Helper()
	o := storetest.Options(fsys)
	o.ReadOnly, o.Salvage = true, salvage
	report := result.Of(storetest.Open(t, o).Check(t.Context()))(t)
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

func TestMain(m *testing.M) { os.Exit(fixture.Run(m)) }
