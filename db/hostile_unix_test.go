//go:build unix

package db

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/stretchr/testify/require"
)

// A symbolic link in the place of any file of the database leads nowhere: what it
// points to, outside, is neither read, nor written, nor truncated, nor removed.
func TestSymbolicLinksAreNotFollowed(t *testing.T) {
	build := func(t *testing.T) (dir string, names map[base.FileKind]string) {
		dir = filepath.Join(t.TempDir(), "db")
		d, err := Open(dir, testOptions(nil))
		require.NoError(t, err)
		fill(t, d, 0, 100)
		require.NoError(t, d.Flush())
		fill(t, d, 100, 120)
		require.NoError(t, d.Close())
		entries, err := os.ReadDir(dir)
		require.NoError(t, err)
		names = map[base.FileKind]string{}
		for _, e := range entries {
			if kind, _, ok := base.ParseFileName(e.Name()); ok {
				names[kind] = e.Name()
			}
		}
		return dir, names
	}
	_, names := build(t)
	for _, kind := range []base.FileKind{base.FileCurrent, base.FileManifest, base.FileLog, base.FileTable, base.FileLock} {
		for _, readOnly := range []bool{false, true} {
			t.Run(names[kind], func(t *testing.T) {
				dir, names := build(t)
				require.Contains(t, names, kind)
				inside := filepath.Join(dir, names[kind])
				outside := filepath.Join(filepath.Dir(dir), "outside")
				require.NoError(t, os.Rename(inside, outside))
				require.NoError(t, os.Symlink(outside, inside))
				content, err := os.ReadFile(outside)
				require.NoError(t, err)
				before, err := os.Lstat(outside)
				require.NoError(t, err)

				o := testOptions(nil)
				o.ReadOnly = readOnly
				d, err := Open(dir, o)
				switch {
				case err != nil:
				case kind == base.FileTable: // opened when it is needed
					_, err := d.Get(testKey(1))
					require.ErrorContains(t, err, "symbolic link")
					require.NoError(t, d.Close())
				default: // the log's link is no log: it is missing
					require.Equal(t, base.FileLog, kind)
					require.Equal(t, names[kind], d.OpenReport().MissingLog)
					require.NoError(t, d.Close())
				}
				after, err := os.Lstat(outside)
				require.NoError(t, err)
				require.Equal(t, before.ModTime(), after.ModTime())
				require.Equal(t, before.Mode(), after.Mode())
				again, err := os.ReadFile(outside)
				require.NoError(t, err)
				require.Equal(t, content, again)
			})
		}
	}
	t.Run("temporary and new files", func(t *testing.T) {
		dir, _ := build(t)
		outside := filepath.Join(filepath.Dir(dir), "outside")
		require.NoError(t, os.WriteFile(outside, []byte("mine"), 0o600))
		for num := range uint64(60) {
			for _, kind := range []base.FileKind{base.FileTemp, base.FileTable, base.FileLog, base.FileManifest} {
				_ = os.Symlink(outside, filepath.Join(dir, base.FileName(kind, num))) // where nothing is
			}
		}
		d, err := Open(dir, testOptions(nil))
		if err == nil {
			fill(t, d, 0, 300)
			_ = d.Flush()
			_ = d.Close()
		}
		content, err := os.ReadFile(outside)
		require.NoError(t, err)
		require.Equal(t, "mine", string(content))
	})
}
