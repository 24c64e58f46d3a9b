package replay_test

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/batch"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/test/damage"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/internal/test/storetest"
	"github.com/sievedb/sievedb/report"
	"github.com/sievedb/sievedb/vfs"
)

// severalLogs returns a database that needs three logs, their names, and upTo: the first i+1 logs
// have the puts 0 to upTo[i]-1. Nothing was flushed. No zeros follow the records.
func severalLogs(t testing.TB, closed bool) (im damage.Image, logs []string, upTo []int) {
	t.Helper()
	mem, d := withoutTables(t, 4<<10)
	n := 0
	for ; len(upTo) < 2; n++ {
		require.NoError(t, d.Put(fixture.Key(n), fixture.Value(n), db.Sync))
		if d.Metrics().Memtables.Count > len(upTo)+1 { // it began a memtable, and with it a log
			upTo = append(upTo, n)
		}
	}
	upTo = append(upTo, n)
	logs = fixture.Names(t, mem, base.FileLog)
	slices.Sort(logs)
	logs = logs[:len(upTo)] // another one may be ready for the next memtable
	if closed {
		require.NoError(t, d.Close())
		return fixture.Image(t, mem), logs, upTo
	}
	im = fixture.Image(t, mem)
	newest := logs[len(logs)-1]
	im[newest] = fixture.ReadLog(t, mem, filepath.Join("db", newest))
	require.NoError(t, d.Close())
	return im, logs, upTo
}

// withoutTables opens a database with small memtables that cannot be flushed.
func withoutTables(t testing.TB, memtable int) (*vfs.Mem, *db.DB) {
	t.Helper()
	fsys := fixture.NewFailing()
	fsys.Fail(wrap.OpCreate, ".ldb", wrap.ErrInjected)
	return fsys.Mem, storetest.MustOpen(t, &db.Options{Memtables: db.MemtableOptions{Size: memtable, MaxWaiting: 3}, FS: fsys})
}

// The bug: a log that was removed, emptied or truncated was not noticed, even after a clean Close,
// unless it was the newest. Synced writes in the middle of the history were lost.
func TestALostLogThatIsNotTheNewestIsCorruption(t *testing.T) {
	for _, closed := range []bool{false, true} {
		im, logs, upTo := severalLogs(t, closed)
		for i, log := range logs[:2] {
			whole := im[log]
			ends := fixture.RecordEnds(whole)
			for name, damaged := range map[string][]byte{
				"missing": nil, "empty": {}, "cut between records": whole[:ends[len(ends)/2]], "cut in the last record": whole[:len(whole)-2],
				"cut after the preamble": whole[:fixture.PreambleSize], "zeros": make([]byte, len(whole)),
				"zeros at its end": append(bytes.Clone(whole[:ends[3]]), make([]byte, len(whole)-ends[3])...),
			} {
				t.Run(fmt.Sprintf("closed=%v, log %d, %s", closed, i, name), func(t *testing.T) {
					harmed := im.With(log, damaged)
					mem := fixture.ImageFS(t, harmed)
					for _, readOnly := range []bool{true, false} {
						_, err := db.Open("db", &db.Options{FS: mem, ReadOnly: readOnly})
						require.ErrorIs(t, err, db.ErrCorruption)
					}
					require.Equal(t, harmed, fixture.Image(t, mem))
					if i == 0 && damaged == nil {
						return // the MANIFEST names the log, and nothing is left to salvage
					}
					requireSalvage(t, harmed, i, upTo)
					report := storetest.RepairWith(t, "db", &db.Options{FS: mem})
					require.False(t, report.Healthy)
					require.NoError(t, storetest.MustOpen(t, &db.Options{FS: mem}).Close())
				})
			}
		}
	}
}

