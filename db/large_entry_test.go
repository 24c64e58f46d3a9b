package db_test

import (
	"bytes"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/test/damage"
	"github.com/stretchr/testify/require"
)

// largeValue returns n bytes that are incompressible, or that Snappy compresses to half.
func largeValue(n int, compresses bool) []byte {
	value := make([]byte, n)
	src := rand.NewChaCha8([32]byte{1})
	for at := 0; at < n; at += 64 {
		piece := value[at:min(at+64, n)]
		if compresses {
			piece = piece[:len(piece)/2]
		}
		_, _ = src.Read(piece)
	}
	return value
}

// heapInUse returns the bytes of the reachable objects, without those that pools keep for two collections.
func heapInUse() uint64 {
	runtime.GC()
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

const (
	largeSize = 32 << 20
	// largeSlack is the memory that a store with small buffers allocates in addition to its entries:
	// memtables of 1 MiB, write buffers, caches.
	largeSlack = 8 << 20
)

func largeOptions() *db.Options {
	return &db.Options{Memtables: db.MemtableOptions{Size: 1 << 20}, Cache: db.CacheOptions{Size: 1 << 20}}
}

// The bug: a value of 200 MB used five times its size while it was written and flushed, and 419 MB
// stayed in memory until Close, in buffers of the log, the batch and a spare table writer.
func TestALargeValueIsWrittenWithinThreeTimesItsSize(t *testing.T) {
	putLarge := func(wo *db.WriteOptions) func(*db.DB, []byte) error {
		return func(d *db.DB, value []byte) error { return d.Put([]byte("large"), value, wo) }
	}
	for name, c := range map[string]struct {
		compression db.Compression
		compresses  bool
		write       func(d *db.DB, value []byte) error
	}{
		"synced":       {db.SnappyCompression, false, putLarge(db.Sync)},
		"not synced":   {db.SnappyCompression, true, putLarge(db.NoSync)},
		"buffered":     {db.NoCompression, false, putLarge(db.Buffered)},
		"Zstandard":    {db.ZstdCompression, true, putLarge(db.NoSync)},
		"random, Zstd": {db.ZstdCompression, false, putLarge(db.NoSync)},
		"in a batch": {db.SnappyCompression, true, func(d *db.DB, v []byte) error {
			var b db.Batch
			b.Put([]byte("a"), []byte("small"))
			b.Put([]byte("large"), v)
			b.Put([]byte("z"), []byte("small"))
			return d.Apply(&b, db.NoSync)
		}},
		"in a load": {db.SnappyCompression, true, func(d *db.DB, v []byte) error {
			l, err := d.NewLoader()
			if err == nil {
				err = l.Put([]byte("large"), v)
			}
			if err == nil {
				err = l.Commit()
			}
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			o := largeOptions()
			o.Tables.Compression = c.compression
			d := openDir(t, t.TempDir(), o)
			fill(t, d, 0, 100)
			value := largeValue(largeSize, c.compresses)
			held, before := heapInUse(), damage.Allocated()
			require.NoError(t, c.write(d, value))
			fill(t, d, 100, 200)
			require.NoError(t, d.Flush())
			took := damage.Allocated() - before
			t.Logf("allocated %.2f times the value's size; %d bytes kept", float64(took)/largeSize, int64(heapInUse()-held))
			require.LessOrEqual(t, took, uint64(3*largeSize+largeSlack))
			require.LessOrEqual(t, heapInUse(), held+largeSlack)
			got, err := d.Get([]byte("large"))
			require.NoError(t, err)
			require.True(t, bytes.Equal(value, got))
			requireValue(t, d, testKey(150), testValue(150))
			_, err = d.Check(t.Context())
			require.NoError(t, err)
			require.NoError(t, d.Close())
		})
	}
}
