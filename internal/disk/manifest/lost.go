package manifest

import (
	"fmt"
	"slices"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/vfs"
)

// LostDir is the subdirectory of the database's directory into which a repair moves files that are no
// longer in use. The name is LevelDB's.
const LostDir = base.LostDir

// FreeName returns name, or name with a number, such that dir has no file of that name.
func FreeName(fsys vfs.FS, dir, name string) (string, error) {
	names, err := fsys.List(dir)
	if err != nil {
		return "", err
	}
	unique := name
	for i := 1; slices.Contains(names, unique); i++ {
		unique = fmt.Sprintf("%s.%d", name, i)
	}
	return unique, nil
}

const copyBufferSize = 32 << 10

// CopyFrom copies the bytes of a file from offset on, up to end or its end, to a new file, which it syncs (but not its
// name), and returns their number.
func CopyFrom(fsys vfs.FS, from, to string, offset, end int64) (n int64, err error) {
	src, err := fsys.Open(from)
	if err != nil {
		return 0, err
	}
	defer src.Close()
	size, err := src.Size()
	if err != nil {
		return 0, err
	}
	size = min(size, end)
	dst, err := fsys.Create(to)
	if err != nil {
		return 0, err
	}
	buf := make([]byte, copyBufferSize)
	for err == nil && n < size-offset {
		part := buf[:min(int64(len(buf)), size-offset-n)]
		if _, err = vfs.ReadFull(src, part, offset+n); err != nil {
			err = base.InFile(err, from, offset+n)
			break
		}
		var written int
		written, err = dst.Write(part)
		n += int64(written)
	}
	if err == nil {
		err = dst.Sync()
	}
	return n, errors.CombineErrors(err, dst.Close())
}
