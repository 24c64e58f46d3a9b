package db

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/batch"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/disk/wal"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/test/crashtest/order"
	"github.com/sievedb/sievedb/vfs"
)

// waitUntilIdle waits until no flush and no compaction is running, if none is due. The files that they
// made obsolete may not be removed yet; see strayFilesWhenIdle.
func waitUntilIdle(d *DB) {
	for !idle(d) || len(d.state().Imm) > 0 {
		d.commit.Pause(time.Millisecond)
	}
}

// copyFS returns the current files in a new file system, as a process leaves them that dies without
// Close. The copy is not locked. It is made at one moment, because an open store may remove a file
// between its listing and its reading.
func copyFS(t testing.TB, from vfs.FS) *vfs.Mem {
	t.Helper()
	if checker, ok := from.(*order.FS); ok {
		from = checker.Unwrap()
	}
	mem, ok := from.(*vfs.Mem)
	require.True(t, ok, "%T is not in memory", from)
	return mem.Kill()
}

func TestEveryAcknowledgedWriteSurvivesTheDeathOfTheProcess(t *testing.T) {
	for _, n := range []int{0, 1, 50, 1000, 5000} {
		t.Run(fmt.Sprintf("%d keys", n), func(t *testing.T) {
			mem := vfs.NewMem()
			d := openTest(t, testOptions(mem))
			for i := range n {
				require.NoError(t, d.Put(testKey(i), testValue(i), NoSync))
			}
			waitUntilIdle(d)
			killed := copyFS(t, mem)
			for range 2 { // the second open finds what the first one made
				again := mustOpen(t, testOptions(killed))
				for i := range n {
					requireValue(t, again, testKey(i), testValue(i))
				}
				require.NoError(t, again.Close())
			}
		})
	}
}

func TestSyncedWritesSurvivePowerLossAndTheRestIsAPrefix(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 3))
	for range 30 {
		mem := vfs.NewMem()
		d := mustOpen(t, testOptions(mem))
		n, lastSynced := rnd.IntN(3000), -1
		for i := range n {
			wo := NoSync
			if rnd.IntN(50) == 0 {
				wo, lastSynced = Sync, i
			}
			require.NoError(t, d.Put(testKey(i), testValue(i), wo))
		}
		crashed := mem.Crash()
		_ = d.Close()
		d = mustOpen(t, testOptions(crashed))
		survived := 0
		for ; survived < n; survived++ {
			if _, err := d.Get(testKey(survived)); err == ErrNotFound {
				break
			}
			requireValue(t, d, testKey(survived), testValue(survived))
		}
		require.GreaterOrEqual(t, survived, lastSynced+1, "a synced write was lost")
		for i := survived; i < n; i++ {
			_, err := d.Get(testKey(i))
			require.Equal(t, ErrNotFound, err, "a later write survived a lost one")
		}
		require.NoError(t, d.Close())
	}
}

// killedWithKeysInTheLog returns the files of a killed process that put keys 0 to n-1: the file
// system, the path of the only log, and its bytes.
func killedWithKeysInTheLog(t *testing.T, n int) (killed *vfs.Mem, log string, data []byte) {
	t.Helper()
	mem := vfs.NewMem()
	d := openTest(t, &Options{FS: mem})
	for i := range n {
		require.NoError(t, d.Put(testKey(i), testValue(i), NoSync))
	}
	killed = copyFS(t, mem)
	log = filepath.Join("db", namesOf(t, killed, base.FileLog)[0])
	return killed, log, readFile(t, killed, log)
}

//make:portable
func TestATornLogIsTheEndOfTheLog(t *testing.T) {
	killed, log, whole := killedWithKeysInTheLog(t, 20)
	for cut := len(whole) - 1; cut > 0; cut -= 7 {
		writeFile(t, killed, log, whole[:cut])
		torn := mustOpen(t, &Options{FS: copyFS(t, killed)})
		report := torn.OpenReport()
		require.Len(t, report.Logs, 1)
		n := 0
		for ; n < 20; n++ {
			if _, err := torn.Get(testKey(n)); err == ErrNotFound {
				break
			}
		}
		require.EqualValues(t, n, report.Logs[0].Entries)
		require.Equal(t, report.Logs[0].Tail == "torn", report.Logs[0].BytesDropped > 0)
		for i := n; i < 20; i++ {
			_, err := torn.Get(testKey(i))
			require.Equal(t, ErrNotFound, err)
		}
		require.NoError(t, torn.Close())
	}
}

