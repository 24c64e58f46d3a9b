package db_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/filter/rangefilter"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/vfs"
)

// TestGoldenFeatures reads databases that SieveDB wrote, one for each feature with a format of its own:
// testdata/golden/features/README.md.
var writeGolden = flag.Bool("golden.write", false, "TestGoldenFeatures makes testdata/golden/features anew")

const featuresDir = "../testdata/golden/features"

// goldenNow is the time at which the databases were made, and goldenLater that at which they are read.
var (
	goldenNow   = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	goldenLater = goldenNow.Add(time.Hour)
)

// feature is one of the databases.
type feature struct {
	name    string
	options func(o *db.Options) // of the database; nil for the defaults
	// write fills the database, which is open at /golden/db.
	write func(t *testing.T, d *db.DB, fsys vfs.FS)
	// after changes the files when the database is closed; nil for nothing.
	after func(t *testing.T, fsys vfs.FS)
	// describe returns the content, as expected.txt has it; nil stands for that of the database.
	describe func(t *testing.T, fsys vfs.FS, o *db.Options) string
}

// open returns the options of the feature's database in a file system.
func (f *feature) open(fsys vfs.FS, now time.Time) *db.Options {
	o := &db.Options{FS: fsys, Tables: db.TableOptions{Size: 8 << 10, BlockSize: 512}}
	o.Expiry.Clock = func() time.Time { return now }
	if f.options != nil {
		f.options(o)
	}
	return o
}

// make makes the files of the feature, by path below /golden.
func (f *feature) make(t *testing.T) map[string][]byte {
	fsys := vfs.NewMem()
	require.NoError(t, fsys.MkdirAll("/golden"))
	d, err := db.Open("/golden/db", f.open(fsys, goldenNow))
	require.NoError(t, err)
	f.write(t, d, fsys)
	require.NoError(t, d.Close())
	if f.after != nil {
		f.after(t, fsys)
	}
	files := map[string][]byte{}
	collect(t, fsys, "/golden", files)
	return files
}

// collect adds the files below a directory, by their path below /golden.
func collect(t *testing.T, fsys vfs.FS, dir string, files map[string][]byte) {
	names, err := fsys.List(dir)
	require.NoError(t, err)
	for _, name := range names {
		at := path.Join(dir, name)
		info, err := fsys.Lstat(at)
		require.NoError(t, err)
		if info.IsDir() {
			collect(t, fsys, at, files)
			continue
		}
		files[strings.TrimPrefix(at, "/golden/")] = fixture.ReadFile(t, fsys, at)
	}
}

func writeUnder(t *testing.T, fsys vfs.FS, name string, content []byte) {
	require.NoError(t, fsys.MkdirAll(path.Dir(name)))
	fixture.WriteFile(t, fsys, name, content)
}

// load returns a file system with the files of the feature.
func (f *feature) load(t *testing.T) vfs.FS {
	fsys, root := vfs.NewMem(), filepath.Join(featuresDir, f.name, "files")
	require.NoError(t, filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(name)
		if err == nil {
			rel, relErr := filepath.Rel(root, name)
			require.NoError(t, relErr)
			writeUnder(t, fsys, path.Join("/golden", filepath.ToSlash(rel)), content)
		}
		return err
	}))
	return fsys
}

// text returns what the feature's files say today.
func (f *feature) text(t *testing.T, fsys vfs.FS) string {
	o := f.open(fsys, goldenLater)
	if f.describe != nil {
		return f.describe(t, fsys, o)
	}
	return contentOf(t, "/golden/db", o)
}

// contentOf returns the entries of a database, a line for each, as several ways to read it show them.
func contentOf(t *testing.T, dir string, o *db.Options) string {
	var texts []string
	for _, readOnly := range []bool{true, false, false} { // the third time, what the second wrote is read
		o := *o
		o.ReadOnly, o.ErrorIfMissing = readOnly, true
		d, err := db.Open(dir, &o)
		require.NoError(t, err)
		var b strings.Builder
		all, done := d.All(nil)
		for key, value := range all {
			fmt.Fprintf(&b, "%q = %q\n", key, value)
			got, err := d.Get(key)
			require.NoError(t, err)
			require.Equal(t, string(value), string(got))
			_, err = d.Get(append(bytes.Clone(key), 0))
			require.ErrorIs(t, err, db.ErrNotFound)
		}
		require.NoError(t, done())
		report, err := d.Check(context.Background())
		require.NoError(t, err)
		require.Empty(t, report.Faults)
		if !readOnly {
			require.NoError(t, d.Compact(context.Background(), nil, nil))
		}
		require.NoError(t, d.Close())
		texts = append(texts, b.String())
	}
	require.Equal(t, texts[0], texts[1], "after opening it for writing")
	require.Equal(t, texts[0], texts[2], "after a compaction")
	return texts[0]
}

