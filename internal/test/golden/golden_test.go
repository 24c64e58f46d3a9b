// Package golden_test reads the databases of testdata/golden, which SieveDB and other programs wrote, and others as
// such programs write them.
package golden_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/race"
	"github.com/sievedb/sievedb/internal/test/storetest"
	"github.com/sievedb/sievedb/report"
	"github.com/sievedb/sievedb/vfs"
)

const root = "../../../testdata/golden"

var background = context.Background()

func TestMain(m *testing.M) { os.Exit(fixture.Run(m)) }

// databases are those of other programs and of older forms of SieveDB. Other directories have what most have here.
var databases = map[string]struct {
	cmp    *db.Comparer // nil for the default one
	levels bool         // three overlapping flushes are on levels 2, 1 and 0
	old    bool         // UpgradeFilters finds tables, as in those with levels; in others compactions may be the first
}{
	"leveldb-1.23-reverse-comparator": {cmp: &db.Comparer{
		Name: "interop.ReverseBytewise", Compare: func(a, b []byte) int { return bytes.Compare(b, a) },
	}},
	"leveldb-1.23-idb-cmp1":         {cmp: &db.Comparer{Name: "idb_cmp1", Compare: bytes.Compare}},
	"leveldb-1.17-signed-filter":    {old: true},
	"leveldb-1.23-levels-filter":    {levels: true},
	"leveldb-1.23-levels-no-filter": {levels: true},
	"leveldb-1.23-uncompressed":     {levels: true},
	"leveldb-1.23-sst-names":        {levels: true},
	"leveldb-main-zstd":             {levels: true},
}

// copied returns the directory of a copy of a golden database.
func copied(t *testing.T, name string) string {
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS(filepath.Join(root, name, "db"))))
	return dir
}

func opened(t *testing.T, dir string, o db.Options) *db.DB {
	d, err := db.Open(dir, &o)
	require.NoError(t, err)
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// The README file of the databases says what they have and how they were made.
//
//make:portable
func TestGoldenDatabases(t *testing.T) {
	race.SkipInShort(t)
	list, err := os.ReadDir(root)
	require.NoError(t, err)
	verdicts, known := map[report.FilterVerdict]int{}, maps.Clone(databases)
	for _, dir := range list {
		name := dir.Name()
		if !dir.IsDir() || name == "features" {
			continue
		}
		delete(known, name)
		t.Run(name, func(t *testing.T) {
			o := db.Options{Comparer: databases[name].cmp}
			want, deleted := listing(t, name)
			for _, policy := range []filter.Policy{nil, filter.None} {
				o.Filters.Policy = policy
				requireListed(t, want, contentOf(t, copied(t, name), o, deleted...))
			}
			o.Filters.Policy = nil
			requireItsComparer(t, name)
			requireGoodFilters(t, name, o, verdicts)
			requireNewFilters(t, name, o, want)
		})
	}
	require.Empty(t, known)
	delete(verdicts, report.VerdictCollisions)
	require.ElementsMatch(t, []report.FilterVerdict{report.VerdictGood, report.VerdictNoFilter}, slices.Collect(maps.Keys(verdicts)))
}

// listing returns the lines of expected.txt: the values by their keys, described as there, and the deleted keys.
func listing(t *testing.T, name string) (values map[string]string, deleted []string) {
	text, err := os.ReadFile(filepath.Join(root, name, "expected.txt"))
	require.NoError(t, err)
	values = map[string]string{}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		key, err := hex.DecodeString(strings.TrimPrefix(fields[1], "."))
		require.NoError(t, err)
		switch fields[0] {
		case "put":
			values[string(key)] = fields[2]
		case "del":
			deleted = append(deleted, string(key))
		default:
			require.Fail(t, "unknown line", "%s", line)
		}
	}
	require.NotEmpty(t, values)
	return values, deleted
}

func requireListed(t *testing.T, want map[string]string, content []entry) {
	got := map[string]string{}
	for _, e := range content {
		switch {
		case e.value == "":
			got[e.key] = "."
		case len(e.value) <= 64:
			got[e.key] = hex.EncodeToString([]byte(e.value))
		default:
			got[e.key] = fmt.Sprintf("sha256:%d:%x", len(e.value), sha256.Sum256([]byte(e.value)))
		}
	}
	require.Equal(t, want, got)
}

type entry struct{ key, value string }

