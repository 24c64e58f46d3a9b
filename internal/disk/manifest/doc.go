// Package manifest keeps track of the tables of a database: version edits, immutable versions, and the MANIFEST that
// records them. Package pick chooses compactions of a version.
//
// A Version has the tables of each level and never changes. Flushes and compactions describe their changes as an Edit;
// Set.Apply appends it to the MANIFEST, syncs it, and makes the next Version. A MANIFEST is a log (package wal) whose
// records are edits; the first is a snapshot of the version with which it starts. CURRENT names the current MANIFEST.
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
//
// # References
//
// Each Version counts its readers. Its tables are in buckets that it shares with other versions (roster):
// each bucket counts its versions, and each FileMeta its buckets. When a version's count reaches zero, its
// buckets lose a reference, and the files of a bucket without references lose one. A file without
// references is obsolete, and Set passes it to its owner, who removes it.
//
// # Many tables
//
// An edit of a database of very many tables costs about what it changes. A version shares the levels that
// an edit does not change, keeps sums, and checks what is new (Version.Apply). The choice of a compaction
// uses figures that versions hand on (OverlapRatios), and lists of the tables that may need one (noted).
package manifest
