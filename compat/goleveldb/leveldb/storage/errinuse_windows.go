package storage

import "syscall"

// errInUse is ERROR_SHARING_VIOLATION.
var errInUse error = syscall.Errno(32)
