//go:build linux || darwin

package vfs_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/vfs"
)

func TestTheFreeSpaceOfADirectoryIsKnown(t *testing.T) {
	dir := t.TempDir()
	n, known := vfs.FreeBytes(vfs.OS, dir)
	require.True(t, known)
	require.Positive(t, n)
	_, known = vfs.FreeBytes(vfs.OS, filepath.Join(dir, "missing"))
	require.False(t, known)
	_, known = vfs.FreeBytes(vfs.NewMem(), "db")
	require.False(t, known, "a file system in memory has no limit")
}
