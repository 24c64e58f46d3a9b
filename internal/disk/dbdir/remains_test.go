package dbdir

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/disk/wal"
)

func TestRemainsOfADatabaseAreRefused(t *testing.T) {
	mem := with(t, "000010.log")
	set := manifest.New(manifest.SetOptions{
		FS: mem, Dir: "db", Cmp: base.Bytewise, MaxManifestSize: 1 << 20, ReadLimit: 1 << 20, MaxTables: 100,
		Obsolete: func([]manifest.LevelFile) {}, NewHandle: func() any { return nil },
	})
	require.NoError(t, set.Begin(&manifest.Edit{LogNum: manifest.Num(10), LastSeq: manifest.Num(0)}, func(*manifest.Version) {}))
	require.NoError(t, set.Close())
	list := func() manifest.DirFiles {
		files, err := manifest.ListDir(mem, "db")
		require.NoError(t, err)
		return files
	}

	files := list()
	require.NoError(t, refuseRemains(mem, "db", files),
		"an empty log has no data, and a MANIFEST with one edit was perhaps never in force")
	closed := files
	closed.All = append(slices.Clone(files.All), manifest.DirFile{Kind: base.FileClosed})
	require.ErrorIs(t, refuseRemains(mem, "db", closed), base.ErrCorruption, "a database was closed")

	f, err := mem.Create(filepath.Join("db", "000011.log"))
	require.NoError(t, err)
	w := wal.NewWriter(f)
	require.NoError(t, w.WriteRecord([]byte("a record")))
	require.NoError(t, w.Close())
	require.ErrorIs(t, refuseRemains(mem, "db", list()), base.ErrCorruption)
}
