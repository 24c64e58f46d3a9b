//go:build !unix && !windows

package vfs

import (
	"errors"
	"io"
)

// lockFile refuses: a lock that keeps nobody out would be worse than none.
func lockFile(name string, _ bool) (io.Closer, error) {
	return nil, pathError("lock", name, errors.ErrUnsupported)
}
