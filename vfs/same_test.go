package vfs

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSameFile(t *testing.T) {
	for name, fsys := range map[string]FS{"os": OS, "mem": NewMem()} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			require.NoError(t, fsys.MkdirAll(dir))
			a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
			for _, path := range []string{a, b} {
				f, err := fsys.Create(path)
				require.NoError(t, err)
				require.NoError(t, f.Close())
			}
			one, err := fsys.Lstat(a)
			require.NoError(t, err)
			two, err := fsys.Lstat(b)
			require.NoError(t, err)
			require.True(t, SameFile(one, one))
			require.False(t, SameFile(one, two))
			require.NoError(t, fsys.Rename(a, b))
			two, err = fsys.Lstat(b)
			require.NoError(t, err)
			require.True(t, SameFile(one, two), "renamed")
		})
	}
}