// requireSalvage opens a database that has lost operations of log i. SalvagePrefix shows the earlier
// operations, and SalvageAll the later ones as well.
func requireSalvage(t *testing.T, im damage.Image, i int, upTo []int) {
	for _, mode := range []db.Salvage{db.SalvagePrefix, db.SalvageAll} {
		d := storetest.Open(t, &db.Options{FS: fixture.ImageFS(t, im), Salvage: mode})
		var missing uint64
		for k := range upTo[2] {
			_, err := d.Get(fixture.Key(k))
			switch {
			case i > 0 && k < upTo[i-1], mode == db.SalvageAll && k >= upTo[i]:
				require.NoError(t, err)
			case mode == db.SalvagePrefix && k >= upTo[i]:
				require.ErrorIs(t, err, db.ErrNotFound)
			}
			if err != nil {
				missing++
			}
		}
		require.Positive(t, missing)
		gaps := uint64(0)
		for _, l := range d.OpenReport().Logs {
			gaps += l.GapBefore + l.RecordsSkipped + uint64(l.BytesSkipped)
		}
		require.Positive(t, gaps)
	}
}

// The error names the missing operations, the existing logs and the remedy.
func TestTheErrorForALostLogNamesItsOperations(t *testing.T) {
	im, logs, upTo := severalLogs(t, false)
	_, err := db.Open("db", &db.Options{FS: fixture.ImageFS(t, im.With(logs[1], nil))})
	require.ErrorContains(t, err, fmt.Sprintf("operations %d to %d are missing", upTo[0]+1, upTo[1]))
	require.ErrorContains(t, err, logs[0]+", "+logs[2])
	require.ErrorContains(t, err, "Options.Salvage")
	var fault *db.CorruptionError
	require.ErrorAs(t, err, &fault)
	require.Equal(t, filepath.Join("db", logs[2]), fault.File)

	// The last two logs are empty, so no preamble says what is missing.
	closed, logs, _ := severalLogs(t, true)
	_, err = db.Open("db", &db.Options{FS: fixture.ImageFS(t, closed.With(logs[1], nil).With(logs[2], []byte{}))})
	require.ErrorIs(t, err, db.ErrCorruption)

	// The only operation is in the older of two logs.
	mem, d := withoutTables(t, 0)
	require.NoError(t, d.Put([]byte("k"), []byte("v"), db.Sync))
	require.Error(t, d.Flush())
	require.NoError(t, d.Close())
	older := slices.Min(fixture.Names(t, mem, base.FileLog))
	emptied := fixture.Image(t, mem).With(older, []byte{})
	_, err = db.Open("db", &db.Options{FS: fixture.ImageFS(t, emptied)})
	require.ErrorIs(t, err, db.ErrCorruption)
	require.ErrorContains(t, err, "operations 1 to 1 are missing: the database was closed with them")
	d = storetest.Open(t, &db.Options{FS: fixture.ImageFS(t, emptied), Salvage: db.SalvageAll})
	require.Equal(t, uint64(0), d.Metrics().LastSequence)
	report := storetest.RepairWith(t, "db", &db.Options{FS: fixture.ImageFS(t, emptied)})
	require.False(t, report.Healthy)
}

// Other programs write no preamble, and do not sync a log before they begin the next one. An empty
// batch at the start of a log is no preamble: programs write one to sync earlier writes.
func TestAGapBeforeALogOfAnotherProgramIsReported(t *testing.T) {
	im, logs, upTo := severalLogs(t, false)
	records := func(log string) [][]byte {
		var out [][]byte
		whole := im[log]
		from := fixture.PreambleSize
		for _, end := range fixture.RecordEnds(whole) {
			out = append(out, whole[from+7:end])
			from = end
		}
		return out
	}
	for name, first := range map[string][][]byte{"nothing": nil, "an empty batch": {batchOfNothing(uint64(upTo[1] + 1))}} {
		foreign := im.With(logs[1], nil).With(logs[2], fixture.Log(t, slices.Concat(first, records(logs[2]))...))
		d := storetest.Open(t, &db.Options{FS: fixture.ImageFS(t, foreign)})
		gaps := d.OpenReport().Logs
		require.Len(t, gaps, 2, name)
		if first == nil {
			require.EqualValues(t, upTo[1]-upTo[0], gaps[1].GapBefore)
		}
		storetest.RequireValue(t, d, fixture.Key(upTo[2]-1), fixture.Value(upTo[2]-1))
	}
}

