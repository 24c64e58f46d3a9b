package manifest_test

import (
	"bytes"
	"fmt"
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
	"github.com/sievedb/sievedb/internal/test/crashtest/recorder"
	"github.com/sievedb/sievedb/internal/test/damage"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/internal/test/storetest"
	reports "github.com/sievedb/sievedb/report"
	"github.com/sievedb/sievedb/vfs"
)

// closedWithKeysInTheLog returns the files of a store that put keys 0 to n-1 and was closed, and the name of its log.
func closedWithKeysInTheLog(t testing.TB, n int) (im damage.Image, log string) {
	t.Helper()
	mem := vfs.NewMem()
	d := storetest.MustOpen(t, &db.Options{FS: mem})
	for i := range n {
		require.NoError(t, d.Put(fixture.Key(i), fixture.Value(i), db.NoSync))
	}
	require.NoError(t, d.Close())
	return fixture.Image(t, mem), fixture.Names(t, mem, base.FileLog)[0]
}

func TestACleanCloseIsReportedOnceAndReadOnlyOpensKeepItsMark(t *testing.T) {
	im, log := closedWithKeysInTheLog(t, 5)
	mem := fixture.ImageFS(t, im)
	for range 2 {
		d := storetest.MustOpen(t, &db.Options{FS: mem, ReadOnly: true})
		require.True(t, d.OpenReport().ClosedCleanly)
		storetest.RequireValue(t, d, fixture.Key(4), fixture.Value(4))
		require.NoError(t, d.Close())
		require.Equal(t, im, fixture.Image(t, mem))
	}
	d := storetest.MustOpen(t, &db.Options{FS: mem})
	require.True(t, d.OpenReport().ClosedCleanly)
	require.Equal(t, "clean", d.OpenReport().Logs[0].Tail)
	require.NotContains(t, fixture.Image(t, mem), base.ClosedName, "the store is open for writing")
	require.NotContains(t, fixture.Image(t, mem), log)
	killed := fixture.CopyFS(t, mem)
	require.NoError(t, d.Close())

	d = storetest.MustOpen(t, &db.Options{FS: killed})
	require.False(t, d.OpenReport().ClosedCleanly)
	require.NoError(t, d.Close())
	require.NoError(t, db.Destroy("db", &db.Options{FS: killed}))
	require.Error(t, result.Err(killed.Stat("db")), "nothing is left")
}

// A crash could have left each of these logs, but CLOSED shows that there was none.
func TestDamageToTheLastRecordOfAClosedLogIsCorruption(t *testing.T) {
	im, log := closedWithKeysInTheLog(t, 5)
	whole := im[log]
	ends := fixture.RecordEnds(whole)
	last := ends[len(ends)-2]
	zeros := bytes.Clone(whole)
	clear(zeros[last:])
	flipped := bytes.Clone(whole)
	flipped[len(flipped)-1] ^= 0x81 // two bits, because a single one is never taken for a crash
	other := bytes.Clone(whole)
	copy(other[last:], fixture.Log(t, fixture.Batch(5, string(bytes.ToUpper(fixture.Value(4))), string(fixture.Key(4)))))
	for _, c := range []struct {
		name   string
		log    []byte
		offset int64
		keys   int
		says   string
	}{
		{"two flipped bits", flipped, int64(last), 4, "checksum"},
		{"zeros instead of the last record", zeros, int64(last), 4, "zeros"},
		{"cut within the last record", whole[:len(whole)-3], int64(last), 4, "past the end of the log"},
		{"cut between records", whole[:last], int64(last), 4, "the file ends here"},
		{"empty", []byte{}, 0, 0, "the file ends here"},
		{"another good record of that length", other, 0, 5, "last 681 bytes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			damaged := im.With(log, c.log)
			for _, readOnly := range []bool{false, true} {
				_, err := db.Open("db", &db.Options{FS: fixture.ImageFS(t, damaged), ReadOnly: readOnly})
				var fault *db.CorruptionError
				require.ErrorAs(t, err, &fault)
				require.ErrorIs(t, err, db.ErrCorruption)
				require.Equal(t, filepath.Join("db", log), fault.File)
				require.Equal(t, c.offset, fault.Offset)
				require.ErrorContains(t, err, c.says)
				require.ErrorContains(t, err, "when the database was closed")
				require.ErrorContains(t, err, "Options.Salvage")
			}
			for _, mode := range []db.Salvage{db.SalvagePrefix, db.SalvageAll} {
				mem := fixture.ImageFS(t, damaged)
				d := storetest.MustOpen(t, &db.Options{FS: mem, Salvage: mode})
				report := d.OpenReport()
				require.Equal(t, "damaged", report.Logs[0].Tail)
				require.NotEmpty(t, report.Logs[0].Reason)
				require.Equal(t, c.log, fixture.ReadFile(t, mem, filepath.Join("db", report.Logs[0].SetAside)))
				for i := range 5 {
					_, err := d.Get(fixture.Key(i))
					require.Equal(t, i >= c.keys, err == db.ErrNotFound, "key %d: %v", i, err)
				}
				require.NoError(t, d.Close())
			}
			require.NoError(t, openAndClose(fixture.ImageFS(t, damaged.With(base.ClosedName, nil))),
				"without the mark, a crash may have left this log")

			mem := fixture.ImageFS(t, damaged)
			report := storetest.RepairWith(t, "db", &db.Options{FS: mem})
			require.False(t, report.Healthy)
			require.NoError(t, openAndClose(mem), "a repaired database opens")
			report = storetest.RepairWith(t, "db", &db.Options{FS: mem})
			require.True(t, report.Healthy, report.String())
		})
	}
}