// contentOf returns the entries of a database, as all ways to read it show them. It opens the database four times: to
// read it, which changes no file, with writes of others beside its own, after their deletion and a compaction, and again.
func contentOf(t *testing.T, dir string, o db.Options, absent ...string) (content []entry) {
	fsys := o.FS
	if fsys == nil {
		fsys = vfs.OS
	}
	before := files(t, fsys, dir)
	for i := range 4 {
		o.ReadOnly, o.ErrorIfMissing = i == 0, true
		d := opened(t, dir, o)
		if i == 0 {
			content = read(t, d, absent)
		}
		for _, e := range content {
			ours := []byte(e.key + " ours")
			if i == 1 {
				require.NoError(t, d.Put(ours, []byte("ours"), db.NoSync))
			} else if i == 2 {
				storetest.RequireValue(t, d, ours, []byte("ours"))
				require.NoError(t, d.Delete(ours, db.NoSync))
			}
		}
		if i == 2 {
			require.NoError(t, d.Compact(background, nil, nil))
		}
		if i != 1 {
			require.Equal(t, content, read(t, d, absent), "opening %d", i)
		}
		require.NoError(t, d.Close())
		if i == 0 {
			require.Equal(t, before, files(t, fsys, dir), "reading must not change a byte")
		}
	}
	return content
}

// files returns the files in a directory and below, by their paths.
func files(t *testing.T, fsys vfs.FS, dir string) map[string]string {
	all := map[string]string{}
	names, err := fsys.List(dir)
	require.NoError(t, err)
	for _, name := range names {
		at := path.Join(dir, name)
		if info, err := fsys.Lstat(at); err == nil && info.IsDir() {
			maps.Copy(all, files(t, fsys, at))
		} else {
			all[at] = string(fixture.ReadFile(t, fsys, at))
		}
	}
	return all
}

// read returns what all ways to read a database show.
func read(t *testing.T, d *db.DB, absent []string) (content []entry) {
	storetest.RequireNoFaults(t, d)
	values := fixture.Contents{}
	all, failed := d.All(nil)
	for key, value := range all {
		content = append(content, entry{string(key), string(value)})
		values[string(key)] = string(value)
	}
	require.NoError(t, failed())
	it := storetest.Iter(t, d, nil)
	ok := it.Last()
	for i, e := range slices.Backward(content) {
		require.True(t, ok)
		require.Equal(t, e, entry{string(it.Key()), string(it.Value())})
		require.True(t, it.SeekGE([]byte(e.key)))
		require.Equal(t, e.key, string(it.Key()), "SeekGE")
		ok = it.SeekLT([]byte(e.key))
		require.Equal(t, i > 0, ok)
		absent = append(absent, e.key+"\x00", e.key+"z", strings.TrimSuffix(e.key, "0"))
	}
	require.NoError(t, it.Close())
	absent = slices.DeleteFunc(slices.Clone(absent), func(key string) bool { _, present := values[key]; return present })
	storetest.RequireAllAgree(t, d, values, absent...)
	return content
}

// requireItsComparer opens a database without its comparer.
func requireItsComparer(t *testing.T, name string) {
	cmp := databases[name].cmp
	if cmp == nil {
		return
	}
	dir := copied(t, name)
	before := files(t, vfs.OS, dir)
	_, err := db.Open(dir, nil)
	require.ErrorContains(t, err, fmt.Sprintf("created with comparer %q", cmp.Name))
	require.ErrorContains(t, err, "set Options.Comparer to a comparer of that name")
	require.NotErrorIs(t, err, db.ErrCorruption)
	require.Equal(t, before, files(t, vfs.OS, dir))
}

// requireGoodFilters counts the verdicts on the filters of a database, and requires that its tables are on their levels.
func requireGoodFilters(t *testing.T, name string, o db.Options, verdicts map[report.FilterVerdict]int) {
	o.ReadOnly = true
	d := opened(t, copied(t, name), o)
	infos, err := d.Tables()
	require.NoError(t, err)
	filters := storetest.Filters(t, d, 1000).Tables
	require.Len(t, filters, len(infos))
	for _, f := range filters {
		verdicts[f.Verdict]++
		require.Zero(t, f.Probes.Denied)
		if f.Verdict == report.VerdictGood {
			require.Positive(t, f.Predicted)
			require.InDelta(t, 12, f.BitsPerKey, 6, "small filters have bits to spare")
		}
	}
	for level := range 3 {
		if databases[name].levels {
			require.Equal(t, 1, d.Metrics().Levels[level].Tables, "level %d", level)
		}
	}
}

// requireNewFilters requires that UpgradeFilters, and Compact with a budget, make the filters of the options.
func requireNewFilters(t *testing.T, name string, o db.Options, want map[string]string) {
	d := opened(t, copied(t, name), o)
	r, err := d.UpgradeFilters(background, nil, nil)
	require.NoError(t, err)
	require.Positive(t, r.Tables)
	require.True(t, r.Upgraded > 0 || !databases[name].old && !databases[name].levels)
	require.Zero(t, r.Damaged)
	for _, f := range storetest.Filters(t, d, 100).Tables {
		require.Equal(t, filter.NewCacheLineBloomPolicy(10).Name(), f.Policy)
	}
	requireListed(t, want, read(t, d, nil))

	o.Filters.Budget = 1 << 20
	d = opened(t, copied(t, name), o)
	require.NoError(t, d.Compact(background, nil, nil))
	for _, f := range storetest.Filters(t, d, 100).Tables {
		require.Greater(t, f.BitsPerKey, 15.0, "the budget has room")
	}
	requireListed(t, want, read(t, d, nil))
}
