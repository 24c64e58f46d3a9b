//go:build unix

package compact

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/sstable"
	"github.com/sievedb/sievedb/vfs"
)

// tableDropper discards writes to tables while drop is set.
type tableDropper struct {
	vfs.FS
	drop atomic.Bool
}

type droppedFile struct{ vfs.File }

func (droppedFile) Write(p []byte) (int, error) { return len(p), nil }
func (droppedFile) Sync() error                 { return nil }

func (t *tableDropper) Create(name string) (vfs.File, error) {
	f, err := t.FS.Create(name)
	if err == nil && t.drop.Load() && strings.HasSuffix(name, ".ldb") {
		f = droppedFile{f}
	}
	return f, err
}

func processorTime(b *testing.B) int64 {
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return u.Utime.Nano() + u.Stime.Nano()
}

// BenchmarkMerge merges four tables of level 0 with the level below. Entries have 16 + 100 bytes, and
// values compress to half. With above=mixed, a quarter of the entries in level 0 are tombstones. The
// outputs are discarded; cpu-ns/entry is the processor time per entry read.
func BenchmarkMerge(b *testing.B) {
	for _, above := range []string{"values", "mixed"} {
		b.Run("above="+above, func(b *testing.B) { benchmarkMerge(b, above == "mixed") })
	}
}

func benchmarkMerge(b *testing.B, deletes bool) {
	const keys = 200_000
	fs := &tableDropper{FS: vfs.NewMem()}
	st := newTestStore(b, func(o *storeOptions) {
		o.fs, o.Tuning.L0Trigger, o.Tuning.TableSize = fs, 1000, 4<<20
		o.Tuning.Table.BlockSize, o.Tuning.Table.Compression = 4096, sstable.Snappy
	})
	rnd := rand.New(rand.NewPCG(1, 2))
	piece := make([]byte, 50)
	entryOf := func(key int, kind base.Kind) entry {
		for i := range piece {
			piece[i] = byte(' ' + rnd.IntN(95))
		}
		e := entry{key: fmt.Sprintf("%016d", key), kind: kind}
		if kind == base.KindSet {
			e.value = string(piece) + string(piece)
		}
		return e
	}
	entries := 0
	put := func(level int, keys []int) {
		var all []entry
		for n, key := range keys {
			kind := base.KindSet
			if deletes && level == 0 && n%4 == 0 {
				kind = base.KindDelete
			}
			all = append(all, entryOf(key, kind))
		}
		entries += len(all)
		st.put(level, all...)
	}
	for from := 0; from < keys; from += 20_000 {
		var some []int
		for i := range 20_000 {
			some = append(some, from+i)
		}
		put(6, some)
	}
	for range 4 {
		put(0, rnd.Perm(keys)[:keys/8])
	}
	c := st.claimFiles(0, 6)
	defer st.finish(c, nil)
	fs.drop.Store(true)
	b.ResetTimer()
	start := processorTime(b)
	for range b.N {
		out := result.Of(st.mergePiece(c, nil, nil))(b)
		out.Abandon()
	}
	b.ReportMetric(float64(processorTime(b)-start)/float64(b.N)/float64(entries), "cpu-ns/entry")
}
