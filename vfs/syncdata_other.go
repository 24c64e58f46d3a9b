//go:build !linux

package vfs

import "os"

// syncData makes the bytes of f durable.
func syncData(f *os.File) error { return f.Sync() }
