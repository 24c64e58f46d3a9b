// Package tabletest provides small stores of tables in memory for tests of packages that
// examine tables: a version and a table cache without a DB.
package tabletest

import (
	"fmt"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/tables"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/sstable"
	"github.com/sievedb/sievedb/vfs"
)

// Store is a directory with tables and a cache that opens them. Create it with New, add
// tables with Add, then use Version and Cache.
type Store struct {
	Cache *tables.Cache
	FS    vfs.FS
	Dir   tables.Directory

	t      *testing.T
	policy filter.Policy
	num    uint64
	added  []version.LevelFile
}

// New returns a store without tables. Its tables will have filters of policy.
func New(t *testing.T, policy filter.Policy) *Store {
	mem := vfs.NewMem()
	require.NoError(t, mem.MkdirAll("dir"))
	dir := tables.Directory{FS: mem, Path: "dir", Logger: slog.New(slog.DiscardHandler)}
	s := &Store{t: t, FS: mem, Dir: dir, policy: policy}
	s.Cache = tables.NewCache(tables.CacheOptions{
		FS: mem, Dir: "dir", MaxOpen: 100,
		Reader: sstable.ReaderOptions{Comparer: base.Bytewise, Policies: []filter.Policy{policy}},
	})
	t.Cleanup(s.Cache.Close)
	return s
}

// Key returns the user key of number n, which has 10 bytes. Keys ascend with their numbers.
func Key(n int) []byte { return fmt.Appendf(nil, "key%07d", n) }

// Add writes a table on a level with an entry for each of the numbers, which must ascend. All
// entries have the same value and the sequence number seq.
func (s *Store) Add(level int, seq uint64, value string, numbers ...int) *version.FileMeta {
	w := tables.NewWriter(tables.WriterOptions{
		Dir: s.Dir, Kind: base.FileTable, NewFileNum: func() uint64 { s.num++; return s.num },
		Table:  sstable.WriterOptions{Comparer: base.Bytewise, Filter: s.policy},
		Spares: tables.NewSpareWriters(1, 1<<20),
	})
	for _, n := range numbers {
		require.NoError(s.t, w.Add(base.AppendInternalKey(nil, Key(n), seq, base.KindSet), []byte(value)))
	}
	files, err := w.Finish()
	require.NoError(s.t, err)
	require.Len(s.t, files, 1)
	s.added = append(s.added, version.LevelFile{Level: level, File: files[0]})
	return files[0]
}

// Version returns the version with all added tables.
func (s *Store) Version() *version.Version {
	v, err := version.New(base.Bytewise, &version.Owner{NewHandle: tables.NewHandle}).Apply(version.Change{Added: s.added})
	require.NoError(s.t, err)
	return v
}

// Flip changes one byte of a table's file at an offset.
func (s *Store) Flip(f *version.FileMeta, offset int) {
	path := s.Dir.File(base.FileTable, f.Num)
	data := fixture.ReadFile(s.t, s.FS, path)
	data[offset] ^= 1
	fixture.WriteFile(s.t, s.FS, path, data)
}
