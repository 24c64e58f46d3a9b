package db_test

import (
	"context"
	"fmt"
	"runtime/pprof"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/report"
	"github.com/sievedb/sievedb/vfs"
)

// Metrics show a compaction from its beginning to its end, with its progress, and not afterwards.
func TestMetricsShowRunningCompactions(t *testing.T) {
	var store atomic.Pointer[db.DB]
	var begun, ended []report.RunningCompaction
	o := testOptions(vfs.NewMem())
	o.EventListener = &db.EventListener{
		CompactionBegin: func(db.CompactionInfo) { begun = store.Load().Metrics().Compactions.Running },
		CompactionEnd:   func(db.CompactionInfo) { ended = store.Load().Metrics().Compactions.Running },
	}
	d := openTest(t, o)
	store.Store(d)
	for range 2 {
		for i := range 20 {
			require.NoError(t, d.Put(testKey(i), make([]byte, 100), db.NoSync))
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

// What runs in the background is not profiled as a part of the request that opened the store, wrote or walked.
func TestGoroutinesOfTheStoreHaveNoLabelsOfItsUsers(t *testing.T) {
	o := testOptions(vfs.NewMem())
	o.Memtables.Size = 64 << 10
	o.Expiry.Prefixes = [][]byte{[]byte("ttl")}
	var err error
	o.Resources, err = db.NewResources(db.ResourcesOptions{})
	require.NoError(t, err)
	var labelled []string
	look := func() {
		var text strings.Builder
		require.NoError(t, pprof.Lookup("goroutine").WriteTo(&text, 1))
		for _, g := range strings.Split(text.String(), "\n\n") {
			if strings.Contains(g, `"user":`) && !strings.Contains(g, t.Name()) && !strings.Contains(g, "base.Go.func1+0x0") { // else it has not begun
				labelled = append(labelled, g)
			}
		}
	}
	pprof.Do(t.Context(), pprof.Labels("user", "labelled"), func(ctx context.Context) {
		d := openTest(t, o)
		for i := range 3000 {
			wo := []*db.WriteOptions{db.NoSync, db.Buffered}[i%2]
			require.NoError(t, d.Put(fmt.Appendf(nil, "key%06d", i*7919%3000), make([]byte, 200), wo))
			if i%300 == 0 {
				look()
			}
		}
		require.NoError(t, d.DeleteRange(ctx, []byte("key000100"), []byte("key000200"), nil))
		require.NoError(t, d.Compact(ctx, nil, nil))
		look()
	})
	require.Empty(t, labelled)
}
