package manifest

import (
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/vfs"
)

// AbsoluteDir returns a name of dir that does not depend on the process's working directory. An open database uses it:
// a relative name would lead to other files after a change of the working directory.
func AbsoluteDir(fsys vfs.FS, dir string) (string, error) {
	if dir == "" {
		return "", errors.New("sievedb: the path is empty; pass the path of the database directory")
	}
	abs, err := fsys.Abs(dir)
	return abs, errors.Wrapf(err, "sievedb: making the path %s absolute", dir)
}
