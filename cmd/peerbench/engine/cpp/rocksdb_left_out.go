//go:build !(cgo && rocksdb)

package cpp

import "github.com/sievedb/sievedb/cmd/peerbench/engine"

func rocksdbDriver() engine.Driver {
	d := rocksdbNames
	d.LeftOut = "built without cgo and -tags rocksdb"
	return d
}

func rocksdbSeparatedDriver() engine.Driver {
	d := rocksdbDriver()
	separated(&d)
	return d
}
