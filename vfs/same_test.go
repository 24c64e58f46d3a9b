package vfs

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/test/result"
)

func TestSameFile(t *testing.T) {
	for name, fsys := range map[string]FS{"os": OS, "mem": NewMem()} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			require.NoError(t, fsys.MkdirAll(dir))
			a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
			for _, path := range []string{a, b} {
				f := result.Of(fsys.Create(path))(t)
				require.NoError(t, f.Close())
			}
			one := result.Of(fsys.Lstat(a))(t)
			two := result.Of(fsys.Lstat(b))(t)
			require.True(t, SameFile(one, one))
			require.False(t, SameFile(one, two))
			require.NoError(t, fsys.Rename(a, b))
			two = result.Of(fsys.Lstat(b))(t)
			require.True(t, SameFile(one, two), "renamed")
		})
	}
}
