// Package foreigntest has small imitations of other engines' directories. Package internal/test/interop
// tests real ones.
package foreigntest

import (
	"encoding/binary"
	"maps"
	"path/filepath"
	"strings"

	"github.com/sievedb/sievedb/internal/disk/wal"
	"github.com/sievedb/sievedb/internal/test/damage"
	"github.com/sievedb/sievedb/vfs"
)

// Files are the files of a directory, by name.
type Files map[string]string

// Directory is a database of another engine.
type Directory struct {
	Name, Engine string
	Files        Files
}

// Contents of files that the engines write.
const (
	RocksDBOptions = "# This is a RocksDB option file.\n#\n\n[Version]\n  rocksdb_version=7.8.3\n"
	RocksDBLog     = "2026/11/22-17:52:02.362677 10693 RocksDB version: 7.8.3\n"
	PebbleOptions  = "[Version]\n  pebble_version=0.1\n\n[Options]\n"

	comparator = "\x01\x1aleveldb.BytewiseComparator"
	numbers    = "\x09\x00\x03\x06\x04\x00" // previous log, next file, last sequence
	log        = "\x02\x04" + numbers
)

// The ends of tables, by engine.
var (
	RocksDBTable = Table(0x88e241b785f4cff7)
	PebbleTable  = Table(0xb3aa9ff0b3aa9ff0)
	LevelDBTable = Table(0xdb4775248b80fb57)
)

// Table returns bytes that end with a table's magic.
func Table(magic uint64) string {
	return string(binary.LittleEndian.AppendUint64([]byte(strings.Repeat("x", 100)), magic))
}

// Manifest returns a MANIFEST of the given edits.
func Manifest(edits ...string) string {
	mem := vfs.NewMem()
	f, err := mem.Create("m")
	must(err)
	w := wal.NewWriter(f)
	for _, e := range edits {
		must(w.WriteRecord([]byte(e)))
	}
	must(w.Close())
	b, err := damage.ReadFile(mem, "m")
	must(err)
	return string(b)
}

// LevelDBManifest returns a MANIFEST that LevelDB could have written, with table 5.
func LevelDBManifest() string {
	key := "\x09k\x01\x01\x00\x00\x00\x00\x00\x00"
	return Manifest(comparator+log, "\x07\x01\x05\x6c"+key+key)
}

// EmptyManifest returns the MANIFEST of a database without tables, of LevelDB or another engine.
func EmptyManifest() string { return Manifest(comparator, log) }

func must(err error) {
	if err != nil {
		panic("foreigntest: the in-memory file system failed: " + err.Error())
	}
}

