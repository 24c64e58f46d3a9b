package replay_test

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/test/damage"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/storetest"
	"github.com/sievedb/sievedb/report"
	"github.com/sievedb/sievedb/vfs"
)

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
			_, err := d.Get(absent)
			require.ErrorIs(t, err, db.ErrNotFound)
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