func openAndClose(fsys vfs.FS) error {
	d, err := db.Open("db", &db.Options{FS: fsys})
	if err != nil {
		return err
	}
	return d.Close()
}

func TestAMissingLogOfAClosedDatabaseIsCorruption(t *testing.T) {
	im, log := closedWithKeysInTheLog(t, 5)
	_, err := db.Open("db", &db.Options{FS: fixture.ImageFS(t, im.With(log, nil))})
	require.ErrorIs(t, err, db.ErrCorruption)
	require.ErrorContains(t, err, log)

	d := storetest.MustOpen(t, &db.Options{FS: fixture.ImageFS(t, im.With(log, nil)), Salvage: db.SalvageAll})
	require.Equal(t, log, d.OpenReport().MissingLog)
	require.NoError(t, d.Close())

	mem := fixture.ImageFS(t, im.With(log, nil))
	report := storetest.RepairWith(t, "db", &db.Options{FS: mem})
	require.Equal(t, reports.FileMissing, storetest.FateOf(t, report, log).Fate)
	require.NoError(t, openAndClose(mem))

	empty, log := closedWithKeysInTheLog(t, 0)
	require.NoError(t, openAndClose(fixture.ImageFS(t, empty.With(log, nil))), "the log had no records")
}

// An intact database must open, whatever is in a CLOSED that does not describe it. In each case the
// log has a torn end, which a crash may leave.
func TestAStaleOrDamagedCloseMarkDoesNotPreventOpen(t *testing.T) {
	im, log := closedWithKeysInTheLog(t, 5)
	_, num, _ := base.ParseFileName(log)
	whole, mark := im[log], im[base.ClosedName]
	torn := whole[:len(whole)-3]
	longer := append(bytes.Clone(whole), fixture.Log(t, fixture.Batch(6, "", "more"))...)
	flip := func(b []byte, at int) []byte {
		b = bytes.Clone(b)
		b[at] ^= 1
		return b
	}
	manifestName := strings.TrimSpace(string(im[base.CurrentName]))
	edit := (&manifest.Edit{LogNum: manifest.Num(num), PrevLogNum: manifest.Num(0), NextFileNum: manifest.Num(num + 10), LastSeq: manifest.Num(0)}).Encode(nil)
	cases := map[string]damage.Image{
		"no mark":              im.With(log, torn).With(base.ClosedName, nil),
		"an empty mark":        im.With(log, torn).With(base.ClosedName, []byte{}),
		"a mark and a byte":    im.With(log, torn).With(base.ClosedName, append(bytes.Clone(mark), 0)),
		"a mark of a megabyte": im.With(log, torn).With(base.ClosedName, make([]byte, 1<<20)),
		"records after the marked end, the last one torn": im.With(log, longer[:len(longer)-3]),
		"a newer log with records":                        im.With(log, torn).With(base.FileName(base.FileLog, num+1), longer[len(whole):]),
		"another edit in the MANIFEST":                    im.With(log, torn).With(manifestName, append(bytes.Clone(im[manifestName]), fixture.Log(t, edit)...)),
		"another MANIFEST with the same edits":            im.With(log, torn).With(manifestName, nil).With("MANIFEST-000009", im[manifestName]).With(base.CurrentName, []byte("MANIFEST-000009\n")),
		"a mark of a log that is not needed": im.With(log, torn).With(base.ClosedName, func() []byte {
			m := result.Of(manifest.DecodeCloseMark(mark))(t)
			m.Log.Num--
			return m.Encode()
		}()),
	}
	for n := range mark {
		cases[fmt.Sprintf("a mark of %d bytes", n)] = im.With(log, torn).With(base.ClosedName, mark[:n])
		cases[fmt.Sprintf("a mark with a flip in byte %d", n)] = im.With(log, torn).With(base.ClosedName, flip(mark, n))
	}
	for name, c := range cases {
		for _, readOnly := range []bool{false, true} {
			d, err := db.Open("db", &db.Options{FS: fixture.ImageFS(t, c), ReadOnly: readOnly})
			require.NoError(t, err, name)
			require.False(t, d.OpenReport().ClosedCleanly, name)
			storetest.RequireValue(t, d, fixture.Key(3), fixture.Value(3))
			require.NoError(t, d.Close())
		}
		report, err := db.RepairWithReport("db", &db.Options{FS: fixture.ImageFS(t, c)})
		require.NoError(t, err, name)
		require.NotEmpty(t, report.Files)
	}
}

