// Package cpp drives the stores in C++, LevelDB and RocksDB, through their C
// interfaces.
//
// They are in the program only when it is built with cgo and with the tags
// leveldb and rocksdb, which need the libraries' headers; make setup offers to
// install Debian's packages. Without them, Drivers says what was left out.
//
// Both libraries have the same C interface under names of their own, so store.h
// has one table of functions, calls.h fills it for either, and leveldb.c and
// rocksdb.c add what differs: options and Flush. Every call of an engine is one
// crossing from Go to C, and so is every move of an iterator, which brings key
// and value along.
package cpp

import "github.com/sievedb/sievedb/cmd/peerbench/engine"

// Drivers returns both, those that are not in the program with LeftOut set.
func Drivers() []engine.Driver { return []engine.Driver{leveldbDriver(), rocksdbDriver()} }
