package vfs_test

import (
	"io/fs"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/vfs"
)

func TestSyncFileSyncsAFileThatIsNotOpen(t *testing.T) {
	mem := vfs.NewMem()
	for name, c := range map[string]struct {
		fsys vfs.FS
		dir  string
	}{
		"OS": {vfs.OS, t.TempDir()}, "Mem": {mem, "."},
		"Faulty": {wrap.NewFaulty(vfs.NewMem(), nil), "."}, "Counting": {wrap.NewCounting(vfs.NewMem()), "."},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(c.dir, "file")
			f, err := c.fsys.Create(path)
			require.NoError(t, err)
			_, err = f.Write([]byte("bytes"))
			require.NoError(t, err)
			require.NoError(t, f.Close())
			require.NoError(t, c.fsys.Link(path, path+"2"))
			require.NoError(t, vfs.SyncFile(c.fsys, path+"2"))
			require.ErrorIs(t, vfs.SyncFile(c.fsys, path+"3"), fs.ErrNotExist)
			require.Error(t, vfs.SyncFile(c.fsys, c.dir))
		})
	}
	require.NoError(t, mem.SyncDir("."))
	info, err := mem.Crash().Stat("file")
	require.NoError(t, err)
	require.EqualValues(t, 5, info.Size(), "its bytes are durable under each name")
	require.Equal(t, vfs.ErrNoFileSync, vfs.SyncFile(struct{ vfs.FS }{mem}, "file"))
}
