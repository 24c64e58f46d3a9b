package db

import (
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/vfs"
)

// BenchmarkBatch fills a batch with 1, 4 or 100 ascending entries of 16 + 100 bytes, applies it and
// resets it. Log writes are discarded; an operation is one entry.
func BenchmarkBatch(b *testing.B) {
	for _, entries := range []int{1, 4, 100} {
		b.Run(fmt.Sprintf("entries=%d", entries), func(b *testing.B) {
			d, err := Open("db", &Options{FS: noLogs{vfs.NewMem()}, Memtables: MemtableOptions{Size: 16 << 20}})
			require.NoError(b, err)
			defer d.Close() // fails, because the log was discarded
			key, value := make([]byte, 16), make([]byte, 100)
			var batch Batch
			b.ReportAllocs()
			b.ResetTimer()
			for n := 0; n < b.N; n += entries {
				batch.Reset()
				for i := range entries {
					binary.BigEndian.PutUint64(key, uint64(n+i))
					batch.Put(key, value)
				}
				if err := d.Apply(&batch, NoSync); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkBatchFill fills a batch without applying it.
func BenchmarkBatchFill(b *testing.B) {
	key, value := make([]byte, 16), make([]byte, 100)
	var batch Batch
	for n := 0; n < b.N; n++ {
		if n%100 == 0 {
			batch.Reset()
		}
		batch.Put(key, value)
	}
}
