package db_test

import (
	"runtime"
	"runtime/debug"
	"testing"
	"weak"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/vfs"
)

// The bug: a flushed memtable was kept in memory until the next one was full, by the array of the
// waiting memtables and by the hint for the last insertion.
func TestAFlushedMemtableIsNotKeptInMemory(t *testing.T) {
	d := openTest(t, testOptions(vfs.NewMem()))
	fill(t, d, 0, 10)
	flushed := weak.Make(d.State().Mem.Memtable)
	settle(t, d)
	// A goroutine that was stopped may still have it in a register.
	eventually(t, func() bool {
		runtime.GC()
		return flushed.Value() == nil
	})
	_, err := d.Get(testKey(3))
	require.NoError(t, err)
}

// The bug: a pool of table writers within closed stores kept these for two more garbage
// collections, so opening one store after another filled the memory.
func TestClosedStoresAreNotKeptInMemory(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	const stores = 10
	var closed [stores]weak.Pointer[db.DB]
	for i := range closed {
		d := mustOpen(t, testOptions(vfs.NewMem()))
		fill(t, d, 0, 10)
		settle(t, d)
		require.NoError(t, d.Close())
		closed[i] = weak.Make(d)
	}
	runtime.GC()
	kept := 0
	for _, w := range closed {
		if w.Value() != nil {
			kept++
		}
	}
	require.Less(t, kept, stores/2)
}
