package vfs_test

import (
	"io/fs"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/test/result"
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
			f := result.Of(c.fsys.Create(path))(t)
			result.Of(f.Write([]byte("bytes")))(t)
			require.NoError(t, f.Close())
			require.NoError(t, c.fsys.Link(path, path+"2"))
			require.NoError(t, vfs.SyncFile(c.fsys, path+"2"))
			require.ErrorIs(t, vfs.SyncFile(c.fsys, path+"3"), fs.ErrNotExist)
			require.Error(t, vfs.SyncFile(c.fsys, c.dir))
		})
	}
	require.NoError(t, mem.SyncDir("."))
	info := result.Of(mem.Crash().Stat("file"))(t)
	require.EqualValues(t, 5, info.Size(), "its bytes are durable under each name")
	require.Equal(t, vfs.ErrNoFileSync, vfs.SyncFile(struct{ vfs.FS }{mem}, "file"))
}
