package golden_test

import (
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
	"github.com/sievedb/sievedb/internal/base/codec"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/vfs"
)

var writeGolden = flag.Bool("golden.write", false, "TestGoldenFeatures makes testdata/golden/features anew")

// feature is a database of SieveDB for a feature with a format of its own: testdata/golden/features/README.md.
type feature struct {
	options func(o *db.Options) // nil for the defaults
	// write fills the database, which is open at /golden/db.
	write func(t *testing.T, d *db.DB, fsys vfs.FS)
	// after changes the files when the database is closed; nil for nothing.
	after func(t *testing.T, fsys vfs.FS)
	// describe writes the content, as expected.txt has it; nil stands for that of the database.
	describe func(t *testing.T, b *strings.Builder, o db.Options)
}

// features has all of them by the names of their directories.
func features() map[string]feature {
	all := maps.Clone(kinds)
	with := func(name string, set func(o *db.Options)) { all[name] = feature{write: fill, options: set} }
	for name, p := range map[string]filter.Policy{
		"none": filter.None, "bloom": filter.NewBloomPolicy(10), "cache-line": filter.NewCacheLineBloomPolicy(10),
		"dual": filter.NewDualBloomPolicy(10), "fuse": filter.FusePolicy{}, "fuse-packed": filter.NewFusePolicy(7),
	} {
		with("filter-"+name, func(o *db.Options) { o.Filters.Policy = p })
	}
	e := rangefilter.SeparatedPrefix('/', 1)
	ranges := []rangefilter.Policy{rangefilter.NewPrefix(e, 10), rangefilter.NewGrafite(e, rangefilter.Decimal(4), 16)}
	all["filter-range"] = feature{write: fill, describe: describeRanges, options: func(o *db.Options) { o.Filters.RangePolicies = ranges }}
	for name, c := range map[string]db.Compression{"none": db.NoCompression, "snappy": db.SnappyCompression, "zstd": db.ZstdCompression} {
		with("compression-"+name, func(o *db.Options) { o.Tables.Compression = c })
	}
	for name, kind := range map[string]byte{"zlib": codec.Zlib, "deflate": codec.Deflate} {
		all["compression-"+name] = feature{write: fill, after: recoded(kind), options: func(o *db.Options) {
			o.Tables.Compression, o.Filters.Policy = db.NoCompression, filter.None
		}}
	}
	return all
}

// goldenNow is the time at which the databases were made. They are read an hour later.
var goldenNow = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// opening returns the options of the feature's database.
func (f *feature) opening(fsys vfs.FS, now time.Time) db.Options {
	o := db.Options{FS: fsys, Tables: db.TableOptions{Size: 8 << 10, BlockSize: 512}}
	o.Expiry.Clock = func() time.Time { return now }
	if f.options != nil {
		f.options(&o)
	}
	return o
}

// make makes the files of the feature, by their paths.
func (f *feature) make(t *testing.T) map[string]string {
	fsys := vfs.NewMem()
	require.NoError(t, fsys.MkdirAll("/golden"))
	d := opened(t, "/golden/db", f.opening(fsys, goldenNow))
	f.write(t, d, fsys)
	require.NoError(t, d.Close())
	if f.after != nil {
		f.after(t, fsys)
	}
	return files(t, fsys, "/golden")
}

// text returns what files say today.
func (f *feature) text(t *testing.T, files map[string]string) string {
	fsys := vfs.NewMem()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		require.NoError(t, fsys.MkdirAll(path.Dir(name)))
		fixture.WriteFile(t, fsys, name, []byte(files[name]))
	}
	var b strings.Builder
	o := f.opening(fsys, goldenNow.Add(time.Hour))
	if f.describe != nil {
		f.describe(t, &b, o)
	} else {
		describe(t, &b, "/golden/db", o)
	}
	return b.String()
}

// describe writes the entries of a database, a line for each.
func describe(t *testing.T, b *strings.Builder, dir string, o db.Options) {
	for _, e := range contentOf(t, dir, o) {
		fmt.Fprintf(b, "%q = %q\n", e.key, e.value)
	}
}

// Every later version reads what an earlier one wrote.
//
//make:portable
func TestGoldenFeatures(t *testing.T) {
	dir := filepath.Join(root, "features")
	list, err := os.ReadDir(dir)
	require.NoError(t, err)
	all := features()
	for _, e := range list {
		if e.IsDir() {
			require.Contains(t, all, e.Name())
		}
	}
	for name, f := range all {
		t.Run(name, func(t *testing.T) {
			dir, expected := filepath.Join(dir, name, "files"), filepath.Join(dir, name, "expected.txt")
			if *writeGolden {
				require.NoError(t, os.RemoveAll(dir)) // once there is a release, a new form gets a new name
				for at, content := range f.make(t) {
					at = filepath.Join(dir, filepath.FromSlash(strings.TrimPrefix(at, "/golden/")))
					require.NoError(t, os.MkdirAll(filepath.Dir(at), 0o755))
					require.NoError(t, os.WriteFile(at, []byte(content), 0o644))
				}
			}
			kept := map[string]string{}
			require.NoError(t, fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
				if err != nil || d.IsDir() {
					return err
				}
				content, err := os.ReadFile(filepath.Join(dir, name))
				kept[path.Join("/golden", name)] = string(content)
				return err
			}))
			if *writeGolden {
				require.NoError(t, os.WriteFile(expected, []byte(f.text(t, kept)), 0o644))
			}
			text, err := os.ReadFile(expected)
			require.NoError(t, err)
			require.NotEmpty(t, text)
			want := strings.ReplaceAll(string(text), "\r\n", "\n")
			require.Equal(t, want, f.text(t, kept))
			if !testing.Short() {
				require.Equal(t, want, f.text(t, f.make(t)), "what this version writes is read in the same way")
			}
		})
	}
}
