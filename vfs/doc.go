// Package vfs is the file system as the store sees it. Every byte that the
// store reads or makes durable goes through the interfaces FS and File, so that
// a test can count it, fail it, or cut the power under it.
//
// OS is the operating system's file system. Mem is one in memory that can forget what was not
// synced, as a power cut does. Another implementation of FS, usually a wrapper around one of
// these, serves Options.FS of package db as well; the example counts the bytes that are read.
//
// # What is durable, and when
//
// Two things survive a power cut only when asked for: a file's bytes, and the
// entry of a name in its directory. Each has one operation that makes it so.
//
//	effect                                    durable after
//	----------------------------------------  ------------------------------------
//	bytes of earlier Writes to a file         File.Sync
//	Create, Link, Lock: a new name in d       SyncDir(d)
//	Remove: a name gone from d                SyncDir(d)
//	Rename from d to e                        SyncDir(d) and SyncDir(e)
//	MkdirAll: each directory that was made    SyncDir of its parent (MkdirAllSynced)
//
// What was not asked for may be there after a cut, or not; Mem.Crash shows the
// least of it. A file whose bytes were synced but whose name was not is lost.
// An entry can be durable while the bytes are not: the file is there, short or
// empty.
//
// Nothing else changes the disk: there is no truncation, no write at an offset
// and no open for appending, since the store never writes into a file that an
// earlier Open of it left behind. Files may do more (EarlyWriter, Sharer,
// CacheFollower), which wrappers hide: then the bytes come by Write, and nothing
// that the table says changes. What a Sharer shares counts as written.
//
// # Names and errors
//
// Names are paths as the operating system takes them. A database directory
// holds plain files: Create, Open and Lock refuse a symbolic link, directory,
// device or pipe at the last element of the name (links further up are the
// user's business and are followed).
//
// Every error but io.EOF names its operation and path: it is a *fs.PathError, or
// a *os.LinkError for Rename and Link. errors.Is finds fs.ErrNotExist,
// fs.ErrExist, fs.ErrPermission, fs.ErrClosed and, from Lock, db.ErrLocked,
// whatever the implementation.
//
// All implementations may be used from any goroutine.
package vfs
