//go:build unix

package outfile

import (
	"io/fs"
	"syscall"
)

const (
	noFollow = syscall.O_NOFOLLOW
	noBlock  = syscall.O_NONBLOCK
)

// hasOtherNames reports whether a file has several names.
func hasOtherNames(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && st.Nlink > 1
}
