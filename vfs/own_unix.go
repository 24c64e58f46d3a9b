//go:build unix

package vfs

import (
	"io/fs"
	"os"
	"syscall"
)

// effectiveUser returns the number of the user whose permissions the process has. Tests replace it.
var effectiveUser = os.Geteuid

// ownerOf returns the numbers of the user and the group that own a file. known is false if the file system has no
// owners.
func ownerOf(info fs.FileInfo) (user, group int, known bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || st == nil {
		return 0, 0, false
	}
	return int(st.Uid), int(st.Gid), true
}
