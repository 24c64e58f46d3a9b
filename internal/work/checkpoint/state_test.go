package checkpoint

import (
	"io/fs"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/vfs"
)

// newSet returns the files of a database that needs logs from number 5 on.
func newSet(t *testing.T, fsys vfs.FS) *manifest.Set {
	t.Helper()
	set := manifest.New(manifest.SetOptions{FS: fsys, Dir: "db", Cmp: base.Bytewise})
	set.MarkUsed(100)
	require.NoError(t, set.Begin(&manifest.Edit{LogNum: manifest.Num(5)}, nil))
	t.Cleanup(func() { require.NoError(t, set.Close()) })
	return set
}

func writeLog(t *testing.T, fsys vfs.FS, num uint64) {
	t.Helper()
	fixture.WriteFile(t, fsys, "db/"+base.FileName(base.FileLog, num), []byte("log"))
}

// flush records that logs below num are not needed, as a flush does, and removes one.
func flush(t *testing.T, fsys vfs.FS, set *manifest.Set, num, removed uint64) {
	t.Helper()
	require.NoError(t, set.Apply(&manifest.Edit{LogNum: manifest.Num(num)}, nil))
	require.NoError(t, fsys.Remove("db/"+base.FileName(base.FileLog, removed)))
}

// A flush between the parts of Take would leave a state without the flushed log and without its table.
func TestAFlushDuringTakeIsNoticed(t *testing.T) {
	for name, flushed := range map[string]func(set *manifest.Set, mem *vfs.Mem, call int) []uint64{
		"before the logs are listed": func(set *manifest.Set, mem *vfs.Mem, call int) []uint64 {
			if call == 0 {
				flush(t, mem, set, 8, 5)
			}
			return []uint64{8, 11}
		},
		"before they are opened": func(set *manifest.Set, mem *vfs.Mem, call int) []uint64 {
			if call == 0 {
				flush(t, mem, set, 8, 5)
				return []uint64{5, 8, 11}
			}
			return []uint64{8, 11}
		},
		"twice": func(set *manifest.Set, mem *vfs.Mem, call int) []uint64 {
			switch call {
			case 0:
				flush(t, mem, set, 8, 5)
				return []uint64{8, 11}
			case 1:
				flush(t, mem, set, 11, 8)
			}
			return []uint64{11}
		},
	} {
		t.Run(name, func(t *testing.T) {
			mem := vfs.NewMem()
			require.NoError(t, vfs.MkdirAllSynced(mem, "db"))
			set := newSet(t, mem)
			for _, num := range []uint64{5, 8, 11} {
				writeLog(t, mem, num)
			}
			calls := 0
			s, err := Take(mem, "db", set, func() []uint64 { calls++; return flushed(set, mem, calls-1) }, math.MaxInt64)
			require.NoError(t, err)
			require.Greater(t, calls, 1)
			require.Equal(t, set.LogNum(), s.LogNum)
			require.Equal(t, s.LogNum, s.Logs[0].Num)
			for i, l := range s.Logs {
				require.EqualValues(t, 3, l.Size)
				require.Equal(t, i < len(s.Logs)-1, l.Full)
			}
			released := false
			s.Released = func() { released = true }
			require.NoError(t, s.Release())
			require.True(t, released)
		})
	}
}

// A log that is missing for another reason is an error.
func TestAMissingLogIsAnError(t *testing.T) {
	mem := vfs.NewMem()
	require.NoError(t, vfs.MkdirAllSynced(mem, "db"))
	set := newSet(t, mem)
	writeLog(t, mem, 5)
	_, err := Take(mem, "db", set, func() []uint64 { return []uint64{5, 8} }, math.MaxInt64)
	require.ErrorIs(t, err, fs.ErrNotExist)
}

// The file of the newest log may be longer than its records, and more records may come.
func TestTheNewestLogIsTakenUpToItsRecords(t *testing.T) {
	mem := vfs.NewMem()
	require.NoError(t, vfs.MkdirAllSynced(mem, "db"))
	set := newSet(t, mem)
	writeLog(t, mem, 5)
	writeLog(t, mem, 6)
	whole := result.Of(mem.Stat("db/000005.log"))(t)
	for _, newest := range []int64{0, 3, math.MaxInt64} {
		s := result.Of(Take(mem, "db", set, func() []uint64 { return []uint64{5, 6} }, newest))(t)
		require.Equal(t, whole.Size(), s.Logs[0].Size)
		require.Equal(t, min(newest, whole.Size()), s.Logs[1].Size)
		require.NoError(t, s.Release())
	}
}

// A database of the user's in the directory for backups, next to a file with the name of its lock, was emptied when the
// database around it was opened.
func TestOnlyWhatABackupLeftIsRemoved(t *testing.T) {
	const id = "20250101T000000.000000000Z-0123456789abcdef"
	for name, left := range map[string]bool{
		id: true, "mine": false, id + "0": false, "x" + id: false, "20251301T000000.000000000Z-0123456789abcdef": false,
		"20250101T000000.000000000Z-0123456789abcdeg": false,
	} {
		t.Run(name, func(t *testing.T) {
			for _, remove := range []func(vfs.FS, string) error{RemoveOwn, RemoveUnused} {
				mem := vfs.NewMem()
				dir := "db/backup/" + name
				require.NoError(t, mem.MkdirAll(dir))
				fixture.WriteFile(t, mem, dir+"/CURRENT", nil)
				fixture.WriteFile(t, mem, dir+LockSuffix, nil)
				require.NoError(t, remove(mem, "db"))
				_, err := mem.Stat(dir + "/CURRENT")
				require.Equal(t, left, err != nil)
			}
		})
	}
}
