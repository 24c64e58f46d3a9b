package wal

import (
	"fmt"
	"io"
	"slices"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/util"
	"github.com/sievedb/sievedb/vfs"
)

// ReaderOptions describe what is known about a log. The zero value is the strictest: a log that must be complete.
type ReaderOptions struct {
	// Last says that the log is the newest, so a crash may have cut it: no later log has a
	// record. (A later log that is empty does not count: a crash during recovery leaves one.)
	Last bool
	// AllowTornEnd accepts, in a log that is not the newest, an end that was cut: bytes missing or unwritten zeros from
	// some point on, and no record after them. It is for logs of writers that begin a new log without syncing the old
	// one, such as LevelDB and goleveldb, and for a MANIFEST (see the package comment). It has no effect together with
	// Last, which accepts more.
	AllowTornEnd bool
	// Live says that a program may be appending to the log now, perhaps through memory: the file is then longer than
	// its records, and a header appears after the bytes that it covers. A header that is not there yet is the end for
	// now, whatever follows it, and costs one short read, however many zeros there are. Continue looks again. Bytes
	// that do not decode are read once more before they are judged. See live.go.
	Live bool
	// Plausible reports whether a complete record with a valid checksum, which the look-ahead found after bytes that do
	// not decode, can be a later record of this log. A value may contain a copy of a log, and a disk block may still
	// contain another file: the checksum alone does not decide.
	//
	// lost is the number of bytes between the last good record and this one. A write-ahead log requires that record
	// decodes as a batch whose sequence is at least the expected one, and at most lost beyond it, because an operation
	// needs more than a byte. The record is valid only during the call. Nil accepts every record.
	Plausible func(record []byte, lost int64) bool
	// MaxRecord is the length in bytes above which a record is corruption; 0 means
	// MaxRecordSize. No record is believed to be longer than the log.
	MaxRecord int64
}

// Reader reads the records of a log in order and judges its tail by the tail rule of the package
// comment. It is used by one goroutine at a time.
type Reader struct {
	src   io.ReaderAt
	size  int64
	o     ReaderOptions
	block block    // the block last read
	asm   assembly // the record being joined

	pos    int64 // where the next chunk is expected
	end    int64 // end of the last good record
	offset int64 // beginning of the last good record
	split  bool  // of the last good record; see Split
	tail   Tail
	err    error // why reading ended
	short  int64 // where the file ended in the last read that found less than it should

	// flipBudget is how many bytes flippedBit may still examine. Without a limit, a log of many
	// bad chunks would make it expensive.
	flipBudget int64
}

// NewReader returns a Reader for the log in the first size bytes of r. It reads nothing yet. size is the present size
// of the file: it determines the end of the log, even if r reports the end of the file earlier.
func NewReader(r io.ReaderAt, size int64, o ReaderOptions) *Reader {
	size = max(size, 0)
	if o.MaxRecord <= 0 {
		o.MaxRecord = MaxRecordSize
	}
	return &Reader{
		src: r, size: size, o: o,
		block:      block{off: -1},
		tail:       Tail{Resume: -1},
		flipBudget: size + blockSize,
	}
}

// Continue makes Next continue after the last good record of a log that has grown to size bytes since, or at
// off, if that is later: the End of another reader of the same log. It is for a log that another process
// is writing: what was a torn end may be a record by now.
func (r *Reader) Continue(off, size int64) {
	r.end = max(r.end, off)
	r.pos, r.size = r.end, max(r.end, size)
	r.block.off = -1 // it may have been read before its end was written
	r.asm.open, r.err, r.tail = false, nil, Tail{Resume: -1}
	r.flipBudget = r.size - r.end + blockSize
}

// Next returns the next record. It is valid until the next call of Next or Skip and must not be changed.
//
// At an end that the tail rule accepts, Next returns io.EOF itself, and Tail describes it. At a
// chunk of an unknown kind with a valid checksum, the error is a *base.NewerError, and Skip does
// nothing. At another end the error is a *base.CorruptionError. Both are without a file name, for
// base.InFile to add.
// An error of the io.ReaderAt is returned unchanged, as is io.ErrUnexpectedEOF if the file is
// shorter than its size. Every later call returns the same result, until Skip succeeds.
func (r *Reader) Next() ([]byte, error) {
	for r.err == nil {
		record, err := r.next()
		if err == io.ErrUnexpectedEOF && r.wasCut() {
			continue
		}
		r.err = err
		return record, err
	}
	return nil, r.err
}

