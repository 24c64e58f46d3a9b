package tables

import (
	"path/filepath"
	"slices"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/manifest"
)

// How much WithoutSnappy reads of a directory that has no Snappy block: some milliseconds from a cold disk. The first
// block of Snappy or Zstandard ends it, in most directories after the index of one table.
const (
	sampledTables = 4 // of the newest, and as many of the oldest
	sampledBlocks = 8 // of each
)

// WithoutSnappy reports whether the owner of a directory may be a program that cannot read Snappy, so that new tables
// must not have any: none of its sampled blocks has Snappy or Zstandard, and one of these is true.
//
//   - A block has zlib or deflate, as in Minecraft's worlds.
//   - Another program wrote a table, uncompressed, such as LevelDB built without Snappy.
//   - A block of our own is uncompressed although Snappy would have made it smaller by an eighth, because we wrote
//     without Snappy before. A table of one small block is uncompressed under all options and says nothing.
//
// The answer depends only on the files. Tables that cannot be read are left out.
func WithoutSnappy(dir *Directory, files []manifest.DirFile) bool {
	var found []manifest.DirFile
	for _, f := range files {
		if f.Kind == base.FileTable || f.Kind == base.FileOldTable {
			found = append(found, f)
		}
	}
	slices.SortFunc(found, func(a, b manifest.DirFile) int {
		if a.Num < b.Num {
			return 1
		}
		return -1
	})
	if len(found) > 2*sampledTables {
		found = slices.Delete(found, sampledTables, len(found)-sampledTables)
	}
	without := false
	for _, f := range found {
		s, err := sampleTable(dir, f)
		if err != nil {
			continue
		}
		if s.Snappy+s.Zstd > 0 {
			return false
		}
		without = without || s.Deflate > 0 || s.Compressible > 0 || !s.Ours && s.Raw > 0
	}
	return without
}

func sampleTable(dir *Directory, f manifest.DirFile) (s CompressionSample, err error) {
	file, err := dir.FS.Open(filepath.Join(dir.Path, base.FileName(f.Kind, f.Num)))
	if err != nil {
		return s, err
	}
	defer file.Close()
	return SampleCompression(file, sampledBlocks)
}
