package replay_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/race"
	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/internal/test/storetest"
	"github.com/sievedb/sievedb/vfs"
)

// damagedLog returns a database whose only log has keys 0 to 19, one per record. Record 10 is damaged.
func damagedLog(t *testing.T) *vfs.Mem {
	killed, log, data := killedWithKeysInTheLog(t, 20)
	data[len(data)*21/40] ^= 1
	fixture.WriteFile(t, killed, log, data)
	return killed
}

func TestSalvageOfAPrefixLeavesLaterLogsUnread(t *testing.T) {
	fs := damagedLog(t)
	log := fixture.Names(t, fs, base.FileLog)[0]
	_, num, _ := base.ParseFileName(log)
	for i := range uint64(2) {
		fixture.WriteFile(t, fs, filepath.Join("db", base.FileName(base.FileLog, num+1+i)), fixture.Log(t, fixture.Batch(21, "", "later")))
	}
	d := storetest.Open(t, &db.Options{FS: fs, Salvage: db.SalvagePrefix})
	_, err := d.Get([]byte("later"))
	require.Equal(t, db.ErrNotFound, err)
	reports := d.OpenReport().Logs
	require.Len(t, reports, 3)
	for _, r := range reports[1:] {
		require.Equal(t, "not read", r.Tail)
		require.NotEmpty(t, fixture.ReadFile(t, fs, filepath.Join("db", r.SetAside)))
	}
}

// The bug: bytes that could not be kept were deleted. They were set aside only after the new state
// was in force, and the log was removed even if that failed.
func TestALogThatCannotBeSetAsideIsNotDeleted(t *testing.T) {
	mem := damagedLog(t)
	log := filepath.Join("db", fixture.Names(t, mem, base.FileLog)[0])
	original := fixture.ReadFile(t, mem, log)
	refuse := wrap.NewFaulty(mem, func(op wrap.Op) *wrap.Fault {
		if op.Kind == wrap.OpWrite && strings.Contains(op.Name, manifest.LostDir) {
			return &wrap.Fault{}
		}
		return nil
	})
	require.ErrorIs(t, result.Err(db.Open("db", &db.Options{FS: refuse, Salvage: db.SalvageAll})), wrap.ErrInjected)
	require.Equal(t, original, fixture.ReadFile(t, mem, log))
	_, err := mem.Stat(filepath.Join("db", manifest.LostDir))
	require.ErrorIs(t, err, fs.ErrNotExist, "a failed Open leaves no files")
}

// The bug: an existing file of that name in lost/ was overwritten.
func TestSettingAsideOverwritesNothing(t *testing.T) {
	mem := damagedLog(t)
	name := fixture.Names(t, mem, base.FileLog)[0] + ".from-0"
	require.NoError(t, mem.MkdirAll(filepath.Join("db", manifest.LostDir)))
	fixture.WriteFile(t, mem, filepath.Join("db", manifest.LostDir, name), []byte("from before"))
	d := storetest.Open(t, &db.Options{FS: mem, Salvage: db.SalvageAll})
	require.NotEqual(t, filepath.Join(manifest.LostDir, name), d.OpenReport().Logs[0].SetAside)
	require.Equal(t, "from before", string(fixture.ReadFile(t, mem, filepath.Join("db", manifest.LostDir, name))))
}

// damagedFourth returns a database whose only log has keys 0 to 29 with values of 2000 bytes, of
// which the fourth is damaged, and the log's name.
func damagedFourth(t *testing.T) (d fixture.Dir, log string) {
	t.Helper()
	var records [][]byte
	for i := range 30 {
		records = append(records, fixture.Batch(uint64(1+i), strings.Repeat("v", 2000), string(fixture.Key(i))))
	}
	log = base.FileName(base.FileLog, 3)
	d = fixture.Dir{log: fixture.Log(t, records...)}
	d.AddManifest(t, 2, fixture.EmptyEdit())
	d[log][7000] ^= 1
	return d, log
}

// The bug: after damage, bytes that looked like the end that a crash leaves ended the log.
// SalvageAll missed acknowledged writes, and the report did not count them.
func TestSalvageReadsAndReportsRecordsAfterALaterHole(t *testing.T) {
	d, log := damagedFourth(t)
	clear(d[log][40_000:44_000])
	require.ErrorIs(t, result.Err(db.Open("db", &db.Options{FS: d.FS(t)})), db.ErrCorruption)
	store := storetest.Open(t, &db.Options{FS: d.FS(t), Salvage: db.SalvageAll})
	var missing []int
	for i := range 30 {
		if _, err := store.Get(fixture.Key(i)); err == db.ErrNotFound {
			missing = append(missing, i)
		}
	}
	require.Equal(t, []int{3, 19, 20, 21}, missing)
	rep := store.OpenReport().Logs[0]
	require.EqualValues(t, 26, rep.Records)
	require.Greater(t, rep.BytesSkipped, int64(4*2000))
	require.Less(t, rep.BytesSkipped, int64(5*2100))
}

