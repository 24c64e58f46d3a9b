package golden_test

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
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/storetest"
	"github.com/sievedb/sievedb/internal/test/tabletest"
	"github.com/sievedb/sievedb/vfs"
)

func put(t *testing.T, d *db.DB, key, value string) {
	require.NoError(t, d.Put([]byte(key), []byte(value), nil))
}

// fill writes 60 keys in two tables and a log.
func fill(t *testing.T, d *db.DB, _ vfs.FS) {
	for i := range 60 {
		put(t, d, fmt.Sprintf("user/%04d", i*7), fmt.Sprintf("the value of key number %d in a golden database", i))
		if i == 20 || i == 40 {
			require.NoError(t, d.Delete([]byte("user/0007"), nil))
			require.NoError(t, d.Flush())
		}
	}
}

// load writes keys with a loader.
func load(t *testing.T, d *db.DB, value string, keys ...string) {
	l := storetest.NewLoader(t, d)
	for _, key := range keys {
		require.NoError(t, l.Put([]byte(key), []byte(value)))
	}
	require.NoError(t, l.Commit())
}

// kinds are the features that are neither filters nor compressions.
var kinds = map[string]feature{
	"expiry": {
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
	},
	"log-directory": {options: func(o *db.Options) { o.LogDir = "/golden/logs" }, write: fill},
	"change-feed":   {options: keepChanges, write: writeChanges, describe: describeChanges},
	"namespaces": {
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
		describe: func(t *testing.T, b *strings.Builder, o db.Options) {
			d := opened(t, "/golden/db", o)
			names, err := d.Namespaces()
			require.NoError(t, err)
			for _, name := range names {
				n, err := d.Namespace(name)
				require.NoError(t, err)
				fmt.Fprintf(b, "namespace %q\n", name)
				all, done := n.All(nil)
				for key, value := range all {
					fmt.Fprintf(b, "  %q = %q\n", key, value)
				}
				require.NoError(t, done())
			}
			require.NoError(t, d.Close())
			describe(t, b, "/golden/db", o)
		},
	},
	"backup": {
		write: func(t *testing.T, d *db.DB, fsys vfs.FS) {
			fill(t, d, fsys)
			_, err := repositoryIn(t, fsys).Create(background, d, nil)
			require.NoError(t, err)
			put(t, d, "after", "the first backup")
			_, err = repositoryIn(t, fsys).Create(background, d, nil)
			require.NoError(t, err)
		},
		after: dropDatabase,
		describe: func(t *testing.T, b *strings.Builder, o db.Options) {
			repo := repositoryIn(t, o.FS)
			report, err := repo.Verify(background)
			require.NoError(t, err)
			require.Empty(t, report.Faults)
			list, err := repo.List(background)
			require.NoError(t, err)
			slices.SortFunc(list, func(a, b backup.Info) int { return strings.Compare(a.ID, b.ID) })
			for i, info := range list {
				to := fmt.Sprintf("/golden/restored%d", i)
				_, err := repo.Restore(background, info.ID, to, &backup.RestoreOptions{FS: o.FS})
				require.NoError(t, err)
				fmt.Fprintf(b, "backup %d, sequence number %d\n", i, info.Sequence)
				describe(t, b, to, o)
			}
		},
	},
	"stream": {
		options: keepChanges,
		write: func(t *testing.T, d *db.DB, fsys vfs.FS) {
			for i := range 4 {
				put(t, d, fmt.Sprintf("step/%d", i), "archived")
				if i == 2 {
					load(t, d, "in a table", "loaded")
				}
				_, err := repositoryIn(t, fsys).Archive(background, d, nil)
				require.NoError(t, err)
			}
		},
		after: dropDatabase,
		describe: func(t *testing.T, b *strings.Builder, o db.Options) {
			repo := repositoryIn(t, o.FS)
			o.Changes = db.ChangeRetention{}
			windows, err := repo.Windows(background)
			require.NoError(t, err)
			require.Len(t, windows, 1)
			w := windows[0]
			for i, at := range []uint64{w.First, w.First + 1, w.Last} {
				to := fmt.Sprintf("/golden/restored%d", i)
				_, err := repo.RestoreAt(background, "", backup.Point{Sequence: at}, to, &backup.RestoreOptions{FS: o.FS})
				require.NoError(t, err)
				fmt.Fprintf(b, "at %d\n", at)
				describe(t, b, to, o)
			}
		},
	},
}

func keepChanges(o *db.Options) { o.Changes = db.ChangeRetention{Bytes: 1 << 20} }

