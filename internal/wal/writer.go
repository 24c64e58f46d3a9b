package wal

import (
	"io"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/sievedb/sievedb/internal/errors"
)

// File is what a Writer asks of its file. Write appends.
type File interface {
	io.Writer
	Sync() error
	Close() error
}

// earlyWriter is a File that can begin to write bytes to the device before Sync
// waits for them, beside other calls; see vfs.EarlyWriter.
type earlyWriter interface{ StartWriting(off, n int64) }

// earlyBytes is how much is appended without a Sync before its writing to the
// device is begun. The sync of a log of 16 MiB that nobody had synced took 12 to 30
// ms, with 256 KiB or 1 MiB here 0.5 to 4. Each beginning is a system call that finds
// places on the device for the bytes, and that waits while the device has much to
// do: 0.1 to 25 ms, for which a goroutine of its own spares the appends.
const earlyBytes = 512 << 10

// maxBuffered is how many bytes of records that BufferRecord was given wait for
// their Write at most. A Write of 64 KiB costs 4 % of the 500 Writes of small records
// that it stands for; of larger ones nothing more was gained.
const maxBuffered = 64 << 10

// maxKeptBuffer bounds the buffer that a Writer keeps between records, so that
// a few large ones do not hold their size in memory for ever. A group of writes
// is at most 1 MiB in LevelDB.
const maxKeptBuffer = 2 << 20

// maxFramed is how many bytes of framed records gather at most before they are
// written: a record of a gigabyte needs no second gigabyte for its chunk headers.
// Only records above that take more than one Write. A buffer that grew to hold it is
// within maxKeptBuffer.
const maxFramed = 3 << 19

// Writer appends records to a log. The first failure of an append or a sync is
// final: a record that was cut short can only be told from damage if nothing
// stands behind it, and a sync that succeeds after one that failed may have
// lost pages in between. So every later call returns that first error and the
// file is not touched again but to close it.
//
// A Writer is used by one goroutine at a time.
type Writer struct {
	file   File
	buf    []byte // records as framed that the file does not have yet; kept for its room
	size   int64  // of the file
	synced int64
	begun  int64       // up to here the device has been told to write
	early  earlyWriter // nil if file is none
	err    error       // first failure; nothing is written or synced once it is set

	beginning atomic.Bool    // a goroutine tells the device
	beginners sync.WaitGroup // that goroutine

	beginningPanicked atomic.Bool // the file system did, in that goroutine

	closed   bool
	closeErr error
}

// NewWriter returns a Writer for f, which must be empty and which the Writer
// closes. A log that was recovered is never appended to: its tail may be torn,
// and what is written behind a torn tail reads as damage.
func NewWriter(f File) *Writer {
	early, _ := f.(earlyWriter)
	return &Writer{file: f, early: early}
}

// WriteRecord appends p as one record, together with what BufferRecord left: in one
// call of the file's Write, or in pieces of 1.5 MiB if there is more. It does not
// keep p. Nothing is durable before Sync returns.
//
// An error other than that of a record above MaxRecordSize is final. The record
// may then be in the file whole, in part or not at all.
func (w *Writer) WriteRecord(p []byte) error { return w.WriteRecordParts(p) }

// BufferRecord appends p as WriteRecord does, but may leave it in memory: it is
// written by the next WriteRecord, Flush, Sync or Close, or by a BufferRecord that
// finds 64 KiB gathered. An error may concern records that were buffered before.
func (w *Writer) BufferRecord(p []byte) error {
	if err := w.add(p); err != nil || len(w.buf) < maxBuffered {
		return err
	}
	return w.Flush()
}

// BufferSplit begins a log with a record of two chunks, one for each argument, although both
// would fit one; it is buffered as by BufferRecord. Every reader of the format joins them, and no
// other writer divides a record before the end of a block: Reader.Split recognises
// such a record. Both are short, and the log is empty.
func (w *Writer) BufferSplit(first, last []byte) error {
	if w.err != nil {
		return w.err
	}
	if w.Size() > 0 || len(first)+len(last) > blockSize/2 {
		panic("wal: a split record is short and the first of a log")
	}
	for i, part := range [][]byte{first, last} {
		head := len(w.buf)
		w.buf = append(appendChunkHeader(w.buf, len(part), chunkKind(i == 0, i == 1)), part...)
		sealChunk(w.buf[head:])
	}
	return nil
}

// WriteRecordParts appends the concatenation of parts as one record, as
// WriteRecord does. A group of batches needs no buffer to be joined in first:
// the parts are copied once, to between the chunk headers.
func (w *Writer) WriteRecordParts(parts ...[]byte) error {
	if err := w.add(parts...); err != nil {
		return err
	}
	return w.Flush()
}

// add frames a record behind those that are buffered.
func (w *Writer) add(parts ...[]byte) error {
	if w.err != nil {
		return w.err
	}
	var total int64
	for _, p := range parts {
		total += int64(len(p))
	}
	if total > MaxRecordSize {
		return errors.Newf("log record of %d bytes is longer than the limit of %d", total, MaxRecordSize)
	}
	return w.frame(parts, int(total))
}

