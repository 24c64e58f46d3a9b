package vfs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/vfs"
)

// linksTo returns a directory with a plain file and links: to it, to the link, to a directory, and to nothing.
func linksTo(t *testing.T) (dir string) {
	dir = t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "file"), []byte("content"), 0o600))
	for link, target := range map[string]string{"link": "file", "again": "link", "to a directory": ".", "nowhere": "none", "loop": "loop"} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Skip("no symbolic links:", err)
		}
	}
	return dir
}

func TestReadersFollowLinksToPlainFiles(t *testing.T) {
	dir := linksTo(t)
	r := vfs.NewOSForReading(vfs.DefaultFileMode)
	file, err := r.Lstat(filepath.Join(dir, "file"))
	require.NoError(t, err)
	for _, name := range []string{"file", "link", "again"} {
		name = filepath.Join(dir, name)
		f, err := r.Open(name)
		require.NoError(t, err)
		size, err := f.Size()
		require.NoError(t, err)
		require.EqualValues(t, 7, size)
		_, err = f.Write([]byte("x"))
		require.ErrorIs(t, err, fs.ErrPermission)
		require.NoError(t, f.Close())
		info, err := r.Lstat(name)
		require.NoError(t, err)
		require.True(t, vfs.SameFile(file, info))
		require.NoError(t, vfs.RefuseLink(name, info))
		require.NoError(t, r.Link(name, name+" 2"))
		info, err = os.Lstat(name + " 2")
		require.NoError(t, err)
		require.True(t, os.SameFile(file, info), "a name of the file")
	}
	for _, name := range []string{"to a directory", "nowhere", "loop"} {
		name = filepath.Join(dir, name)
		_, err := r.Open(name)
		require.ErrorIs(t, err, vfs.ErrSymlink)
		info, err := r.Lstat(name)
		require.NoError(t, err)
		require.ErrorIs(t, vfs.RefuseLink(name, info), vfs.ErrSymlink)
	}
	require.ErrorContains(t, vfs.MkdirPlain(r, filepath.Join(dir, "to a directory")), "symbolic link")
}

// A lock through a link keeps out those who lock the file, and makes nothing.
func TestReadersLockWhatALinkLeadsTo(t *testing.T) {
	dir := linksTo(t)
	r := vfs.NewOSForReading(vfs.DefaultFileMode)
	lock, err := r.Lock(filepath.Join(dir, "link"), true)
	require.NoError(t, err)
	_, err = vfs.OS.Lock(filepath.Join(dir, "file"), false)
	require.ErrorContains(t, err, "this process has it open already")
	require.NoError(t, lock.Close())
	lock, err = vfs.OS.Lock(filepath.Join(dir, "file"), false)
	require.NoError(t, err)
	_, err = r.Lock(filepath.Join(dir, "link"), true)
	require.Error(t, err)
	require.NoError(t, lock.Close())

	lock, err = r.Lock(filepath.Join(dir, "nowhere"), true)
	require.NoError(t, err)
	require.NoError(t, lock.Close())
	require.NoFileExists(t, filepath.Join(dir, "none"))
	for _, name := range []string{"link", "nowhere", "to a directory"} {
		_, err = r.Lock(filepath.Join(dir, name), false)
		require.ErrorIs(t, err, vfs.ErrSymlink)
		_, err = r.Create(filepath.Join(dir, name))
		require.Error(t, err)
	}
	_, err = r.Lock(filepath.Join(dir, "to a directory"), true)
	require.ErrorIs(t, err, vfs.ErrSymlink)
	data, err := os.ReadFile(filepath.Join(dir, "file"))
	require.NoError(t, err)
	require.Equal(t, "content", string(data))
}
