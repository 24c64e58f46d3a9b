package vfstest

import (
	"bytes"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/vfs"
)

// createLog makes a log. cut is Cut, or does nothing if the log is a plain file.
func (e *env) createLog(t *testing.T, name string) (f vfs.File, cut func() error) {
	t.Helper()
	f, err := vfs.CreateLog(e.FS, e.path(name))
	require.NoError(t, err)
	if l, ok := f.(vfs.LogFile); ok {
		return f, l.Cut
	}
	return f, func() error { return nil }
}

// requireLog requires that a file has want and then only zeros, and that Stat returns its length. It returns the number
// of zeros.
func (e *env) requireLog(t *testing.T, name, want string) (zeros int) {
	t.Helper()
	got := e.read(t, name)
	require.True(t, strings.HasPrefix(got, want), "%d bytes were written", len(want))
	require.Empty(t, strings.Trim(got[len(want):], "\x00"))
	info, err := e.Stat(e.path(name))
	require.NoError(t, err)
	require.EqualValues(t, len(got), info.Size())
	return len(got) - len(want)
}

// record returns a record of n bytes without a zero.
func record(i, n int) []byte { return bytes.Repeat([]byte{byte(i%255 + 1)}, n) }

var logClaims = []claim{
	{"a log has what was written, for its own handle, and then zeros, for others", checkLog},
	{"Cut ends a log behind its bytes", func(t *testing.T, e *env) {
		f, cut := e.createLog(t, "log")
		_, err := f.Write([]byte("a record"))
		require.NoError(t, err)
		require.NoError(t, f.Sync())
		require.NoError(t, cut())
		require.Zero(t, e.requireLog(t, "log", "a record"))
		if _, ok := f.(vfs.LogFile); ok {
			n, err := f.Write([]byte("another"))
			require.Zero(t, n)
			require.ErrorContains(t, err, e.path("log"))
		}
		require.NoError(t, f.Sync(), "of the length")
		require.NoError(t, cut(), "it may be repeated")
		require.Equal(t, "a record", Content(t, f))
		require.NoError(t, f.Close())
		require.Equal(t, "a record", e.read(t, "log"))
	}},
	{"Close ends a log behind its bytes, even without a Sync", func(t *testing.T, e *env) {
		for _, content := range []string{"", "a record"} {
			f, _ := e.createLog(t, "log"+content)
			_, err := f.Write([]byte(content))
			require.NoError(t, err)
			require.NoError(t, f.Close())
			require.Equal(t, content, e.read(t, "log"+content))
		}
	}},
	{"an empty log has no bytes", func(t *testing.T, e *env) {
		f, cut := e.createLog(t, "log")
		n, err := f.Write(nil)
		require.NoError(t, err)
		require.Zero(t, n)
		if l, ok := f.(vfs.LogFile); ok {
			for _, parts := range [][][]byte{nil, {nil}, {{}, nil}} {
				n, err = l.WriteParts(parts...)
				require.NoError(t, err)
				require.Zero(t, n)
			}
		}
		require.Zero(t, e.requireLog(t, "log", ""))
		require.NoError(t, f.Sync())
		require.NoError(t, cut())
		require.NoError(t, f.Close())
	}},
	{"a closed log fails all operations", func(t *testing.T, e *env) {
		for _, content := range []string{"", "a record"} {
			name := "log" + content
			f, cut := e.createLog(t, name)
			_, err := f.Write([]byte(content))
			require.NoError(t, err)
			require.NoError(t, f.Close())
			_, err = f.Write([]byte("x"))
			require.ErrorIs(t, err, fs.ErrClosed)
			_, err = f.ReadAt(make([]byte, 1), 0)
			require.ErrorIs(t, err, fs.ErrClosed)
			_, err = f.Size()
			require.ErrorIs(t, err, fs.ErrClosed)
			failing := []func() error{f.Sync, f.Close}
			if l, ok := f.(vfs.LogFile); ok {
				_, err = l.WriteParts([]byte("x"), []byte("y"))
				require.ErrorIs(t, err, fs.ErrClosed)
				failing = append(failing, cut)
			}
			for _, f := range failing {
				require.ErrorIs(t, f(), fs.ErrClosed)
				require.ErrorContains(t, f(), e.path(name))
			}
			if early, ok := f.(vfs.EarlyWriter); ok {
				early.StartWriting(0, 10)
			}
			require.Equal(t, content, e.read(t, name))
		}
	}},
	{"CreateLog fails as Create does", func(t *testing.T, e *env) {
		e.write(t, "file", "x")
		require.NoError(t, e.MkdirAll(e.path("dir")))
		for name, want := range map[string]error{"file": fs.ErrExist, "dir": nil, "none/log": fs.ErrNotExist, "file/log": nil} {
			_, err := vfs.CreateLog(e.FS, e.path(filepath.FromSlash(name)))
			require.ErrorContains(t, err, e.path(filepath.FromSlash(name)))
			if want != nil {
				require.ErrorIs(t, err, want)
			}
		}
		require.Equal(t, []string{"dir", "file"}, e.list(t), "failures change nothing")
		require.Equal(t, "x", e.read(t, "file"))
	}},
	{"a renamed or removed log takes more records", func(t *testing.T, e *env) {
		f, _ := e.createLog(t, "log")
		_, err := f.Write([]byte("one"))
		require.NoError(t, err)
		require.NoError(t, e.Link(e.path("log"), e.path("link")))
		require.NoError(t, e.Remove(e.path("log")))
		_, err = f.Write([]byte("two"))
		require.NoError(t, err)
		e.requireLog(t, "link", "onetwo")
		require.NoError(t, f.Close())
		require.Equal(t, "onetwo", e.read(t, "link"))
	}},
	{"a reader of a log sees whole records", checkLogReaders},
}

