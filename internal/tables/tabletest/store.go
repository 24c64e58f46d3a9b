// Package tabletest makes small stores of tables in memory, a version and a table cache
// without a DB, for the tests of packages that examine tables.
package tabletest

import (
	"fmt"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/manifest"
	"github.com/sievedb/sievedb/internal/tables"
	"github.com/sievedb/sievedb/sstable"
	"github.com/sievedb/sievedb/vfs"
)

// Store is a directory with tables and what reads them. Begin it with New, add tables with
// Add, and use Version and Cache.
type Store struct {
	Cache *tables.Cache
	FS    vfs.FS
	Dir   tables.Directory

	t      *testing.T
	policy filter.Policy
	num    uint64
	added  []manifest.LevelFile
}

// New returns a store without tables, whose filters are those of policy.
func New(t *testing.T, policy filter.Policy) *Store {
	mem := vfs.NewMem()
	require.NoError(t, mem.MkdirAll("dir"))
	s := &Store{t: t, FS: mem, Dir: tables.Directory{FS: mem, Path: "dir", Logger: slog.New(slog.DiscardHandler)}, policy: policy}
	s.Cache = tables.NewCache(tables.CacheOptions{
		FS: mem, Dir: "dir", MaxOpen: 100,
		Reader: sstable.ReaderOptions{Comparer: base.Bytewise, Policies: []filter.Policy{policy}},
	})
	t.Cleanup(s.Cache.Close)
	return s
}

// Key returns the user key of number n, 10 bytes. Keys ascend with their numbers.
func Key(n int) []byte { return fmt.Appendf(nil, "key%07d", n) }

// Add writes a table on a level with a value for each of the numbers, which ascend, all of
// them with the sequence number seq.
func (s *Store) Add(level int, seq uint64, value string, numbers ...int) *manifest.FileMeta {
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
	s.added = append(s.added, manifest.LevelFile{Level: level, File: files[0]})
	return files[0]
}

// Version returns the version of the tables that were added.
func (s *Store) Version() *manifest.Version {
	set := manifest.New(manifest.SetOptions{Cmp: base.Bytewise, NewHandle: tables.NewHandle})
	v, err := set.Current().Apply(&manifest.Edit{Added: s.added})
	require.NoError(s.t, err)
	return v
}

// Flip changes one byte of a table's file at an offset.
func (s *Store) Flip(f *manifest.FileMeta, offset int) {
	path := s.Dir.File(base.FileTable, f.Num)
	r, err := s.FS.Open(path)
	require.NoError(s.t, err)
	data := make([]byte, f.Size)
	_, err = r.ReadAt(data, 0)
	require.NoError(s.t, err)
	require.NoError(s.t, r.Close())
	data[offset] ^= 1
	require.NoError(s.t, s.FS.Remove(path))
	w, err := s.FS.Create(path)
	require.NoError(s.t, err)
	_, err = w.Write(data)
	require.NoError(s.t, err)
	require.NoError(s.t, w.Close())
}