func batchOfNothing(seq uint64) []byte {
	b := make([]byte, batch.HeaderLen)
	batch.SetSeq(b, seq)
	return b
}

// The bug: a MANIFEST that was cut exactly before the edit of a load opened without the load, but
// with later writes. The next log's preamble counts the load among the earlier operations.
func TestALostEditOfALoadShowsInTheNextLog(t *testing.T) {
	mem := vfs.NewMem()
	d := storetest.Open(t, &db.Options{FS: mem})
	l := storetest.NewLoader(t, d)
	require.NoError(t, l.Put([]byte("loaded"), nil))
	require.NoError(t, l.Commit())
	require.NoError(t, d.Put([]byte("after"), nil, db.Sync))
	im := fixture.Image(t, mem)
	name := strings.TrimSpace(string(im[base.CurrentName]))
	ends := fixture.RecordEnds(im[name])
	_, err := db.Open("db", &db.Options{FS: fixture.ImageFS(t, im.With(name, im[name][:ends[len(ends)-2]]))})
	require.ErrorIs(t, err, db.ErrCorruption)
	require.ErrorContains(t, err, "are missing")
}

// withZeros returns log with n zeros behind its records: space that was reserved.
func withZeros(log []byte, n int) []byte { return append(bytes.Clone(log), make([]byte, n)...) }

// unfinished returns log with a batch behind it whose first header was not written, and reserved space.
func unfinished(t testing.TB, log []byte, seq uint64) []byte {
	more := fixture.Log(t, fixture.Batch(seq, string(fixture.Value(0)), "unfinished"))
	clear(more[:7])
	return withZeros(append(bytes.Clone(log), more...), 64<<10)
}

// requirePuts opens a database for reading and then for writing, and requires the puts 0 to n-1 and no other.
func requirePuts(t testing.TB, im damage.Image, n int) (report report.OpenReport) {
	t.Helper()
	mem := fixture.ImageFS(t, im)
	for _, readOnly := range []bool{true, false} {
		d := storetest.MustOpen(t, &db.Options{FS: mem, ReadOnly: readOnly})
		for i := range n {
			storetest.RequireValue(t, d, fixture.Key(i), fixture.Value(i))
		}
		for _, absent := range [][]byte{fixture.Key(n), []byte("unfinished")} {
			require.ErrorIs(t, result.Err(d.Get(absent)), db.ErrNotFound)
		}
		require.EqualValues(t, n, d.Metrics().LastSequence)
		report = d.OpenReport()
		require.NoError(t, d.Close())
	}
	return report
}

// A crash between two logs may leave the older one with its reserved space. The preamble of the next one says how many
// operations there must be before it.
func TestReservedSpaceOfAnOlderLogIsNoLossAndHidesNone(t *testing.T) {
	im, logs, upTo := severalLogs(t, false)
	_, num, _ := base.ParseFileName(logs[2])
	prepared := base.FileName(base.FileLog, num+1)
	for _, zeros := range []int{1, 7, 64 << 10, 1 << 20} {
		all := im
		for _, log := range logs {
			all = all.With(log, withZeros(im[log], zeros))
		}
		all = all.With(prepared, make([]byte, zeros))
		report := requirePuts(t, all, upTo[2])
		for _, l := range report.Logs {
			require.Equal(t, "clean", l.Tail)
			require.Zero(t, l.BytesDropped)
		}
		require.Empty(t, report.Losses)
		repaired := fixture.ImageFS(t, all)
		found := storetest.RepairWith(t, "db", &db.Options{FS: repaired})
		require.True(t, found.Healthy)

		for i, log := range logs[:2] { // its last record is missing
			ends := fixture.RecordEnds(im[log])
			lost := all.With(log, withZeros(im[log][:ends[len(ends)-2]], zeros))
			_, err := db.Open("db", &db.Options{FS: fixture.ImageFS(t, lost)})
			require.ErrorIs(t, err, db.ErrCorruption)
			require.ErrorContains(t, err, fmt.Sprintf("operations %d to %d are missing", upTo[i], upTo[i]))
			found := storetest.RepairWith(t, "db", &db.Options{FS: fixture.ImageFS(t, lost)})
			require.False(t, found.Healthy)
		}
	}
	// The next log has only its preamble: the older one must be complete all the same.
	preamble := im.With(logs[2], withZeros(im[logs[2]][:fixture.PreambleSize], 100))
	requirePuts(t, preamble, upTo[1])
	ends := fixture.RecordEnds(im[logs[1]])
	_, err := db.Open("db", &db.Options{FS: fixture.ImageFS(t, preamble.With(logs[1], withZeros(im[logs[1]][:ends[len(ends)-2]], 100)))})
	require.ErrorContains(t, err, fmt.Sprintf("operations %d to %d are missing", upTo[1], upTo[1]))
}

