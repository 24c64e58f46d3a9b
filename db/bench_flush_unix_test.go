//go:build unix

package db

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/memtable"
	"github.com/sievedb/sievedb/vfs"
)

// tableDropper discards writes to tables while drop is set.
type tableDropper struct {
	vfs.FS
	drop atomic.Bool
}

func (t *tableDropper) Create(name string) (vfs.File, error) {
	f, err := t.FS.Create(name)
	if err == nil && t.drop.Load() && strings.HasSuffix(name, ".ldb") {
		f = noLog{f}
	}
	return f, err
}

// BenchmarkFlush writes full memtables to tables whose bytes are discarded: entries of 16 + 100 bytes
// whose values compress to half, or tombstones. cpu-ns/entry is the processor time per entry.
func BenchmarkFlush(b *testing.B) {
	for _, shape := range []string{"ascending", "random", "deletes"} {
		b.Run("shape="+shape, func(b *testing.B) {
			fs := &tableDropper{FS: vfs.NewMem()}
			fs.drop.Store(true)
			d, err := Open("db", &Options{FS: fs})
			require.NoError(b, err)
			defer d.Close()
			mem := fullMemtable(d, shape)
			b.ResetTimer()
			start := processorTime()
			for range b.N {
				_, err := d.writeMemtable(mem)
				require.NoError(b, err)
			}
			b.ReportMetric(float64(processorTime()-start)/float64(b.N)/float64(mem.Len()), "cpu-ns/entry")
		})
	}
}

// fullMemtable returns a memtable of 16 MiB that has less than 1 KiB left.
func fullMemtable(d *DB, shape string) *memtable.Memtable {
	mem := memtable.New(d.opts.Comparer, memtable.ArenaSize(16<<20))
	var in memtable.Inserter
	rnd := rand.New(rand.NewPCG(1, 2))
	piece := make([]byte, 50)
	for seq := uint64(1); mem.Available() > 1<<10; seq++ {
		for i := range piece {
			piece[i] = byte(' ' + rnd.IntN(95))
		}
		n, value, kind := seq, append(piece, piece...), base.KindSet
		if shape != "ascending" {
			n = rnd.Uint64N(1_000_000)
		}
		if shape == "deletes" {
			value, kind = nil, base.KindDelete
		}
		mem.AddWith(&in, seq, kind, fmt.Appendf(nil, "%016d", n), value)
	}
	return mem
}
