package pick

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/manifest"
)

func ikey(user string, seq uint64) []byte {
	return base.AppendInternalKey(nil, []byte(user), seq, base.KindSet)
}

func file(num uint64, smallest, largest string, size uint64) *manifest.FileMeta {
	return manifest.NewFileMeta(num, size, ikey(smallest, 1), ikey(largest, 1))
}

func newPicker(t testing.TB, levels map[int][]*manifest.FileMeta) Picker {
	t.Helper()
	e := &manifest.Edit{}
	for level, files := range levels {
		for _, f := range files {
			e.Added = append(e.Added, manifest.LevelFile{Level: level, File: f})
		}
	}
	v, err := manifest.New(manifest.SetOptions{Cmp: base.Bytewise}).Current().Apply(e)
	require.NoError(t, err)
	return From(v)
}

func numsOf(files []*manifest.FileMeta) (n []uint64) {
	for _, f := range files {
		n = append(n, f.Num)
	}
	return n
}