// A directory with CLOSED's name is not the store's. Close reports that it is in the way.
func TestADirectoryNamedCLOSEDIsLeftAlone(t *testing.T) {
	mem := vfs.NewMem()
	require.NoError(t, mem.MkdirAll(filepath.Join("db", base.ClosedName, "kept")))
	for range 2 {
		d := storetest.MustOpen(t, &db.Options{FS: mem})
		require.NoError(t, d.Put(fixture.Key(0), fixture.Value(0), nil))
		require.ErrorContains(t, d.Close(), "all data is safe")
		require.Empty(t, fixture.Names(t, mem, base.FileTemp))
	}
	require.NoError(t, result.Err(mem.Stat(filepath.Join("db", base.ClosedName, "kept"))))
}

// LevelDB's DestroyDB leaves CLOSED. A new database in the same directory begins with the same
// numbers and the same bytes in its MANIFEST, and its log may be shorter or as long.
func TestTheMarkOfADestroyedDatabaseDoesNotHarmTheNext(t *testing.T) {
	old, log := closedWithKeysInTheLog(t, 5)
	for _, n := range []int{4, 5, 6} {
		mem := fixture.ImageFS(t, damage.Image{base.ClosedName: old[base.ClosedName]})
		d := storetest.MustOpen(t, &db.Options{FS: mem})
		for i := range n {
			require.NoError(t, d.Put(fixture.Key(i), fixture.Value(i), db.Sync))
		}
		killed := fixture.Image(t, mem.Crash()) // which restores files whose removal was not synced
		require.NoError(t, d.Close())
		require.Equal(t, old[base.CurrentName], killed[base.CurrentName])
		name := strings.TrimSpace(string(old[base.CurrentName]))
		require.Equal(t, old[name], killed[name], "the test needs databases that only the log distinguishes")
		require.NotContains(t, killed, base.ClosedName)
		size := min(len(old[log]), len(killed[log])-3)
		require.Positive(t, size)
		require.NoError(t, openAndClose(fixture.ImageFS(t, killed.With(log, killed[log][:size]))), "%d keys", n)
	}
}

// A log that failed, and whose writes could not be saved either, has a mark that claims nothing about the files.
func TestNoMarkOfTheFilesIsWrittenAfterAFailure(t *testing.T) {
	for name, fault := range map[string]func(wrap.Op) bool{
		"of an append to the log": func(op wrap.Op) bool { return op.Kind == wrap.OpWrite && strings.HasSuffix(op.Name, ".log") },
		"of a sync of the log":    func(op wrap.Op) bool { return op.Kind == wrap.OpSync && strings.HasSuffix(op.Name, ".log") },
		"of the MANIFEST":         func(op wrap.Op) bool { return op.Kind == wrap.OpWrite && strings.Contains(op.Name, "MANIFEST") },
		"of the next CURRENT":     func(op wrap.Op) bool { return op.Kind == wrap.OpRename },
	} {
		for _, cause := range []error{nil, syscall.ENOSPC} {
			t.Run(fmt.Sprintf("%s, %v", name, cause), func(t *testing.T) {
				mem := vfs.NewMem()
				var armed, failed atomic.Bool
				d, err := db.Open("db", &db.Options{Limits: db.LimitOptions{ManifestSize: 4 << 10},
					FS: wrap.NewFaulty(mem, func(op wrap.Op) *wrap.Fault {
						switch {
						case armed.Load() && fault(op):
							failed.Store(true)
						case failed.Load() && op.Kind == wrap.OpCreate && fixture.IsTable(op.Name): // a retried flush may clear the error
						default:
							return nil
						}
						return &wrap.Fault{Err: cause}
					})})
				require.NoError(t, err)
				require.NoError(t, d.Put(fixture.Key(0), fixture.Value(0), nil))
				armed.Store(true)
				for i := 0; err == nil; i++ {
					require.Less(t, i, 1000)
					if err = d.Put(fixture.Key(1), fixture.Value(1), nil); err == nil {
						err = d.Flush()
					}
				}
				armed.Store(false) // the disk works again, but the store does not
				_ = d.Close()
				if b, ok := fixture.Image(t, mem)[base.ClosedName]; strings.HasSuffix(name, "the log") {
					mark := result.Of(manifest.DecodeCloseMark(b))(t)
					require.True(t, mark.LogFailed())
				} else {
					require.False(t, ok)
				}
				require.NoError(t, openAndClose(mem))
			})
		}
	}
}

