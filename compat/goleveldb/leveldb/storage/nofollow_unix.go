//go:build unix

package storage

import "syscall"

// Flags for opening a file that is there: no link is followed, and a pipe is not waited for.
const (
	noFollow = syscall.O_NOFOLLOW
	noBlock  = syscall.O_NONBLOCK
)
