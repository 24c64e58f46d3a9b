//go:build unix

package storage

import "syscall"

// errInUse is what a system call for a lock returns if another process has it.
var errInUse error = syscall.EAGAIN
