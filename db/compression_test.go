package db_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/tables"
	"github.com/sievedb/sievedb/internal/test/tabletest"
	"github.com/sievedb/sievedb/vfs"
)

// kindsIn sums up how the blocks of all tables of a directory are stored.
func kindsIn(t *testing.T, fsys vfs.FS, dir string) (all tables.CompressionSample) {
	names, err := fsys.List(dir)
	require.NoError(t, err)
	for _, name := range names {
		kind, _, ok := base.ParseFileName(name)
		if !ok || kind != base.FileTable && kind != base.FileOldTable {
			continue
		}
		f, err := fsys.Open(filepath.Join(dir, name))
		require.NoError(t, err)
		s, err := tables.SampleCompression(f, 1<<20)
		require.NoError(t, err)
		require.NoError(t, f.Close())
		all.Snappy += s.Snappy
		all.Zstd += s.Zstd
		all.Deflate += s.Deflate
		all.Raw += s.Raw
	}
	return all
}

// writeAgain opens the database, writes compressible values below, within and above its keys, and compacts.
func writeAgain(t *testing.T, dir string, o *db.Options) {
	d, err := db.Open(dir, o)
	require.NoError(t, err)
	for i := range 500 {
		require.NoError(t, d.Put(testKey(i), bytes.Repeat([]byte("again"), 30), db.NoSync))
	}
	require.NoError(t, d.Flush())
	options := d.Options()
	require.Equal(t, o.Tables.Compression, options.Tables.Compression, "Options returns what was passed")
	options.Tables.BlockSize = 2 << 10
	require.NoError(t, d.SetOptions(&options))
	require.NoError(t, d.Put([]byte("a"), bytes.Repeat([]byte("a"), 1000), db.NoSync))
	require.NoError(t, d.Compact(context.Background(), nil, nil))
	require.NoError(t, d.Close())
}

// Minecraft's worlds have zlib, and Bitcoin Core is built without Snappy: neither reads a database with Snappy.
func TestDatabasesWithoutSnappyStayWithoutIt(t *testing.T) {
	fill := func(o db.Options, n int) func(t *testing.T) string {
		return func(t *testing.T) string {
			dir := t.TempDir()
			d, err := db.Open(dir, &o)
			require.NoError(t, err)
			for i := range n {
				require.NoError(t, d.Put(testKey(i), testValue(i), db.NoSync))
			}
			require.NoError(t, d.Flush())
			require.NoError(t, d.Close())
			return dir
		}
	}
	none := db.Options{Tables: db.TableOptions{Compression: db.NoCompression}}
	minecraft := func(t *testing.T) string {
		dir := fill(none, 1000)(t)
		asMinecraft(t, dir)
		return dir
	}
	small := func(t *testing.T) string {
		dir := t.TempDir()
		d, err := db.Open(dir, nil)
		require.NoError(t, err)
		require.NoError(t, d.Put([]byte("k"), []byte("v"), db.NoSync))
		require.NoError(t, d.Flush())
		require.NoError(t, d.Close())
		return dir
	}
	for what, c := range map[string]struct {
		make    func(t *testing.T) string
		set     db.Compression
		without bool
	}{
		"LevelDB without Snappy":         {func(t *testing.T) string { return loadGolden(t, "leveldb-1.23-uncompressed").copy(t) }, db.DefaultCompression, true},
		"LevelDB's, with Snappy set":     {func(t *testing.T) string { return loadGolden(t, "leveldb-1.23-uncompressed").copy(t) }, db.SnappyCompression, false},
		"LevelDB with Snappy":            {func(t *testing.T) string { return loadGolden(t, "leveldb-1.23-levels-filter").copy(t) }, db.DefaultCompression, false},
		"Minecraft":                      {minecraft, db.DefaultCompression, true},
		"Minecraft, with Snappy set":     {minecraft, db.SnappyCompression, false},
		"ours, once without compression": {fill(none, 1000), db.DefaultCompression, true},
		"ours":                           {fill(db.Options{}, 1000), db.DefaultCompression, false},
		"ours, of one small entry":       {small, db.DefaultCompression, false},
		"ours, with Zstandard": {fill(db.Options{Tables: db.TableOptions{Compression: db.ZstdCompression}}, 1000),
			db.DefaultCompression, false},
		"new": {func(t *testing.T) string { return t.TempDir() }, db.DefaultCompression, false},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			dir := c.make(t)
			for range 2 { // after the first one, all tables are ours
				writeAgain(t, dir, &db.Options{Tables: db.TableOptions{Compression: c.set}})
				require.Equal(t, c.without, kindsIn(t, vfs.OS, dir).Snappy == 0)
			}
			require.NoError(t, os.Remove(filepath.Join(dir, "CURRENT")))
			require.NoError(t, db.Repair(dir, &db.Options{Tables: db.TableOptions{Compression: c.set}}))
			require.Equal(t, c.without, kindsIn(t, vfs.OS, dir).Snappy == 0, "after a repair")
		})
	}
}

// asMinecraft stores all blocks of a database's tables with zlib.
func asMinecraft(t *testing.T, dir string) {
	tables, err := filepath.Glob(filepath.Join(dir, "*.ldb"))
	require.NoError(t, err)
	require.NotEmpty(t, tables)
	for _, name := range tables {
		file, err := os.ReadFile(name)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(name, tabletest.Zlib(t, file), 0o600))
	}
	require.NoError(t, os.Remove(filepath.Join(dir, "CURRENT")))
	manifests, err := filepath.Glob(filepath.Join(dir, "MANIFEST-*"))
	require.NoError(t, err)
	for _, name := range manifests {
		require.NoError(t, os.Remove(name))
	}
	require.NoError(t, db.Repair(dir, nil)) // the MANIFEST has the sizes of tables
	require.Positive(t, kindsIn(t, vfs.OS, dir).Deflate)
	d, err := db.Open(dir, &db.Options{ReadOnly: true})
	require.NoError(t, err)
	for i := range 1000 {
		requireValue(t, d, testKey(i), testValue(i))
	}
	require.NoError(t, d.Close())
}
