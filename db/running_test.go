package db

import (
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/vfs"
)

// Metrics show a compaction from its beginning to its end, with its progress, and not afterwards.
func TestMetricsShowRunningCompactions(t *testing.T) {
	var store atomic.Pointer[DB]
	var begun, ended []RunningCompaction
	o := testOptions(vfs.NewMem())
	o.EventListener = &EventListener{
		CompactionBegin: func(CompactionInfo) { begun = store.Load().Metrics().Compactions.Running },
		CompactionEnd:   func(CompactionInfo) { ended = store.Load().Metrics().Compactions.Running },
	}
	d := openTest(t, o)
	store.Store(d)
	for range 2 {
		for i := range 20 {
			require.NoError(t, d.Put(testKey(i), make([]byte, 100), NoSync))
		}
		require.NoError(t, d.Flush())
	}
	require.Empty(t, d.Metrics().Compactions.Running)
	require.NoError(t, d.Compact(background, nil, nil))

	require.Len(t, begun, 1)
	require.Zero(t, begun[0].BytesRead)
	require.Positive(t, begun[0].InputBytes)
	require.GreaterOrEqual(t, begun[0].InputTables, 1)
	require.NotEmpty(t, begun[0].Reason)
	require.Len(t, ended, 1)
	require.Positive(t, ended[0].BytesRead)
	require.Positive(t, ended[0].BytesWritten)
	require.Positive(t, ended[0].Duration)
	require.Empty(t, d.Metrics().Compactions.Running)
}
