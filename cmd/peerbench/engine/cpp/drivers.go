package cpp

import "github.com/sievedb/sievedb/cmd/peerbench/engine"

// linked are the libraries in this program, by their build tags. The file of each adds it here. The functions set the
// version and Open of a driver; values of separateFrom bytes or more are outside of tables, if that is above 0.
var linked = map[string]func(d *engine.Driver, separateFrom int){}

// Drivers returns all drivers. Those of engines that are not in the program have LeftOut set.
func Drivers() []engine.Driver {
	rocksdb := engine.Driver{Name: "rocksdb", Title: "RocksDB",
		Remark: "Through cgo, one crossing per call; the distribution's build. Values are copied from the block cache. " +
			"Tables of up to 64 MiB, its default."}
	separated := rocksdb
	separated.Name, separated.Title, separated.Asked = "rocksdb-separated", "RocksDB, values in blob files", true
	separated.Remark += " Values of 1 KiB or more are in blob files. Compactions move those that they meet in the oldest fourth " +
		"of the files, and seek them out there once half is garbage."
	return []engine.Driver{
		driver("leveldb", 0, engine.Driver{Name: "leveldb", Title: "LevelDB",
			Remark: "Through cgo, one crossing per call; the distribution's build. One compaction at a time; Get returns a copy. " +
				"No Zstandard: it uses Snappy instead."}),
		driver("rocksdb", 0, rocksdb),
		driver("lmdb", 0, engine.Driver{Name: "lmdb", Title: "LMDB",
			Remark: "Through cgo, one crossing per call; the distribution's build. A B+tree in a mapped file, like bbolt: no block cache, " +
				"compression, filters or checksums. Read transactions stay open until a write follows; each Put is a transaction. " +
				"No fsync (MDB_NOSYNC) except in fillsync, so a crash of the system may cost the whole file. Written by calls, like bbolt " +
				"and by default: with MDB_WRITEMAP the file has the size of its map."}),
		driver("rocksdb", engine.SeparateFrom, separated),
	}
}

// driver returns d as the driver of a library.
func driver(tag string, separateFrom int, d engine.Driver) engine.Driver {
	d.Native = true
	if link := linked[tag]; link != nil {
		link(&d, separateFrom)
	} else {
		d.LeftOut = "built without cgo and -tags " + tag
	}
	return d
}
