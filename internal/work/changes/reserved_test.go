package changes

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/vfs"
)

// The logs of an open database have megabytes of zeros behind their records. A reader that waits at the end of a log
// sees what is appended, also when the log was cut and another one follows.
func TestReservedSpaceIsTheEndOfALogForNow(t *testing.T) {
	mem := vfs.NewMem()
	fsys := fixture.NewReserved(mem, 4<<20)
	s := newStore(t, fsys)
	require.NoError(t, s.open())
	for name, src := range map[string]Source{"archive": s.a, "directory": NewDirectory(fsys, "db", nil)} {
		r := NewReader(src, s.seq, ReaderOptions{FS: fsys, Cmp: base.Bytewise})
		next := func(want string) {
			t.Helper()
			c, err := r.Next(s.seq)
			require.NoError(t, err, name)
			require.NotNil(t, c, name)
			text, err := textOf(c, nil)
			require.NoError(t, err)
			require.Equal(t, want, text, name)
			c, err = r.Next(s.seq)
			require.NoError(t, err)
			require.Nil(t, c)
		}
		for i := range 20 {
			key := fmt.Sprintf("key%d", i)
			s.put(key)
			next(key)
		}
		s.put("last")
		fsys.Zeros.Store(0) // a rotation cuts the log, and nobody has looked since
		require.NoError(t, s.flush())
		next("last")
		fsys.Zeros.Store(4 << 20)
		s.put("in the next log")
		next("in the next log")
		fsys.Read.Store(0)
		for range 100 {
			s.put("more")
			next("more")
		}
		require.Less(t, fsys.Read.Load(), int64(5<<20), "%s: reserved space is not read each time", name)
		require.NoError(t, r.Close())
	}
}

// A log that a kill has left with reserved space is kept with it.
func TestALogWithReservedSpaceIsKept(t *testing.T) {
	s := opened(t)
	s.put("a")
	s.put("b", "c")
	path := filepath.Join("db", base.FileName(base.FileLog, s.num))
	fixture.WriteFile(t, s.fsys, path, append(fixture.ReadFile(t, s.fsys, path), make([]byte, 64<<10)...))
	require.NoError(t, s.open())
	s.put("d")
	got, err := readAll(s.a, s.fsys, 0, s.seq, nil)
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b c", "d"}, got)
}

// LevelDB with reuse_logs appends to the log of a killed SieveDB, behind the space that was reserved.
func TestADirectoryHasWhatWasAppendedBehindReservedSpace(t *testing.T) {
	s := newStore(t, vfs.NewMem())
	f, err := s.fsys.Create(filepath.Join("db", base.FileName(base.FileLog, 5)))
	require.NoError(t, err)
	d := NewDirectory(s.fsys, "db", nil)
	r := NewReader(d, 0, ReaderOptions{FS: s.fsys, Cmp: base.Bytewise})
	size := 0
	appendAt := func(block int, record []byte) {
		t.Helper()
		b := append(make([]byte, max(0, block<<15-size)), fixture.Log(t, record)...)
		_, err := f.Write(b)
		require.NoError(t, err)
		size += len(b)
	}
	for i, block := range []int{0, 3, 0, 5} {
		seq := uint64(i + 1)
		appendAt(block, recordOf(seq, "key"))
		c, err := r.Next(seq)
		require.NoError(t, err)
		require.NotNil(t, c)
		require.Equal(t, seq, c.Last)
	}
	appendAt(7, recordOf(6, "behind a hole"))
	_, err = r.Next(6)
	require.ErrorIs(t, err, ErrGone)
	require.NoError(t, r.Close())
	require.NoError(t, f.Close())
}

// A value may contain a copy of a log. While such a value is written, or if the writer is killed, the copy is no
// change.
func TestACopyOfALogInAnUnfinishedRecordIsNoChange(t *testing.T) {
	s := newStore(t, vfs.NewMem())
	f, err := s.fsys.Create(filepath.Join("db", base.FileName(base.FileLog, 5)))
	require.NoError(t, err)
	first := fixture.Log(t, recordOf(1, "key"))
	_, err = f.Write(first)
	require.NoError(t, err)
	r := NewReader(NewDirectory(s.fsys, "db", nil), 0, ReaderOptions{FS: s.fsys, Cmp: base.Bytewise})
	c, err := r.Next(1)
	require.NoError(t, err)
	require.EqualValues(t, 1, c.Last)
	unfinished := fixture.Log(t, recordOf(2, string(fixture.Log(t, recordOf(2, "copied")))))
	clear(unfinished[:7])
	_, err = f.Write(append(unfinished, make([]byte, 64<<10)...))
	require.NoError(t, err)
	_, err = r.Next(2)
	require.ErrorIs(t, err, ErrGone)
	require.NoError(t, r.Close())
	require.NoError(t, f.Close())
}