// A process that is killed during a write leaves the record without its first header, and perhaps a log that was
// prepared.
func TestAnUnfinishedRecordIsTheEndOfTheNewestLog(t *testing.T) {
	im, logs, upTo := severalLogs(t, false)
	_, num, _ := base.ParseFileName(logs[2])
	n := uint64(upTo[2])
	killed := im.With(logs[2], unfinished(t, im[logs[2]], n+1))
	for name, next := range map[string][]byte{"no prepared log": nil, "an empty one": {}, "one with reserved space": make([]byte, 64<<10)} {
		t.Run(name, func(t *testing.T) {
			prepared := killed.With(base.FileName(base.FileLog, num+1), next)
			report := requirePuts(t, prepared, upTo[2])
			last := report.Logs[2]
			require.Equal(t, "torn", last.Tail)
			require.Less(t, last.BytesDropped, int64(300), "reserved space is no loss")
			require.Empty(t, report.Losses)

			mem := fixture.ImageFS(t, prepared)
			d := storetest.MustOpen(t, &db.Options{FS: mem})
			kept := fixture.ReadFile(t, mem, filepath.Join("db", d.OpenReport().Logs[2].SetAside))
			require.Len(t, kept, int(last.BytesDropped), "reserved space is not copied")
			require.NoError(t, d.Close())
		})
	}
}

// A value may contain a copy of a log. If the process is killed while it writes such a value, the copy is a part of the
// unfinished record, not a record that another program has appended.
func TestACopyOfALogInAnUnfinishedRecordIsNotRead(t *testing.T) {
	im, logs, upTo := severalLogs(t, false)
	n := upTo[2]
	copied := fixture.Log(t, fixture.Batch(uint64(n+1), "value", "unfinished"))
	for _, before := range []int{0, 1000, 40 << 10} {
		value := string(make([]byte, before)) + string(copied) + string(fixture.Value(0))
		size := len(im[logs[2]])
		more := fixture.Log(t, make([]byte, size-7), fixture.Batch(uint64(n+1), value, string(fixture.Key(n))))[size:]
		clear(more[:7])
		requirePuts(t, im.With(logs[2], withZeros(append(bytes.Clone(im[logs[2]]), more...), 64<<10)), n)
	}
}

// LevelDB with reuse_logs appends to the log of a killed SieveDB, behind the space that was reserved. Its operations
// follow without a gap, so the zeros are no hole. After a power cut, something may be missing: then they are.
func TestRecordsThatWereAppendedBehindReservedSpaceAreRead(t *testing.T) {
	im, logs, upTo := severalLogs(t, false)
	n := upTo[2]
	more := func(first int) []byte {
		var batches [][]byte
		for i := first; i < first+3; i++ {
			batches = append(batches, fixture.Batch(uint64(i+1), string(fixture.Value(i)), string(fixture.Key(i))))
		}
		return fixture.Log(t, batches...)
	}
	pad := func(log []byte) []byte { return withZeros(log, 64<<10-len(log)%(64<<10)) }
	for name, whole := range map[string][]byte{"zeros": pad(im[logs[2]]), "an unfinished record": pad(unfinished(t, im[logs[2]], uint64(n+1)))} {
		t.Run(name, func(t *testing.T) {
			appended := im.With(logs[2], append(bytes.Clone(whole), more(n)...))
			first := requirePuts(t, appended, n+3)
			require.Less(t, first.Logs[2].BytesDropped, int64(300), "reserved space is no loss")
			_, num, _ := base.ParseFileName(logs[2])
			later := appended.With(base.FileName(base.FileLog, num+1), more(n+3)) // it is not the newest
			report := requirePuts(t, later, n+6)
			require.Empty(t, report.Losses)
			requirePuts(t, im.With(logs[2], append(bytes.Clone(whole), more(n+1)...)), n)
		})
	}
	short := im[logs[2]][:fixture.PreambleSize]
	requirePuts(t, im.With(logs[2], append(pad(short), more(upTo[1])...)), upTo[1]+3)
}

