package interop

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/dgraph-io/badger/v4"
	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"

	"github.com/sievedb/sievedb/db"
)

// stranger is an engine whose directories are not ours to touch.
type stranger struct {
	engine string
	// fill opens the database in dir, makes it if it is missing, writes the keys from
	// begin to end, and closes it. tables says that they are to be in tables.
	fill func(t *testing.T, dir string, begin, end int, tables bool)
	// count opens the database and counts the keys from 0 on that it holds.
	count func(t *testing.T, dir string) int
}

func strangerKey(i int) []byte   { return fmt.Appendf(nil, "key %06d", i) }
func strangerValue(i int) []byte { return fmt.Appendf(nil, "value of %d", i) }

var strangers = []stranger{
	{"Pebble", fillPebble, countPebble},
	{"Badger", fillBadger, countBadger},
	{"RocksDB", fillRocksDB, countRocksDB},
	{"bbolt", fillBBolt, countBBolt},
}

func openPebble(t *testing.T, dir string) *pebble.DB {
	d, err := pebble.Open(dir, &pebble.Options{Logger: silentPebble{}})
	require.NoError(t, err)
	return d
}

type silentPebble struct{}

func (silentPebble) Infof(string, ...any)  {}
func (silentPebble) Errorf(string, ...any) {}
func (silentPebble) Fatalf(format string, args ...any) {
	panic(fmt.Sprintf(format, args...))
}

func fillPebble(t *testing.T, dir string, begin, end int, tables bool) {
	d := openPebble(t, dir)
	for i := begin; i < end; i++ {
		require.NoError(t, d.Set(strangerKey(i), strangerValue(i), pebble.NoSync))
	}
	if tables {
		require.NoError(t, d.Flush())
	}
	require.NoError(t, d.Close())
}

func countPebble(t *testing.T, dir string) int {
	d := openPebble(t, dir)
	n := 0
	for ; ; n++ {
		value, closer, err := d.Get(strangerKey(n))
		if err != nil {
			require.ErrorIs(t, err, pebble.ErrNotFound)
			break
		}
		require.Equal(t, strangerValue(n), value)
		require.NoError(t, closer.Close())
	}
	require.NoError(t, d.Close())
	return n
}

func openBadger(t *testing.T, dir string) *badger.DB {
	d, err := badger.Open(badger.DefaultOptions(dir).WithLogger(nil).WithMetricsEnabled(false).
		WithMemTableSize(1 << 20).WithValueLogFileSize(1 << 20).WithValueThreshold(1 << 10))
	require.NoError(t, err)
	return d
}

// fillBadger leaves tables: Badger writes its memtable to one when it is closed.
func fillBadger(t *testing.T, dir string, begin, end int, _ bool) {
	d := openBadger(t, dir)
	for i := begin; i < end; i++ {
		require.NoError(t, d.Update(func(txn *badger.Txn) error { return txn.Set(strangerKey(i), strangerValue(i)) }))
	}
	require.NoError(t, d.Close())
}

func countBadger(t *testing.T, dir string) int {
	d := openBadger(t, dir)
	n := 0
	require.NoError(t, d.View(func(txn *badger.Txn) error {
		for ; ; n++ {
			item, err := txn.Get(strangerKey(n))
			if err != nil {
				require.ErrorIs(t, err, badger.ErrKeyNotFound)
				return nil
			}
			value, err := item.ValueCopy(nil)
			require.NoError(t, err)
			require.Equal(t, strangerValue(n), value)
		}
	}))
	require.NoError(t, d.Close())
	return n
}