func TestSalvageCountsATornEndAfterDamage(t *testing.T) {
	d, log := damagedFourth(t)
	whole := len(d[log])
	d[log] = d[log][:whole-100]
	store := storetest.Open(t, &db.Options{FS: d.FS(t), Salvage: db.SalvageAll})
	rep := store.OpenReport().Logs[0]
	require.EqualValues(t, 28, rep.Records)
	require.Greater(t, rep.BytesSkipped, int64(2000+1900))
}

// The bug: a failed read after damage was treated as the log's end, and the unread records were given up.
func TestSalvageLosesNothingBecauseOfAReadError(t *testing.T) {
	var records [][]byte
	for i := range 6 { // each longer than a block, so that it is read twice
		records = append(records, fixture.Batch(uint64(1+i), string(make([]byte, 40_000)), string(fixture.Key(i))))
	}
	log := base.FileName(base.FileLog, 3)
	d := fixture.Dir{log: fixture.Log(t, records...)}
	d.AddManifest(t, 2, fixture.EmptyEdit())
	d[log][50_000] ^= 1
	for at, opened := 0, false; !opened; at++ {
		reads := 0
		fsys := wrap.NewFaulty(d.FS(t), func(op wrap.Op) *wrap.Fault {
			if op.Kind == wrap.OpRead && strings.HasSuffix(op.Name, log) {
				if reads++; reads == at+1 {
					return &wrap.Fault{}
				}
			}
			return nil
		})
		store, err := db.Open("db", &db.Options{FS: fsys, Salvage: db.SalvageAll, ReadOnly: true})
		if opened = reads <= at; !opened {
			require.ErrorIs(t, err, wrap.ErrInjected, "read %d of the log", at)
			continue
		}
		require.NoError(t, err)
		require.EqualValues(t, 5, store.OpenReport().Logs[0].Records)
		require.NoError(t, store.Close())
	}
}

// The bug: a log that was written with a large Memtables.Size and replayed with a small one made a
// table of level 0 for every few KiB: thousands of them from a log of 8 MiB.
func TestALogReplayedWithASmallWriteBufferMakesFewTables(t *testing.T) {
	const keys, valueSize = 20_000, 400
	mem := vfs.NewMem()
	d := storetest.Open(t, &db.Options{FS: mem, Memtables: db.MemtableOptions{Size: 64 << 20}})
	for i := range keys {
		require.NoError(t, d.Put(fixture.Key(i*7919%keys), make([]byte, valueSize), db.NoSync))
	}
	for _, buffer := range []int{4 << 10, 64 << 10, 32 << 20} {
		o := &db.Options{FS: fixture.CopyFS(t, mem), Memtables: db.MemtableOptions{Size: buffer}, Compaction: db.CompactionOptions{L0Trigger: 100}}
		r := storetest.MustOpen(t, o)
		require.EqualValues(t, keys, r.OpenReport().Logs[0].Entries)
		tables := r.Metrics().Levels[0].Tables
		require.LessOrEqual(t, tables, 4, "a write buffer of %d bytes", buffer)
		for i := 0; i < keys; i += 997 {
			storetest.RequireValue(t, r, fixture.Key(i), make([]byte, valueSize))
		}
		require.NoError(t, r.Close())
	}
}

// Salvages and repairs of damaged databases have the same results.
func TestShortReadsChangeNoSalvageAndNoRepair(t *testing.T) {
	sample, _ := storetest.Sample(t)
	delete(sample, "CURRENT")
	outcome := func(t *testing.T, wrap func(vfs.FS) vfs.FS) (after []fixture.Contents, reports []string) {
		salvaged := damagedLog(t)
		d := storetest.MustOpen(t, &db.Options{FS: wrap(salvaged), Salvage: db.SalvageAll})
		reports = append(reports, fmt.Sprintf("%+v", d.OpenReport()))
		require.NoError(t, d.Close())
		repaired, rebuilt := damagedLog(t), sample.FS(t)
		for _, mem := range []*vfs.Mem{repaired, rebuilt} {
			report := storetest.RepairWith(t, "db", &db.Options{FS: wrap(mem)})
			reports = append(reports, report.String())
		}
		for _, mem := range []*vfs.Mem{salvaged, repaired, rebuilt} {
			after = append(after, storetest.ContentsOf(t, wrap(mem)))
		}
		require.Equal(t, fixture.ReadFile(t, damagedLog(t), filepath.Join("db", d.OpenReport().Logs[0].Name)),
			fixture.ReadFile(t, salvaged, filepath.Join("db", d.OpenReport().Logs[0].SetAside)))
		return after, reports
	}
	want, wantReports := outcome(t, func(fsys vfs.FS) vfs.FS { return fsys })
	got, gotReports := outcome(t, fixture.ShortReads)
	require.Equal(t, want, got)
	require.Equal(t, wantReports, gotReports)
}

