//go:build !unix && !windows

package vfs

import (
	"io"
	"io/fs"

	"github.com/sievedb/sievedb/internal/base/errors"
)

// lockFile fails: a lock that excludes no process would be worse than none.
func lockFile(name string, _ bool, _ fs.FileMode) (io.Closer, error) {
	return nil, pathError("lock", name, errors.ErrUnsupported)
}
