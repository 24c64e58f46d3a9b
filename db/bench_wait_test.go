package db_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
)

// BenchmarkWaitForALargeTransaction commits a transaction of a million puts while another goroutine writes one key at a
// time. It reports how long the commit took, and the longest wait of the other writer.
func BenchmarkWaitForALargeTransaction(b *testing.B) {
	const puts = 1_000_000
	for _, way := range []string{"transaction", "batches"} {
		b.Run(way, func(b *testing.B) {
			d, err := db.Open(b.TempDir(), nil)
			require.NoError(b, err)
			defer d.Close()
			var took, longest time.Duration
			for range b.N {
				stop, done := make(chan struct{}), make(chan time.Duration)
				go func() { done <- longestPut(d, stop) }()
				took += writeMillion(b, d, way == "transaction", puts)
				close(stop)
				longest = max(longest, <-done)
			}
			b.ReportMetric(took.Seconds()/float64(b.N), "s/commit")
			b.ReportMetric(longest.Seconds(), "s-longest-wait")
		})
	}
}

// longestPut puts keys until stop is closed, and returns the time of the longest call.
func longestPut(d *db.DB, stop <-chan struct{}) (longest time.Duration) {
	for i := 0; ; i++ {
		select {
		case <-stop:
			return longest
		case <-time.After(100 * time.Microsecond):
		}
		begun := time.Now()
		if d.Put(fmt.Appendf(nil, "other%09d", i), nil, db.NoSync) != nil {
			return 0
		}
		longest = max(longest, time.Since(begun))
	}
}

// writeMillion writes that many puts in a transaction, or in batches of a thousand, and returns the time of the
// commits.
func writeMillion(b *testing.B, d *db.DB, whole bool, puts int) (took time.Duration) {
	size := 1000
	if whole {
		size = puts
	}
	value := make([]byte, 100)
	for from := 0; from < puts; from += size {
		tx := d.NewTransaction(nil)
		tx.SetWriteOptions(db.NoSync)
		for i := range size {
			require.NoError(b, tx.Put(fmt.Appendf(nil, "key%016d", uint64(from+i)*0x9E3779B97F4A7C15), value))
		}
		begun := time.Now()
		require.NoError(b, tx.Commit())
		took += time.Since(begun)
	}
	return took
}

// BenchmarkDeleteRangeOfInterleavedSeries deletes the older half of one of two series that were written in turns. It
// reports the time, the size of the directory before, after, and after a Compact, and the tombstones.
func BenchmarkDeleteRangeOfInterleavedSeries(b *testing.B) {
	const entries = 500_000 // of each series
	for _, compacted := range []bool{false, true} {
		b.Run(fmt.Sprintf("compacted=%v", compacted), func(b *testing.B) {
			for range b.N {
				deleteInterleaved(b, entries, compacted)
			}
		})
	}
}

// deleteInterleaved is one round of the benchmark.
func deleteInterleaved(b *testing.B, entries int, compacted bool) {
	b.StopTimer()
	d, err := db.Open(b.TempDir(), nil)
	require.NoError(b, err)
	for i := range 2 * entries {
		require.NoError(b, d.Put(fmt.Appendf(nil, "%c/%016d", "ab"[i%2], i/2), []byte("a value of 24 bytes here"), db.NoSync))
	}
	if compacted {
		require.NoError(b, d.Compact(background, nil, nil))
	}
	require.NoError(b, d.Flush())
	waitUntilIdle(d)
	before := diskMB(b, d)
	b.StartTimer()
	require.NoError(b, d.DeleteRange(background, []byte("a/"), fmt.Appendf(nil, "a/%016d", entries/2), nil))
	b.StopTimer()
	after := diskMB(b, d)
	require.NoError(b, d.Compact(background, nil, nil))
	b.ReportMetric(before, "MB-before")
	b.ReportMetric(after, "MB-after")
	b.ReportMetric(diskMB(b, d), "MB-compacted")
	require.NoError(b, d.Close())
}

func diskMB(b *testing.B, d *db.DB) float64 {
	u, err := d.DiskUsage()
	require.NoError(b, err)
	return float64(u.Tables+u.UnlistedTables+u.Logs) / 1e6
}
