package cpp

import "github.com/sievedb/sievedb/cmd/peerbench/engine"

var (
	leveldbNames = engine.Driver{Name: "leveldb", Title: "LevelDB", Native: true,
		Remark: "Through cgo, one crossing a call; the distribution's build. One compaction at a time; Get returns a copy. No Zstandard: Snappy in its place."}
	rocksdbNames = engine.Driver{Name: "rocksdb", Title: "RocksDB", Native: true,
		Remark: "Through cgo, one crossing a call; the distribution's build. Values are read where the block cache has them. Tables of up to 64 MiB, its default."}
)
