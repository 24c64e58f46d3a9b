package manifest

import (
	"github.com/sievedb/sievedb/internal/errors"
	"github.com/sievedb/sievedb/vfs"
)

// AbsoluteDir returns the name by which dir is found whatever becomes the process's
// working directory. A database goes by it from its opening on: a relative name would
// lead to another one's files after a change of the working directory.
func AbsoluteDir(fsys vfs.FS, dir string) (string, error) {
	if dir == "" {
		return "", errors.New("sievedb: the path is empty; pass the path of the database's directory")
	}
	abs, err := fsys.Abs(dir)
	return abs, errors.Wrapf(err, "sievedb: making the path %s absolute", dir)
}
