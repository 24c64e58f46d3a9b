package db

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/sstable"
	"github.com/sievedb/sievedb/vfs"
)

// BenchmarkIngest adds 64 tables of 2 MB with 16 + 100 bytes an entry: by links, by rewriting because a
// snapshot is open, and as a load of the same entries.
func BenchmarkIngest(b *testing.B) {
	const tables, perTable = 64, 18_000
	dir := b.TempDir()
	rnd := rand.New(rand.NewPCG(1, 1))
	key := func(i int) []byte { return fmt.Appendf(nil, "key%013d", i) }
	random := make([]byte, 1<<20)
	for at := range random {
		random[at] = byte(rnd.Uint32())
	}
	value := func(i int) []byte { return random[i*101%(len(random)-100):][:100] }
	var paths []string
	for n := range tables {
		path := filepath.Join(dir, fmt.Sprint("in", n))
		file, err := vfs.OS.Create(path)
		require.NoError(b, err)
		w := sstable.NewWriter(file, sstable.WriterOptions{Filter: filter.NewCacheLineBloomPolicy(10)})
		for i := range perTable {
			require.NoError(b, w.Add(sstable.Key{User: key(n*perTable + i)}.Append(nil), value(n*perTable+i)))
		}
		_, err = w.Finish()
		require.NoError(b, err)
		require.NoError(b, file.Sync())
		require.NoError(b, file.Close())
		paths = append(paths, path)
	}
	for _, how := range []string{"linked", "rewritten", "loaded"} {
		b.Run("by="+how, func(b *testing.B) {
			b.SetBytes(tables * perTable * 116)
			for range b.N {
				b.StopTimer()
				d, err := Open(filepath.Join(b.TempDir(), "db"), nil)
				require.NoError(b, err)
				s := &Snapshot{}
				if how == "rewritten" {
					s = d.NewSnapshot()
				}
				b.StartTimer()
				if how == "loaded" {
					l, err := d.NewLoader()
					require.NoError(b, err)
					for i := range tables * perTable {
						require.NoError(b, l.Put(key(i), value(i)))
					}
					require.NoError(b, l.Commit())
				} else {
					info, err := d.Ingest(background, paths, nil)
					require.NoError(b, err)
					require.Equal(b, how == "linked", info.Linked == tables)
				}
				b.StopTimer()
				_ = s.Close()
				require.NoError(b, d.Close())
				b.StartTimer()
			}
		})
	}
}
