package db

import (
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sievedb/sievedb/internal/vfs"
	"github.com/stretchr/testify/require"
)

// While tables cannot be written, writers are told so instead of hanging, reads
// go on, and nothing is lost; once they can, the store goes on by itself.
func TestWritersAreToldWhileFlushesFailAndGoOnAfterwards(t *testing.T) {
	var full atomic.Bool
	fsys := vfs.NewFaulty(vfs.NewMem(), func(op vfs.Op) *vfs.Fault {
		if full.Load() && op.Kind == vfs.OpWrite && filepath.Ext(op.Name) == ".ldb" {
			return &vfs.Fault{Err: syscall.ENOSPC}
		}
		return nil
	})
	d := openTest(t, testOptions(fsys))
	full.Store(true)
	n := 0
	var err error
	for ; err == nil; n++ {
		err = d.Put(testKey(n), testValue(n), NoSync)
	}
	n-- // the refused one
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.ErrorIs(t, d.Metrics().BackgroundError, syscall.ENOSPC)
	require.NotErrorIs(t, err, ErrReadOnly, "it is not final")
	for i := range n {
		requireValue(t, d, testKey(i), testValue(i))
	}
	full.Store(false)
	eventually(t, func() bool { return d.Put(testKey(n), testValue(n), NoSync) == nil })
	require.NoError(t, d.Flush())
	for i := range n + 1 {
		requireValue(t, d, testKey(i), testValue(i))
	}
	require.NoError(t, d.Metrics().BackgroundError)
}

func TestWritesAreSlowedBeforeTheyStop(t *testing.T) {
	o := testOptions(NewMemFS())
	o.L0CompactionTrigger, o.L0SlowdownTrigger, o.L0StopTrigger = 2, 3, 6
	o.MaxConcurrentCompactions = 1
	var slowed, stopped atomic.Int64
	o.EventListener = &EventListener{
		WriteStall: func(i WriteStallInfo) {
			if i.Stopped {
				stopped.Add(1)
			} else {
				slowed.Add(1)
			}
		},
		// Each compaction waits until the writers have felt it.
		CompactionBegin: func(CompactionInfo) {
			for deadline := time.Now().Add(10 * time.Second); slowed.Load() == 0 && time.Now().Before(deadline); {
				<-time.After(time.Millisecond)
			}
		},
	}
	d := openTest(t, o)
	fill(t, d, 0, 3000)
	settle(t, d)
	m := d.Metrics()
	require.Positive(t, slowed.Load(), "between the triggers writes are slowed")
	require.EqualValues(t, slowed.Load()+stopped.Load(), m.WriteStalls)
	require.Positive(t, m.WriteStallTime)
	require.Empty(t, m.WriteStallReason, "nobody waits now")
}