// fillGolden writes 60 keys in two tables and a log.
func fillGolden(t *testing.T, d *db.DB, _ vfs.FS) {
	for i := range 60 {
		put(t, d, fmt.Sprintf("user/%04d", i*7), fmt.Sprintf("the value of key number %d in a golden database", i))
		if i == 20 || i == 40 {
			require.NoError(t, d.Delete([]byte("user/0007"), nil))
			require.NoError(t, d.Flush())
		}
	}
}

func put(t *testing.T, d *db.DB, key, value string) {
	require.NoError(t, d.Put([]byte(key), []byte(value), nil))
}

// features are all golden databases of features.
func features() []feature {
	all := []feature{expiryFeature, logDirFeature, changesFeature, namespaceFeature, backupFeature, streamFeature}
	for name, p := range map[string]filter.Policy{
		"filter-none": filter.None, "filter-bloom": filter.NewBloomPolicy(10), "filter-cache-line": filter.NewCacheLineBloomPolicy(10),
		"filter-dual": filter.NewDualBloomPolicy(10), "filter-fuse": filter.FusePolicy{},
		"filter-fuse-packed": filter.NewFusePolicy(7),
	} {
		all = append(all, feature{name: name, write: fillGolden, options: func(o *db.Options) { o.Filters.Policy = p }})
	}
	all = append(all, feature{name: "filter-range", write: fillGolden, describe: describeRanges, options: func(o *db.Options) {
		e := rangefilter.SeparatedPrefix('/', 1)
		o.Filters.RangePolicies = []rangefilter.Policy{
			rangefilter.NewPrefix(e, 10), rangefilter.NewGrafite(e, rangefilter.Decimal(4), 16),
		}
	}})
	for name, c := range map[string]db.Compression{
		"compression-none": db.NoCompression, "compression-snappy": db.SnappyCompression, "compression-zstd": db.ZstdCompression,
	} {
		all = append(all, feature{name: name, write: fillGolden, options: func(o *db.Options) { o.Tables.Compression = c }})
	}
	for name, recode := range map[string]func(t *testing.T, fsys vfs.FS){"compression-zlib": toZlib, "compression-deflate": toDeflate} {
		all = append(all, feature{name: name, write: fillGolden, after: recode, options: func(o *db.Options) {
			o.Tables.Compression, o.Filters.Policy = db.NoCompression, filter.None
		}})
	}
	slices.SortFunc(all, func(a, b feature) int { return strings.Compare(a.name, b.name) })
	return all
}

// Every later version reads what an earlier one wrote.
//
//make:portable
func TestGoldenFeatures(t *testing.T) {
	var names []string
	for _, f := range features() {
		names = append(names, f.name)
		t.Run(f.name, func(t *testing.T) {
			dir := filepath.Join(featuresDir, f.name)
			expected := filepath.Join(dir, "expected.txt")
			if *writeGolden {
				files := f.make(t)
				require.NoError(t, os.RemoveAll(dir)) // once there is a release, a new form gets a new name
				for name, content := range files {
					at := filepath.Join(dir, "files", filepath.FromSlash(name))
					require.NoError(t, os.MkdirAll(filepath.Dir(at), 0o755))
					require.NoError(t, os.WriteFile(at, content, 0o644))
				}
				require.NoError(t, os.WriteFile(expected, []byte(f.text(t, f.load(t))), 0o644))
			}
			want, err := os.ReadFile(expected)
			require.NoError(t, err)
			require.NotEmpty(t, want)
			require.Equal(t, strings.ReplaceAll(string(want), "\r\n", "\n"), f.text(t, f.load(t)))
			if testing.Short() {
				return
			}
			made := f.make(t)
			fsys := vfs.NewMem()
			for _, name := range slices.Sorted(maps.Keys(made)) {
				writeUnder(t, fsys, path.Join("/golden", name), made[name])
			}
			require.Equal(t, string(want), f.text(t, fsys), "what this version writes is read in the same way")
		})
	}
	list, err := os.ReadDir(featuresDir)
	require.NoError(t, err)
	var found []string
	for _, e := range list {
		if e.IsDir() {
			found = append(found, e.Name())
		}
	}
	require.Equal(t, names, found)
}
