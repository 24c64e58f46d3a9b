//go:build !(cgo && leveldb)

package cpp

import "github.com/sievedb/sievedb/cmd/peerbench/engine"

func leveldbDriver() engine.Driver {
	d := leveldbNames
	d.LeftOut = "built without cgo and -tags leveldb"
	return d
}
