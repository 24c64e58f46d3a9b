package db_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/filter"
	"github.com/stretchr/testify/require"
)

// The golden databases were written by LevelDB and goleveldb; their README files say how.
// testdata/golden/README.md describes the format of expected.txt.
const goldenDir = "../testdata/golden"

// goldenComparers are the comparers of the databases that do not use the default one.
var goldenComparers = map[string]*db.Comparer{
	"leveldb-1.23-reverse-comparator": {
		Name:    "interop.ReverseBytewise",
		Compare: func(a, b []byte) int { return bytes.Compare(b, a) },
	},
	"leveldb-1.23-idb-cmp1": {Name: "idb_cmp1", Compare: bytes.Compare},
}

// goldenEntry is a line of expected.txt, with the value as the file describes it.
type goldenEntry struct{ key, value string }

type golden struct {
	name    string
	cmp     *db.Comparer
	entries []goldenEntry // in the database's order
	deleted []string
}

func loadGolden(t *testing.T, name string) *golden {
	t.Helper()
	g := &golden{name: name, cmp: goldenComparers[name]}
	listing, err := os.ReadFile(filepath.Join(goldenDir, name, "expected.txt"))
	require.NoError(t, err)
	for line := range strings.Lines(string(listing)) {
		fields := strings.Fields(line)
		key := fields[1]
		if key == "." {
			key = ""
		}
		raw, err := hex.DecodeString(key)
		require.NoError(t, err)
		switch fields[0] {
		case "put":
			g.entries = append(g.entries, goldenEntry{string(raw), fields[2]})
		case "del":
			g.deleted = append(g.deleted, string(raw))
		default:
			require.Fail(t, "unknown line", "%s", line)
		}
	}
	require.NotEmpty(t, g.entries)
	if g.cmp != nil {
		slices.SortFunc(g.entries, func(a, b goldenEntry) int { return g.cmp.Compare([]byte(a.key), []byte(b.key)) })
	}
	return g
}

// goldenText describes a value as expected.txt does.
func goldenText(value []byte) string {
	switch {
	case len(value) == 0:
		return "."
	case len(value) <= 64:
		return hex.EncodeToString(value)
	}
	return fmt.Sprintf("sha256:%d:%x", len(value), sha256.Sum256(value))
}

// copy returns the directory of a copy of the database, which a test may change.
func (g *golden) copy(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range goldenFiles(t, filepath.Join(goldenDir, g.name, "db")) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	return dir
}

func goldenFiles(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	list, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, f := range list {
		content, err := os.ReadFile(filepath.Join(dir, f.Name()))
		require.NoError(t, err)
		files[f.Name()] = string(content)
	}
	return files
}

