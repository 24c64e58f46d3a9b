//go:build !(cgo && lmdb)

package cpp

import "github.com/sievedb/sievedb/cmd/peerbench/engine"

func lmdbDriver() engine.Driver {
	d := lmdbNames
	d.LeftOut = "built without cgo and -tags lmdb"
	return d
}
