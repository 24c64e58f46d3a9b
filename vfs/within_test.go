package vfs

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWithinFollowsLinks(t *testing.T) {
	root := t.TempDir()
	db, sub, beside := filepath.Join(root, "db"), filepath.Join(root, "db", "sub"), filepath.Join(root, "beside")
	require.NoError(t, os.MkdirAll(sub, 0o700))
	require.NoError(t, os.MkdirAll(beside, 0o700))
	want := map[string]bool{
		db: true, sub: true, filepath.Join(sub, "new"): true, filepath.Join(db, "a", "b"): true,
		root: false, beside: false, filepath.Join(root, "db2"): false, filepath.Join(root, "new", "new"): false, string(filepath.Separator): false,
	}
	for target, name := range map[string]string{db: "toDB", sub: "toSub", beside: "toBeside"} {
		link := filepath.Join(root, name)
		if err := os.Symlink(target, link); err != nil {
			t.Log("no symbolic links:", err)
			continue
		}
		want[link], want[filepath.Join(link, "new")] = target != beside, target != beside
	}
	for path, want := range want {
		got, err := Within(OS, path, OS, db)
		require.NoError(t, err, path)
		require.Equal(t, want, got, path)
	}
	got, err := Within(OS, beside, OS, filepath.Join(root, "missing"))
	require.NoError(t, err)
	require.False(t, got)
	mem := NewMem()
	require.NoError(t, mem.MkdirAll("a/db/sub"))
	for path, want := range map[string]bool{"a/db": true, "a/db/sub/x": true, "a": false, "a/d": false, "b/c": false, ".": false} {
		got, err := Within(mem, path, mem, "a/db")
		require.NoError(t, err, path)
		require.Equal(t, want, got, path)
	}
	got, err = Within(mem, "a/db", OS, root)
	require.NoError(t, err)
	require.False(t, got)
}