// Directories returns one directory of each kind.
func Directories() []Directory {
	newFile4 := Manifest(comparator, log, "\x67\x06\x05\x6c") // tag 103
	empty := EmptyManifest()
	current := "MANIFEST-000003\n"
	var badger strings.Builder
	badger.WriteString("Bdgr\x00\x00\x00\x08")
	return []Directory{
		{"RocksDB without tables", "RocksDB", Files{"CURRENT": current, "MANIFEST-000003": empty, "000004.log": "batch", "IDENTITY": "id",
			"LOG": RocksDBLog, "LOCK": "", "OPTIONS-000007": RocksDBOptions}},
		{"RocksDB", "RocksDB", Files{"CURRENT": current, "MANIFEST-000003": newFile4, "000004.log": "", "000005.sst": RocksDBTable,
			"IDENTITY": "id", "LOG": RocksDBLog, "OPTIONS-000007": RocksDBOptions}},
		{"RocksDB, shown by an edit alone", "RocksDB or Pebble", Files{"CURRENT": current, "MANIFEST-000003": newFile4, "000004.log": ""}},
		{"RocksDB, shown by a table alone", "RocksDB", Files{"000005.sst": RocksDBTable, "000004.log": ""}},
		{"RocksDB, plain tables", "RocksDB", Files{"000005.sst": Table(0x8242229663bf9564)}},
		{"RocksDB, old plain tables", "RocksDB", Files{"000005.sst": Table(0x4f3418eb7a8f13b8)}},
		{"RocksDB, cuckoo tables", "RocksDB", Files{"000005.sst": Table(0x926789d0c5f17873)}},
		{"RocksDB with a damaged MANIFEST", "RocksDB", Files{"CURRENT": current, "MANIFEST-000003": strings.Repeat("damage", 1000),
			"000005.sst": RocksDBTable, "IDENTITY": "id"}},
		{"Pebble without tables", "Pebble", Files{"MANIFEST-000003": empty, "000004.log": "batch", "LOCK": "", "OPTIONS-000002": PebbleOptions,
			"marker.format-version.000001.024": "", "marker.manifest.000001.MANIFEST-000003": ""}},
		{"Pebble", "Pebble", Files{"MANIFEST-000003": newFile4, "000004.log": "", "000005.sst": PebbleTable, "OPTIONS-000002": PebbleOptions,
			"marker.format-version.000001.024": "", "marker.manifest.000001.MANIFEST-000003": ""}},
		{"Pebble, old, with CURRENT", "Pebble", Files{"CURRENT": current, "MANIFEST-000003": newFile4, "000005.sst": RocksDBTable,
			"OPTIONS-000002": PebbleOptions}},
		{"Riak", "Riak (eleveldb)", Files{"CURRENT": current, "MANIFEST-000003": empty, "000004.log": "",
			"sst_0": "", "sst_1": "", "sst_2": "", "sst_3": "", "sst_4": "", "sst_5": "", "sst_6": ""}},
		{"NetEase's Minecraft", "NetEase's Minecraft, encrypted", Files{"CURRENT": "\x80\x1d\x30\x01encrypted", "MANIFEST-000003": "\x80\x1d\x30\x01x",
			"000005.ldb": "\x80\x1d\x30\x01x"}},
		{"Badger without tables", "Badger", Files{"MANIFEST": badger.String(), "KEYREGISTRY": "keys", "000001.vlog": "values", "00001.mem": "batch",
			"DISCARD": "", "LOCK": ""}},
		{"Badger", "Badger", Files{"MANIFEST": badger.String(), "KEYREGISTRY": "keys", "000001.vlog": "values", "000001.sst": "table without magic"}},
		{"Badger's values", "Badger", Files{"000001.vlog": "values", "DISCARD": ""}},
		{"SQLite", "SQLite", Files{"app.db": SQLite}},
		{"bbolt", "bbolt", Files{"app.db": BBolt}},
		{"LMDB", "LMDB", Files{"data.mdb": LMDB, "lock.mdb": ""}},
	}
}

// The first bytes of single-file databases.
const (
	SQLite = "SQLite format 3\x00\x10\x00"
	BBolt  = "\x00\x00\x00\x00\x00\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00\x00\xed\xda\x0c\xed\x02\x00\x00\x00"
	LMDB   = "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x08\x00\x00\x00\x00\x00\xde\xc0\xef\xbe\x01\x00\x00\x00"
)

// Strays returns files of other engines that a user may have left in a directory of LevelDB's.
func Strays() Files {
	return Files{"OPTIONS-000007": RocksDBOptions, "IDENTITY": "id", "LOG": RocksDBLog, "marker.format-version.000001.024": "",
		"OPTIONS-000002": PebbleOptions, "MANIFEST": "Bdgr\x00\x00\x00\x08", "KEYREGISTRY": "", "000001.vlog": "", "app.db": SQLite}
}

// Write makes the directory dir with the files.
func (files Files) Write(fsys vfs.FS, dir string) error {
	if err := vfs.MkdirAllSynced(fsys, dir); err != nil {
		return err
	}
	for name, content := range files {
		if err := damage.WriteFile(fsys, filepath.Join(dir, name), []byte(content)); err != nil {
			return err
		}
	}
	return fsys.SyncDir(dir)
}

// With returns the files and others, which replace files of the same name.
func (files Files) With(others Files) Files {
	all := maps.Clone(files)
	maps.Copy(all, others)
	return all
}
