package db

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/vfs"
)

// fillUntil puts entries from the n-th on until ok returns true, and returns their number.
func fillUntil(t *testing.T, d *DB, n int, ok func() bool) int {
	for ; !ok(); n++ {
		require.NoError(t, d.Put(testKey(n), testValue(n), NoSync))
	}
	return n
}

// fillUntilSuccessor puts entries until the memtable is ready that replaces the active one, and returns their number.
func fillUntilSuccessor(t *testing.T, d *DB) int {
	mem := d.state().Mem
	n := fillUntil(t, d, 0, func() bool { return mem.Available() < mem.Capacity()/4 })
	require.NoError(t, d.Put(testKey(n), testValue(n), NoSync)) // this one begins it
	eventually(t, func() bool { return d.commit.Status().SpareMemory > 0 })
	require.Same(t, mem, d.state().Mem)
	return n + 1
}

// The memtable that waits until the active one is full counts, once, and is within the limit.
func TestMetricsCountTheMemtableThatIsMadeAhead(t *testing.T) {
	d := openTest(t, testOptions(vfs.NewMem()))
	n := fillUntilSuccessor(t, d)
	m := d.Metrics().Memtables
	require.Greater(t, m.Bytes, d.state().Mem.Memory())
	require.LessOrEqual(t, m.Bytes, m.Limit)
	n = fillUntil(t, d, n, func() bool { return d.commit.Status().SpareMemory == 0 })
	require.NoError(t, d.Flush())
	require.Equal(t, d.state().Mem.Memory(), d.Metrics().Memtables.Bytes)
	requireValue(t, d, testKey(n-1), testValue(n-1))
}

func TestAnUnusedSuccessorLeavesNoFiles(t *testing.T) {
	counting := wrap.NewCounting(vfs.NewMem())
	o := testOptions(counting)
	d := mustOpen(t, o)
	n := fillUntilSuccessor(t, d)
	require.NoError(t, d.Close())
	require.Len(t, namesOf(t, counting, base.FileLog), 1)
	require.Zero(t, counting.Snapshot().Of(base.FileLog).OpenFiles)

	d = openTest(t, o)
	require.Len(t, d.OpenReport().Logs, 1)
	require.EqualValues(t, n, d.OpenReport().Logs[0].Entries)
}
