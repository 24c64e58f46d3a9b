//go:build !unix && !windows

package storage

var errInUse = ErrLocked
