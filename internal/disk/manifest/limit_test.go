package manifest

import (
	"bytes"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/vfs"
)

func manifestSize(t testing.TB, s *Set) int64 {
	t.Helper()
	info := result.Of(s.opts.FS.Stat(filepath.Join("db", base.FileName(base.FileManifest, s.ManifestNum()))))(t)
	return info.Size()
}

// addWide applies an edit with one more table, whose bounds have about 2*n bytes.
func addWide(s *Set, n int) error {
	num := s.NewFileNum()
	pad := string(bytes.Repeat([]byte{'k'}, n))
	return s.Apply(&Edit{Added: []version.LevelFile{{Level: 0, File: file(num, "a"+pad, "b"+pad, 1)}}}, nil)
}

func TestManifestAboveTheLimitIsRefused(t *testing.T) {
	mem := vfs.NewMem()
	s := beginSet(t, testSet(mem))
	require.NoError(t, addWide(s, 5000))
	size := manifestSize(t, s)
	require.NoError(t, s.Close())
	for limit, ok := range map[int64]bool{0: true, size: true, size - 1: false, 1: false} {
		o := testSet(mem)
		o.ReadLimit = limit
		_, _, err := Load(o)
		if ok {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, "Options.Limits.ManifestRead")
		require.ErrorContains(t, err, "MANIFEST-")
		require.NotErrorIs(t, err, base.ErrCorruption, "the file is intact: nothing to repair")
	}
}

func TestNoManifestGrowsAboveTheLimit(t *testing.T) {
	o := testSet(vfs.NewMem())
	o.ReadLimit = 20_000 // far below MaxManifestSize
	s := beginSet(t, o)
	var last uint64
	for range 300 { // 60 KB of edits
		last = replaceTable(t, s, last, "a"+string(make([]byte, 180)))
		require.LessOrEqual(t, manifestSize(t, s), o.ReadLimit*3/4+500)
	}
}

// A store that wrote a MANIFEST above its own limit could not be opened again.
func TestUnreadablyLargeManifestIsNotMade(t *testing.T) {
	mem := vfs.NewMem()
	o := testSet(mem)
	o.ReadLimit = 20_000
	s := beginSet(t, o)
	var err error
	applied := 0
	for ; applied < 100; applied++ {
		if err = addWide(s, 1000); err != nil {
			break
		}
		require.LessOrEqual(t, manifestSize(t, s), o.ReadLimit)
	}
	require.ErrorContains(t, err, "Options.Limits.ManifestRead")
	require.False(t, IsUncertain(err))
	require.False(t, s.Failed(), "smaller edits are still accepted")
	require.Equal(t, 9, applied)
	require.Len(t, files(s.Current()), applied)
	names := result.Of(mem.List("db"))(t)
	require.Len(t, names, 2, "CURRENT and one MANIFEST: %v", names)

	drop := &Edit{}
	for _, num := range files(s.Current())[:5] {
		drop.Deleted = append(drop.Deleted, version.DeletedFile{Level: 0, Num: num})
	}
	require.NoError(t, s.Apply(drop, nil))
	require.NoError(t, addWide(s, 1000))
	o.FS = mem.Crash()
	again, _, err := Load(o)
	require.NoError(t, err)
	require.Equal(t, files(s.Current()), files(again.Current()))
}

// An edit that was too large for a record ended all writes, and its buffer was retained.
func TestOnlyAnOversizedEditIsRefused(t *testing.T) {
	mem := vfs.NewMem()
	o := testSet(mem)
	o.MaxManifestSize = 64 << 20 // everything fits in one
	s := beginSet(t, o)
	s.maxRecord = 1 << 20
	err := addWide(s, 1<<20)
	require.ErrorContains(t, err, "a version edit of 2097")
	require.ErrorContains(t, err, "at most 1048576 bytes fit")
	require.False(t, IsUncertain(err))
	require.False(t, s.Failed())
	require.Empty(t, files(s.Current()))
	require.LessOrEqual(t, cap(s.buf), maxKeptBuffer)
	require.NoError(t, addWide(s, 400<<10))
	require.LessOrEqual(t, cap(s.buf), maxKeptBuffer)
	o.FS = mem.Crash()
	again, _, err := Load(o)
	require.NoError(t, err)
	require.Equal(t, files(s.Current()), files(again.Current()))
}

// The version of a Begin that failed counted as one of its tables for ever.
func TestABeginThatFailsReleasesItsVersion(t *testing.T) {
	o := testSet(vfs.NewMem())
	o.ReadLimit = 1
	require.NoError(t, vfs.MkdirAllSynced(o.FS, o.Dir))
	s := New(o)
	f := file(s.NewFileNum(), "a", "b", 1)
	err := s.Begin(&Edit{LogNum: Num(2), Added: []version.LevelFile{{Level: 0, File: f}}}, nil)
	require.ErrorContains(t, err, "Options.Limits.ManifestRead")
	require.False(t, f.InVersion())
	require.Empty(t, files(s.Current()))
}

// In a store with very many tables, each edit started a new MANIFEST with all tables.
func TestLargeSnapshotIsNotWrittenForEachEdit(t *testing.T) {
	o := testSet(vfs.NewMem())
	o.MaxManifestSize = 4 << 10
	s := beginSet(t, o)
	for range 100 {
		require.NoError(t, addWide(s, 1000))
	}
	manifests := map[uint64]bool{}
	for range 100 {
		require.NoError(t, s.Apply(&Edit{}, nil))
		manifests[s.ManifestNum()] = true
	}
	require.Len(t, manifests, 1)
}

func TestManifestWithTooManyTablesIsRefused(t *testing.T) {
	mem := vfs.NewMem()
	s := beginSet(t, testSet(mem))
	for range 10 {
		require.NoError(t, addWide(s, 1))
	}
	require.NoError(t, s.Apply(&Edit{Deleted: []version.DeletedFile{{Level: 0, Num: files(s.Current())[0]}}}, nil))
	for most, ok := range map[int]bool{0: true, 9: true, 8: false} {
		o := testSet(mem)
		o.MaxTables = most
		if _, _, err := Load(o); ok {
			require.NoError(t, err)
		} else {
			require.ErrorIs(t, err, base.ErrCorruption)
			require.ErrorContains(t, err, "names 9 tables")
		}
	}
}
