//go:build unix

package vfs_test

import (
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/vfs"
)

// Another user may have put something at one of our names: it must not be read, written, waited for or replaced.
func TestOnlyPlainFilesAreAccepted(t *testing.T) {
	for _, c := range []struct {
		name  string
		plant func(t *testing.T, dir, path string)
		words string
	}{
		{"a link to a file", func(t *testing.T, dir, path string) {
			require.NoError(t, os.Symlink(filepath.Join(dir, "victim"), path))
		}, "symbolic link"},
		{"a link to nothing", func(t *testing.T, dir, path string) {
			require.NoError(t, os.Symlink(filepath.Join(dir, "nothing"), path))
		}, "symbolic link"},
		{"a named pipe", func(t *testing.T, dir, path string) {
			require.NoError(t, syscall.Mkfifo(path, 0o600))
		}, "pipe"},
		{"a directory", func(t *testing.T, dir, path string) {
			require.NoError(t, os.Mkdir(path, 0o700))
		}, "directory"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "name")
			require.NoError(t, os.WriteFile(filepath.Join(dir, "victim"), []byte("precious"), 0o600))
			c.plant(t, dir, path)
			before := result.Of(os.Lstat(path))(t)

			_, createErr := vfs.OS.Create(path)
			_, openErr := vfs.OS.Open(path)
			_, lockErr := vfs.OS.Lock(path, false)
			_, sharedErr := vfs.OS.Lock(path, true)
			for op, err := range map[string]error{"create": createErr, "open": openErr, "lock": lockErr, "lock ": sharedErr} {
				require.ErrorContains(t, err, op)
				require.ErrorContains(t, err, path)
				require.ErrorContains(t, err, c.words)
			}
			after := result.Of(os.Lstat(path))(t)
			require.True(t, os.SameFile(before, after))
			victim := result.Of(os.ReadFile(filepath.Join(dir, "victim")))(t)
			require.Equal(t, "precious", string(victim))
			require.NoFileExists(t, filepath.Join(dir, "nothing"))
		})
	}
}

// A named pipe with the name of a directory is an error: an open that waits for its other end would never return.
func TestANamedPipeIsNoDirectory(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	errs := make(chan error, 2)
	go func() {
		_, err := vfs.OS.List(pipe)
		errs <- err
		errs <- vfs.OS.SyncDir(pipe)
	}()
	for range 2 {
		select {
		case err := <-errs:
			require.ErrorContains(t, err, "not a directory")
		case <-time.After(time.Minute):
			t.Fatal("it waits for the other end of the pipe")
		}
	}
}

func TestModes(t *testing.T) {
	dir := t.TempDir()
	mode := func(name string) fs.FileMode {
		info := result.Of(vfs.OS.Stat(filepath.Join(dir, name)))(t)
		return info.Mode().Perm()
	}
	require.NoError(t, vfs.OS.MkdirAll(filepath.Join(dir, "db/deep")))
	f := result.Of(vfs.OS.Create(filepath.Join(dir, "file")))(t)
	require.NoError(t, f.Close())
	l := result.Of(vfs.OS.Lock(filepath.Join(dir, "LOCK"), false))(t)
	require.NoError(t, l.Close())
	require.Equal(t, fs.FileMode(0o700), mode("db"))
	require.Equal(t, fs.FileMode(0o700), mode("db/deep"))
	require.Equal(t, fs.FileMode(0o600), mode("file"))
	require.Equal(t, fs.FileMode(0o600), mode("LOCK"))
}

func TestModeAppliesToNewFilesOnly(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0))
	dir := t.TempDir()
	wide := vfs.NewOS(fs.ModeSetuid | 0o664)
	for i, c := range []struct {
		make func(fsys vfs.FS, path string) (io.Closer, error)
		want fs.FileMode
		stay bool // an existing file keeps its mode
	}{
		{func(fsys vfs.FS, path string) (io.Closer, error) { return vfs.Replace(fsys, path) }, 0o664, false},
		{func(fsys vfs.FS, path string) (io.Closer, error) { return fsys.Lock(path, false) }, 0o664, true},
		{func(fsys vfs.FS, path string) (io.Closer, error) { return fsys.Lock(path, true) }, 0o664, true},
		{func(fsys vfs.FS, path string) (io.Closer, error) { return io.NopCloser(nil), fsys.MkdirAll(path) }, 0o775, true},
	} {
		for _, old := range []bool{false, true} {
			path := filepath.Join(dir, fmt.Sprint(i, old))
			want := c.want
			if old {
				f := result.Of(c.make(vfs.OS, path))(t)
				require.NoError(t, f.Close())
				if c.stay {
					want = c.want & 0o700
				}
			}
			f := result.Of(c.make(wide, path))(t)
			require.NoError(t, f.Close())
			info := result.Of(os.Stat(path))(t)
			require.Equal(t, want, info.Mode()&^fs.ModeDir, path)
		}
	}
}

// MkdirPlain must not use a directory that is reached through a link.
func TestMkdirPlainFollowsNoLink(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "other"), 0o700))
	for _, target := range []string{"other", "nothing"} {
		link := filepath.Join(dir, "link to "+target)
		require.NoError(t, os.Symlink(filepath.Join(dir, target), link))
		require.ErrorContains(t, vfs.MkdirPlain(vfs.OS, link), "symbolic link")
		info := result.Of(vfs.OS.Lstat(link))(t)
		require.ErrorContains(t, vfs.RefuseLink(link, info), "symbolic link")
	}
	require.NoDirExists(t, filepath.Join(dir, "nothing"))
}

func TestMaxDescriptorsFollowsTheLimitOfTheProcess(t *testing.T) {
	var old syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &old))
	require.EqualValues(t, min(uint64(old.Cur), math.MaxInt32), vfs.MaxDescriptors())
	lower := old
	lower.Cur = 500
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &lower))
	defer func() { require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &old)) }()
	require.Equal(t, 500, vfs.MaxDescriptors())
}

func TestRemovedFileStaysReadableInOS(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	require.NoError(t, os.WriteFile(path, []byte("old"), 0o600))
	f := result.Of(vfs.OS.Open(path))(t)
	require.NoError(t, vfs.OS.Remove(path))
	b := make([]byte, 4)
	n, err := f.ReadAt(b, 0)
	require.Equal(t, io.EOF, err)
	require.Equal(t, "old", string(b[:n]))
	require.NoError(t, f.Close())
}