// Zeros behind the end that CLOSED records are reserved space that a power cut has brought back. The log is still
// complete: what was in it is checked as strictly as without them.
func TestReservedSpaceDoesNotEndTheGuaranteeOfClosed(t *testing.T) {
	mem := vfs.NewMem()
	d := storetest.MustOpen(t, &db.Options{FS: mem})
	for i := range 20 {
		require.NoError(t, d.Put(fixture.Key(i), fixture.Value(i), db.NoSync))
	}
	require.NoError(t, d.Close())
	im, newest := fixture.Image(t, mem), slices.Max(fixture.Names(t, mem, base.FileLog))
	_, num, _ := base.ParseFileName(newest)
	zeros := im.With(newest, withZeros(im[newest], 64<<10)).With(base.FileName(base.FileLog, num+1), make([]byte, 64<<10))
	reopened := storetest.MustOpen(t, &db.Options{FS: fixture.ImageFS(t, zeros)})
	require.True(t, reopened.OpenReport().ClosedCleanly)
	require.NoError(t, reopened.Close())
	requirePuts(t, zeros, 20)
	found := storetest.RepairWith(t, "db", &db.Options{FS: fixture.ImageFS(t, zeros)})
	require.True(t, found.Healthy)

	ends := fixture.RecordEnds(im[newest])
	for name, log := range map[string][]byte{
		"its last record is zeros": append(bytes.Clone(im[newest][:ends[len(ends)-2]]), make([]byte, 64<<10)...),
		"its last record has changed": func() []byte {
			log := withZeros(im[newest], 64<<10)
			log[len(im[newest])-1] ^= 1
			return log
		}(),
	} {
		_, err := db.Open("db", &db.Options{FS: fixture.ImageFS(t, zeros.With(newest, log))})
		require.ErrorIs(t, err, db.ErrCorruption, name)
	}
}

// reusedLog returns a log as LevelDB leaves it with reuse_logs: three batches, of which a crash cut
// the third to torn bytes, and then two more, with the numbers first and first+1.
func reusedLog(t testing.TB, torn int, first uint64) []byte {
	log := fixture.Log(t, fixture.Batch(1, string(fixture.Value(0)), string(fixture.Key(0))), fixture.Batch(2, string(fixture.Value(1)), string(fixture.Key(1))))
	third := fixture.Log(t, fixture.Batch(3, string(fixture.Value(2)), string(fixture.Key(2))))
	log = append(log, third[:torn]...)
	return append(log, fixture.Log(t, fixture.Batch(first, string(fixture.Value(3)), string(fixture.Key(3))), fixture.Batch(first+1, string(fixture.Value(4)), string(fixture.Key(4))))...)
}

