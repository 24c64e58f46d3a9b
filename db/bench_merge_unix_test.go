//go:build unix

package db

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/disk/tables"
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

// BenchmarkMerge merges four tables of level 0 with the level below. Entries have 16 + 100 bytes, and
// values compress to half. With above=mixed, a quarter of the entries in level 0 are tombstones, too
// few to trigger a compaction of their own. The outputs are discarded; cpu-ns/entry is the processor
// time per entry read.
func BenchmarkMerge(b *testing.B) {
	for _, above := range []string{"values", "mixed"} {
		b.Run("above="+above, func(b *testing.B) { benchmarkMerge(b, above == "mixed") })
	}
}

func benchmarkMerge(b *testing.B, deletes bool) {
	const keys = 200_000
	fs := &tableDropper{FS: vfs.NewMem()}
	o := &Options{FS: fs, Compaction: CompactionOptions{L0Trigger: 1000, L0Slowdown: 1000, L0Stop: 2000, MaxLevelBase: 1 << 40}}
	d, err := Open("db", o)
	require.NoError(b, err)
	defer d.Close()
	rnd := rand.New(rand.NewPCG(1, 2))
	piece := make([]byte, 50)
	put := func(n int, deletes bool) {
		for n := range n {
			for i := range piece {
				piece[i] = byte(' ' + rnd.IntN(95))
			}
			key := fmt.Appendf(nil, "%016d", rnd.IntN(keys))
			if deletes && n%4 == 0 {
				require.NoError(b, d.Delete(key, NoSync))
			} else {
				require.NoError(b, d.Put(key, append(piece, piece...), NoSync))
			}
		}
		require.NoError(b, d.Flush())
	}
	put(keys, false)
	require.NoError(b, d.Compact(b.Context(), nil, nil))
	for range 4 {
		put(keys/8, deletes)
	}
	c := claimLevel0(b, d)
	defer d.compactor.Done(c, nil)
	var entries uint64
	for _, f := range c.AllInputs() {
		entries += tables.Of(f).FilterSizes().Keys
	}
	fs.drop.Store(true)
	b.ResetTimer()
	start := processorTime()
	for range b.N {
		out, err := d.compactor.MergePiece(c, nil, nil)
		require.NoError(b, err)
		out.Abandon()
	}
	b.ReportMetric(float64(processorTime()-start)/float64(b.N)/float64(entries), "cpu-ns/entry")
}
