package db_test

import (
	"compress/flate"
	"compress/zlib"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/backup"
	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/codec"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/tabletest"
	"github.com/sievedb/sievedb/vfs"
)

var expiryFeature = feature{
	name:    "expiry",
	options: func(o *db.Options) { o.Expiry.Prefixes = [][]byte{[]byte("session/")} },
	write: func(t *testing.T, d *db.DB, _ vfs.FS) {
		for i := range 20 {
			ttl := 30 * time.Minute // half of them have expired when the database is read
			if i%2 == 0 {
				ttl = 100 * 24 * time.Hour
			}
			require.NoError(t, d.PutTTL(fmt.Appendf(nil, "session/%02d", i), fmt.Appendf(nil, "token %d", i), ttl, nil))
			if i == 10 {
				put(t, d, "session/forever", "no time to live")
				put(t, d, "user", "not under the prefix")
				require.NoError(t, d.Flush())
			}
		}
	},
}

var logDirFeature = feature{
	name:    "log-directory",
	options: func(o *db.Options) { o.LogDir = "/golden/logs" },
	write:   fillGolden,
}

var changesFeature = feature{
	name:    "change-feed",
	options: func(o *db.Options) { o.Changes = db.ChangeRetention{Bytes: 1 << 20} },
	write: func(t *testing.T, d *db.DB, fsys vfs.FS) {
		b := new(db.Batch)
		for i := range 300 {
			b.Put(fmt.Appendf(nil, "old/%04d", i), []byte("x"))
		}
		require.NoError(t, d.Apply(b, nil))
		require.NoError(t, d.Flush())
		put(t, d, "a", "in a log")
		b = new(db.Batch)
		b.DeleteRange([]byte("old/"), []byte("old/0290"))
		b.Put([]byte("b"), []byte("with the range"))
		require.NoError(t, d.Apply(b, nil))
		l, err := d.NewLoader()
		require.NoError(t, err)
		for i := range 20 {
			require.NoError(t, l.Put(fmt.Appendf(nil, "load/%02d", i), []byte("loaded")))
		}
		require.NoError(t, l.Commit())
		const ingested = "/golden/made.ldb"
		table := fixture.Table(t, fixture.Put("ingest/1", 1, "ingested"), fixture.Put("ingest/2", 1, "ingested"))
		fixture.WriteFile(t, fsys, ingested, table)
		_, err = d.Ingest(background, []string{ingested}, nil)
		require.NoError(t, err)
		require.NoError(t, fsys.Remove(ingested))
		_, last, err := d.ChangePositions()
		require.NoError(t, err)
		require.NoError(t, d.SetCursor("größe", last))
		require.NoError(t, d.Delete([]byte("a"), nil))
	},
	describe: func(t *testing.T, _ vfs.FS, o *db.Options) string {
		var texts []string
		for range 2 {
			d, err := db.Open("/golden/db", o)
			require.NoError(t, err)
			var b strings.Builder
			cursors, err := d.Cursors()
			require.NoError(t, err)
			fmt.Fprintf(&b, "cursors %v\n", cursors)
			for c, err := range d.Changes(background, 0, nil) {
				require.NoError(t, err)
				fmt.Fprintf(&b, "change of kind %d, %d to %d\n", c.Kind, c.First, c.Last)
				for e, err := range c.Entries() {
					require.NoError(t, err)
					fmt.Fprintf(&b, "  %d %q %q\n", e.Kind, e.Key, e.Value)
				}
			}
			require.NoError(t, d.Close())
			texts = append(texts, b.String())
		}
		require.Equal(t, texts[0], texts[1], "after opening it for writing")
		return texts[0] + contentOf(t, "/golden/db", o)
	},
}

var namespaceFeature = feature{
	name: "namespaces",
	write: func(t *testing.T, d *db.DB, _ vfs.FS) {
		put(t, d, "plain", "outside of namespaces")
		for _, name := range []string{"orders", "größen\x00"} {
			n, err := d.Namespace(name)
			require.NoError(t, err)
			require.NoError(t, n.Put([]byte("k"), []byte("in "+name), nil))
			inner, err := n.Namespace("inner")
			require.NoError(t, err)
			require.NoError(t, inner.Put([]byte("k"), []byte("deeper"), nil))
		}
	},
	describe: func(t *testing.T, _ vfs.FS, o *db.Options) string {
		d, err := db.Open("/golden/db", o)
		require.NoError(t, err)
		names, err := d.Namespaces()
		require.NoError(t, err)
		var b strings.Builder
		for _, name := range names {
			n, err := d.Namespace(name)
			require.NoError(t, err)
			fmt.Fprintf(&b, "namespace %q\n", name)
			all, done := n.All(nil)
			for key, value := range all {
				fmt.Fprintf(&b, "  %q = %q\n", key, value)
			}
			require.NoError(t, done())
		}
		require.NoError(t, d.Close())
		return b.String() + contentOf(t, "/golden/db", o)
	},
}

// repositoryIn returns the repository of the golden backups.
func repositoryIn(t *testing.T, fsys vfs.FS) *backup.Repository {
	s, err := backup.NewDir(fsys, "/golden/repository")
	require.NoError(t, err)
	return backup.Open(s)
}

