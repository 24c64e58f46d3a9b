//go:build cgo && rocksdb

package cpp

/*
#cgo LDFLAGS: -lrocksdb
#include "store.h"
*/
import "C"

import (
	"os"
	"regexp"
	"strings"

	"github.com/sievedb/sievedb/cmd/peerbench/engine"
)

func init() {
	linked["rocksdb"] = func(d *engine.Driver, separateFrom int) {
		d.Version = rocksdbVersion()
		d.Open = opener(separateFrom, func(dir *C.char, s C.settings, err **C.char) *C.store { return C.open_rocksdb(dir, s, err) })
	}
}

var linkedRocksDB = regexp.MustCompile(`librocksdb\.so\.([0-9.]+)`)

// rocksdbVersion returns the version in the name of the mapped library, since the C interface does not have it.
func rocksdbVersion() string {
	maps, _ := os.ReadFile("/proc/self/maps")
	if m := linkedRocksDB.FindStringSubmatch(string(maps)); m != nil {
		return strings.Trim(m[1], ".")
	}
	return "?"
}
