// Package scan shows the keys of a store in order. Below it, iterators over runs show every entry that the runs have:
// all versions of each key, and tombstones. A Cursor merges the runs of one moment and shows of each key the newest
// version that is visible at that moment, unless it is a tombstone or has expired.
//
// # Forward and backward
//
// The versions of a key are stored newest first. Going forward, the first visible version of a key decides, and the
// others are skipped. Going backward, the oldest version comes first, so all versions of a key are read, and the last
// visible one decides. The runs are then before the key that is shown, so the cursor holds its key and value.
//
// # Memory
//
// What a closed cursor does not need goes to a pool, from which the next one takes it: most of the
// cost of a cursor is that of its buffers and of the iterators over its runs. The Cursor itself is
// not reused, so one that is kept after Close never shows another one's keys.
package scan
