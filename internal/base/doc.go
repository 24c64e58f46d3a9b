// Package base is the vocabulary that every room of SieveDB shares: internal
// keys, comparers, file names, the iterator contract and the error taxonomy.
// It knows no files and holds no state.
//
// # Internal keys
//
// What the tables and the memtable order is not the user's key but the
// internal key: the user key followed by an eight-byte trailer.
//
//	+----------------------+-----------------------------------------+
//	| user key, any bytes  | fixed64 little-endian: sequence<<8|kind |
//	+----------------------+-----------------------------------------+
//
// Internal keys ascend by user key under the database's comparer, then
// descend by trailer, so that the newest version of a user key comes first.
// This is LevelDB's encoding (its db/dbformat.h) and never changes.
package base
