// Package manifest records the versions of a database (package version) in its MANIFEST.
//
// Flushes and compactions describe their changes as an Edit; Set.Apply appends it to the MANIFEST, syncs it, and makes
// the next version. A MANIFEST is a log (package wal) whose records are edits; the first is a snapshot of the version
// with which it starts. CURRENT names the current MANIFEST.
//
// # Edits
//
// An edit is a sequence of fields, each a varint32 tag and a payload (LevelDB's db/version_edit.cc):
//
//	tag  field             payload
//	  1  comparator        length-prefixed name
//	  2  log number        varint64: logs with lower numbers are not needed any more
//	  3  next file number  varint64
//	  4  last sequence     varint64
//	  5  compact pointer   varint32 level, length-prefixed internal key
//	  6  deleted file      varint32 level, varint64 number
//	  7  new file          varint32 level, varint64 number, varint64 size,
//	                       length-prefixed smallest and largest internal key
//	  9  previous log      varint64
//
// A compact pointer of the last level has what holds for the database as a whole; see Recorded.
//
// An unknown tag is an error. LevelDB refuses it too, so that older readers stop at a feature that
// they do not know instead of misreading it.
//
// # The directory
//
// ListDir lists a database's files. CLOSED, which Close writes, identifies the last log and the
// MANIFEST (CloseMark). IncompleteReason returns why a MANIFEST may lack edits. Files that are not needed but
// may contain data go to the directory lost.
package manifest
