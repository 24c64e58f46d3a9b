//go:build unix

package vfs

import (
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/test/result"
)

// If another goroutine was starting a process, a lock was sometimes still held after Close:
// until it executes its program, a new process has descriptors of all open files, including the
// lock. In this test a duplicate stands for that descriptor.
func TestCloseReleasesALockInheritedByAChild(t *testing.T) {
	name := filepath.Join(t.TempDir(), "LOCK")
	first := result.Of(OS.Lock(name, false))(t)
	child := result.Of(syscall.Dup(int(first.(*lockHandle).lock.file.Fd())))(t)
	defer syscall.Close(child)
	require.NoError(t, first.Close())

	second := result.Of(OS.Lock(name, false))(t)
	require.NoError(t, second.Close())
}
