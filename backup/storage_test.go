package backup_test

import (
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/backup"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/test/backuptest"
	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/vfs"
)

func newDir(t testing.TB, fsys vfs.FS, dir string) backup.Storage {
	t.Helper()
	s := result.Of(backup.NewDir(fsys, dir))(t)
	return s
}

func TestStoragesConform(t *testing.T) {
	t.Run("memory", func(t *testing.T) {
		s := backuptest.NewMem()
		backuptest.Run(t, func(*testing.T) backup.Storage { return s })
	})
	t.Run("a directory in memory", func(t *testing.T) {
		mem := vfs.NewMem()
		backuptest.Run(t, func(t *testing.T) backup.Storage { return newDir(t, mem, "a/b/repo") })
	})
	t.Run("a directory", func(t *testing.T) {
		dir := t.TempDir()
		backuptest.Run(t, func(t *testing.T) backup.Storage { return newDir(t, nil, dir) })
	})
	t.Run("without links", func(t *testing.T) {
		mem := vfs.NewMem()
		fsys := wrap.NewFaulty(mem, wrap.FailIf(syscall.ENOTSUP, func(op wrap.Op) bool { return op.Kind == wrap.OpLink }))
		s := newDir(t, fsys, "repo")
		require.NoError(t, s.Create(background, "a/b", strings.NewReader("text")))
		require.Error(t, s.Create(background, "a/b", strings.NewReader("other")))
		require.Equal(t, []string{"repo/a/b"}, files(t, mem, "repo"))
	})
}

// files returns the names of all files below dir.
func files(t testing.TB, fsys vfs.FS, dir string) (names []string) {
	t.Helper()
	entries := result.Of(fsys.List(dir))(t)
	for _, name := range entries {
		name = dir + "/" + name
		info := result.Of(fsys.Lstat(name))(t)
		if info.IsDir() {
			names = append(names, files(t, fsys, name)...)
		} else {
			names = append(names, name)
		}
	}
	return names
}

func TestNamesStayInTheDirectory(t *testing.T) {
	require.ErrorContains(t, result.Err(backup.NewDir(nil, "")), "give a path")
	s := newDir(t, vfs.NewMem(), "repo")
	for _, name := range []string{"", "/etc/passwd", "../x", "a/../b", "a//b", `a\b`, "c:d"} {
		require.ErrorContains(t, s.Create(background, name, strings.NewReader("")), "not the name of an object")
		require.ErrorContains(t, result.Err(s.Open(background, name)), "not the name of an object")
		require.ErrorContains(t, s.Delete(background, name), "not the name of an object")
	}
}
