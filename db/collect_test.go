package db_test

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/vfs"
)

func TestFlushOfALargeMemtableRequestsAGarbageCollection(t *testing.T) {
	forced := func() uint32 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.NumForcedGC
	}
	o := testOptions(vfs.NewMem())
	d := openTest(t, o)
	before := forced()
	fill(t, d, 0, 10)
	settle(t, d)
	require.Equal(t, before, forced(), "the memtable is small")
	require.NoError(t, d.Close())

	o.Memtables.Size = 256 << 20 // hardly used, so there is little to scan
	d = openTest(t, o)
	runtime.GC() // otherwise the heap that other tests left might be too large to scan
	before = forced()
	fill(t, d, 0, 10)
	require.NoError(t, d.Flush())
	eventually(t, func() bool { return forced() > before })
}