func fillRocksDB(t *testing.T, dir string, begin, end int, tables bool) {
	r := rocksDB(t)
	var pairs []string
	for i := begin; i < end; i++ {
		pairs = append(pairs, string(strangerKey(i)), string(strangerValue(i)))
	}
	for _, args := range [][]string{append([]string{"--create_if_missing", "batchput"}, pairs...), {"compact"}} {
		if args[0] == "compact" && !tables {
			continue
		}
		out, err := exec.Command(r.ldb, append([]string{"--db=" + dir}, args...)...).CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
}

func countRocksDB(t *testing.T, dir string) int {
	entries, err := rocksDB(t).Scan(dir)
	require.NoError(t, err)
	for i, e := range entries {
		require.Equal(t, strangerKey(i), e.Key)
		require.Equal(t, strangerValue(i), e.Value)
	}
	return len(entries)
}

func openBBolt(t *testing.T, dir string) *bbolt.DB {
	require.NoError(t, os.MkdirAll(dir, 0o700))
	d, err := bbolt.Open(filepath.Join(dir, "app.db"), 0o600, &bbolt.Options{NoSync: true})
	require.NoError(t, err)
	return d
}

func fillBBolt(t *testing.T, dir string, begin, end int, _ bool) {
	d := openBBolt(t, dir)
	require.NoError(t, d.Update(func(tx *bbolt.Tx) error {
		b, err := tx.CreateBucketIfNotExists([]byte("b"))
		require.NoError(t, err)
		for i := begin; i < end; i++ {
			require.NoError(t, b.Put(strangerKey(i), strangerValue(i)))
		}
		return nil
	}))
	require.NoError(t, d.Close())
}

func countBBolt(t *testing.T, dir string) int {
	d := openBBolt(t, dir)
	n := 0
	require.NoError(t, d.View(func(tx *bbolt.Tx) error {
		for ; ; n++ {
			value := tx.Bucket([]byte("b")).Get(strangerKey(n))
			if value == nil {
				return nil
			}
			require.Equal(t, strangerValue(n), value)
		}
	}))
	require.NoError(t, d.Close())
	return n
}

// imageOf returns the bytes and the mode of everything in dir.
func imageOf(t *testing.T, dir string) map[string]string {
	image := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		require.NoError(t, err)
		info, err := e.Info()
		require.NoError(t, err)
		content := info.Mode().String()
		if info.Mode().IsRegular() {
			b, err := os.ReadFile(path)
			require.NoError(t, err)
			content += "\n" + string(b)
		}
		image[path] = content
		return nil
	}))
	return image
}

// Opening a directory of RocksDB's without tables converted it; repairing one of Pebble's,
// Badger's or RocksDB's moved its tables away, so that its owner could not open it any more.
func TestDirectoriesOfOtherEnginesAreLeftToThem(t *testing.T) {
	const n = 300
	for _, s := range strangers {
		for _, shape := range []struct {
			name   string
			first  int // keys that the first session writes
			tables bool
		}{{"empty", 0, false}, {"a log alone", n, false}, {"tables", n, true}} {
			if s.engine == "RocksDB" && shape.first == 0 {
				continue // its tool makes no empty database
			}
			t.Run(s.engine+"/"+shape.name, func(t *testing.T) {
				dir := filepath.Join(t.TempDir(), "db")
				s.fill(t, dir, 0, shape.first, shape.tables)
				refuseStranger(t, dir, s.engine)
				require.Equal(t, shape.first, s.count(t, dir))
				s.fill(t, dir, shape.first, shape.first+n, shape.tables)
				refuseStranger(t, dir, s.engine)
				require.Equal(t, shape.first+n, s.count(t, dir))
				refuseStranger(t, dir, s.engine)

				_ = os.Remove(filepath.Join(dir, "LOCK"))
				refuseStranger(t, dir, s.engine)
				require.NoFileExists(t, filepath.Join(dir, "LOCK"))
				require.Equal(t, shape.first+n, s.count(t, dir))
			})
		}
	}
}

// refuseStranger makes every call that takes a path, and compares the directory.
func refuseStranger(t *testing.T, dir, engine string) {
	t.Helper()
	before := imageOf(t, dir)
	_, openErr := db.Open(dir, nil)
	_, readErr := db.Open(dir, &db.Options{ReadOnly: true})
	_, oldErr := db.Open(dir, &db.Options{ErrorIfMissing: true, Salvage: db.SalvageAll})
	for _, err := range []error{openErr, readErr, oldErr, db.Repair(dir, nil), db.Destroy(dir, nil)} {
		require.ErrorIs(t, err, db.ErrForeign)
		require.ErrorContains(t, err, engine)
		require.NotContains(t, strings.ToLower(err.Error()), "repair")
	}
	require.Equal(t, before, imageOf(t, dir))
}

// A database that RocksDB's tool has only read, and one in which a user left files of RocksDB, must remain usable.
func TestFilesOfRocksDBInOurDirectoryDoNotMatter(t *testing.T) {
	other := filepath.Join(t.TempDir(), "rocks")
	fillRocksDB(t, other, 0, 10, true)
	for _, e := range []Engine{SieveDB{}, GoLevelDB{}} {
		t.Run(e.Name(), func(t *testing.T) {
			s := newSession(t, e, small)
			fillLevels(s)
			s.close()
			for _, name := range []string{"OPTIONS-*", "IDENTITY"} {
				paths, err := filepath.Glob(filepath.Join(other, name))
				require.NoError(t, err)
				require.NotEmpty(t, paths)
				for _, path := range paths {
					b, err := os.ReadFile(path)
					require.NoError(t, err)
					require.NoError(t, os.WriteFile(filepath.Join(s.dir, filepath.Base(path)), b, 0o600))
				}
			}
			s.openExisting(SieveDB{})
			s.change()
			s.close()
			require.NoError(t, os.Remove(filepath.Join(s.dir, "CURRENT")))
			require.NoError(t, db.Repair(s.dir, nil))
			s.openExisting(SieveDB{})
			s.close()
		})
	}
}