// next reads the record at r.pos, or judges why there is none.
func (r *Reader) next() ([]byte, error) {
	record, bad, err := r.readRecord()
	if r.o.Live && bad != nil && !bad.pending {
		r.pos, r.block.off = r.end, -1
		record, bad, err = r.readRecord()
	}
	switch {
	case err != nil:
		return nil, err
	case bad != nil && bad.newer:
		r.tail = Tail{Kind: TailNewer, Offset: r.end, Dropped: r.size - r.end, Resume: -1, Reason: bad.why}
		return nil, base.Newerf("log record", bad.at, "%s, but its checksum is valid", bad.why)
	case bad != nil:
		return nil, r.judge(bad)
	}
	return record, nil
}

// End returns the position in bytes after the last good record.
func (r *Reader) End() int64 { return r.end }

// Offset returns the position in bytes at which the last returned record begins. It is undefined
// before the first record.
func (r *Reader) Offset() int64 { return r.offset }

// Split reports whether the last returned record was divided before the end of a block. Only
// Writer.BufferSplit divides records there.
func (r *Reader) Split() bool { return r.split }

// Tail describes the bytes after the last good record, once Next has returned io.EOF or a
// *base.CorruptionError; after Skip, the skipped bytes.
func (r *Reader) Tail() Tail { return r.tail }

// Skip makes Next continue at Tail().Resume, the next readable record, and reports whether there
// is one. The bytes from Tail().Offset to Tail().Resume are lost. It is for an explicit salvage:
// replaying records after lost ones gives a state that the database never had.
func (r *Reader) Skip() bool {
	if r.err == nil || r.tail.Resume < 0 {
		return false
	}
	r.pos, r.end = r.tail.Resume, r.tail.Resume
	r.asm.open = false
	r.err = nil
	r.tail.Resume = -1 // so that a second call skips nothing
	return true
}

// readRecord joins the chunks of the record at r.pos. For a bad chunk, and for a record without
// an end, it returns bad, with r.asm as it was then.
func (r *Reader) readRecord() (record []byte, bad *fault, err error) {
	r.asm.open = false
	split := false
	for {
		c, bad, err := r.chunkAt(r.pos)
		if bad != nil || err != nil {
			return nil, bad, err
		}
		if r.asm.open && c.kind == kindMiddle && len(r.asm.buf) >= minMeasured && !r.asm.fits(c) {
			r.asm.reserve(c, r.measure(c.end))
		}
		split = split || c.kind == kindFirst && c.end%blockSize != 0
		record, done, bad := r.asm.add(c, r.o.MaxRecord, r.size)
		if bad != nil {
			return nil, bad, nil
		}
		r.pos = c.end
		if done {
			r.offset, r.end, r.split = r.asm.start, c.end, split
			return record, nil, nil
		}
	}
}

// minMeasured is how many bytes of a record are joined before its length is determined. Doubling
// the memory again and again would need three times the size of a large record.
const minMeasured = 1 << 20

// measure returns how many bytes of payload the chunks from off on add to the record that is being joined, according to
// their headers. It reads only the headers, which no checksum covers; the size of the log limits the result.
func (r *Reader) measure(off int64) (payload int64) {
	var b [headerSize]byte
	for {
		off = skipTrailer(off)
		if off > r.size-headerSize {
			return payload
		}
		if _, err := vfs.ReadFull(r.src, b[:], off); err != nil {
			return payload // reading the chunk will report it
		}
		n, kind := int64(storedLen(b[:])), b[6]
		off += headerSize + n
		if kind != kindMiddle && kind != kindLast || off > r.size || payload+n > r.o.MaxRecord {
			return payload
		}
		payload += n
		if kind == kindLast {
			return payload
		}
	}
}

