package vfs

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
)

func TestRefusedLockLeavesNoDescriptor(t *testing.T) {
	descriptors := func() int {
		names, err := os.ReadDir("/proc/self/fd")
		require.NoError(t, err)
		return len(names)
	}
	path := filepath.Join(t.TempDir(), "LOCK")
	p := startProcess(t)
	require.Equal(t, "done", p.lock(t, "flock-exclusive", path))
	before := descriptors()
	for range 20 {
		for _, shared := range []bool{false, true} {
			_, err := OS.Lock(path, shared)
			require.ErrorIs(t, err, base.ErrLocked)
		}
	}
	require.Equal(t, before, descriptors())
	p.end(t)
}
