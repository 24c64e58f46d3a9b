// Package tables is what a store does with its tables as files: it keeps them open, walks
// them, writes them and removes them.
//
//   - Cache opens tables when they are needed and keeps a bounded number open. What it keeps
//     of a table beside the open file, a Table, is the Handle of the table's manifest.FileMeta.
//   - LevelIter walks the tables of a level, MergingIter merges runs into one order. Both are
//     base.Iterators, used by one goroutine at a time.
//   - Writer writes entries to one table after another; SpareWriters keeps the memory of
//     finished ones for the next.
//   - Obsolete removes tables that no version names any more.
//
// The Cache, Obsolete and SpareWriters may be used by any goroutine. A reader that a lookup
// has obtained without a reference may be closed under it: the lookup gets
// sstable.ErrReaderClosed and starts over. Cache.Ref takes a reference, which keeps the file open.
package tables
