package db

import (
	"bytes"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/stretchr/testify/require"
)

// reusedLog returns a log as LevelDB leaves it with reuse_logs: three batches, of which a crash cut
// the third to torn bytes, and then two more, with the numbers first and first+1.
func reusedLog(t testing.TB, torn int, first uint64) []byte {
	log := logBytes(t, putBatch(1, testKey(0), testValue(0)), putBatch(2, testKey(1), testValue(1)))
	third := logBytes(t, putBatch(3, testKey(2), testValue(2)))
	log = append(log, third[:torn]...)
	return append(log, logBytes(t, putBatch(first, testKey(3), testValue(3)), putBatch(first+1, testKey(4), testValue(4)))...)
}

// The bug: a log to which LevelDB had appended after a crash, with reuse_logs, was refused because
// of the torn record in its middle, although no operation was missing.
func TestALogThatWasAppendedToAfterACrashOpens(t *testing.T) {
	killed, log, whole := killedWithKeysInTheLog(t, 1)
	length := len(logBytes(t, putBatch(3, testKey(2), testValue(2))))
	for torn := 1; torn < length; torn++ {
		fs := copyFS(t, killed)
		writeFile(t, fs, log, reusedLog(t, torn, 3))
		for _, readOnly := range []bool{true, false} {
			d := mustOpen(t, &Options{FS: fs, ReadOnly: readOnly})
			for _, k := range []int{0, 1, 3, 4} {
				requireValue(t, d, testKey(k), testValue(k))
			}
			_, err := d.Get(testKey(2))
			require.ErrorIs(t, err, ErrNotFound)
			report := d.OpenReport().Logs[0]
			require.EqualValues(t, torn, report.BytesDropped)
			require.EqualValues(t, 4, report.Records)
			require.NoError(t, d.Close())
		}
	}
	// A gap is damage, and so are such bytes in a log of SieveDB's.
	ours := append(bytes.Clone(whole[:preambleSize]), reusedLog(t, length-5, 3)...)
	for name, data := range map[string][]byte{"a gap": reusedLog(t, length-5, 4), "a preamble": ours} {
		t.Run(name, func(t *testing.T) {
			fs := copyFS(t, killed)
			writeFile(t, fs, log, data)
			_, err := Open("db", &Options{FS: fs})
			require.ErrorIs(t, err, ErrCorruption)
		})
	}
	// The same holds for a log that is not the newest.
	_, num, _ := base.ParseFileName(filepath.Base(log))
	fs := copyFS(t, killed)
	writeFile(t, fs, log, reusedLog(t, length-5, 3))
	writeFile(t, fs, filepath.Join("db", base.FileName(base.FileLog, num+1)), logBytes(t, putBatch(5, testKey(5), testValue(5))))
	d := openTest(t, &Options{FS: fs})
	for _, k := range []int{0, 1, 3, 4, 5} {
		requireValue(t, d, testKey(k), testValue(k))
	}
	require.Zero(t, d.OpenReport().Logs[1].GapBefore, fmt.Sprint(d.OpenReport().Logs))
}

// The bug: two consecutive records with the same sequence number, which goleveldb writes if a sync
// fails and the next one does not, were refused. The later write wins, and following records come
// after it.
func TestConsecutiveRecordsWithTheSameSequenceNumberOpen(t *testing.T) {
	killed, log, whole := killedWithKeysInTheLog(t, 1)
	batches := [][]byte{
		putBatch(1, []byte("a"), []byte("1")), putBatch(2, []byte("k"), []byte("failed")), putBatch(2, []byte("k"), []byte("written")),
		putBatch(2, []byte("k"), []byte("written again")), putBatch(3, []byte("a"), []byte("2")), putBatch(4, []byte("k"), []byte("last")),
	}
	_, num, _ := base.ParseFileName(filepath.Base(log))
	for n := 3; n <= len(batches); n++ {
		want := map[int]string{3: "written", 4: "written again", 5: "written again", 6: "last"}[n]
		for split := 1; split <= n; split++ { // the other batches are in a second log
			fs := copyFS(t, killed)
			writeFile(t, fs, log, logBytes(t, batches[:split]...))
			if split < n {
				writeFile(t, fs, filepath.Join("db", base.FileName(base.FileLog, num+1)), logBytes(t, batches[split:n]...))
			}
			for _, readOnly := range []bool{true, false, true} {
				d := mustOpen(t, &Options{FS: fs, ReadOnly: readOnly})
				requireValue(t, d, []byte("k"), []byte(want))
				requireValue(t, d, []byte("a"), []byte(map[bool]string{true: "2", false: "1"}[n > 4]))
				require.NoError(t, d.Close())
			}
		}
	}
	// Any other number that decreases is damage, and so is a repeated one in a log of SieveDB's.
	for name, data := range map[string][]byte{
		"further back": logBytes(t, batches[0], batches[1], putBatch(1, []byte("x"), nil)),
		"ours":         append(bytes.Clone(whole[:preambleSize]), logBytes(t, batches[:3]...)...),
	} {
		fs := copyFS(t, killed)
		writeFile(t, fs, log, data)
		_, err := Open("db", &Options{FS: fs})
		require.ErrorIs(t, err, ErrCorruption, name)
	}
}
