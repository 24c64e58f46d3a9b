package cpp

import "github.com/sievedb/sievedb/cmd/peerbench/engine"

var (
	leveldbNames = engine.Driver{Name: "leveldb", Title: "LevelDB", Native: true,
		Remark: "Through cgo, one crossing per call; the distribution's build. One compaction at a time; Get returns a copy. " +
			"No Zstandard: it uses Snappy instead."}
	rocksdbNames = engine.Driver{Name: "rocksdb", Title: "RocksDB", Native: true,
		Remark: "Through cgo, one crossing per call; the distribution's build. Values are copied from the block cache. " +
			"Tables of up to 64 MiB, its default."}
)
