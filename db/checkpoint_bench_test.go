package db

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var checkpointGB = flag.Int("checkpoint.gb", 1, "size of the database of BenchmarkCheckpoint, in GB")

// BenchmarkCheckpoint makes checkpoints of a database while one goroutine writes to it without syncs. It also
// reports how long the writes took.
func BenchmarkCheckpoint(b *testing.B) {
	d, err := Open(filepath.Join(b.TempDir(), "db"), &Options{Tables: TableOptions{Compression: NoCompression}})
	require.NoError(b, err)
	defer d.Close()
	l, err := d.NewLoader()
	require.NoError(b, err)
	keys, value := *checkpointGB*250_000, make([]byte, 4000)
	for i := range keys {
		require.NoError(b, l.Put(fmt.Appendf(nil, "key%012d", i), value))
	}
	require.NoError(b, l.Commit())
	var stop atomic.Bool
	result := make(chan []time.Duration)
	go func() {
		var took []time.Duration
		for i := 0; !stop.Load(); i++ {
			key := fmt.Appendf(nil, "key%012d", rand.IntN(keys))
			began := time.Now()
			if err := d.Put(key, value[:100], NoSync); err != nil {
				b.Error(err)
			}
			took = append(took, time.Since(began))
			if i%50 == 0 {
				<-time.After(time.Millisecond)
			}
		}
		result <- took
	}()
	for b.Loop() {
		dir := filepath.Join(b.TempDir(), "copy")
		_, err := d.Checkpoint(background, dir, nil)
		require.NoError(b, err)
		b.StopTimer()
		require.NoError(b, os.RemoveAll(dir))
		b.StartTimer()
	}
	stop.Store(true)
	took := <-result
	slices.Sort(took)
	for _, share := range []float64{0.5, 0.99, 0.9999} {
		b.ReportMetric(float64(took[int(float64(len(took)-1)*share)].Microseconds()), fmt.Sprintf("µs/write-p%g", 100*share))
	}
}
