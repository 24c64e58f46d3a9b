//go:build unix

package vfs

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/test/result"
)

// infoOf is the description of a file with an owner that a test chooses.
type infoOf struct {
	fs.FileInfo
	mode fs.FileMode
	sys  any
}

func (i infoOf) Mode() fs.FileMode { return i.mode }
func (i infoOf) Sys() any          { return i.sys }

func TestOnlyOwnFilesThatOthersCannotWritePass(t *testing.T) {
	defer func(old func() int) { effectiveUser = old }(effectiveUser)
	effectiveUser = func() int { return 1000 }
	for _, c := range []struct {
		mode         fs.FileMode
		user, group  uint32
		words, claim string
	}{
		{0o700, 1000, 100, "", "mine"},
		{0o755, 1000, 100, "", "others can read"},
		{0o700, 0, 0, "user 0 owns it, and this process runs as user 1000", "root's"},
		{0o700, 1001, 1000, "user 1001 owns it", "another user's with my group"},
		{0o777, 1000, 1000, "its mode is 0777, all users can write", "all can write"},
		{0o1777, 1000, 1000, "all users can write", "with a sticky bit"},
		{0o702, 1000, 1000, "all users can write", "others can write"},
		{0o770, 1000, 100, "its mode is 0770, group 100 can write", "a group can write"},
		{0o775, 1000, 1000, "", "the user's own group, and a umask of 002"},
	} {
		err := CheckOwn("/tmp/name", infoOf{mode: c.mode, sys: &syscall.Stat_t{Uid: c.user, Gid: c.group}})
		if c.words == "" {
			require.NoError(t, err, c.claim)
			continue
		}
		require.ErrorIs(t, err, ErrNotOwn, c.claim)
		require.ErrorContains(t, err, "/tmp/name")
		require.ErrorContains(t, err, c.words, c.claim)
	}
	require.NoError(t, CheckOwn("", infoOf{mode: 0o777}), "no owner is known")
}

func TestDirectoriesThatOthersCanWriteAreNotOwn(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "dir")
	there := result.Of(OwnDir(OS, dir))(t)
	require.False(t, there)
	require.NoError(t, MkdirOwn(OS, dir))
	require.NoError(t, MkdirOwn(OS, dir), "it is mine")
	there = result.Of(OwnDir(OS, dir))(t)
	require.True(t, there)

	require.NoError(t, os.Chmod(dir, 0o777))
	require.ErrorIs(t, result.Err(OwnDir(OS, dir)), ErrNotOwn)
	require.ErrorIs(t, MkdirOwn(OS, dir), ErrNotOwn)
	require.NoError(t, MkdirOwn(NewOS(0o666), dir), "those who use it want that")
	require.ErrorIs(t, MkdirOwn(NewOS(0o660), dir), ErrNotOwn)

	link := filepath.Join(parent, "link")
	require.NoError(t, os.Symlink(dir, link))
	require.ErrorContains(t, MkdirOwn(OS, link), "symbolic link")
	require.ErrorIs(t, MkdirOwn(OS, filepath.Join(parent, "none/dir")), fs.ErrNotExist)
}

// A directory that belongs to somebody else as soon as it is made, as on a network drive, is used.
func TestADirectoryThatWasJustMadeIsOwn(t *testing.T) {
	defer func(old func() int) { effectiveUser = old }(effectiveUser)
	effectiveUser = func() int { return os.Geteuid() + 1 }
	dir := filepath.Join(t.TempDir(), "dir")
	require.NoError(t, MkdirOwn(OS, dir))
	require.ErrorIs(t, MkdirOwn(OS, dir), ErrNotOwn)
}

func TestDirectoriesInMemoryHaveNoOwner(t *testing.T) {
	mem := NewMem()
	require.NoError(t, MkdirOwn(mem, "dir"))
	require.NoError(t, MkdirOwn(mem, "dir"))
	there := result.Of(OwnDir(mem, "dir"))(t)
	require.True(t, there)
}
