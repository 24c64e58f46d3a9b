package wal

import (
	"bytes"
	"fmt"
	"io"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/vfs"
)

// TailKind classifies the bytes after the last good record of a log by their appearance.
// ReaderOptions decides which kinds are accepted.
type TailKind int

const (
	// TailClean means that nothing follows, or only zeros.
	TailClean TailKind = iota
	// TailTorn means that bytes follow that do not decode, and no later record.
	TailTorn
	// TailHole means that a later record follows after at least a sector of zeros, or after a chunk
	// whose header is zeros, as left by a power cut if later pages were written before earlier ones.
	TailHole
	// TailDamaged means that a later record follows after bytes that were written and have
	// changed, or that a record is longer than the limit.
	TailDamaged
	// TailNewer means that a chunk of an unknown kind follows whose checksum is valid: a newer
	// version of SieveDB wrote it.
	TailNewer
)

// String returns the kind as one word, such as "torn".
func (k TailKind) String() string {
	switch k {
	case TailClean:
		return "clean"
	case TailTorn:
		return "torn"
	case TailHole:
		return "hole"
	case TailDamaged:
		return "damaged"
	case TailNewer:
		return "newer"
	}
	return fmt.Sprintf("TailKind(%d)", int(k))
}

// Tail describes the bytes after the last good record. Offsets and lengths are in bytes.
type Tail struct {
	Kind TailKind
	// Offset is the end of the last good record.
	Offset int64
	// Dropped is the number of bytes lost if the log ends at Offset, without the zeros that end the file. It is 0 for a
	// clean tail.
	Dropped int64
	// Resume is where the next readable record begins, -1 if there is none. Skip continues there.
	Resume int64
	// BitFlip reports whether one flipped bit explains the first chunk after Offset that does not
	// decode, and unwritten zeros do not explain that bit. A crash does not leave such a chunk:
	// in a torn tail, it means that the last record is damaged, which may have been synced.
	BitFlip bool
	// Reason says what is wrong with the first bytes that do not decode. It is empty for a clean tail.
	Reason string
}

// judge applies the tail rule to the bytes after the last good record, sets r.tail, and returns io.EOF or the
// corruption. bad is why reading stopped; r.asm says whether that was inside a record.
func (r *Reader) judge(bad *fault) error {
	begin, inside := bad.at, r.asm.open
	if inside {
		begin = r.asm.start
	}
	r.tail = Tail{Offset: r.end, Resume: -1}
	if bad.pending {
		return io.EOF
	}
	if !inside {
		zeros, err := r.zerosToEnd(bad.at)
		if err != nil {
			return err
		}
		if zeros {
			return r.judgeClean(bad.at)
		}
	}
	found, err := r.lookAhead(bad.at)
	if err != nil {
		return err
	}
	flipped, err := r.isBitFlip(bad.at)
	if err != nil {
		return err
	}
	edge, err := r.unwrittenFrom(bad.at)
	if err != nil {
		return err
	}
	unwritten := edge || found.zeroSector
	headless, err := r.isHeadless(bad.at)
	if err != nil {
		return err
	}
	used, err := r.usedSize(r.end)
	if err != nil {
		return err
	}
	r.tail.Dropped = used - r.end
	r.tail.Resume = found.at
	r.tail.BitFlip = flipped
	r.tail.Reason = bad.why
	switch {
	case bad.whole:
		r.tail.Kind = TailDamaged
	case found.at < 0:
		r.tail.Kind = TailTorn
	case (unwritten || headless) && !flipped:
		r.tail.Kind = TailHole
	default:
		r.tail.Kind = TailDamaged
	}
	accepted, err := r.accepts(bad, unwritten)
	switch {
	case err != nil:
		return err
	case accepted:
		return io.EOF
	}
	return r.corruption(begin, bad)
}

// judgeClean is judge for a log that ends at off, or has only zeros after it. Such zeros are reserved space, or pages
// that a crash left unwritten: a log that was completely synced has none.
func (r *Reader) judgeClean(off int64) error {
	if off == r.size || r.o.Last || r.o.AllowTornEnd {
		return io.EOF
	}
	r.tail.Reason = "only zeros follow up to the end of the log"
	return base.Corruptf("log record", off, "%d bytes of zeros end a log that is not the newest and must be complete: "+
		"records may be missing; allow a torn end if its writer did not sync it", r.size-off)
}

// accepts reports whether r.tail, not a clean one, is an end for this log.
func (r *Reader) accepts(bad *fault, unwritten bool) (bool, error) {
	switch {
	case r.o.Last:
		return r.tail.Kind != TailDamaged, nil
	case r.tail.Kind != TailTorn || !r.o.AllowTornEnd || r.tail.BitFlip:
		return false, nil
	case bad.cut || unwritten:
		return true, nil
	}
	return r.isZero(max(bad.at, r.size-r.size%sectorSize), r.size)
}

