package vfs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/test/result"
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
	file := result.Of(r.Lstat(filepath.Join(dir, "file")))(t)
	for _, name := range []string{"file", "link", "again"} {
		name = filepath.Join(dir, name)
		f := result.Of(r.Open(name))(t)
		size := result.Of(f.Size())(t)
		require.EqualValues(t, 7, size)
		require.ErrorIs(t, result.Err(f.Write([]byte("x"))), fs.ErrPermission)
		require.NoError(t, f.Close())
		info := result.Of(r.Lstat(name))(t)
		require.True(t, vfs.SameFile(file, info))
		require.NoError(t, vfs.RefuseLink(name, info))
		require.NoError(t, r.Link(name, name+" 2"))
		info = result.Of(os.Lstat(name + " 2"))(t)
		require.True(t, os.SameFile(file, info), "a name of the file")
	}
	for _, name := range []string{"to a directory", "nowhere", "loop"} {
		name = filepath.Join(dir, name)
		require.ErrorIs(t, result.Err(r.Open(name)), vfs.ErrSymlink)
		info := result.Of(r.Lstat(name))(t)
		require.ErrorIs(t, vfs.RefuseLink(name, info), vfs.ErrSymlink)
	}
	require.ErrorContains(t, vfs.MkdirPlain(r, filepath.Join(dir, "to a directory")), "symbolic link")
}

// A lock through a link keeps out those who lock the file, and makes nothing.
func TestReadersLockWhatALinkLeadsTo(t *testing.T) {
	dir := linksTo(t)
	r := vfs.NewOSForReading(vfs.DefaultFileMode)
	lock := result.Of(r.Lock(filepath.Join(dir, "link"), true))(t)
	_, err := vfs.OS.Lock(filepath.Join(dir, "file"), false)
	require.ErrorContains(t, err, "this process has it open already")
	require.NoError(t, lock.Close())
	lock = result.Of(vfs.OS.Lock(filepath.Join(dir, "file"), false))(t)
	require.Error(t, result.Err(r.Lock(filepath.Join(dir, "link"), true)))
	require.NoError(t, lock.Close())

	lock = result.Of(r.Lock(filepath.Join(dir, "nowhere"), true))(t)
	require.NoError(t, lock.Close())
	require.NoFileExists(t, filepath.Join(dir, "none"))
	for _, name := range []string{"link", "nowhere", "to a directory"} {
		require.ErrorIs(t, result.Err(r.Lock(filepath.Join(dir, name), false)), vfs.ErrSymlink)
		require.Error(t, result.Err(r.Create(filepath.Join(dir, name))))
	}
	require.ErrorIs(t, result.Err(r.Lock(filepath.Join(dir, "to a directory"), true)), vfs.ErrSymlink)
	data := result.Of(os.ReadFile(filepath.Join(dir, "file")))(t)
	require.Equal(t, "content", string(data))
}
