package vfs

import (
	"io/fs"
	"os"
)

// SameFile reports whether two descriptions that one FS returned are of the same file, whatever its name.
// It is like os.SameFile, but knows Mem too. A file that was replaced under its name is another one.
func SameFile(a, b fs.FileInfo) bool {
	if m, ok := a.(memInfo); ok {
		other, ok := b.(memInfo)
		return ok && m.node == other.node
	}
	return os.SameFile(a, b)
}