func writeChanges(t *testing.T, d *db.DB, fsys vfs.FS) {
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
	var loaded []string
	for i := range 20 {
		loaded = append(loaded, fmt.Sprintf("load/%02d", i))
	}
	load(t, d, "loaded", loaded...)
	const ingested = "/golden/made.ldb"
	table := fixture.Table(t, fixture.Put("ingest/1", 1, "ingested"), fixture.Put("ingest/2", 1, "ingested"))
	fixture.WriteFile(t, fsys, ingested, table)
	_, err := d.Ingest(background, []string{ingested}, nil)
	require.NoError(t, err)
	require.NoError(t, fsys.Remove(ingested))
	_, last, err := d.ChangePositions()
	require.NoError(t, err)
	require.NoError(t, d.SetCursor("größe", last))
	require.NoError(t, d.Delete([]byte("a"), nil))
}

func describeChanges(t *testing.T, b *strings.Builder, o db.Options) {
	var texts [2]strings.Builder
	for i := range texts {
		d, b := opened(t, "/golden/db", o), &texts[i]
		cursors, err := d.Cursors()
		require.NoError(t, err)
		fmt.Fprintf(b, "cursors %v\n", cursors)
		for c, err := range d.Changes(background, 0, nil) {
			require.NoError(t, err)
			fmt.Fprintf(b, "change of kind %d, %d to %d\n", c.Kind, c.First, c.Last)
			for e, err := range c.Entries() {
				require.NoError(t, err)
				fmt.Fprintf(b, "  %d %q %q\n", e.Kind, e.Key, e.Value)
			}
		}
		require.NoError(t, d.Close())
	}
	require.Equal(t, texts[0].String(), texts[1].String(), "after opening it for writing")
	b.WriteString(texts[0].String())
	describe(t, b, "/golden/db", o)
}

// describeRanges also walks ranges, which the filters may exclude.
func describeRanges(t *testing.T, b *strings.Builder, o db.Options) {
	d := opened(t, "/golden/db", o)
	for i := range 40 {
		from, to := fmt.Sprintf("user/%04d", i*11), fmt.Sprintf("user/%04d", i*11+3)
		it := storetest.Iter(t, d, &db.IterOptions{LowerBound: []byte(from), UpperBound: []byte(to)})
		fmt.Fprintf(b, "%d keys from %s to %s\n", len(storetest.Walk(t, it, false)), from[5:], to[5:])
		require.NoError(t, it.Close())
	}
	require.NoError(t, d.Close())
	describe(t, b, "/golden/db", o)
}

// repositoryIn returns the repository of the golden backups.
func repositoryIn(t *testing.T, fsys vfs.FS) *backup.Repository {
	s, err := backup.NewDir(fsys, "/golden/repository")
	require.NoError(t, err)
	return backup.Open(s)
}

// dropDatabase leaves only the repository.
func dropDatabase(t *testing.T, fsys vfs.FS) {
	require.NoError(t, db.Destroy("/golden/db", &db.Options{FS: fsys}))
}

// recoded compresses the blocks of all tables as Mojang's LevelDB did, which SieveDB only reads, and writes a MANIFEST
// with their new sizes.
func recoded(kind byte) func(t *testing.T, fsys vfs.FS) {
	return func(t *testing.T, fsys vfs.FS) {
		d := opened(t, "/golden/db", db.Options{FS: fsys})
		require.NoError(t, d.Flush()) // the log's entries go to a table too
		require.NoError(t, d.Close())
		set, state, err := manifest.Load(manifest.SetOptions{FS: fsys, Dir: "/golden/db", Cmp: base.Bytewise})
		require.NoError(t, err)
		edit := &manifest.Edit{
			Comparer: base.Bytewise.Name, LogNum: manifest.Num(state.LogNum), PrevLogNum: manifest.Num(0), LastSeq: manifest.Num(state.LastSeq),
		}
		set.Current().Files(func(level int, f *version.FileMeta) {
			name := path.Join("/golden/db", f.Name())
			table := tabletest.Recoded(t, fixture.ReadFile(t, fsys, name), kind, func(w io.Writer) (io.WriteCloser, error) {
				if kind == codec.Zlib {
					return zlib.NewWriter(w), nil
				}
				return flate.NewWriter(w, flate.DefaultCompression)
			})
			fixture.WriteFile(t, fsys, name, table)
			again := version.NewFileMeta(f.Num, uint64(len(table)), f.Smallest, f.Largest)
			edit.Added = append(edit.Added, version.LevelFile{Level: level, File: again})
		})
		require.NotEmpty(t, edit.Added)
		num := set.NewFileNum()
		edit.NextFileNum = manifest.Num(num + 1)
		require.NoError(t, manifest.WriteFile(fsys, "/golden/db", num, edit))
		require.NoError(t, manifest.SetCurrent(fsys, "/golden/db", num))
		require.NoError(t, fsys.Remove(path.Join("/golden/db", state.ManifestName)))
		require.NoError(t, fsys.Remove("/golden/db/CLOSED"))
	}
}
