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

func TestTablesAreChargedToTheBlockCacheIfThatIsWanted(t *testing.T) {
	for _, charged := range []bool{false, true} {
		o := testOptions(NewMemFS())
		o.ChargeTablesToBlockCache = charged
		o.BlockCacheSize = 48 << 10
		o.MaxOpenFiles = 10 // so that tables are closed too
		d := filledLevels(t, o, 4000)
		for range 3 {
			for i := range 4000 {
				_, err := d.Get(testKey(2 * i))
				require.NoError(t, err)
			}
			m := d.Metrics()
			if !charged {
				require.Zero(t, m.BlockCacheCharged)
				continue
			}
			require.EqualValues(t, m.FilterBytes+m.IndexBytes, m.BlockCacheCharged)
			require.Positive(t, m.BlockCacheCharged)
			require.LessOrEqual(t, m.BlockCacheBytes+m.BlockCacheCharged, m.BlockCacheCapacity)
		}
	}
}
