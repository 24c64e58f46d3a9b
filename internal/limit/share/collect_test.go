package share

import (
	"math"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAGarbageCollectionIsRequestedOnlyIfItIsCheap(t *testing.T) {
	const mib = 1 << 20
	cases := []struct {
		name                        string
		memtable, scannable, gcRate uint64
		want                        bool
	}{
		{"the heap to scan is small", 16 * mib, 4 * mib, 100, true},
		{"the program has a large heap", 16 * mib, 4*mib + 1, 100, false},
		{"the memtable is small", 64 << 10, 1 * mib, 100, false},
		{"the collector is switched off", 16 * mib, 0, math.MaxUint64, false},
		{"the runtime does not report the heap to scan", 16 * mib, math.MaxUint64, 100, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) { require.Equal(t, c.want, worthCollecting(c.memtable, c.scannable, c.gcRate)) })
	}
	require.NotEqual(t, uint64(math.MaxUint64), readMetric("/gc/gogc:percent"))
	require.Less(t, readMetric("/gc/scan/heap:bytes"), uint64(1<<40))
	require.Equal(t, uint64(math.MaxUint64), readMetric("/no/such:thing"))
}

func TestAFlushOfHugeMemtablesCollects(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	require.True(t, collectFlushed(math.MaxInt))
	require.False(t, collectFlushed(0), "the heap of the test has pointers")
	debug.SetGCPercent(-1)
	require.False(t, collectFlushed(math.MaxInt))
}
