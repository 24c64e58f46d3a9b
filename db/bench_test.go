package db_test

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/vfs"
)

// noLogs discards writes to logs.
type noLogs struct{ vfs.FS }

type noLog struct{ vfs.File }

func (n noLogs) Create(name string) (vfs.File, error) {
	f, err := n.FS.Create(name)
	if err == nil && strings.HasSuffix(name, ".log") {
		f = noLog{f}
	}
	return f, err
}

func (noLog) Write(p []byte) (int, error) { return len(p), nil }
func (noLog) Sync() error                 { return nil }

// BenchmarkPutNoSync measures a commit without its disk: log writes are discarded, tables are in
// memory, and no write waits for a sync.
func BenchmarkPutNoSync(b *testing.B) {
	for _, order := range []string{"ascending", "random"} {
		for _, writers := range []int{1, 4, 16, 64} {
			b.Run(fmt.Sprintf("order=%s/writers=%d", order, writers), func(b *testing.B) {
				d, err := db.Open("db", &db.Options{FS: noLogs{vfs.NewMem()}, Memtables: db.MemtableOptions{Size: 16 << 20}})
				require.NoError(b, err)
				defer d.Close() // fails, because the log was discarded
				putFrom(b, d, writers, order == "random")
			})
		}
	}
}

// putFrom starts the given number of writers, which put b.N entries of 16 + 100 bytes in all.
func putFrom(b *testing.B, d *db.DB, writers int, random bool) {
	var next atomic.Uint64
	b.ReportAllocs()
	b.ResetTimer()
	var done sync.WaitGroup
	for range writers {
		done.Go(func() {
			key, value := make([]byte, 16), make([]byte, 100)
			for n := next.Add(1); n <= uint64(b.N); n = next.Add(1) {
				k := n
				if random {
					k = bits.Reverse64(n * 0x9e3779b97f4a7c15)
				}
				binary.BigEndian.PutUint64(key, k)
				if err := d.Put(key, value, db.NoSync); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	done.Wait()
}
