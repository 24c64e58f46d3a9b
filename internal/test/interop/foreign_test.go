package interop

import (
	"bytes"
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
	// use opens the database in dir, makes it if it is missing, writes entries, and closes it. tables says that they are
	// to be in tables. Without entries, it returns those that the database holds.
	use func(t *testing.T, dir string, entries []Entry, tables bool) []Entry
}

var strangers = []stranger{{"Pebble", usePebble}, {"Badger", useBadger}, {"RocksDB", useRocksDB}, {"bbolt", useBBolt}}

// strangerEntries returns the entries of the keys from begin to end.
func strangerEntries(begin, end int) (entries []Entry) {
	for i := begin; i < end; i++ {
		entries = append(entries, Entry{fmt.Appendf(nil, "key %06d", i), fmt.Appendf(nil, "value of %d", i)})
	}
	return entries
}

type silentPebble struct{}

func (silentPebble) Infof(string, ...any)  {}
func (silentPebble) Errorf(string, ...any) {}
func (silentPebble) Fatalf(format string, args ...any) {
	panic(fmt.Sprintf(format, args...))
}

func usePebble(t *testing.T, dir string, entries []Entry, tables bool) (all []Entry) {
	d, err := pebble.Open(dir, &pebble.Options{Logger: silentPebble{}})
	require.NoError(t, err)
	for _, e := range entries {
		require.NoError(t, d.Set(e.Key, e.Value, pebble.NoSync))
	}
	if tables {
		require.NoError(t, d.Flush())
	}
	if len(entries) == 0 {
		it, err := d.NewIter(nil)
		require.NoError(t, err)
		for ok := it.First(); ok; ok = it.Next() {
			all = append(all, Entry{bytes.Clone(it.Key()), bytes.Clone(it.Value())})
		}
		require.NoError(t, it.Close())
	}
	require.NoError(t, d.Close())
	return all
}

// useBadger leaves tables: Badger writes its memtable to one when it is closed.
func useBadger(t *testing.T, dir string, entries []Entry, _ bool) (all []Entry) {
	d, err := badger.Open(badger.DefaultOptions(dir).WithLogger(nil).WithMetricsEnabled(false).
		WithMemTableSize(1 << 20).WithValueLogFileSize(1 << 20).WithValueThreshold(1 << 10))
	require.NoError(t, err)
	for _, e := range entries {
		require.NoError(t, d.Update(func(txn *badger.Txn) error { return txn.Set(e.Key, e.Value) }))
	}
	if len(entries) == 0 {
		require.NoError(t, d.View(func(txn *badger.Txn) error {
			it := txn.NewIterator(badger.DefaultIteratorOptions)
			defer it.Close()
			for it.Rewind(); it.Valid(); it.Next() {
				value, err := it.Item().ValueCopy(nil)
				require.NoError(t, err)
				all = append(all, Entry{it.Item().KeyCopy(nil), value})
			}
			return nil
		}))
	}
	require.NoError(t, d.Close())
	return all
}

func useRocksDB(t *testing.T, dir string, entries []Entry, tables bool) (all []Entry) {
	r := rocksDB(t)
	if len(entries) == 0 {
		all, err := r.Scan(dir)
		require.NoError(t, err)
		return all
	}
	ldb := func(args ...string) {
		out, err := exec.Command(r.ldb, append([]string{"--db=" + dir}, args...)...).CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	put := []string{"--create_if_missing", "batchput"}
	for _, e := range entries {
		put = append(put, string(e.Key), string(e.Value))
	}
	ldb(put...)
	if tables {
		ldb("compact")
	}
	return nil
}

func useBBolt(t *testing.T, dir string, entries []Entry, _ bool) (all []Entry) {
	require.NoError(t, os.MkdirAll(dir, 0o700))
	d, err := bbolt.Open(filepath.Join(dir, "app.db"), 0o600, &bbolt.Options{NoSync: true})
	require.NoError(t, err)
	require.NoError(t, d.Update(func(tx *bbolt.Tx) error {
		b, err := tx.CreateBucketIfNotExists([]byte("b"))
		require.NoError(t, err)
		for _, e := range entries {
			require.NoError(t, b.Put(e.Key, e.Value))
		}
		if len(entries) > 0 {
			return nil
		}
		return b.ForEach(func(key, value []byte) error {
			all = append(all, Entry{bytes.Clone(key), bytes.Clone(value)})
			return nil
		})
	}))
	require.NoError(t, d.Close())
	return all
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
				first, all := strangerEntries(0, shape.first), strangerEntries(0, shape.first+n)
				s.use(t, dir, first, shape.tables)
				refuseStranger(t, dir, s.engine)
				require.Equal(t, first, s.use(t, dir, nil, false))
				s.use(t, dir, all[shape.first:], shape.tables)
				refuseStranger(t, dir, s.engine)
				require.Equal(t, all, s.use(t, dir, nil, false))
				refuseStranger(t, dir, s.engine)

				_ = os.Remove(filepath.Join(dir, "LOCK"))
				refuseStranger(t, dir, s.engine)
				require.NoFileExists(t, filepath.Join(dir, "LOCK"))
				require.Equal(t, all, s.use(t, dir, nil, false))
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
	useRocksDB(t, other, strangerEntries(0, 10), true)
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
