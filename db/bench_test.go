package db

import (
	"encoding/binary"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// BenchmarkPutNoSync is the price of a commit without its disk: the files are in
// memory, the memtable is large, and nobody waits for a sync.
func BenchmarkPutNoSync(b *testing.B) {
	for _, writers := range []int{1, 4} {
		b.Run(fmt.Sprintf("writers=%d", writers), func(b *testing.B) {
			d, err := Open("db", &Options{FS: NewMemFS(), WriteBufferSize: 64 << 20})
			require.NoError(b, err)
			defer func() { require.NoError(b, d.Close()) }()
			value := make([]byte, 16)
			var next atomic.Uint64
			b.ReportAllocs()
			b.ResetTimer()
			var done sync.WaitGroup
			for range writers {
				done.Go(func() {
					key := make([]byte, 8)
					for n := next.Add(1); n <= uint64(b.N); n = next.Add(1) {
						binary.BigEndian.PutUint64(key, n) // ascending: the memtable's part is small
						if err := d.Put(key, value, NoSync); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			done.Wait()
		})
	}
}
