//go:build unix

package dbdir_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/internal/test/storetest"
)

// modesBelow returns the permissions of a directory and of everything in it.
func modesBelow(t *testing.T, dir string) map[string]fs.FileMode {
	modes := map[string]fs.FileMode{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		require.NoError(t, err)
		info := result.Of(e.Info())(t)
		name := result.Of(filepath.Rel(dir, path))(t)
		modes[name] = info.Mode().Perm()
		return nil
	}))
	return modes
}

// damageLog flips a bit in the middle of the newest log.
func damageLog(t *testing.T, dir string) {
	logs := result.Of(filepath.Glob(filepath.Join(dir, "*.log")))(t)
	newest := logs[len(logs)-1]
	data := result.Of(os.ReadFile(newest))(t)
	data[len(data)/2] ^= 1
	require.NoError(t, os.WriteFile(newest, data, 0o600))
}

// useEverything makes the store write every kind of file that it has, including those in lost/ and those of a repair.
func useEverything(t *testing.T, dir string, o *db.Options) {
	o.Salvage = db.SalvageAll
	for range 2 {
		d := result.Of(db.Open(dir, o))(t)
		storetest.Fill(t, d, 0, 100)
		require.NoError(t, d.Compact(t.Context(), nil, nil))
		storetest.Fill(t, d, 100, 120)
		require.NoError(t, d.Close())
		damageLog(t, dir)
	}
	require.NoError(t, db.Repair(dir, o))
}

func TestNewFilesHaveTheConfiguredMode(t *testing.T) {
	for _, c := range []struct {
		name            string
		mode, umask     fs.FileMode
		wantFile, wantD fs.FileMode
	}{
		{"only the owner, by default", 0, 0, 0o600, 0o700},
		{"the group may read", 0o640, 0, 0o640, 0o750},
		{"everybody may do everything", 0o666, 0, 0o666, 0o777},
		{"the umask is applied", 0o666, 0o027, 0o640, 0o750},
	} {
		t.Run(c.name, func(t *testing.T) {
			defer syscall.Umask(syscall.Umask(int(c.umask)))
			dir := filepath.Join(t.TempDir(), "parent", "db")
			o := storetest.Options(nil)
			o.FileMode = c.mode
			useEverything(t, dir, o)
			kinds := map[base.FileKind]bool{}
			lost := 0
			for name, mode := range modesBelow(t, filepath.Dir(dir)) {
				switch filepath.Base(name) {
				case ".", "db", manifest.LostDir:
					require.Equal(t, c.wantD, mode, name)
					continue
				}
				require.Equal(t, c.wantFile, mode, name)
				if filepath.Base(filepath.Dir(name)) == manifest.LostDir {
					lost++
				} else if kind, _, ok := base.ParseFileName(filepath.Base(name)); ok {
					kinds[kind] = true
				}
			}
			require.GreaterOrEqual(t, lost, 2, "files of a salvage and of a repair")
			for _, kind := range []base.FileKind{base.FileLock, base.FileCurrent, base.FileManifest, base.FileTable, base.FileLog} {
				require.True(t, kinds[kind], base.FileName(kind, 1))
			}
		})
	}
}

func TestTheModeOfExistingFilesIsNotChanged(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0))
	dir := filepath.Join(t.TempDir(), "db")
	d := result.Of(db.Open(dir, storetest.Options(nil)))(t)
	storetest.Fill(t, d, 0, 100)
	require.NoError(t, d.Flush())
	require.NoError(t, d.Close())
	before := result.Of(os.ReadDir(dir))(t)
	inodes := map[string]fs.FileInfo{}
	kept := t.TempDir() // has a second link to each file, so that no new file gets an old inode
	for _, e := range before {
		require.NoError(t, os.Link(filepath.Join(dir, e.Name()), filepath.Join(kept, e.Name())))
		inodes[e.Name()] = result.Of(e.Info())(t)
	}

	o := storetest.Options(nil)
	o.FileMode = 0o666
	d = result.Of(db.Open(dir, o))(t)
	storetest.Fill(t, d, 100, 110)
	require.NoError(t, d.Close())
	same, made := 0, 0
	for name, mode := range modesBelow(t, dir) {
		info := result.Of(os.Stat(filepath.Join(dir, name)))(t)
		switch old := inodes[name]; {
		case name == ".":
			require.Equal(t, fs.FileMode(0o700), mode)
		case old != nil && os.SameFile(old, info):
			require.Equal(t, fs.FileMode(0o600), mode, name)
			same++
		default:
			require.Equal(t, fs.FileMode(0o666), mode, name)
			made++
		}
	}
	require.GreaterOrEqual(t, same, 2, "LOCK and a table")
	require.GreaterOrEqual(t, made, 3, "CURRENT, a MANIFEST and a log")
}
