// Package vfs is the file system interface of the store. All bytes that the store reads or makes durable go through the
// interfaces FS and File, so that tests can count them, inject errors, or simulate a power cut.
//
// OS is the operating system's file system. Mem is an in-memory file system that can discard
// unsynced data, as a power cut does. Other implementations of FS, usually wrappers around
// one of these, also work as Options.FS of package db; the example counts the bytes read.
//
// # Durability
//
// Two things survive a power cut only if they were synced: a file's bytes, and its name in a
// directory. Each has its own operation.
//
//	effect                                    durable after
//	----------------------------------------  ------------------------------------
//	bytes of earlier Writes to a file         File.Sync
//	Create, Link, Lock: a new name in d       SyncDir(d)
//	Remove: a name gone from d                SyncDir(d)
//	Rename from d to e                        SyncDir(d) and SyncDir(e)
//	MkdirAll: each directory that was made    SyncDir of its parent (MkdirAllSynced)
//
// Unsynced effects may or may not survive a power cut; Mem.Crash keeps none of them. A file whose bytes were synced but
// whose name was not is lost. A name can be durable without the bytes: the file then exists but is short or empty.
//
// Almost nothing else changes the disk. There is no write at an offset and no opening for appending, because the store
// never writes into a file that already exists. The only truncation is that of a LogFile, which may have zeros after
// its bytes while it is open: Cut and Close remove them, durably after the next File.Sync. Until then, and after a
// power cut, such a file ends with zeros, and it may have zeros in any pages written since the last Sync.
//
// A File may implement EarlyWriter, Sharer, CacheFollower, LogFile and Prefetcher. A wrapper that
// hides them is correct: all bytes then go through Write and ReadAt, and the table above still
// holds. Bytes shared by a Sharer count as written.
//
// # Names and errors
//
// Names are paths of the operating system. A database directory contains plain files: Create,
// Open and Lock refuse a symbolic link, directory, device or pipe as the last element of the
// name. Links further up in the path are followed. NewOSForReading follows links to plain files.
//
// A directory or a file that is found where one would be made may have been prepared by another user of the machine.
// OwnDir, MkdirOwn and CheckOwn refuse it on systems of the Unix family; file systems in memory have no owners.
//
// Every error except io.EOF contains its operation and path: it is an *fs.PathError, or an
// *os.LinkError for Rename and Link. For all implementations, errors.Is finds fs.ErrNotExist,
// fs.ErrExist, fs.ErrPermission, fs.ErrClosed and, from Lock, db.ErrLocked.
//
// All implementations are safe for concurrent use.
package vfs
