// Package base has the types that all packages of SieveDB share: internal keys, comparers, file
// names, the iterator contract and the errors. It opens no files and keeps no state.
//
// # Internal keys
//
// Tables and memtables are ordered by internal key: the user key followed by an eight-byte trailer.
//
//	+----------------------+-----------------------------------------+
//	| user key, any bytes  | fixed64 little-endian: sequence<<8|kind |
//	+----------------------+-----------------------------------------+
//
// Internal keys are ordered by user key ascending, under the database's comparer, and then by trailer descending, so
// that the newest version of a user key comes first. This is LevelDB's encoding (its db/dbformat.h) and never changes.
package base
