//go:build cgo && lmdb

package cpp

/*
#cgo LDFLAGS: -llmdb
#include <lmdb.h>
#include "store.h"
*/
import "C"

import (
	"fmt"

	"github.com/sievedb/sievedb/cmd/peerbench/engine"
)

func init() {
	linked["lmdb"] = func(d *engine.Driver, _ int) {
		var major, minor, patch C.int
		C.mdb_version(&major, &minor, &patch)
		d.Version = fmt.Sprintf("%d.%d.%d", major, minor, patch)
		d.Open = opener(0, func(dir *C.char, s C.settings, err **C.char) *C.store { return C.open_lmdb(dir, s, err) })
	}
}
