package sstable

import (
	"math"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/limit/cache"
	"github.com/sievedb/sievedb/util"
)

// maxBlockLen bounds the size of a decoded block, in bytes: restart offsets are 32
// bits wide on disk, and an int must hold a position on every platform.
const maxBlockLen = math.MaxInt32

// Block is one block with its frame checked: entries, then restart offsets, then their number. Its
// bytes never change, so slices of it stay valid for as long as they are referenced.
//
//	+---------+-----+---------+------------+-----+-----------+
//	| entry 0 | ... | entry n | restart[0] | ... | count (4) |
//	+---------+-----+---------+------------+-----+-----------+
//	                          ^ entriesEnd
//
// newBlock has checked the restart offsets: the first is 0, they ascend, and each is below entriesEnd (an empty block
// has one restart point, at 0, or none). The entries are checked as they are read.
type Block struct {
	data []byte
	// rest is the second part of a compressed block that is stored in two pieces; see
	// fitted. As a string it is eight bytes shorter than a slice: a cache holds many Blocks.
	rest        string
	entriesEnd  int // for a sliced block, that of the block from which it was made
	numRestarts int32
	// kind is the compression of a block in a BlockCache. Everywhere else blocks are not
	// compressed: newBlock makes no others, and only a scratch reads compressed ones.
	kind Compression
	// packable is set if the block, in a BlockCache, could be kept compressed.
	packable bool
	// whole is set if the block is compressed as stored and would not shrink in slices.
	whole bool
}

// newBlock checks the frame of data and keeps data. part names the block in errors.
func newBlock(data []byte, part string) (Block, error) {
	n := len(data)
	if n < 4 || n > maxBlockLen {
		return Block{}, base.Corruptf(part, -1, "a block of %d bytes; want 4 to %d", n, maxBlockLen)
	}
	count := uint64(util.Fixed32(data[n-4:]))
	if most := uint64(n-4) / 4; count > most {
		return Block{}, base.Corruptf(part, -1, "%d restart points in a block of %d bytes; want at most %d",
			count, n, most)
	}
	b := Block{data: data, numRestarts: int32(count), entriesEnd: n - 4 - 4*int(count)}
	return b, b.checkRestarts(part)
}

func (b *Block) checkRestarts(part string) error {
	if b.entriesEnd == 0 {
		if b.numRestarts > 1 || b.numRestarts == 1 && b.restart(0) != 0 {
			return base.Corruptf(part, -1, "a block without entries has %d restart points; want one, at 0", b.numRestarts)
		}
		return nil
	}
	if b.numRestarts == 0 {
		return base.Corruptf(part, -1, "%d bytes of entries without a restart point; want one at 0", b.entriesEnd)
	}
	prev := -1
	for i := range int(b.numRestarts) {
		off := util.Fixed32(b.data[b.entriesEnd+4*i:])
		if i == 0 && off != 0 {
			return base.Corruptf(part, -1, "the first restart point is at %d; want 0", off)
		}
		if uint64(off) >= uint64(b.entriesEnd) || int(off) <= prev {
			return base.Corruptf(part, -1, "restart point %d is at %d; want above %d and below %d",
				i, off, prev, b.entriesEnd)
		}
		prev = int(off)
	}
	return nil
}

// restart returns the offset in bytes of the entry at restart point i.
func (b *Block) restart(i int) int {
	return int(util.Fixed32(b.data[b.entriesEnd+4*i:]))
}

// restartLimit returns the offset at which restart interval i ends.
func (b *Block) restartLimit(i int) int {
	if i+1 < int(b.numRestarts) {
		return b.restart(i + 1)
	}
	return b.entriesEnd
}

// empty reports whether the block holds no entries.
func (b *Block) empty() bool { return b.entriesEnd == 0 }

// stored returns the length of a compressed block in bytes.
func (b *Block) stored() int { return len(b.data) + len(b.rest) }

// memBytes returns the memory that a cached block uses, in bytes.
func (b *Block) memBytes() int64 {
	return int64(cap(b.data)+sizeClass(len(b.rest))) + cache.EntrySize[Block]()
}

// entry is the header of one block entry: three varints, then the key's suffix,
// then the value. The lengths are checked against the block before use.
type entry struct {
	shared   int // bytes of the key that are those of the previous entry's key
	suffix   int // position of the key's other bytes
	value    int // position of the value, right after the suffix
	valueEnd int // position of the next entry
}

