package db

import (
	"path/filepath"
	"sync/atomic"
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

func TestASuccessorIsReadyBeforeTheMemtableIsFull(t *testing.T) {
	counting := wrap.NewCounting(vfs.NewMem())
	d := openTest(t, testOptions(counting))
	n := fillUntil(t, d, 0, func() bool { return d.log.next != nil })
	mem := d.state().Mem
	require.Less(t, mem.Available(), mem.Capacity()/successorShare)
	<-d.log.next.done
	require.NoError(t, d.log.next.err)
	num, next := d.log.next.num, d.log.next.mem
	require.Len(t, namesOf(t, counting, base.FileLog), 2)
	require.Equal(t, mem.Memory()+next.Memory(), d.Metrics().Memtables.Bytes)
	require.LessOrEqual(t, d.Metrics().Memtables.Bytes, d.Metrics().Memtables.Limit)

	n = fillUntil(t, d, n, func() bool { return d.log.next == nil })
	require.Same(t, next, d.state().Mem)
	require.Equal(t, num, next.LogNum)
	require.Zero(t, d.spareMemory.Load())
	for i := range n {
		value, err := d.Get(testKey(i))
		require.NoError(t, err)
		require.Equal(t, string(testValue(i)), string(value))
	}
}

func TestAnUnusedSuccessorLeavesNoFiles(t *testing.T) {
	counting := wrap.NewCounting(vfs.NewMem())
	o := testOptions(counting)
	d := mustOpen(t, o)
	n := fillUntil(t, d, 0, func() bool { return d.log.next != nil })
	require.NoError(t, d.Close())
	require.Len(t, namesOf(t, counting, base.FileLog), 1)
	require.Zero(t, counting.Snapshot().Of(base.FileLog).OpenFiles)

	d = openTest(t, o)
	require.Len(t, d.OpenReport().Logs, 1)
	require.EqualValues(t, n, d.OpenReport().Logs[0].Entries)
}

// If the log could not be made ahead, it is made when it is needed. Only if that fails as well, the
// write that needs it fails, and the next write tries again.
func TestASuccessorThatCouldNotBeMadeIsMadeWhenItIsNeeded(t *testing.T) {
	var failing atomic.Bool
	d := openTest(t, testOptions(wrap.NewFaulty(vfs.NewMem(), func(op wrap.Op) *wrap.Fault {
		if kind, _, _ := base.ParseFileName(filepath.Base(op.Name)); failing.Load() && op.Kind == wrap.OpCreate && kind == base.FileLog {
			return &wrap.Fault{Err: wrap.ErrInjected}
		}
		return nil
	})))
	failing.Store(true)
	n := fillUntil(t, d, 0, func() bool { return d.log.next != nil })
	<-d.log.next.done
	require.ErrorIs(t, d.log.next.err, wrap.ErrInjected)
	log := d.state().Mem.LogNum
	var err error
	for ; err == nil; n++ {
		err = d.Put(testKey(n), testValue(n), NoSync)
	}
	require.ErrorIs(t, err, wrap.ErrInjected)
	require.Equal(t, log, d.state().Mem.LogNum)
	failing.Store(false)
	fillUntil(t, d, n, func() bool { return d.state().Mem.LogNum != log })
}
