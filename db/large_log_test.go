package db_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/write/commit"
	"github.com/sievedb/sievedb/vfs"
)

// failTables fails the creation of tables, so that all entries stay in the logs.
func failTables(op wrap.Op) *wrap.Fault {
	if op.Kind == wrap.OpCreate && isTable(op.Name) {
		return &wrap.Fault{}
	}
	return nil
}

// writeLogs writes each value to a separate log, and returns the names of the logs.
func writeLogs(t *testing.T, d *db.DB, writes [3][]byte) (logs []string) {
	for i, value := range writes {
		if i > 0 {
			_, err := d.Committer().Rotate()
			require.NoError(t, err)
		}
		logs = append(logs, base.FileName(base.FileLog, d.State().Mem.LogNum))
		require.NoError(t, d.Put(testKey(i), value, db.Sync))
		require.NoError(t, d.Committer().Lead(background, func(l *commit.Leader) error {
			require.Equal(t, l.LastSeq(), l.Logged())
			return nil
		}))
	}
	return logs
}

// The bug: a log whose first write was a large value began without a preamble, so the loss of the log
// before it was not noticed. Neither the next preamble nor CLOSED counted that write.
func TestALostLogIsCorruptionWithLargeWrites(t *testing.T) {
	large := make([]byte, largeWrite)
	for name, writes := range map[string][3][]byte{
		"the log after it begins with a large write": {[]byte("v"), []byte("v"), large},
		"the lost log ends with a large write":       {[]byte("v"), large, []byte("v")},
		"the last log has only a large write":        {[]byte("v"), large, large},
	} {
		for _, closed := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				mem := vfs.NewMem()
				d := mustOpen(t, &db.Options{
					Memtables: db.MemtableOptions{Size: 8 << 20, MaxWaiting: 4}, FS: wrap.NewFaulty(mem, failTables),
				})
				logs := writeLogs(t, d, writes)
				if closed {
					require.NoError(t, d.Close())
				}
				im := imageOf(t, mem)
				if !closed {
					require.NoError(t, d.Close())
				}
				for _, damaged := range [][]byte{nil, {}} {
					_, err := db.Open("db", &db.Options{FS: fsOf(t, im.With(logs[1], damaged))})
					require.ErrorIs(t, err, db.ErrCorruption)
				}
				again := openTest(t, &db.Options{FS: fsOf(t, im)})
				for i, value := range writes {
					requireValue(t, again, testKey(i), value)
				}
			})
		}
	}
}