func TestDamageInsideALogIsCorruptionWithItsOffset(t *testing.T) {
	killed, log, data := killedWithKeysInTheLog(t, 20)
	data[len(data)/2] ^= 4
	writeFile(t, killed, log, data)
	before, err := killed.List("db")
	require.NoError(t, err)
	_, err = Open("db", &Options{FS: killed})
	require.ErrorIs(t, err, ErrCorruption)
	var c *CorruptionError
	require.ErrorAs(t, err, &c)
	require.Equal(t, log, c.File)
	require.Positive(t, c.Offset)
	after, err := killed.List("db")
	require.NoError(t, err)
	require.Subset(t, append(before, base.LockName), after, "a refused Open leaves no files")
}

// Bytes that a crash may leave at the end of the newest log are damage at the end of an older one. The
// newest is the last log with records, because a crash may come when the next one was just made.
func TestOnlyTheNewestLogWithRecordsMayEndInGarbage(t *testing.T) {
	killed, log, data := killedWithKeysInTheLog(t, 20)
	data[len(data)-1] ^= 0x55
	data[len(data)-30] ^= 0x55
	writeFile(t, killed, log, data)
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
		{"the newer log has a batch", [][]byte{logBytes(t, putBatch(21, []byte("later"), nil))}, false},
		{"the log after an empty one has a batch", [][]byte{{}, logBytes(t, putBatch(21, []byte("later"), nil))}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			fs := copyFS(t, killed)
			for i, bytes := range c.newer {
				writeFile(t, fs, next(uint64(i)+1), bytes)
			}
			d, err := Open("db", &Options{FS: fs})
			if !c.opens {
				require.ErrorIs(t, err, ErrCorruption)
				return
			}
			require.NoError(t, err)
			requireValue(t, d, testKey(18), testValue(18))
			_, err = d.Get(testKey(19))
			require.Equal(t, ErrNotFound, err)
			require.NoError(t, d.Close())
		})
	}
}

// LevelDB's MANIFEST may record a last sequence number that is ahead of records in the live log.
// goleveldb silently drops such records.
//
//make:portable
func TestLogRecordsBelowTheManifestsLastSequenceAreKept(t *testing.T) {
	mem := vfs.NewMem()
	require.NoError(t, mem.MkdirAll("db"))
	writeLogFile := func(name string, records ...[]byte) {
		f, err := mem.Create(filepath.Join("db", name))
		require.NoError(t, err)
		w := wal.NewWriter(f)
		for _, r := range records {
			require.NoError(t, w.WriteRecord(r))
		}
		require.NoError(t, w.Close())
	}
	var b Batch
	b.Put([]byte("k"), []byte("v"))
	writeLogFile("000003.log", b.content.Record(5))
	edit := manifest.Edit{
		Comparer: base.Bytewise.Name, LogNum: manifest.Num(3), NextFileNum: manifest.Num(4), LastSeq: manifest.Num(1000),
	}
	writeLogFile("MANIFEST-000002", edit.Encode(nil))
	writeFile(t, mem, filepath.Join("db", "CURRENT"), []byte("MANIFEST-000002\n"))
	d := openTest(t, &Options{FS: mem})
	requireValue(t, d, []byte("k"), []byte("v"))
	require.EqualValues(t, 1000, d.Metrics().LastSequence, "numbers never decrease")
}