// corruption describes r.tail as an error.
func (r *Reader) corruption(begin int64, bad *fault) error {
	detail := bad.why
	if bad.at != begin {
		detail += fmt.Sprintf(" (at offset %d)", bad.at)
	}
	if r.tail.BitFlip {
		detail += "; one flipped bit explains it"
	}
	switch {
	case r.tail.Resume >= 0:
		detail += fmt.Sprintf("; %d bytes are lost, then a later record can be read at offset %d: "+
			"restore a copy, or salvage the log", r.tail.Resume-r.end, r.tail.Resume)
	case bad.whole:
		detail += "; raise the limit, restore a copy, or salvage the log"
	default:
		detail += fmt.Sprintf("; no record can be read in the last %d bytes of a log that must be complete: "+
			"restore a copy, or salvage the log", r.tail.Dropped)
	}
	return base.Corruptf("log record", begin, "%s", detail)
}

// isBitFlip determines Tail.BitFlip for the bytes at off. A bit that is missing from a sector of zeros does not count:
// that sector may never have been written. In a piece of a sector that is shorter than a header, zeros do not prove
// enough for that: one checksum in 32 has a single bit in its first byte.
func (r *Reader) isBitFlip(off int64) (bool, error) {
	if off == r.size {
		return false, nil
	}
	if err := r.load(off); err != nil {
		return false, err
	}
	b := r.block.data[off-r.block.off:]
	if r.flipBudget -= int64(len(b)); r.flipBudget < 0 {
		return false, nil
	}
	at := flippedBit(b)
	if at < 0 {
		return false, nil
	}
	sector := off + int64(at)
	sector -= sector % sectorSize
	from, to := max(off, sector), min(sector+sectorSize, r.size)
	if to-from < headerSize {
		return true, nil
	}
	zeros, err := r.isZero(from, to)
	return !zeros, err
}

// unwrittenFrom reports whether the bytes from off to the end of its sector are zero. That is how a sector reads that
// held synced records up to off and lost the bytes after them, however short the remainder is.
func (r *Reader) unwrittenFrom(off int64) (bool, error) {
	return r.isZero(off, min(off-off%sectorSize+sectorSize, r.size))
}

// zerosToEnd reports whether all bytes from off to the log's end are zero.
func (r *Reader) zerosToEnd(off int64) (bool, error) {
	for off < r.size {
		end := min(blockEnd(off), r.size)
		zeros, err := r.isZero(off, end)
		if !zeros || err != nil {
			return false, err
		}
		off = end
	}
	return true, nil
}

// isZero reports whether the bytes from..to, within one block, exist and are all zero.
func (r *Reader) isZero(from, to int64) (bool, error) {
	if from >= to {
		return false, nil
	}
	if err := r.load(from); err != nil {
		return false, err
	}
	return allZero(r.block.data[from-r.block.off : to-r.block.off]), nil
}

// isHeadless reports whether the header of the chunk at off was not written, although the bytes behind it may have
// been: a log that is appended through memory gets the header of a record last. If the header is in two sectors, the
// device may have one of them as it was before. The first one is what unwrittenFrom finds.
func (r *Reader) isHeadless(off int64) (bool, error) {
	if r.size-off < headerSize {
		return false, nil
	}
	if err := r.load(off); err != nil {
		return false, err
	}
	head := r.block.data[off-r.block.off:][:headerSize]
	inFirst := sectorSize - off%sectorSize
	return allZero(head) || inFirst < headerSize && allZero(head[inFirst:]), nil
}

// usedSize returns the size of the log without the zeros that end it, at least from.
func (r *Reader) usedSize(from int64) (int64, error) {
	for end := r.size; end > from; {
		begin := max(from, (end-1)-(end-1)%blockSize)
		if err := r.load(begin); err != nil {
			return 0, err
		}
		if n := usedLen(r.block.data[begin-r.block.off : end-r.block.off]); n > 0 {
			return begin + int64(n), nil
		}
		end = begin
	}
	return from, nil
}

// usedLen returns the length of b without the zeros that end it.
func usedLen(b []byte) int {
	for n := len(b); n > 0; n-- {
		if b[n-1] != 0 {
			return n
		}
	}
	return 0
}

// UsedSize returns the size of a log of size bytes without the zeros that end it.
func UsedSize(r io.ReaderAt, size int64) (int64, error) {
	return NewReader(r, size, ReaderOptions{}).usedSize(0)
}

// IsBlank reports whether the first size bytes of r are zeros: a log whose space was reserved, and that never got a
// record.
func IsBlank(r io.ReaderAt, size int64) (bool, error) {
	buf := make([]byte, min(size, sectorSize)) // usually not blank
	for off := int64(0); off < size; off += int64(len(buf)) {
		if off > 0 && len(buf) < blockSize {
			buf = make([]byte, blockSize)
		}
		buf = buf[:min(int64(len(buf)), size-off)]
		if _, err := vfs.ReadFull(r, buf, off); err != nil {
			return false, err
		}
		if !allZero(buf) {
			return false, nil
		}
	}
	return true, nil
}

var zeroBlock [blockSize]byte

func allZero(b []byte) bool {
	for ; len(b) > blockSize; b = b[blockSize:] {
		if !bytes.Equal(b[:blockSize], zeroBlock[:]) {
			return false
		}
	}
	return bytes.Equal(b, zeroBlock[:len(b)])
}
