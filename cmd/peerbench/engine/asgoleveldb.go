package engine

import (
	"os"
	"runtime/debug"
)

// AsGoleveldb is the environment variable with the path of a peerbench in which the module compat/goleveldb
// stands in for goleveldb. One program cannot have both.
const AsGoleveldb = "PEERBENCH_AS_GOLEVELDB"

// asGoleveldbDriver is SieveDB through goleveldb's API: the calls of goleveldb's driver.
func asGoleveldbDriver() Driver {
	d := Driver{Name: "sievedb-as-goleveldb", Title: "SieveDB as goleveldb", Version: "this tree", Program: os.Getenv(AsGoleveldb),
		Open:   openGoleveldb,
		Remark: "The calls and options of goleveldb's driver, with the module compat/goleveldb: docs/migration.md."}
	if d.Program == "" && !replaced("github.com/syndtr/goleveldb") {
		d.Open = nil
		d.LeftOut = "needs " + AsGoleveldb + ", which make peers sets"
	}
	return d
}

// replaced reports whether a module of this program is from the workspace in which it was built.
func replaced(path string) bool {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return false
	}
	for _, m := range info.Deps {
		if m.Path == path {
			return m.Sum == ""
		}
	}
	return false
}