// The bug: a log to which LevelDB had appended after a crash, with reuse_logs, was refused because
// of the torn record in its middle, although no operation was missing.
func TestALogThatWasAppendedToAfterACrashOpens(t *testing.T) {
	killed, log, whole := killedWithKeysInTheLog(t, 1)
	length := len(fixture.Log(t, fixture.Batch(3, string(fixture.Value(2)), string(fixture.Key(2)))))
	for torn := 1; torn < length; torn++ {
		fs := fixture.CopyFS(t, killed)
		fixture.WriteFile(t, fs, log, reusedLog(t, torn, 3))
		for _, readOnly := range []bool{true, false} {
			d := storetest.MustOpen(t, &db.Options{FS: fs, ReadOnly: readOnly})
			for _, k := range []int{0, 1, 3, 4} {
				storetest.RequireValue(t, d, fixture.Key(k), fixture.Value(k))
			}
			require.ErrorIs(t, result.Err(d.Get(fixture.Key(2))), db.ErrNotFound)
			report := d.OpenReport().Logs[0]
			require.EqualValues(t, torn, report.BytesDropped)
			require.EqualValues(t, 4, report.Records)
			require.NoError(t, d.Close())
		}
	}
	// A gap is damage, and so are such bytes in a log of SieveDB's.
	ours := append(bytes.Clone(whole[:fixture.PreambleSize]), reusedLog(t, length-5, 3)...)
	for name, data := range map[string][]byte{"a gap": reusedLog(t, length-5, 4), "a preamble": ours} {
		t.Run(name, func(t *testing.T) {
			fs := fixture.CopyFS(t, killed)
			fixture.WriteFile(t, fs, log, data)
			require.ErrorIs(t, result.Err(db.Open("db", &db.Options{FS: fs})), db.ErrCorruption)
		})
	}
	// The same holds for a log that is not the newest.
	_, num, _ := base.ParseFileName(filepath.Base(log))
	fs := fixture.CopyFS(t, killed)
	fixture.WriteFile(t, fs, log, reusedLog(t, length-5, 3))
	fixture.WriteFile(t, fs, filepath.Join("db", base.FileName(base.FileLog, num+1)), fixture.Log(t, fixture.Batch(5, string(fixture.Value(5)), string(fixture.Key(5)))))
	d := storetest.Open(t, &db.Options{FS: fs})
	for _, k := range []int{0, 1, 3, 4, 5} {
		storetest.RequireValue(t, d, fixture.Key(k), fixture.Value(k))
	}
	require.Zero(t, d.OpenReport().Logs[1].GapBefore, fmt.Sprint(d.OpenReport().Logs))
}

// The bug: two consecutive records with the same sequence number, which goleveldb writes if a sync fails and the next
// one does not, were refused. The later write wins, and following records come after it.
func TestConsecutiveRecordsWithTheSameSequenceNumberOpen(t *testing.T) {
	killed, log, whole := killedWithKeysInTheLog(t, 1)
	batches := [][]byte{
		fixture.Batch(1, "1", "a"), fixture.Batch(2, "failed", "k"), fixture.Batch(2, "written", "k"),
		fixture.Batch(2, "written again", "k"), fixture.Batch(3, "2", "a"), fixture.Batch(4, "last", "k"),
	}
	_, num, _ := base.ParseFileName(filepath.Base(log))
	for n := 3; n <= len(batches); n++ {
		want := map[int]string{3: "written", 4: "written again", 5: "written again", 6: "last"}[n]
		for split := 1; split <= n; split++ { // the other batches are in a second log
			fs := fixture.CopyFS(t, killed)
			fixture.WriteFile(t, fs, log, fixture.Log(t, batches[:split]...))
			if split < n {
				fixture.WriteFile(t, fs, filepath.Join("db", base.FileName(base.FileLog, num+1)), fixture.Log(t, batches[split:n]...))
			}
			for _, readOnly := range []bool{true, false, true} {
				d := storetest.MustOpen(t, &db.Options{FS: fs, ReadOnly: readOnly})
				storetest.RequireValue(t, d, []byte("k"), []byte(want))
				storetest.RequireValue(t, d, []byte("a"), []byte(map[bool]string{true: "2", false: "1"}[n > 4]))
				require.NoError(t, d.Close())
			}
		}
	}
	// Any other number that decreases is damage, and so is a repeated one in a log of SieveDB's.
	for name, data := range map[string][]byte{
		"further back": fixture.Log(t, batches[0], batches[1], fixture.Batch(1, "", "x")),
		"ours":         append(bytes.Clone(whole[:fixture.PreambleSize]), fixture.Log(t, batches[:3]...)...),
	} {
		fs := fixture.CopyFS(t, killed)
		fixture.WriteFile(t, fs, log, data)
		require.ErrorIs(t, result.Err(db.Open("db", &db.Options{FS: fs})), db.ErrCorruption, name)
	}
}
