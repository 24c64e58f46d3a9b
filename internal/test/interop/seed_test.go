package interop

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/sstable"
	"github.com/sievedb/sievedb/vfs"
)

// seedLevels adds to the closed database in dir a table on each of levels 1 to 6, with keys "level N 0000" and "level N
// 9999": LevelDB and SieveDB themselves need gigabytes to reach the lowest levels.
func seedLevels(t *testing.T, dir string, model *Model) {
	set, state, err := manifest.Load(manifest.SetOptions{
		FS: vfs.OS, Dir: dir, Cmp: base.Bytewise, MaxManifestSize: 1 << 20, Obsolete: func([]version.LevelFile) {},
	})
	require.NoError(t, err)
	edit := &manifest.Edit{LogNum: manifest.Num(state.LogNum)}
	seq := state.LastSeq
	for level := 1; level < version.NumLevels; level++ {
		num := set.NewFileNum()
		file, err := os.Create(filepath.Join(dir, base.FileName(base.FileTable, num)))
		require.NoError(t, err)
		w := sstable.NewWriter(file, sstable.WriterOptions{})
		for _, i := range []int{0, 9999} {
			seq++
			key := fmt.Appendf(nil, "level %d %04d", level, i)
			require.NoError(t, w.Add(base.AppendInternalKey(nil, key, seq, base.KindSet), []byte("seed")))
			model.Apply([]Op{Put(key, []byte("seed"))})
		}
		_, err = w.Finish()
		require.NoError(t, err)
		require.NoError(t, file.Close())
		edit.Added = append(edit.Added, version.LevelFile{
			Level: level, File: version.NewFileMeta(num, w.Size(), w.Smallest(), w.Largest()),
		})
	}
	edit.LastSeq = manifest.Num(seq)
	require.NoError(t, set.Begin(edit, nil))
	require.NoError(t, set.Close())
}
