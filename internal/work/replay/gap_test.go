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
	"github.com/sievedb/sievedb/internal/test/storetest"
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