// Whichever operation on the mark fails, Close reports it, and the next Open finds all data.
func TestAFailureToWriteTheCloseMarkLosesNoData(t *testing.T) {
	reported := 0
	for n := int64(0); ; n++ {
		mem := vfs.NewMem()
		var seen atomic.Int64
		var closing atomic.Bool
		d, err := db.Open("db", &db.Options{FS: wrap.NewFaulty(mem, wrap.FailIf(nil, func(op wrap.Op) bool {
			return closing.Load() && op.Kind != wrap.OpClose && seen.Add(1) == n+1
		}))})
		require.NoError(t, err)
		require.NoError(t, d.Put(fixture.Key(0), fixture.Value(0), db.Sync))
		closing.Store(true)
		err = d.Close()
		if seen.Load() <= n {
			require.NoError(t, err)
			break
		}
		if err != nil {
			require.ErrorIs(t, err, wrap.ErrInjected)
			reported++
		}
		again := storetest.MustOpen(t, &db.Options{FS: mem})
		storetest.RequireValue(t, again, fixture.Key(0), fixture.Value(0))
		require.NoError(t, again.Close())
	}
	require.Greater(t, reported, 5)
}

// The power is cut at every operation while a store is opened and closed three times. Whatever mark
// is on the disk then, each state opens with the synced writes.
func TestCrashesAroundCloseMarksDoNotPreventOpen(t *testing.T) {
	options := func(fsys vfs.FS) *db.Options {
		return &db.Options{FS: fsys, Memtables: db.MemtableOptions{Size: 4 << 10}}
	}
	r := recorder.New(recorder.Image{})
	synced := map[int]int{} // operation number: keys that are durable from then on
	for life := range 3 {
		d := storetest.MustOpen(t, options(fixture.CheckOrder(r)))
		require.Equal(t, life > 0, d.OpenReport().ClosedCleanly)
		for i := range 3 {
			require.NoError(t, d.Put(fixture.Key(3*life+i), fixture.Value(3*life+i), &db.WriteOptions{NoSync: i != 1}))
			if i == 1 {
				synced[r.Len()] = 3*life + 2
			}
		}
		require.NoError(t, d.Close())
		synced[r.Len()] = 3*life + 3
	}
	trace := r.Trace()
	states := 0
	check := func(s recorder.State, cut int) error {
		states++
		least := 0
		for from, n := range synced {
			if from <= cut {
				least = max(least, n)
			}
		}
		for _, readOnly := range []bool{true, false} {
			o := options(s.Mem())
			o.ReadOnly = readOnly
			d, err := db.Open("db", o)
			if err != nil && readOnly && least == 0 {
				continue // there may be no database yet
			}
			if err != nil {
				return err
			}
			for i := range least {
				if _, err := d.Get(fixture.Key(i)); err != nil {
					return fmt.Errorf("key %d of %d: %w", i, least, err)
				}
			}
			if err := d.Close(); err != nil {
				return err
			}
		}
		return nil
	}
	models := []recorder.Model{recorder.M0, recorder.M1, recorder.M2, recorder.M3, recorder.M4, recorder.M5}
	c := trace.Cursor()
	for cut := 0; cut <= len(trace.Ops); cut++ {
		c.Seek(cut)
		for _, m := range models {
			for s := range c.States(m, 1) {
				require.NoError(t, check(s, cut), "%v, %s %s", m, trace.At(cut), s.Detail)
			}
		}
	}
	t.Logf("%d operations, %d states", len(trace.Ops), states)
}