// Conversely, the last sequence number that SieveDB records must not be ahead of the live log either.
//
//make:portable
func TestRecordedLastSequenceIsNeverAheadOfTheLiveLog(t *testing.T) {
	mem := vfs.NewMem()
	d := openTest(t, testOptions(mem))
	for i := range 3000 {
		require.NoError(t, d.Put(testKey(i), testValue(i), NoSync))
		if i%500 == 0 {
			waitUntilIdle(d)
			killed := copyFS(t, mem)
			_, state, err := manifest.Load(manifest.SetOptions{FS: killed, Dir: "db", Cmp: base.Bytewise})
			require.NoError(t, err)
			for _, name := range namesOf(t, killed, base.FileLog) {
				_, num, _ := base.ParseFileName(name)
				data := readFile(t, killed, filepath.Join("db", name))
				if num < state.LogNum || len(data) < preambleSize+7+batch.HeaderLen {
					continue
				}
				first, err := batch.NewReader(data[preambleSize+7:])
				if err == nil || len(data) > preambleSize+7+batch.HeaderLen {
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
			o := testOptions(fsys)
			o.EventListener = &EventListener{BackgroundError: func(err error) { reported = err }}
			d := mustOpen(t, o)
			require.NoError(t, d.Put([]byte("a"), []byte("1"), Sync))
			fail.Store(true)
			require.ErrorIs(t, d.Put([]byte("b"), []byte("2"), Sync), wrap.ErrInjected)
			require.ErrorIs(t, reported, wrap.ErrInjected)
			for range 3 {
				err := d.Put([]byte("c"), []byte("3"), Sync)
				require.ErrorIs(t, err, ErrReadOnly)
				require.ErrorIs(t, err, wrap.ErrInjected, "the error says why")
			}
			require.ErrorIs(t, d.Metrics().BackgroundError, wrap.ErrInjected)
			requireValue(t, d, []byte("a"), []byte("1"))
			_ = d.Close()
			d = mustOpen(t, testOptions(mem))
			requireValue(t, d, []byte("a"), []byte("1"))
			_, err := d.Get([]byte("c"))
			require.Equal(t, ErrNotFound, err)
			require.NoError(t, d.Put([]byte("c"), []byte("3"), Sync))
			require.NoError(t, d.Close())
		})
	}
}

// The MANIFEST's next file number may be lower than those of existing files, because no edit
// records the creation of a log, and a crash may lose an uncertain edit. A new file with such a
// number would replace one that recovery still reads.
func TestNumbersOfUnlistedFilesAreNotReused(t *testing.T) {
	mem := vfs.NewMem()
	require.NoError(t, mustOpen(t, testOptions(mem)).Close())
	writeFile(t, mem, filepath.Join("db", base.FileName(base.FileLog, 900)), nil)
	writeFile(t, mem, filepath.Join("db", base.FileName(base.FileTable, 901)), []byte("left by a crash"))
	d := openTest(t, testOptions(mem))
	require.NoError(t, d.Put([]byte("k"), []byte("v"), Sync))
	require.NoError(t, d.Flush())
	for _, kind := range []base.FileKind{base.FileLog, base.FileTable, base.FileManifest} {
		for _, name := range namesOf(t, mem, kind) {
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
			var fail atomic.Bool
			mem := vfs.NewMem()
			d := mustOpen(t, testOptions(wrap.NewFaulty(mem, func(o wrap.Op) *wrap.Fault {
				if fail.Load() && o.Kind == op && filepath.Ext(o.Name) == ".log" {
					return &wrap.Fault{Short: o.Length}
				}
				return nil
			})))
			key := []byte("k")
			require.NoError(t, d.Put(key, []byte("old"), Sync))
			fail.Store(true)
			require.ErrorIs(t, d.Put(key, []byte("new"), Sync), wrap.ErrInjected)
			requireValue(t, d, key, []byte("old"))
			it, err := d.NewIterator(nil)
			require.NoError(t, err)
			require.True(t, it.First())
			require.Equal(t, "old", string(it.Value()))
			require.NoError(t, it.Close())
			_ = d.Close()

			d = mustOpen(t, testOptions(mem))
			shown, err := d.Get(key)
			require.NoError(t, err)
			requireValue(t, openTest(t, testOptions(mem.Crash())), key, shown)
			require.NoError(t, d.Close())
			requireValue(t, openTest(t, testOptions(mem)), key, shown)
		})
	}
}

// Each operation of a workload that opens, fills, compacts and closes fails once, and the remaining
// files are opened. No acknowledged synced write may be lost.
func TestAFailureAtAnyOperationLosesNothing(t *testing.T) {
	workload := func(fsys vfs.FS) (acknowledged int) {
		o := testOptions(fsys)
		o.Memtables.Size, o.Compaction.L0Trigger = 4<<10, 2
		d, err := Open("db", o)
		if err != nil {
			return 0
		}
		defer d.Close()
		for i := range 120 {
			if d.Put(testKey(i), testValue(i), Sync) != nil {
				return i
			}
		}
		_ = d.Compact(t.Context(), nil, nil)
		return 120
	}
	counter := wrap.NewFaulty(vfs.NewMem(), func(wrap.Op) *wrap.Fault { return nil })
	require.Equal(t, 120, workload(counter))
	total := counter.Ops()
	require.Greater(t, total, uint64(300))
	for n := uint64(0); n < total; n += 1 + n/40 {
		mem := vfs.NewMem()
		acknowledged := workload(wrap.NewFaulty(mem, wrap.FailNth(n, wrap.ErrInjected)))
		d, err := Open("db", testOptions(mem))
		require.NoError(t, err, "operation %d", n)
		for i := range acknowledged {
			requireValue(t, d, testKey(i), testValue(i))
		}
		require.NoError(t, d.Close())
	}
}