var backupFeature = feature{
	name: "backup",
	write: func(t *testing.T, d *db.DB, fsys vfs.FS) {
		fillGolden(t, d, fsys)
		_, err := repositoryIn(t, fsys).Create(background, d, nil)
		require.NoError(t, err)
		put(t, d, "after", "the first backup")
		_, err = repositoryIn(t, fsys).Create(background, d, nil)
		require.NoError(t, err)
	},
	after: dropDatabase,
	describe: func(t *testing.T, fsys vfs.FS, o *db.Options) string {
		repo := repositoryIn(t, fsys)
		report, err := repo.Verify(background)
		require.NoError(t, err)
		require.Empty(t, report.Faults)
		list, err := repo.List(background)
		require.NoError(t, err)
		var b strings.Builder
		slices.SortFunc(list, func(a, b backup.Info) int { return strings.Compare(a.ID, b.ID) })
		for i, info := range list {
			to := fmt.Sprintf("/golden/restored%d", i)
			_, err := repo.Restore(background, info.ID, to, &backup.RestoreOptions{FS: fsys})
			require.NoError(t, err)
			fmt.Fprintf(&b, "backup %d, sequence number %d\n%s", i, info.Sequence, contentOf(t, to, o))
		}
		return b.String()
	},
}

// dropDatabase leaves only the repository.
func dropDatabase(t *testing.T, fsys vfs.FS) {
	require.NoError(t, db.Destroy("/golden/db", &db.Options{FS: fsys}))
}

var streamFeature = feature{
	name:    "stream",
	options: func(o *db.Options) { o.Changes = db.ChangeRetention{Bytes: 1 << 20} },
	write: func(t *testing.T, d *db.DB, fsys vfs.FS) {
		repo := repositoryIn(t, fsys)
		for i := range 4 {
			put(t, d, fmt.Sprintf("step/%d", i), "archived")
			if i == 2 {
				l, err := d.NewLoader()
				require.NoError(t, err)
				require.NoError(t, l.Put([]byte("loaded"), []byte("in a table")))
				require.NoError(t, l.Commit())
			}
			_, err := repo.Archive(background, d, nil)
			require.NoError(t, err)
		}
	},
	after: dropDatabase,
	describe: func(t *testing.T, fsys vfs.FS, o *db.Options) string {
		repo, plain := repositoryIn(t, fsys), *o
		plain.Changes = db.ChangeRetention{}
		windows, err := repo.Windows(background)
		require.NoError(t, err)
		require.Len(t, windows, 1)
		var b strings.Builder
		w := windows[0]
		for i, at := range []uint64{w.First, w.First + 1, w.Last} {
			to := fmt.Sprintf("/golden/restored%d", i)
			_, err := repo.RestoreAt(background, "", backup.Point{Sequence: at}, to, &backup.RestoreOptions{FS: fsys})
			require.NoError(t, err)
			fmt.Fprintf(&b, "at %d\n%s", at, contentOf(t, to, &plain))
		}
		return b.String()
	},
}

// describeRanges also walks ranges, which the filters may exclude.
func describeRanges(t *testing.T, fsys vfs.FS, o *db.Options) string {
	d, err := db.Open("/golden/db", o)
	require.NoError(t, err)
	var b strings.Builder
	for i := range 40 {
		n := 0
		all, done := d.All(&db.IterOptions{LowerBound: fmt.Appendf(nil, "user/%04d", i*11), UpperBound: fmt.Appendf(nil, "user/%04d", i*11+3)})
		for range all {
			n++
		}
		require.NoError(t, done())
		fmt.Fprintf(&b, "%d keys from %04d to %04d\n", n, i*11, i*11+3)
	}
	require.NoError(t, d.Close())
	return b.String() + contentOf(t, "/golden/db", o)
}

func toZlib(t *testing.T, fsys vfs.FS) {
	recode(t, fsys, codec.Zlib, func(w io.Writer) (io.WriteCloser, error) { return zlib.NewWriter(w), nil })
}

func toDeflate(t *testing.T, fsys vfs.FS) {
	recode(t, fsys, codec.Deflate, func(w io.Writer) (io.WriteCloser, error) { return flate.NewWriter(w, flate.DefaultCompression) })
}

// recode compresses the blocks of all tables as Mojang's LevelDB did, which SieveDB only reads, and writes a
// MANIFEST with their new sizes.
func recode(t *testing.T, fsys vfs.FS, kind byte, compressor func(io.Writer) (io.WriteCloser, error)) {
	d, err := db.Open("/golden/db", &db.Options{FS: fsys})
	require.NoError(t, err)
	require.NoError(t, d.Flush()) // the log's entries go to a table too
	require.NoError(t, d.Close())
	set, state, err := manifest.Load(manifest.SetOptions{FS: fsys, Dir: "/golden/db", Cmp: base.Bytewise})
	require.NoError(t, err)
	edit := &manifest.Edit{
		Comparer: base.Bytewise.Name, LogNum: manifest.Num(state.LogNum), PrevLogNum: manifest.Num(0), LastSeq: manifest.Num(state.LastSeq),
	}
	set.Current().Files(func(level int, f *manifest.FileMeta) {
		name := path.Join("/golden/db", f.Name())
		table := tabletest.Recoded(t, fixture.ReadFile(t, fsys, name), kind, compressor)
		writeFile(t, fsys, name, table)
		again := manifest.NewFileMeta(f.Num, uint64(len(table)), f.Smallest, f.Largest)
		edit.Added = append(edit.Added, manifest.LevelFile{Level: level, File: again})
	})
	require.NotEmpty(t, edit.Added)
	num := set.NewFileNum()
	edit.NextFileNum = manifest.Num(num + 1)
	require.NoError(t, manifest.WriteFile(fsys, "/golden/db", num, edit))
	require.NoError(t, manifest.SetCurrent(fsys, "/golden/db", num))
	require.NoError(t, fsys.Remove(path.Join("/golden/db", state.ManifestName)))
	require.NoError(t, fsys.Remove("/golden/db/CLOSED"))
}
