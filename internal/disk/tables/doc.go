// Package tables manages the table files of a store: it keeps them open, iterates over them,
// writes them and removes them.
//
//   - Cache opens tables when they are needed and keeps a bounded number open. Its other data
//     about a table, a Table, is the Handle of the table's version.FileMeta.
//   - LevelIter iterates over the tables of a level, and MergingIter merges runs into one
//     order. Both are base.Iterators, used by one goroutine at a time.
//   - Writer writes entries to one table after another; SpareWriters reuses the memory of
//     finished writers.
//   - Obsolete removes tables that are in no version any more.
//
// Cache, Obsolete and SpareWriters may be used by any goroutine. If a lookup gets a reader without a reference, the
// reader may be closed during the lookup, which then gets sstable.ErrReaderClosed and starts again. Cache.Ref takes a
// reference, which keeps the file open until Cache.Close closes all files; reads from disk then return base.ErrClosed.
package tables