// Flush writes the records that are buffered to the file, in one call of its Write.
// Its error is final, as that of WriteRecord.
func (w *Writer) Flush() error {
	if w.err != nil || len(w.buf) == 0 {
		return w.err
	}
	w.err = errPanicked // unless Write returns
	n, err := w.file.Write(w.buf)
	w.err = nil
	if err == nil && n != len(w.buf) {
		err = io.ErrShortWrite
	}
	if err != nil {
		w.err = errors.Wrapf(err, "append of %d bytes to the log at offset %d; it takes no more records", len(w.buf), w.size)
	}
	w.size += int64(max(0, min(n, len(w.buf))))
	w.buf = w.buf[:0]
	if cap(w.buf) > maxKeptBuffer {
		w.buf = nil
	}
	w.beginWriting()
	return w.err
}

// beginWriting has the device write what has gathered, unless it is being told of what
// was before: whole blocks, since the last one's page, if it was on its way to the
// device, would have to be written again and might keep the next append waiting.
func (w *Writer) beginWriting() {
	if w.early == nil || w.err != nil || w.size-w.begun < earlyBytes || w.beginning.Load() {
		return
	}
	from, end := w.begun, w.size-w.size%blockSize
	w.begun = end
	w.beginning.Store(true)
	w.beginners.Go(func() {
		defer func() {
			if recover() != nil { // in a goroutine of its own it would end the process; Sync reports it
				w.beginningPanicked.Store(true)
			}
			w.beginning.Store(false)
		}()
		w.early.StartWriting(from, end-from)
	})
}

// frame appends to w.buf what the record of the given parts appends to the file:
// the zeros that end the block if no header fits it, then the chunks. As
// LevelDB, the zeros are written with the record behind them, not with the one
// before. Of a large record it writes all but the last piece; its error is Flush's.
func (w *Writer) frame(parts [][]byte, remaining int) error {
	buf := w.buf
	if remaining > maxBuffered { // it would grow step by step
		buf = slices.Grow(buf, min(remaining, maxFramed)+2*blockSize)
	}
	room := int(blockSize - w.Size()%blockSize)
	if room < headerSize {
		buf = append(buf, make([]byte, headerSize-1)[:room]...)
		room = blockSize
	}
	var from []byte // what is left of the part being copied
	for begins := true; begins || remaining > 0; begins = false {
		n := min(remaining, room-headerSize)
		remaining -= n
		head := len(buf)
		buf = appendChunkHeader(buf, n, chunkKind(begins, remaining == 0))
		for n > 0 {
			for len(from) == 0 {
				from, parts = parts[0], parts[1:]
			}
			m := min(n, len(from))
			buf = append(buf, from[:m]...)
			from, n = from[m:], n-m
		}
		sealChunk(buf[head:])
		room = blockSize
		if len(buf) >= maxFramed && remaining > 0 {
			w.buf = buf
			if err := w.Flush(); err != nil {
				return err
			}
			buf = w.buf
		}
	}
	w.buf = buf
	return nil
}

// Sync makes every record appended so far durable, buffered ones too. The file's entry in its
// directory is the caller's to sync. A failure is final; Sync is not tried
// again.
func (w *Writer) Sync() error {
	if err := w.Flush(); err != nil {
		return err
	}
	if w.beginningPanicked.Load() {
		w.err = errPanicked
		return w.err
	}
	w.err = errPanicked // unless Sync returns
	err := w.file.Sync()
	w.err = nil
	if err != nil {
		w.err = errors.Wrapf(err, "sync of the log at offset %d; it takes no more records", w.size)
		return w.err
	}
	w.synced, w.begun = w.size, w.size
	return nil
}

// Size returns the number of bytes appended to the log: those of the file, an
// append that failed half-way included, and those that are buffered.
func (w *Writer) Size() int64 { return w.size + int64(len(w.buf)) }

// Unsynced returns how many of these bytes no successful Sync has covered.
func (w *Writer) Unsynced() int64 { return w.Size() - w.synced }

// Buffered returns how many of these bytes the file does not have yet.
func (w *Writer) Buffered() int { return len(w.buf) }

// errPanicked is the error after a panic of the file system: the file may hold any part of
// what was about to be written.
var errPanicked = errors.New("the file system panicked during an earlier write or sync of the log; it takes no more records")

// errWriterClosed is what a Writer answers after Close, unless an earlier
// failure is there to tell.
var errWriterClosed = errors.New("log writer was closed")

// Close writes what is buffered and closes the file, without syncing it. It returns the first failure of
// the Writer, or that of closing: a file system may tell only then that bytes
// written earlier were lost. Closing again returns the same.
func (w *Writer) Close() error {
	if w.closed {
		return w.closeErr
	}
	w.closed = true
	w.closeErr = w.Flush()
	w.buf = nil
	w.beginners.Wait() // they use the file
	if err := w.file.Close(); err != nil && w.err == nil {
		w.closeErr = errors.Wrapf(err, "close of the log at offset %d", w.size)
		w.err = w.closeErr
	}
	if w.err == nil {
		w.err = errWriterClosed
	}
	return w.closeErr
}
