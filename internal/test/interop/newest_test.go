package interop

import (
	"bytes"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/sstable"
	"github.com/sievedb/sievedb/vfs"
)

// newestInTables returns what a database holds of which all is in tables: of each key the
// version with the greatest sequence number, wherever it is. Of those that compactions of
// ours gave the number 0, that in the table with the greatest number.
func newestInTables(t *testing.T, dir string) *Model {
	t.Helper()
	set, _, err := manifest.Load(manifest.SetOptions{FS: vfs.OS, Dir: dir, Cmp: base.Bytewise, Obsolete: func([]version.LevelFile) {}})
	require.NoError(t, err)
	type place struct{ trailer, num uint64 }
	newest := map[string]place{}
	model := NewModel()
	set.Current().Files(func(_ int, f *version.FileMeta) {
		eachEntry(t, filepath.Join(dir, f.Name()), func(ikey, value []byte) {
			user, v := string(base.UserKey(ikey)), place{base.Trailer(ikey), f.Num}
			before, found := newest[user]
			if found && (v.trailer < before.trailer || v.trailer == before.trailer && v.num < before.num) {
				return
			}
			newest[user] = v
			if _, kind := base.SplitTrailer(v.trailer); kind == base.KindDelete {
				model.Apply([]Op{Delete([]byte(user))})
			} else {
				model.Apply([]Op{Put([]byte(user), bytes.Clone(value))})
			}
		})
	})
	require.NoError(t, set.Close())
	return model
}

// eachEntry calls f for each entry of a table.
func eachEntry(t *testing.T, path string, f func(ikey, value []byte)) {
	t.Helper()
	file, err := vfs.OS.Open(path)
	require.NoError(t, err)
	r, err := sstable.Open(file, sstable.ReaderOptions{Name: path})
	require.NoError(t, err)
	it, err := r.NewIter(sstable.IterOptions{})
	require.NoError(t, err)
	for ok := it.First(); ok; ok = it.Next() {
		f(it.Key(), it.Value())
	}
	require.NoError(t, it.Close())
	require.NoError(t, r.Close())
}
