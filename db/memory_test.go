package db

import (
	"runtime"
	"testing"
	"weak"

	"github.com/stretchr/testify/require"
)

// A flushed memtable was kept in memory until the one behind it was full: by the
// array of the list of those that wait, and by what remembers the last insertion.
func TestAFlushedMemtableIsNotKeptInMemory(t *testing.T) {
	d := openTest(t, testOptions(NewMemFS()))
	fill(t, d, 0, 10)
	flushed := weak.Make(d.state.Load().mem.Memtable)
	settle(t, d)
	runtime.GC()
	require.True(t, flushed.Value() == nil)
	_, err := d.Get(testKey(3))
	require.NoError(t, err)
}
