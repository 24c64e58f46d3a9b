// Package vfstest tests file systems against the contract of vfs.FS. Only tests import it.
package vfstest

import (
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/vfs"
)

// Run checks a file system against the contract of vfs.FS and vfs.File. It calls fresh for each claim; fresh returns a
// new file system and an empty directory in it. The logs of a vfs.LogCreator are checked too, as those of any other
// file system, which are plain files.
func Run(t *testing.T, fresh func(t *testing.T) (fsys vfs.FS, dir string)) {
	for _, c := range slices.Concat(claims, logClaims) {
		t.Run(c.name, func(t *testing.T) {
			fsys, dir := fresh(t)
			c.check(t, &env{FS: fsys, dir: dir})
		})
	}
}

// env is a file system with its directory and short forms of some operations.
type env struct {
	vfs.FS
	dir string
}

func (e *env) path(name string) string { return filepath.Join(e.dir, name) }

// write creates a file with that content.
func (e *env) write(t *testing.T, name, content string) {
	t.Helper()
	f, err := e.Create(e.path(name))
	require.NoError(t, err)
	n, err := f.Write([]byte(content))
	require.NoError(t, err)
	require.Equal(t, len(content), n)
	require.NoError(t, f.Sync())
	require.NoError(t, f.Close())
}