// readEntry decodes the entry at data[p:end]; ok is false if its bytes are not an entry that ends at or before end. The
// caller must check shared against the previous key. Three one-byte lengths are the common case.
func readEntry(data []byte, p, end int) (e entry, ok bool) {
	if p+3 > end || end > len(data) {
		return entry{}, false
	}
	a, b, c := data[p], data[p+1], data[p+2]
	if (a|b|c)&0x80 == 0 {
		suffix := p + 3
		value := suffix + int(b)
		e = entry{shared: int(a), suffix: suffix, value: value, valueEnd: value + int(c)}
		return e, e.valueEnd <= end
	}
	return readLongEntry(data, p, end)
}

// readLongEntry is readEntry for lengths of more than one byte.
func readLongEntry(data []byte, p, end int) (e entry, ok bool) {
	b := data[p:end]
	shared, n := util.Uvarint32(b)
	if n == 0 {
		return entry{}, false
	}
	b = b[n:]
	unshared, n := util.Uvarint32(b)
	if n == 0 {
		return entry{}, false
	}
	b = b[n:]
	valueLen, n := util.Uvarint32(b)
	if n == 0 {
		return entry{}, false
	}
	b = b[n:]
	// shared is bounded too, so that sums stay far from overflow on 32 bits.
	if uint64(unshared)+uint64(valueLen) > uint64(len(b)) || uint64(shared) > uint64(end) {
		return entry{}, false
	}
	e.shared = int(shared)
	e.suffix = end - len(b)
	e.value = e.suffix + int(unshared)
	e.valueEnd = e.value + int(valueLen)
	return e, true
}

// corruptEntry returns the error for a bad entry at position p. That offset is within the decoded
// block, so it goes into the text: the error's own offset is the block's position in the file.
func corruptEntry(part string, p int, why string) error {
	return base.Corruptf(part, -1, "entry at byte %d of the decoded block: %s", p, why)
}

// newerEntry returns the error for an entry of a kind that only later versions may use.
func newerEntry(part string, p int, ikey []byte) error {
	return base.Newerf(part, -1, "entry at byte %d of the decoded block: it has the unknown kind %d; Pebble and RocksDB use such kinds too", p, base.Trailer(ikey)&0xff)
}

// The reasons for corruptEntry, declared once because the point search and the iterator must reject the same entries.
const (
	badEntryBytes   = "its lengths are malformed or reach beyond the entries; want three varints that fit"
	badEntryShared  = "it shares more bytes than the previous key has; want at most that many"
	badEntryRestart = "a restart point is at or within it; want an entry that begins there and shares nothing"
	badEntryKey     = "its key is not an internal key; want at least 8 bytes, with a trailer of kind 0 or 1"
	badEntryLongKey = "its key has 1 GiB or more; want less"
	badEntryUnfold  = "the keys since its restart point expand too far; want at most 64 times the bytes there, or 1 MiB"
)

// eachEntry calls fn with each key and value, in order. The keys may be any bytes, as in the
// metaindex, the properties and the index. The key's slice is reused for the next entry.
func (b *Block) eachEntry(part string, fn func(key, value []byte) error) error {
	var key []byte
	var long unfolded
	size := 0 // of the restart interval
	for p, r := 0, 0; p < b.entriesEnd; {
		e, ok := readEntry(b.data, p, b.entriesEnd)
		switch {
		case !ok:
			return corruptEntry(part, p, badEntryBytes)
		case e.shared > len(key):
			return corruptEntry(part, p, badEntryShared)
		}
		if r < int(b.numRestarts) && p >= b.restart(r) {
			if p > b.restart(r) || e.shared != 0 {
				return corruptEntry(part, p, badEntryRestart)
			}
			size = b.restartLimit(r) - p
			r++
		}
		key = append(key[:e.shared], b.data[e.suffix:e.value]...)
		if len(key) > plainKeyLen {
			if bad := long.add(len(key), e.valueEnd, r-1, size); bad != "" {
				return corruptEntry(part, p, bad)
			}
		}
		if err := fn(key, b.data[e.value:e.valueEnd:e.valueEnd]); err != nil {
			return err
		}
		p = e.valueEnd
	}
	return nil
}
