// Package cpp has drivers for the C++ stores LevelDB and RocksDB and the C store LMDB, through their C interfaces.
//
// They are in the program only if it is built with cgo and with the tags leveldb, rocksdb and lmdb, which need the
// libraries' headers; make setup offers to install Debian's packages. Without them, the drivers have LeftOut set.
//
// store.h declares one table of functions for all of them. LevelDB and RocksDB have the same C
// interface with different names, so calls.h fills the table for either, and leveldb.c and rocksdb.c
// add the differences: options, Get and Flush. lmdb.c fills it for LMDB. Every call of an engine
// crosses from Go to C once. So does every move of an iterator, which returns key and value too.
package cpp
