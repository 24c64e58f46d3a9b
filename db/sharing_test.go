package db_test

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/vfs"
)

// On Windows, the program that opens a file decides whether others can remove it meanwhile. vfs has the test for
// CURRENT.
func TestFilesThatOthersHaveOpenDoNotStopTheWriter(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	o := &db.Options{}
	d := openDir(t, dir, o)
	require.NoError(t, d.Put([]byte("a"), []byte("1"), nil))
	require.NoError(t, d.Close())
	names, err := vfs.OS.List(dir)
	require.NoError(t, err)
	for _, name := range names {
		if slices.Contains([]string{"LOCK", "CURRENT", "CLOSED"}, name) { // the last two are replaced
			continue
		}
		f, err := vfs.OS.Open(filepath.Join(dir, name))
		require.NoError(t, err)
		defer f.Close()
	}
	d = openDir(t, dir, o)
	require.NoError(t, d.Put([]byte("b"), []byte("1"), nil))
	require.NoError(t, d.Compact(t.Context(), nil, nil))
	requireContent(t, d, "a", "1", "b", "1")
	require.NoError(t, d.Close())
}

func TestAFollowerInADirectoryDoesNotStopTheWriter(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	o := &db.Options{}
	d := openDir(t, dir, o)
	require.NoError(t, d.Put([]byte("a"), []byte("0"), nil))
	f, err := db.OpenFollower(dir, o)
	require.NoError(t, err)
	for i := range 4 {
		value := strconv.Itoa(i)
		require.NoError(t, d.Put([]byte("a"), []byte(value), nil))
		require.NoError(t, f.Refresh(t.Context()))
		requireContent(t, f, "a", value)
		require.NoError(t, d.Compact(t.Context(), nil, nil))
		requireContent(t, f, "a", value)
		require.NoError(t, f.Refresh(t.Context()))
		requireContent(t, f, "a", value)
		require.NoError(t, d.Close())
		d = openDir(t, dir, o)
	}
	require.NoError(t, f.Close())
	require.NoError(t, d.Close())
	require.NoError(t, db.Destroy(dir, o))
	_, err = os.Stat(dir)
	require.ErrorIs(t, err, os.ErrNotExist)
}
