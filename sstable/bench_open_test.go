package sstable

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/vfs"
)

// withoutTail is a file whose table is opened with a separate read for each part.
type withoutTail struct {
	vfs.File
	size int64
}

func (f withoutTail) ReadAt(p []byte, off int64) (int, error) {
	if len(p) > footerLen && off+int64(len(p)) == f.size {
		return 0, errTail
	}
	return f.File.ReadAt(p, off)
}

// BenchmarkOpen opens a table of 2 MiB in the page cache and looks up one key.
func BenchmarkOpen(b *testing.B) {
	dual := filter.NewDualBloomPolicy(10)
	policies := filter.Kinds(dual)
	es := benchEntries(30_000)
	data := buildTable(b, WriterOptions{Filter: dual, Compression: Snappy}, es)
	path := filepath.Join(b.TempDir(), "table")
	f := result.Of(vfs.OS.Create(path))(b)
	result.Of(f.Write(data))(b)
	require.NoError(b, f.Close())
	present := base.UserKey(es[len(es)/2].Key)
	absent := append([]byte(nil), present...)
	absent[15] |= 1
	for _, pieces := range []bool{true, false} {
		for name, user := range map[string][]byte{"present": present, "absent": absent} {
			b.Run(fmt.Sprintf("pieces=%v/key=%s", pieces, name), func(b *testing.B) {
				o := ReaderOptions{Policies: policies, Cache: newCache(), Tail: new(TailGuess)}
				b.ReportAllocs()
				var reads uint64
				for b.Loop() {
					f, err := vfs.OS.Open(path)
					if err != nil {
						b.Fatal(err)
					}
					if pieces {
						f = withoutTail{f, int64(len(data))}
					}
					r, err := Open(f, o)
					if err != nil {
						b.Fatal(err)
					}
					if _, err := get(r, string(user), base.MaxSeq); err != nil {
						b.Fatal(err)
					}
					reads += r.OpenCost().Reads
					r.DropBlocks()
					if err := r.Close(); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(reads)/float64(b.N), "reads/open")
			})
		}
	}
}