// failingReads are the ways in which a read fails without any damage to the file, including an end
// of file where there is none.
var failingReads = map[string]func(op wrap.Op) *wrap.Fault{
	"fails":               func(wrap.Op) *wrap.Fault { return &wrap.Fault{Err: syscall.EIO} },
	"fails in the middle": func(op wrap.Op) *wrap.Fault { return &wrap.Fault{Err: syscall.EIO, Short: op.Length / 2} },
	"ends early":          func(op wrap.Op) *wrap.Fault { return &wrap.Fault{Err: io.EOF, Short: op.Length / 2} },
	"ends immediately":    func(wrap.Op) *wrap.Fault { return &wrap.Fault{Err: io.EOF} },
	"returns nothing":     func(wrap.Op) *wrap.Fault { return &wrap.Fault{Quiet: true} },
}

// tablesAndLog returns a small database of two tables and a log with records, and its contents.
func tablesAndLog(t *testing.T) (fixture.Dir, fixture.Contents) {
	mem := vfs.NewMem()
	d := storetest.MustOpen(t, storetest.Options(mem))
	for i := range 30 {
		require.NoError(t, d.Put(fixture.Key(i), fixture.Value(i), db.NoSync))
		if i%10 == 9 && i < 20 {
			require.NoError(t, d.Flush())
		}
	}
	require.NoError(t, d.Close())
	return fixture.ReadDir(t, mem, "db"), storetest.ContentsOf(t, mem)
}

// openFor returns a function that opens and closes the database.
func openFor(salvage db.Salvage) func(fsys vfs.FS) error {
	return func(fsys vfs.FS) error {
		d, err := db.Open("db", &db.Options{FS: fsys, Salvage: salvage})
		if err != nil {
			return err
		}
		return d.Close()
	}
}

// failRead returns a file system that fails the read with index at and, if sticky is set, all later
// ones, and the number of reads.
func failRead(mem vfs.FS, at int64, sticky bool, fault func(op wrap.Op) *wrap.Fault) (vfs.FS, *atomic.Int64) {
	reads := new(atomic.Int64)
	return wrap.NewFaulty(mem, func(op wrap.Op) *wrap.Fault {
		if op.Kind != wrap.OpRead {
			return nil
		}
		if n := reads.Add(1) - 1; n == at || sticky && n > at {
			return fault(op)
		}
		return nil
	}), reads
}

// readAction is an operation that reads all of a database.
type readAction struct {
	name  string
	files fixture.Dir
	act   func(fsys vfs.FS) error
}

// failEachRead fails each read of the action in turn. Whatever the action returns, the database must
// have the contents want. It returns the number of runs and how many of them returned an error.
func (a readAction) failEachRead(t *testing.T, how string, sticky bool, want fixture.Contents) (runs, refused int) {
	for at := int64(0); ; at++ {
		mem := a.files.FS(t)
		faulty, reads := failRead(mem, at, sticky, failingReads[how])
		err := a.act(faulty)
		if reads.Load() <= at {
			return runs, refused // every read has failed once
		}
		runs++
		if err != nil {
			refused++
			require.False(t, how == "fails" && errors.Is(err, db.ErrCorruption), "read %d: %v", at, err)
		}
		if err != nil && a.name == "repair" {
			require.NoError(t, db.Repair("db", &db.Options{FS: mem}), "read %d", at)
		}
		require.Equal(t, want, storetest.ContentsOf(t, mem), "read %d: %v", at, err)
	}
}

// A read of a recovery, a salvage or a repair fails, once or from then on. The operation fails, or its
// result is right: no error may be taken for the end of a log, or for damage that may be skipped.
func TestAFailedReadIsNotTheEndOfALog(t *testing.T) {
	race.SkipInShort(t)
	killed, want := tablesAndLog(t)
	withoutCurrent := killed.Clone()
	delete(withoutCurrent, "CURRENT")
	for _, a := range []readAction{
		{"open", killed, openFor(db.SalvageNothing)},
		{"salvage", killed, openFor(db.SalvageAll)},
		{"repair", withoutCurrent, func(fsys vfs.FS) error { return db.Repair("db", &db.Options{FS: fsys}) }},
	} {
		for how := range failingReads {
			for _, sticky := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%s/sticky=%v", a.name, how, sticky), func(t *testing.T) {
					runs, refused := a.failEachRead(t, how, sticky, want)
					t.Logf("%d runs, of which %d were refused", runs, refused)
					require.Positive(t, runs)
					if sticky {
						require.Positive(t, refused)
					}
				})
			}
		}
	}
}
