package checkpoint

import (
	"io/fs"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/test/fixture"
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
	whole, err := mem.Stat("db/000005.log")
	require.NoError(t, err)
	for _, newest := range []int64{0, 3, math.MaxInt64} {
		s, err := Take(mem, "db", set, func() []uint64 { return []uint64{5, 6} }, newest)
		require.NoError(t, err)
		require.Equal(t, whole.Size(), s.Logs[0].Size)
		require.Equal(t, min(newest, whole.Size()), s.Logs[1].Size)
		require.NoError(t, s.Release())
	}
}