// chunkAt reads the chunk at off, or at the next block if off leaves no room for a header.
func (r *Reader) chunkAt(off int64) (c chunk, bad *fault, err error) {
	off = min(skipTrailer(off), r.size)
	if off == r.size {
		return c, &fault{at: off, cut: true, why: "the log ends inside a record"}, nil
	}
	if bad, err := r.pendingAt(off); bad != nil || err != nil {
		return c, bad, err
	}
	if err := r.load(off); err != nil {
		return c, nil, err
	}
	at := int(off - r.block.off)
	b := r.block.data[at:]
	n, bad := payloadLen(b, blockSize-at)
	if r.o.Live && len(b) >= headerSize && b[headerSize-1] == kindZero {
		return c, notYet(off), nil
	}
	if bad == nil {
		stored, sum := util.Fixed32(b), r.block.maskedCRC(at+headerSize-1, at+headerSize+n)
		if sum != stored {
			bad = &fault{why: fmt.Sprintf("checksum of a chunk of %d bytes is %#08x, want %#08x", n, sum, stored)}
		}
	}
	if bad != nil {
		bad.at = off
		bad.newer = bad.unknown && b[6] > kindLast && n <= len(b)-headerSize &&
			r.block.maskedCRC(at+headerSize-1, at+headerSize+n) == util.Fixed32(b)
		return c, bad, nil
	}
	return r.block.chunk(at, n), nil, nil
}

// assembly joins chunks to records. Its buffer is reused for each record of more than one chunk,
// and released after a large one.
type assembly struct {
	buf   []byte
	start int64 // where the first chunk of the record begins
	open  bool  // a first chunk was added, its last one was not
}

// fits reports whether the payload of the chunk fits into the present buffer.
func (a *assembly) fits(c chunk) bool { return len(a.buf)+len(c.payload) <= cap(a.buf) }

// reserve makes room for the payload of c and for further bytes.
func (a *assembly) reserve(c chunk, further int64) {
	a.buf = slices.Grow(a.buf, len(c.payload)+int(further))
}

// add adds the chunk that follows the one added before. It returns the record once it is
// complete. After a fault the assembly is as it was before. size is that of the log.
func (a *assembly) add(c chunk, maxRecord, size int64) (record []byte, done bool, bad *fault) {
	begins := c.kind == kindFull || c.kind == kindFirst
	switch {
	case begins && a.open && !a.emptyFirst(c):
		return nil, false, &fault{at: c.off, why: "a record begins before the previous one has ended"}
	case !begins && !a.open:
		return nil, false, &fault{at: c.off, why: "a chunk continues a record that did not begin"}
	}
	joined := int64(len(c.payload))
	if !begins {
		joined += int64(len(a.buf))
	}
	if joined > maxRecord {
		why := fmt.Sprintf("a record is longer than the limit of %d bytes", maxRecord)
		return nil, false, &fault{at: c.off, whole: true, why: why}
	}
	if begins {
		if cap(a.buf) > maxKeptBuffer && len(a.buf) < cap(a.buf)/4 {
			a.buf = nil // release the memory of a large record
		}
		a.buf, a.start = a.buf[:0], c.off
	}
	if c.kind == kindFull {
		a.open = false
		return c.payload, true, nil
	}
	if need := len(a.buf) + len(c.payload); need > cap(a.buf) {
		// Twice as much, so that a long record is not copied often, but no more than the remainder of the log.
		a.buf = slices.Grow(a.buf, len(c.payload)+int(min(int64(need), size-c.end)))
	}
	a.buf = append(a.buf, c.payload...)
	a.open = c.kind != kindLast
	return a.buf[:len(a.buf):len(a.buf)], !a.open, nil
}

// emptyFirst reports whether the open record is only a first chunk without payload at the end of
// the block before c. Early versions of LevelDB wrote such a chunk and then the whole record to
// the next block (see LevelDB's db/log_reader.cc).
func (a *assembly) emptyFirst(c chunk) bool {
	return len(a.buf) == 0 && c.off%blockSize == 0 && a.start == c.off-headerSize
}
