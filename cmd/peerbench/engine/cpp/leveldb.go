//go:build cgo && leveldb

package cpp

/*
#cgo LDFLAGS: -lleveldb
#include <leveldb/c.h>
#include "store.h"
*/
import "C"

import (
	"fmt"

	"github.com/sievedb/sievedb/cmd/peerbench/engine"
)

func init() {
	linked["leveldb"] = func(d *engine.Driver, _ int) {
		d.Version = fmt.Sprintf("%d.%d", C.leveldb_major_version(), C.leveldb_minor_version())
		d.Open = opener(0, func(dir *C.char, s C.settings, err **C.char) *C.store { return C.open_leveldb(dir, s, err) })
	}
}
