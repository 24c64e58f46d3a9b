package replay_test

import (
	"bytes"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/storetest"
)

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
			_, err := d.Get(fixture.Key(2))
			require.ErrorIs(t, err, db.ErrNotFound)
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
			_, err := db.Open("db", &db.Options{FS: fs})
			require.ErrorIs(t, err, db.ErrCorruption)
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
		_, err := db.Open("db", &db.Options{FS: fs})
		require.ErrorIs(t, err, db.ErrCorruption, name)
	}
}
