// Package manifest keeps which tables make up the database: version edits,
// immutable versions, the MANIFEST that records them, and the choice of what to
// compact, as pure functions on a version.
//
// A Version names the tables of each level and never changes. Flushes and
// compactions describe what they did as an Edit; Set.Apply appends it to the
// MANIFEST, syncs it, and makes the next Version of it. A MANIFEST is a log
// (package wal) whose records are edits; the first is a snapshot of the version
// that it starts from. CURRENT names the MANIFEST in force.
//
// # Edits
//
// An edit is a sequence of fields, each a varint32 tag and what follows it
// (LevelDB's db/version_edit.cc):
//
//	tag  field             payload
//	  1  comparator        length-prefixed name
//	  2  log number        varint64: logs below this number are not needed any more
//	  3  next file number  varint64
//	  4  last sequence     varint64
//	  5  compact pointer   varint32 level, length-prefixed internal key
//	  6  deleted file      varint32 level, varint64 number
//	  7  new file          varint32 level, varint64 number, varint64 size,
//	                       length-prefixed smallest and largest internal key
//	  9  previous log      varint64
//
// An unknown tag is an error: LevelDB refuses it too, so that a feature which an
// older reader cannot know of makes it stop instead of misread.
//
// # The directory
//
// ListDir lists a database's files. CLOSED, which Close leaves, vouches for the last log and the
// MANIFEST (CloseMark); Doubt says why a MANIFEST may lack edits that were in force. What is
// not needed but may hold data goes to the directory lost.
//
// # Who frees what
//
// Each Version counts the readers that hold it, and each FileMeta the versions
// that name it. When a version's count reaches zero, its files lose a reference;
// a file without any is obsolete and handed to the owner of the Set for removal.
package manifest
