//go:build unix

package vfs

import (
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// If another goroutine was starting a process, a lock was sometimes still held after Close:
// until it executes its program, a new process has descriptors of all open files, including the
// lock. In this test a duplicate stands for that descriptor.
func TestCloseReleasesALockInheritedByAChild(t *testing.T) {
	name := filepath.Join(t.TempDir(), "LOCK")
	first, err := OS.Lock(name, false)
	require.NoError(t, err)
	child, err := syscall.Dup(int(first.(*lockHandle).lock.file.Fd()))
	require.NoError(t, err)
	defer syscall.Close(child)
	require.NoError(t, first.Close())

	second, err := OS.Lock(name, false)
	require.NoError(t, err)
	require.NoError(t, second.Close())
}