// open opens the database in a directory with its comparer. The end of the test closes it.
func (g *golden) open(t *testing.T, dir string, o db.Options) *db.DB {
	t.Helper()
	o.Comparer = g.cmp
	d, err := db.Open(dir, &o)
	require.NoError(t, err)
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// requireHeldBy requires that d has the listed entries, in every way to read them.
func (g *golden) requireHeldBy(t *testing.T, d *db.DB) {
	t.Helper()
	it, err := d.NewIterator(nil)
	require.NoError(t, err)
	var forward, backward []goldenEntry
	for ok := it.First(); ok; ok = it.Next() {
		forward = append(forward, goldenEntry{string(it.Key()), goldenText(it.Value())})
	}
	for ok := it.Last(); ok; ok = it.Prev() {
		backward = append(backward, goldenEntry{string(it.Key()), goldenText(it.Value())})
	}
	for i, e := range g.entries {
		require.True(t, it.SeekGE([]byte(e.key)))
		require.Equal(t, e.key, string(it.Key()), "SeekGE")
		require.Equal(t, i > 0, it.SeekLT([]byte(e.key)))
		if i > 0 {
			require.Equal(t, g.entries[i-1].key, string(it.Key()), "SeekLT")
		}
	}
	require.NoError(t, it.Close())
	require.Equal(t, g.entries, forward)
	slices.Reverse(backward)
	require.Equal(t, g.entries, backward)
	present := map[string]bool{}
	for _, e := range g.entries {
		present[e.key] = true
		value, err := d.Get([]byte(e.key))
		require.NoError(t, err, "key %q", e.key)
		require.Equal(t, e.value, goldenText(value), "key %q", e.key)
	}
	absent := slices.Clone(g.deleted)
	for _, e := range g.entries {
		absent = append(absent, e.key+"\x00", e.key+"z", strings.TrimSuffix(e.key, "0"))
	}
	for _, key := range absent {
		found, err := d.Has([]byte(key))
		require.NoError(t, err)
		require.Equal(t, present[key], found, "key %q", key)
	}
}

//make:portable
func TestGoldenDatabases(t *testing.T) {
	skipInShortRace(t)
	list, err := os.ReadDir(goldenDir)
	require.NoError(t, err)
	databases := 0
	for _, entry := range list {
		if !entry.IsDir() || entry.Name() == "features" { // see TestGoldenFeatures
			continue
		}
		databases++
		t.Run(entry.Name(), func(t *testing.T) {
			t.Parallel()
			g := loadGolden(t, entry.Name())
			for name, policy := range map[string]filter.Policy{"default filter": nil, "no filter": filter.None} {
				t.Run(name, func(t *testing.T) {
					t.Run("read-only", func(t *testing.T) { g.readOnly(t, policy) })
					t.Run("read and written", func(t *testing.T) { g.readAndWritten(t, policy) })
				})
			}
		})
	}
	require.GreaterOrEqual(t, databases, 14)
}

func (g *golden) readOnly(t *testing.T, policy filter.Policy) {
	dir := g.copy(t)
	before := goldenFiles(t, dir)
	d := g.open(t, dir, db.Options{Filters: db.FilterOptions{Policy: policy}, ReadOnly: true})
	g.requireHeldBy(t, d)
	require.NoError(t, d.Close())
	require.Equal(t, before, goldenFiles(t, dir), "reading must not change a byte")
}

func (g *golden) readAndWritten(t *testing.T, policy filter.Policy) {
	o := db.Options{Filters: db.FilterOptions{Policy: policy}, ErrorIfMissing: true}
	dir := g.copy(t)
	d := g.open(t, dir, o)
	g.requireHeldBy(t, d)
	for _, e := range g.entries {
		require.NoError(t, d.Put([]byte(e.key+" ours"), []byte("ours"), db.NoSync))
	}
	require.NoError(t, d.Close())

	d = g.open(t, dir, o)
	for _, e := range g.entries {
		requireValue(t, d, []byte(e.key+" ours"), []byte("ours"))
		require.NoError(t, d.Delete([]byte(e.key+" ours"), db.NoSync))
	}
	require.NoError(t, d.Compact(context.Background(), nil, nil))
	g.requireHeldBy(t, d)
	require.NoError(t, d.Close())

	d = g.open(t, dir, o)
	g.requireHeldBy(t, d)
	require.NoError(t, d.Close())
}

//make:portable
func TestGoldenDatabasesNeedTheirComparer(t *testing.T) {
	for name, cmp := range goldenComparers {
		t.Run(name, func(t *testing.T) {
			g := loadGolden(t, name)
			dir := g.copy(t)
			before := goldenFiles(t, dir)
			_, err := db.Open(dir, nil)
			require.ErrorContains(t, err, fmt.Sprintf("created with comparer %q", cmp.Name))
			require.ErrorContains(t, err, "set Options.Comparer to a comparer of that name")
			require.NotErrorIs(t, err, db.ErrCorruption)
			require.Equal(t, before, goldenFiles(t, dir))
		})
	}
}

// Three overlapping flushes are on levels 2, 1 and 0 of LevelDB's databases, and SieveDB keeps them there.
//
//make:portable
func TestGoldenLevelsAreKept(t *testing.T) {
	for _, name := range []string{
		"leveldb-1.23-levels-filter", "leveldb-1.23-levels-no-filter", "leveldb-1.23-uncompressed", "leveldb-1.23-sst-names", "leveldb-main-zstd",
	} {
		t.Run(name, func(t *testing.T) {
			g := loadGolden(t, name)
			d := g.open(t, g.copy(t), db.Options{ReadOnly: true})
			for level := range 3 {
				require.Equal(t, 1, d.Metrics().Levels[level].Tables, "level %d", level)
			}
		})
	}
}
