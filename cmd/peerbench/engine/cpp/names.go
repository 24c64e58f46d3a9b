package cpp

import "github.com/sievedb/sievedb/cmd/peerbench/engine"

var (
	leveldbNames = engine.Driver{Name: "leveldb", Title: "LevelDB", Native: true,
		Remark: "Through cgo, one crossing per call; the distribution's build. One compaction at a time; Get returns a copy. " +
			"No Zstandard: it uses Snappy instead."}
	rocksdbNames = engine.Driver{Name: "rocksdb", Title: "RocksDB", Native: true,
		Remark: "Through cgo, one crossing per call; the distribution's build. Values are copied from the block cache. " +
			"Tables of up to 64 MiB, its default."}
	lmdbNames = engine.Driver{Name: "lmdb", Title: "LMDB", Native: true,
		Remark: "Through cgo, one crossing per call; the distribution's build. A B+tree in a mapped file, like bbolt: no block cache, " +
			"compression, filters or checksums. Read transactions stay open until a write follows; each Put is a transaction. " +
			"No fsync (MDB_NOSYNC) except in fillsync, so a crash of the system may cost the whole file. Written by calls, like bbolt " +
			"and by default: with MDB_WRITEMAP the file has the size of its map."}
)

// separated makes d the driver of RocksDB with separated values.
func separated(d *engine.Driver) {
	d.Name, d.Title, d.Asked = "rocksdb-separated", "RocksDB, values in blob files", true
	d.Remark += " Values of 1 KiB or more are in blob files. Compactions move those that they meet in the oldest fourth of the files, " +
		"and seek them out there once half is garbage."
}
