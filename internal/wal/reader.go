package wal

import (
	"fmt"
	"io"
	"slices"

	"github.com/sievedb/sievedb/util"
	"github.com/sievedb/sievedb/vfs"
)

// ReaderOptions says what is known about a log. The zero value is the strictest:
// a log that must be whole.
type ReaderOptions struct {
	// Last says that the log is the newest, so that a crash may have cut it: no
	// later log holds a record. (A later log that is empty does not count: a
	// crash during recovery leaves one.)
	Last bool
	// AllowTornEnd accepts, in a log that is not the newest, an end that was cut:
	// bytes missing or unwritten zeros from some point on, and no record behind.
	// It is for logs of writers that begin a new log without syncing the old one,
	// as LevelDB and goleveldb, and for a MANIFEST (see the package comment). It
	// has no effect beside Last, which accepts more.
	AllowTornEnd bool
	// Plausible reports whether a whole record with a good checksum, which the
	// look-ahead found behind bytes that do not decode, can be a later record of
	// this log. A value may hold a copy of a log, and a disk block may hold what
	// it held for another file before: the checksum alone does not tell.
	//
	// lost is the number of bytes between the last good record and this one. A
	// write-ahead log asks that record decodes as a batch whose sequence is at
	// least the expected one, and at most lost beyond it: an operation takes more
	// than a byte. The record holds only during the call. Nil takes every record.
	Plausible func(record []byte, lost int64) bool
	// MaxRecord is the length in bytes above which a record is corruption;
	// 0 means MaxRecordSize. No record is taken for longer than the log.
	MaxRecord int64
}

// Reader reads the records of a log in order and judges its tail, as the
// package comment says. It is used by one goroutine at a time.
type Reader struct {
	src   io.ReaderAt
	size  int64
	o     ReaderOptions
	block block    // the block last read
	asm   assembly // the record being joined

	pos    int64 // where the next chunk is looked for
	end    int64 // end of the last good record
	offset int64 // begin of the last good record
	split  bool  // of the last good record; see Split
	tail   Tail
	err    error // what ended the reading

	// flipBudget bounds the bytes that flippedBit may still walk, so that a log
	// made of a great many bad chunks cannot make it dear.
	flipBudget int64
}

// NewReader returns a Reader for the log in the first size bytes of r. It reads
// nothing yet. size is the file's size as it stands: the end of the log is taken
// from it and never from an end of file that r reports before.
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

// Next returns the next record. It holds until the next call of Next or Skip
// and must not be changed.
//
// At an end that the tail rule accepts, Next returns io.EOF itself; Tail tells
// what stands there. Where it does not, the error is a *base.CorruptionError
// without a file name, for base.InFile to add. An error of the io.ReaderAt comes
// back as it is, and so does io.ErrUnexpectedEOF where the file is shorter than
// its size. Whatever ended the reading comes back from every later call, until
// Skip succeeds.
func (r *Reader) Next() ([]byte, error) {
	if r.err != nil {
		return nil, r.err
	}
	record, bad, err := r.readRecord()
	switch {
	case err != nil:
		r.err = err
	case bad != nil:
		r.err = r.judge(bad)
	default:
		return record, nil
	}
	return nil, r.err
}

// Offset returns where the record that Next returned last begins, in bytes from
// the log's begin. It means nothing before the first record.
func (r *Reader) Offset() int64 { return r.offset }

// Split reports whether the record that Next returned last was divided before the end of
// a block, as Writer.BufferSplit does and no other writer.
func (r *Reader) Split() bool { return r.split }

// Tail returns what stands behind the last good record, once Next has returned
// io.EOF or a *base.CorruptionError; after Skip, what was skipped.
func (r *Reader) Tail() Tail { return r.tail }

// Skip makes Next go on at Tail().Resume, the next record that can be read, and
// reports whether there is one. The bytes from Tail().Offset to Tail().Resume
// are lost. It is for an explicit salvage of what is left: replaying records
// behind lost ones gives a state that the database never had.
func (r *Reader) Skip() bool {
	if r.err == nil || r.tail.Resume < 0 {
		return false
	}
	r.pos, r.end = r.tail.Resume, r.tail.Resume
	r.asm.open = false
	r.err = nil
	r.tail.Resume = -1 // once used: a second call skips nothing
	return true
}

// readRecord joins the chunks of the record at r.pos. A bad chunk and a record
// without its end come back as bad, with r.asm as it was when they were met.
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

