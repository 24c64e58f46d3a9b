//go:build unix

package vfs

import (
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// Locks taken and released while another goroutine started a process were at
// times still held after Close: until it executes its program, a new process has
// a descriptor of every open file, and so of the lock. A duplicate stands for it.
func TestCloseReleasesTheLockThoughAChildHasItsDescriptor(t *testing.T) {
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
