package vfs_test

import (
	"bytes"
	"io"
	"io/fs"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/vfs"
)

func TestCopy(t *testing.T) {
	content := bytes.Repeat([]byte("0123456789abcdef"), 50_000)
	mem := vfs.NewMem()
	for name, c := range map[string]struct {
		fsys vfs.FS
		dir  string
	}{"OS": {vfs.OS, t.TempDir()}, "Mem": {mem, "."}} {
		t.Run(name, func(t *testing.T) {
			from, to := filepath.Join(c.dir, "from"), filepath.Join(c.dir, "to")
			f := result.Of(c.fsys.Create(from))(t)
			result.Of(f.Write(content))(t)
			require.NoError(t, f.Close())
			src := result.Of(c.fsys.Open(from))(t)
			defer src.Close()
			for _, size := range []int{0, 1, 300_000, len(content)} {
				require.NoError(t, vfs.Copy(c.fsys, src, int64(size), to))
				dst := result.Of(c.fsys.Open(to))(t)
				got := make([]byte, size+1)
				n, err := dst.ReadAt(got, 0)
				require.Equal(t, io.EOF, err)
				require.True(t, bytes.Equal(content[:size], got[:n]))
				require.NoError(t, dst.Close())
				require.ErrorIs(t, vfs.Copy(c.fsys, src, 1, to), fs.ErrExist)
				require.NoError(t, c.fsys.Remove(to))
			}
			require.ErrorIs(t, vfs.Copy(c.fsys, src, int64(len(content))+1, to), io.ErrUnexpectedEOF)
			require.ErrorIs(t, result.Err(c.fsys.Stat(to)), fs.ErrNotExist, "nothing is left")
		})
	}
	require.NoError(t, mem.SyncDir("."))
	src := result.Of(mem.Open("from"))(t)
	require.NoError(t, vfs.Copy(mem, src, 5, "synced"))
	require.NoError(t, mem.SyncDir("."))
	info := result.Of(mem.Crash().Stat("synced"))(t)
	require.EqualValues(t, 5, info.Size(), "its bytes are durable")
}