func checkLog(t *testing.T, e *env) {
	f, _ := e.createLog(t, "log")
	early := e.open(t, "log")
	var want []byte
	for i := range 40 {
		size := 1 + i*i*i%5000
		if i == 30 {
			size = 300 << 10
		}
		p := record(i, size)
		write := f.Write
		if l, ok := f.(vfs.LogFile); ok && i%3 == 0 {
			write = func(p []byte) (int, error) {
				return l.WriteParts(p[:size/5], nil, p[size/5:size/3], p[size/3:])
			}
		}
		n, err := write(p)
		require.NoError(t, err)
		require.Equal(t, size, n)
		want = append(want, p...)
		clear(p) // a written slice may be reused
		if i%8 == 0 {
			require.NoError(t, f.Sync())
			e.requireLog(t, "log", string(want))
		}
	}
	require.Equal(t, string(want), Content(t, f))
	b := make([]byte, 100)
	n, err := f.ReadAt(b, int64(len(want)-60))
	require.Equal(t, io.EOF, err, "the zeros behind the bytes are not those of the handle that writes")
	require.Equal(t, string(want[len(want)-60:]), string(b[:n]))
	_, err = f.ReadAt(b, int64(len(want)))
	require.Equal(t, io.EOF, err)
	_, err = f.ReadAt(b, -1)
	require.Error(t, err)
	require.NotEqual(t, io.EOF, err)
	n, err = early.ReadAt(b, int64(len(want)-100))
	require.NoError(t, err, "of a reader that opened the empty file")
	require.Equal(t, string(want[len(want)-100:]), string(b[:n]))
	require.NoError(t, f.Close())
	require.Equal(t, string(want), e.read(t, "log"))
}

// checkLogReaders is for the race detector, too. A record whose head is there is whole when it is read once more: a
// read may meet the bytes of a Write in any order.
func checkLogReaders(t *testing.T, e *env) {
	const records, size = 2000, 100
	f, _ := e.createLog(t, "log")
	var group sync.WaitGroup
	for own := range 2 {
		r := f
		if own == 0 {
			r = e.open(t, "log")
		}
		group.Go(func() {
			b := make([]byte, size)
			for i := 0; i < records; {
				n, _ := r.ReadAt(b, int64(i*size))
				if n < vfs.LogHead || b[vfs.LogHead-1] == 0 {
					continue
				}
				if _, err := r.ReadAt(b, int64(i*size)); err != nil || !bytes.Equal(b, record(i, size)) {
					t.Errorf("record %d is %q, %v", i, b, err)
					return
				}
				i++
			}
		})
	}
	group.Go(func() {
		for range 3 {
			if err := f.Sync(); err != nil {
				t.Error(err)
			}
			if _, err := f.Size(); err != nil {
				t.Error(err)
			}
		}
	})
	for i := range records {
		_, err := f.Write(record(i, size))
		require.NoError(t, err)
	}
	group.Wait()
	require.NoError(t, f.Close())
}
