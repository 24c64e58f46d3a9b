package vfs

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/test/result"
)

func TestRefusedLockLeavesNoDescriptor(t *testing.T) {
	descriptors := func() int {
		names := result.Of(os.ReadDir("/proc/self/fd"))(t)
		return len(names)
	}
	path := filepath.Join(t.TempDir(), "LOCK")
	p := startProcess(t)
	require.Equal(t, "done", p.lock(t, "flock-exclusive", path))
	before := descriptors()
	for range 20 {
		for _, shared := range []bool{false, true} {
			require.ErrorIs(t, result.Err(OS.Lock(path, shared)), base.ErrLocked)
		}
	}
	require.Equal(t, before, descriptors())
	p.end(t)
}