// minMeasured is how many bytes of a record are joined before its length is found out. To
// double the memory again and again would take three times a large record's size.
const minMeasured = 1 << 20

// measure returns how many bytes of payload the chunks from off on add to the record that
// is being joined, as far as their headers say so. It reads the headers alone, and no
// checksum vouches for them: there are no more bytes than the log has, though.
func (r *Reader) measure(off int64) (payload int64) {
	var b [headerSize]byte
	for {
		off = skipTrailer(off)
		if off > r.size-headerSize {
			return payload
		}
		if _, err := vfs.ReadFull(r.src, b[:], off); err != nil {
			return payload // to read the chunk will tell
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

// chunkAt reads the chunk at off, or at the next block where off leaves no room
// for a header.
func (r *Reader) chunkAt(off int64) (c chunk, bad *fault, err error) {
	off = min(skipTrailer(off), r.size)
	if off == r.size {
		return c, &fault{at: off, cut: true, why: "the log ends inside a record"}, nil
	}
	if err := r.load(off); err != nil {
		return c, nil, err
	}
	at := int(off - r.block.off)
	b := r.block.data[at:]
	n, bad := payloadLen(b, blockSize-at)
	if bad == nil {
		stored, sum := util.Fixed32(b), r.block.maskedCRC(at+headerSize-1, at+headerSize+n)
		if sum != stored {
			bad = &fault{why: fmt.Sprintf("checksum of a chunk of %d bytes is %#08x, want %#08x", n, sum, stored)}
		}
	}
	if bad != nil {
		bad.at = off
		return c, bad, nil
	}
	return r.block.chunk(at, n), nil, nil
}

// assembly joins chunks to records. Its buffer is used again for each record
// that has more than one chunk, and released after a large one.
type assembly struct {
	buf   []byte
	start int64 // where the record's first chunk begins
	open  bool  // a first chunk came, its last one did not
}

// fits reports whether the chunk's payload fits the memory that there is.
func (a *assembly) fits(c chunk) bool { return len(a.buf)+len(c.payload) <= cap(a.buf) }

// reserve makes room for the payload of c and of so many bytes behind it.
func (a *assembly) reserve(c chunk, behind int64) {
	a.buf = slices.Grow(a.buf, len(c.payload)+int(behind))
}

// add takes the chunk that follows the one added before. It returns the record
// once it is whole. After a fault the assembly is as it was before. size is the
// log's.
func (a *assembly) add(c chunk, maxRecord, size int64) (record []byte, done bool, bad *fault) {
	begins := c.kind == kindFull || c.kind == kindFirst
	switch {
	case begins && a.open && !a.emptyFirst(c):
		return nil, false, &fault{at: c.off, why: "a record begins before the one in front of it has ended"}
	case !begins && !a.open:
		return nil, false, &fault{at: c.off, why: "a chunk continues a record that did not begin"}
	}
	joined := int64(len(c.payload))
	if !begins {
		joined += int64(len(a.buf))
	}
	if joined > maxRecord {
		return nil, false, &fault{at: c.off, whole: true, why: fmt.Sprintf("a record is longer than the limit of %d bytes", maxRecord)}
	}
	if begins {
		if cap(a.buf) > maxKeptBuffer && len(a.buf) < cap(a.buf)/4 {
			a.buf = nil // a large record came, and none like it since
		}
		a.buf, a.start = a.buf[:0], c.off
	}
	if c.kind == kindFull {
		a.open = false
		return c.payload, true, nil
	}
	if need := len(a.buf) + len(c.payload); need > cap(a.buf) {
		// Twice as much, so that a long record is not copied often, but no more than
		// the log still has.
		a.buf = slices.Grow(a.buf, len(c.payload)+int(min(int64(need), size-c.end)))
	}
	a.buf = append(a.buf, c.payload...)
	a.open = c.kind != kindLast
	return a.buf[:len(a.buf):len(a.buf)], !a.open, nil
}

// emptyFirst reports whether the open record is no more than a first chunk
// without payload at the end of the block before c. Early versions of LevelDB
// wrote such a chunk and then the record, from its begin, to the next block
// (see LevelDB's db/log_reader.cc).
func (a *assembly) emptyFirst(c chunk) bool {
	return len(a.buf) == 0 && c.off%blockSize == 0 && a.start == c.off-headerSize
}
