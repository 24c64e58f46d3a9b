package golden_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/disk/tables"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/storetest"
	"github.com/sievedb/sievedb/internal/test/tabletest"
	"github.com/sievedb/sievedb/vfs"
)

// kindsIn sums up how the blocks of all tables of a directory are stored.
func kindsIn(t *testing.T, dir string) (all tables.CompressionSample) {
	names, err := filepath.Glob(filepath.Join(dir, "*.[ls][ds][bt]"))
	require.NoError(t, err)
	for _, name := range names {
		f, err := vfs.OS.Open(name)
		require.NoError(t, err)
		s, err := tables.SampleCompression(f, 1<<20)
		require.NoError(t, err)
		require.NoError(t, f.Close())
		all.Snappy += s.Snappy
		all.Deflate += s.Deflate
	}
	return all
}

// filled returns a database of a small entry and n others.
func filled(t *testing.T, n int, c db.Compression) string {
	dir := t.TempDir()
	d := opened(t, dir, db.Options{Tables: db.TableOptions{Compression: c}})
	put(t, d, "k", "v")
	storetest.Fill(t, d, 0, n)
	require.NoError(t, d.Flush())
	require.NoError(t, d.Close())
	return dir
}

// asMinecraft returns a database all of whose blocks are stored with zlib.
func asMinecraft(t *testing.T) string {
	dir := filled(t, 1000, db.NoCompression)
	names, err := filepath.Glob(filepath.Join(dir, "*.ldb"))
	require.NoError(t, err)
	require.NotEmpty(t, names)
	for _, name := range names {
		file, err := os.ReadFile(name)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(name, tabletest.Zlib(t, file), 0o600))
	}
	manifests, err := filepath.Glob(filepath.Join(dir, "MANIFEST-*"))
	require.NoError(t, err)
	for _, name := range append(manifests, filepath.Join(dir, "CURRENT")) {
		require.NoError(t, os.Remove(name))
	}
	require.NoError(t, db.Repair(dir, nil)) // the MANIFEST has the sizes of tables
	require.Positive(t, kindsIn(t, dir).Deflate)
	d := opened(t, dir, db.Options{ReadOnly: true})
	for i := range 1000 {
		storetest.RequireValue(t, d, fixture.Key(i), fixture.Value(i))
	}
	require.NoError(t, d.Close())
	return dir
}

// writeAgain opens the database, writes compressible values below, within and above its keys, and compacts.
func writeAgain(t *testing.T, dir string, o db.Options) {
	d := opened(t, dir, o)
	for i := range 500 {
		require.NoError(t, d.Put(fixture.Key(i), bytes.Repeat([]byte("again"), 30), db.NoSync))
	}
	require.NoError(t, d.Flush())
	options := d.Options()
	require.Equal(t, o.Tables.Compression, options.Tables.Compression, "Options returns what was passed")
	options.Tables.BlockSize = 2 << 10
	require.NoError(t, d.SetOptions(&options))
	require.NoError(t, d.Put([]byte("a"), bytes.Repeat([]byte("a"), 1000), db.NoSync))
	require.NoError(t, d.Compact(background, nil, nil))
	require.NoError(t, d.Close())
}

// Minecraft's worlds have zlib, and Bitcoin Core is built without Snappy: neither reads a database with Snappy.
func TestDatabasesWithoutSnappyStayWithoutIt(t *testing.T) {
	for what, c := range map[string]struct {
		make    func(t *testing.T) string
		set     db.Compression
		without bool
	}{
		"LevelDB without Snappy":         {func(t *testing.T) string { return copied(t, "leveldb-1.23-uncompressed") }, db.DefaultCompression, true},
		"LevelDB's, with Snappy set":     {func(t *testing.T) string { return copied(t, "leveldb-1.23-uncompressed") }, db.SnappyCompression, false},
		"LevelDB with Snappy":            {func(t *testing.T) string { return copied(t, "leveldb-1.23-levels-filter") }, db.DefaultCompression, false},
		"Minecraft":                      {asMinecraft, db.DefaultCompression, true},
		"Minecraft, with Snappy set":     {asMinecraft, db.SnappyCompression, false},
		"ours, once without compression": {func(t *testing.T) string { return filled(t, 1000, db.NoCompression) }, db.DefaultCompression, true},
		"ours":                           {func(t *testing.T) string { return filled(t, 1000, db.DefaultCompression) }, db.DefaultCompression, false},
		"ours, of one small entry":       {func(t *testing.T) string { return filled(t, 0, db.DefaultCompression) }, db.DefaultCompression, false},
		"ours, with Zstandard":           {func(t *testing.T) string { return filled(t, 1000, db.ZstdCompression) }, db.DefaultCompression, false},
		"new":                            {func(t *testing.T) string { return t.TempDir() }, db.DefaultCompression, false},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			dir, o := c.make(t), db.Options{Tables: db.TableOptions{Compression: c.set}}
			for range 2 { // after the first one, all tables are ours
				writeAgain(t, dir, o)
				require.Equal(t, c.without, kindsIn(t, dir).Snappy == 0)
			}
			require.NoError(t, os.Remove(filepath.Join(dir, "CURRENT")))
			require.NoError(t, db.Repair(dir, &o))
			require.Equal(t, c.without, kindsIn(t, dir).Snappy == 0, "after a repair")
		})
	}
}
