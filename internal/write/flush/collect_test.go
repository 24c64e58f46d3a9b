package flush_test

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/storetest"
	"github.com/sievedb/sievedb/vfs"
)

func TestFlushOfALargeMemtableRequestsAGarbageCollection(t *testing.T) {
	forced := func() uint32 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.NumForcedGC
	}
	o := storetest.Options(vfs.NewMem())
	d := storetest.Open(t, o)
	before := forced()
	storetest.Fill(t, d, 0, 10)
	storetest.Settle(t, d)
	require.Equal(t, before, forced(), "the memtable is small")
	require.NoError(t, d.Close())

	o.Memtables.Size = 256 << 20 // hardly used, so there is little to scan
	d = storetest.Open(t, o)
	runtime.GC() // otherwise the heap that other tests left might be too large to scan
	before = forced()
	storetest.Fill(t, d, 0, 10)
	require.NoError(t, d.Flush())
	fixture.Eventually(t, func() bool { return forced() > before })
}
