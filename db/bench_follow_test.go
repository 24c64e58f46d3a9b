package db

import (
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/vfs"
)

// BenchmarkFollower writes 50,000 entries a second, of 16 and 100 bytes, while a follower refreshes all
// the time, or every 10 ms, and reports how long it takes from a write to the moment when the follower
// shows it: the median, 99 % and the maximum. An operation is a write.
func BenchmarkFollower(b *testing.B) {
	for name, interval := range map[string]time.Duration{"always": 0, "each-10ms": 10 * time.Millisecond} {
		b.Run(name, func(b *testing.B) { benchFollower(b, interval) })
	}
}

func benchFollower(b *testing.B, interval time.Duration) {
	dir := filepath.Join(b.TempDir(), "db")
	d, err := Open(dir, &Options{FS: vfs.OS})
	require.NoError(b, err)
	defer d.Close()
	f, err := OpenFollower(dir, nil)
	require.NoError(b, err)
	defer f.Close()
	const perSecond = 50_000
	written := make([]atomic.Int64, b.N+1)
	shown := make([]time.Duration, b.N+1)
	start := time.Now()
	ended := make(chan error, 1)
	go func() {
		for last := 0; last < b.N; {
			if err := f.Refresh(b.Context()); err != nil {
				ended <- err
				return
			}
			now := time.Since(start)
			for seq := int(f.finder.VisibleSeq.Load()); last < seq; {
				last++
				shown[last] = now - time.Duration(written[last].Load())
			}
			<-time.After(interval)
		}
		ended <- nil
	}()
	key, value := make([]byte, 16), make([]byte, 100)
	for i := 1; i <= b.N; i++ {
		for due := time.Duration(i) * time.Second / perSecond; time.Since(start) < due; {
			<-time.After(time.Millisecond)
		}
		copy(key, testKey(i*7919%1_000_000))
		written[i].Store(int64(time.Since(start)))
		require.NoError(b, d.Put(key, value, NoSync))
	}
	require.NoError(b, <-ended)
	slices.Sort(shown[1:])
	b.ReportMetric(float64(shown[1+b.N/2].Microseconds()), "µs-p50")
	b.ReportMetric(float64(shown[1+b.N*99/100].Microseconds()), "µs-p99")
	b.ReportMetric(float64(shown[b.N].Microseconds()), "µs-max")
}
