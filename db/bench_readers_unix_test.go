//go:build unix

package db_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sievedb/sievedb/db"
)

// BenchmarkReaders has readers look up the same keys in the same few tables, all in the block cache,
// with and without a concurrent writer. cpu-ns/op is the processor time of all threads per lookup. It
// does not grow with the number of readers as long as they do not wait for each other's cache lines.
// (Wall-clock time would show the same on a machine with a core for each reader.)
func BenchmarkReaders(b *testing.B) {
	const n = 100_000
	d := benchStore(b, n)
	for _, hit := range []bool{true, false} {
		keys := benchKeys(n, !hit)
		for _, writing := range []bool{false, true} {
			for _, readers := range []int{1, 2, 4} {
				b.Run(fmt.Sprintf("hit=%t/writer=%t/readers=%d", hit, writing, readers), func(b *testing.B) {
					benchReaders(b, d, keys, hit, writing, readers)
				})
			}
		}
	}
}

func benchReaders(b *testing.B, d *db.DB, keys [][]byte, hit, writing bool, readers int) {
	var reading, writer sync.WaitGroup
	var done atomic.Bool
	var puts int
	if writing {
		writer.Go(func() { // at a pace that uses little of a core
			for ; !done.Load(); puts++ {
				_ = d.Put([]byte("x"), nil, db.NoSync)
				time.Sleep(10 * time.Microsecond)
			}
		})
	}
	b.ResetTimer()
	before := processorTime()
	for r := range readers {
		reading.Go(func() {
			buf := make([]byte, 0, 128)
			for i := range b.N / readers {
				var err error
				if buf, err = d.GetTo(buf[:0], keys[(i*7+r*len(keys)/readers)%len(keys)]); (err == nil) != hit {
					b.Error("wrong answer")
					return
				}
			}
		})
	}
	reading.Wait()
	b.ReportMetric(float64(processorTime()-before)/float64(b.N), "cpu-ns/op")
	done.Store(true)
	writer.Wait()
}

func processorTime() int64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return u.Utime.Nano() + u.Stime.Nano()
}