// open opens a file and closes it at the end of the test.
func (e *env) open(t *testing.T, name string) vfs.File {
	t.Helper()
	f, err := e.Open(e.path(name))
	require.NoError(t, err)
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// Content returns the bytes of an open file.
func Content(t *testing.T, f vfs.File) string {
	t.Helper()
	size, err := f.Size()
	require.NoError(t, err)
	b := make([]byte, size)
	n, err := f.ReadAt(b, 0)
	require.NoError(t, err)
	require.Equal(t, len(b), n)
	return string(b)
}

// read returns the content of a file.
func (e *env) read(t *testing.T, name string) string {
	t.Helper()
	f, err := e.Open(e.path(name))
	require.NoError(t, err)
	s := Content(t, f)
	require.NoError(t, f.Close())
	return s
}

func (e *env) list(t *testing.T) []string {
	t.Helper()
	names, err := e.List(e.dir)
	require.NoError(t, err)
	return names
}

// claim is something that holds for every file system.
type claim struct {
	name  string
	check func(t *testing.T, e *env)
}

var claims = []claim{
	{"writes append and are read back", func(t *testing.T, e *env) {
		f, err := e.Create(e.path("a"))
		require.NoError(t, err)
		for _, s := range []string{"one", "", "two", "three"} {
			n, err := f.Write([]byte(s))
			require.NoError(t, err)
			require.Equal(t, len(s), n)
		}
		require.Equal(t, "onetwothree", Content(t, f), "read through the handle that writes")
		require.NoError(t, f.Close())
		require.Equal(t, "onetwothree", e.read(t, "a"))
	}},
	{"a reader sees bytes written after it opened the file", func(t *testing.T, e *env) {
		f, err := e.Create(e.path("a"))
		require.NoError(t, err)
		r := e.open(t, "a")
		_, err = f.Write([]byte("late"))
		require.NoError(t, err)
		require.Equal(t, "late", Content(t, r))
		require.NoError(t, f.Close())
	}},
	{"ReadAt is short only with an error, and does not see the zeros behind a log", checkReadAt},
	{"a negative offset is refused", func(t *testing.T, e *env) {
		e.write(t, "a", "abc")
		_, err := e.open(t, "a").ReadAt(make([]byte, 1), -1)
		require.Error(t, err)
		require.NotEqual(t, io.EOF, err)
	}},
	{"a written slice may be reused", func(t *testing.T, e *env) {
		f, err := e.Create(e.path("a"))
		require.NoError(t, err)
		b := []byte("abc")
		_, err = f.Write(b)
		require.NoError(t, err)
		copy(b, "xyz")
		require.Equal(t, "abc", Content(t, f))
		require.NoError(t, f.Close())
	}},
	// Create replaced an existing file: after a change of the working directory, one database
	// overwrote the tables and logs of another.
	{"Create fails for an existing file and leaves it unchanged", func(t *testing.T, e *env) {
		e.write(t, "a", "old")
		_, err := e.Create(e.path("a"))
		require.ErrorIs(t, err, fs.ErrExist)
		require.ErrorContains(t, err, e.path("a"))
		require.Equal(t, "old", e.read(t, "a"))
	}},
	{"Replace over a file starts empty and leaves its other names unchanged", func(t *testing.T, e *env) {
		e.write(t, "a", "old")
		require.NoError(t, e.Link(e.path("a"), e.path("b")))
		for _, name := range []string{"a", "c"} {
			f, err := vfs.Replace(e, e.path(name))
			require.NoError(t, err)
			_, err = f.Write([]byte("n"))
			require.NoError(t, err)
			require.NoError(t, f.Close())
			require.Equal(t, "n", e.read(t, name))
		}
		require.Equal(t, "old", e.read(t, "b"))
		require.Equal(t, []string{"a", "b", "c"}, e.list(t))
	}},
	{"Abs names the same file", func(t *testing.T, e *env) {
		e.write(t, "a", "abc")
		name, err := e.Abs(e.path("a"))
		require.NoError(t, err)
		again, err := e.Abs(name)
		require.NoError(t, err)
		require.Equal(t, name, again)
		_, err = e.Stat(name)
		require.NoError(t, err)
	}},
	{"Write and Sync on a file from Open fail", func(t *testing.T, e *env) {
		e.write(t, "a", "abc")
		f := e.open(t, "a")
		n, err := f.Write([]byte("x"))
		require.Zero(t, n)
		require.ErrorIs(t, err, fs.ErrPermission)
		require.ErrorIs(t, f.Sync(), fs.ErrPermission)
		require.Equal(t, "abc", e.read(t, "a"))
	}},
	{"a closed file fails all operations", func(t *testing.T, e *env) {
		f, err := e.Create(e.path("a"))
		require.NoError(t, err)
		require.NoError(t, f.Close())
		_, err = f.Write([]byte("x"))
		require.ErrorIs(t, err, fs.ErrClosed)
		_, err = f.ReadAt(make([]byte, 1), 0)
		require.ErrorIs(t, err, fs.ErrClosed)
		_, err = f.Size()
		require.ErrorIs(t, err, fs.ErrClosed)
		require.ErrorIs(t, f.Sync(), fs.ErrClosed)
		require.ErrorIs(t, f.Close(), fs.ErrClosed)
		require.Equal(t, "", e.read(t, "a"))
	}},
	{"Remove removes a file or an empty directory", func(t *testing.T, e *env) {
		e.write(t, "a", "abc")
		require.NoError(t, e.MkdirAll(e.path("d")))
		require.NoError(t, e.Remove(e.path("a")))
		require.NoError(t, e.Remove(e.path("d")))
		require.Empty(t, e.list(t))
	}},
	{"Rename replaces the file that has the name", func(t *testing.T, e *env) {
		e.write(t, "a", "new")
		e.write(t, "b", "old")
		require.NoError(t, e.Rename(e.path("a"), e.path("b")))
		require.Equal(t, "new", e.read(t, "b"))
		require.Equal(t, []string{"b"}, e.list(t))
	}},
	{"Rename moves a directory to a free name", func(t *testing.T, e *env) {
		require.NoError(t, e.MkdirAll(e.path("d")))
		require.NoError(t, e.MkdirAll(e.path("taken")))
		e.write(t, "d/a", "one")
		e.write(t, "taken/b", "two")
		require.NoError(t, e.Rename(e.path("d"), e.path("moved")))
		require.Equal(t, "one", e.read(t, "moved/a"))
		_, err := e.Stat(e.path("d"))
		require.ErrorIs(t, err, fs.ErrNotExist)
		require.Error(t, e.Rename(e.path("moved"), e.path("taken")))
		require.Error(t, e.Rename(e.path("moved"), e.path("moved/within")))
		require.Equal(t, "one", e.read(t, "moved/a"))
		require.Equal(t, "two", e.read(t, "taken/b"))
	}},
	{"Rename between two names of one file keeps both", func(t *testing.T, e *env) {
		e.write(t, "a", "x")
		require.NoError(t, e.Link(e.path("a"), e.path("b")))
		require.NoError(t, e.Rename(e.path("a"), e.path("b")))
		require.Equal(t, []string{"a", "b"}, e.list(t))
	}},
	{"Rename moves between directories", func(t *testing.T, e *env) {
		e.write(t, "a", "x")
		require.NoError(t, e.MkdirAll(e.path("d")))
		require.NoError(t, e.Rename(e.path("a"), e.path("d/b")))
		require.Equal(t, []string{"d"}, e.list(t))
		require.Equal(t, "x", e.read(t, "d/b"))
	}},
	{"a link is another name of the same file", func(t *testing.T, e *env) {
		f, err := e.Create(e.path("a"))
		require.NoError(t, err)
		require.NoError(t, e.Link(e.path("a"), e.path("b")))
		_, err = f.Write([]byte("both"))
		require.NoError(t, err)
		require.NoError(t, f.Close())
		require.NoError(t, e.Remove(e.path("a")))
		require.Equal(t, "both", e.read(t, "b"))
	}},
	{"List is sorted and includes directories", func(t *testing.T, e *env) {
		for _, name := range []string{"b", "a10", "a9", "A"} {
			e.write(t, name, "")
		}
		require.NoError(t, e.MkdirAll(e.path("c/deep")))
		require.Equal(t, []string{"A", "a10", "a9", "b", "c"}, e.list(t))
	}},
	{"Stat returns name, size and kind", func(t *testing.T, e *env) {
		e.write(t, "a", "four")
		require.NoError(t, e.MkdirAll(e.path("d")))
		info, err := e.Stat(e.path("a"))
		require.NoError(t, err)
		require.Equal(t, "a", info.Name())
		require.EqualValues(t, 4, info.Size())
		require.True(t, info.Mode().IsRegular())
		info, err = e.Stat(e.path("d"))
		require.NoError(t, err)
		require.True(t, info.IsDir())
		info, err = e.Lstat(e.path("a"))
		require.NoError(t, err)
		require.True(t, info.Mode().IsRegular())
		require.EqualValues(t, 4, info.Size())
	}},
	{"MkdirAll makes parents and may be repeated", func(t *testing.T, e *env) {
		require.NoError(t, e.MkdirAll(e.path("x/y/z")))
		e.write(t, "x/y/z/f", "deep")
		require.NoError(t, e.MkdirAll(e.path("x/y/z")))
		require.Equal(t, "deep", e.read(t, "x/y/z/f"))
	}},
	{"MkdirAllSynced makes parents and may be repeated", func(t *testing.T, e *env) {
		require.NoError(t, vfs.MkdirAllSynced(e, e.path("x/y/z")))
		require.NoError(t, vfs.MkdirAllSynced(e, e.path("x/y/z")))
		e.write(t, "x/y/z/f", "deep")
	}},
	{"MkdirPlain makes a directory or accepts an existing one, but no file", func(t *testing.T, e *env) {
		require.NoError(t, vfs.MkdirPlain(e, e.path("d")))
		e.write(t, "d/f", "kept")
		require.NoError(t, vfs.MkdirPlain(e, e.path("d")))
		require.Equal(t, "kept", e.read(t, "d/f"))
		require.ErrorContains(t, vfs.MkdirPlain(e, e.path("d/f")), "not a directory")
	}},
	{"names may be unclean", func(t *testing.T, e *env) {
		e.write(t, "a", "x")
		f, err := e.Open(e.dir + "/./a")
		require.NoError(t, err)
		require.Equal(t, "x", Content(t, f))
		require.NoError(t, f.Close())
	}},
	{"errors have the standard causes and include the path", checkErrors},
	{"Lock excludes others until it is closed", checkLock},
	{"Lock leaves the bytes of the file unchanged", func(t *testing.T, e *env) {
		e.write(t, "LOCK", "not ours")
		for _, shared := range []bool{false, true} {
			l, err := e.Lock(e.path("LOCK"), shared)
			require.NoError(t, err)
			require.NoError(t, l.Close())
		}
		require.Equal(t, "not ours", e.read(t, "LOCK"))
	}},
	{"reads continue during appends", checkConcurrentReads},
}

func checkReadAt(t *testing.T, e *env) {
	e.write(t, "a", "0123456789")
	log, _ := e.createLog(t, "log")
	_, err := log.Write([]byte("0123456789"))
	require.NoError(t, err)
	for _, c := range []struct {
		offset int64
		length int
		want   string
		err    error
	}{
		{0, 10, "0123456789", nil},
		{3, 4, "3456", nil},
		{9, 1, "9", nil},
		{0, 11, "0123456789", io.EOF},
		{9, 2, "9", io.EOF},
		{10, 1, "", io.EOF},
		{1 << 40, 1, "", io.EOF},
		{0, 0, "", nil},
		{20, 0, "", nil},
	} {
		for _, f := range []vfs.File{e.open(t, "a"), log} {
			b := make([]byte, c.length)
			n, err := f.ReadAt(b, c.offset)
			require.Equal(t, c.err, err, "offset %d length %d", c.offset, c.length)
			require.Equal(t, c.want, string(b[:n]), "offset %d length %d", c.offset, c.length)
		}
	}
	require.NoError(t, log.Close())
}

func checkErrors(t *testing.T, e *env) {
	e.write(t, "file", "x")
	require.NoError(t, e.MkdirAll(e.path("dir/sub")))
	none, file, dir := e.path("none"), e.path("file"), e.path("dir")
	open := func(f vfs.File, err error) error {
		if err == nil {
			_ = f.Close()
		}
		return err
	}
	lock := func(l io.Closer, err error) error {
		if err == nil {
			_ = l.Close()
		}
		return err
	}
	second := func(_ any, err error) error { return err }
	for _, c := range []struct {
		claim string
		err   error
		is    error // nil accepts any error
		path  string
	}{
		{"Open of a missing file", open(e.Open(none)), fs.ErrNotExist, none},
		{"Open of a directory", open(e.Open(dir)), nil, dir},
		{"Create over a directory", open(e.Create(dir)), nil, dir},
		{"Create over a file", open(e.Create(file)), fs.ErrExist, file},
		{"Replace over a directory", open(vfs.Replace(e, dir)), nil, dir},
		{"Create in a missing directory", open(e.Create(filepath.Join(none, "f"))), fs.ErrNotExist, none},
		{"Create in a file", open(e.Create(filepath.Join(file, "f"))), nil, file},
		{"Remove of a missing file", e.Remove(none), fs.ErrNotExist, none},
		{"Remove of a full directory", e.Remove(dir), nil, dir},
		{"Rename of a missing file", e.Rename(none, file), fs.ErrNotExist, none},
		{"Rename over a directory", e.Rename(file, dir), nil, dir},
		{"Rename into a missing directory", e.Rename(file, filepath.Join(none, "f")), fs.ErrNotExist, none},
		{"Link of a missing file", e.Link(none, e.path("l")), fs.ErrNotExist, none},
		{"Link over a file", e.Link(file, file), fs.ErrExist, file},
		{"List of a missing directory", second(e.List(none)), fs.ErrNotExist, none},
		{"List of a file", second(e.List(file)), nil, file},
		{"Stat of a missing file", second(e.Stat(none)), fs.ErrNotExist, none},
		{"Lstat of a missing file", second(e.Lstat(none)), fs.ErrNotExist, none},
		{"MkdirAll through a file", e.MkdirAll(filepath.Join(file, "d")), nil, file},
		{"SyncDir of a missing directory", e.SyncDir(none), fs.ErrNotExist, none},
		{"SyncDir of a file", e.SyncDir(file), nil, file},
		{"Lock of a directory", lock(e.Lock(dir, false)), nil, dir},
		{"shared Lock in a missing directory", lock(e.Lock(filepath.Join(none, "LOCK"), true)), fs.ErrNotExist, none},
	} {
		require.Error(t, c.err, c.claim)
		if c.is != nil {
			require.ErrorIs(t, c.err, c.is, c.claim)
		}
		require.False(t, errors.Is(c.err, base.ErrLocked), c.claim)
		require.Contains(t, c.err.Error(), c.path, c.claim)
	}
	require.Equal(t, []string{"dir", "file"}, e.list(t), "failures change nothing")
}

func checkLock(t *testing.T, e *env) {
	name := e.path("LOCK")
	take := func(shared bool) io.Closer {
		t.Helper()
		l, err := e.Lock(name, shared)
		require.NoError(t, err)
		return l
	}
	refuse := func(shared bool) {
		t.Helper()
		_, err := e.Lock(name, shared)
		require.ErrorIs(t, err, base.ErrLocked)
		require.Contains(t, err.Error(), name)
		require.Contains(t, err.Error(), "has it open")
	}
	exclusive := take(false)
	refuse(false)
	refuse(true)
	require.NoError(t, exclusive.Close())
	require.Equal(t, []string{"LOCK"}, e.list(t))

	one, two := take(true), take(true)
	refuse(false)
	require.NoError(t, one.Close())
	refuse(false)
	three := take(true)
	require.NoError(t, two.Close())
	refuse(false)
	require.NoError(t, three.Close())

	last := take(false)
	refuse(true)
	require.NoError(t, last.Close())
}

// checkConcurrentReads is for the race detector: while one goroutine appends, others read bytes that have been written.
func checkConcurrentReads(t *testing.T, e *env) {
	const records = 200
	f, err := e.Create(e.path("a"))
	require.NoError(t, err)
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			b := make([]byte, 16)
			for size := int64(0); size < 16*records; {
				var err error
				if size, err = f.Size(); err != nil {
					t.Error(err)
					return
				}
				if size < 16 {
					continue
				}
				if _, err := f.ReadAt(b, size-16); err != nil || string(b) != "sixteen bytes ok" {
					t.Errorf("got %q, %v", b, err)
					return
				}
			}
		})
	}
	for range records {
		_, err := f.Write([]byte("sixteen bytes ok"))
		require.NoError(t, err)
	}
	wg.Wait()
	require.NoError(t, f.Sync())
	require.NoError(t, f.Close())
}
