package db_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/vfs"
)

// The memtable that waits until the active one is full counts, once, and is within the limit.
func TestMetricsCountTheMemtableThatIsMadeAhead(t *testing.T) {
	d := openTest(t, testOptions(vfs.NewMem()))
	mem, n := d.State().Mem, 0
	fillUntil := func(ok func() bool) {
		for ; !ok(); n++ {
			require.NoError(t, d.Put(testKey(n), testValue(n), db.NoSync))
		}
	}
	fillUntil(func() bool { return mem.Available() < mem.Capacity()/4 })
	fillUntil(func() bool { return mem.Available() < mem.Capacity()/5 }) // one of these begins it
	eventually(t, func() bool { return d.Committer().Status().SpareMemory > 0 })
	require.Same(t, mem, d.State().Mem)
	m := d.Metrics().Memtables
	require.Greater(t, m.Bytes, mem.Memory())
	require.LessOrEqual(t, m.Bytes, m.Limit)
	fillUntil(func() bool { return d.Committer().Status().SpareMemory == 0 })
	require.NoError(t, d.Flush())
	require.Equal(t, d.State().Mem.Memory(), d.Metrics().Memtables.Bytes)
	requireValue(t, d, testKey(n-1), testValue(n-1))
}
