package wal

import (
	"io"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/util"
)

// File is what a Writer needs of its file. Write appends.
type File interface {
	io.Writer
	Sync() error
	Close() error
}

// earlyWriter is a File that can begin to write bytes to the device before Sync waits for them,
// concurrently with other calls; see vfs.EarlyWriter.
type earlyWriter interface{ StartWriting(off, n int64) }

// mappedFile is a File whose length may be greater than what was written to it; see vfs.LogFile.
type mappedFile interface {
	WriteParts(parts ...[]byte) (int, error)
	Cut() error
}

// earlyBytes is how many bytes are appended without a Sync before the device is asked to write
// them. The first sync of a log of 16 MiB took 12 to 30 ms without early writing, and 0.5 to 4 ms
// with 256 KiB or 1 MiB here. Each request is a system call that allocates space on the device and
// waits while the device is busy. It takes 0.1 to 25 ms, so a separate goroutine makes it.
const earlyBytes = 512 << 10

// maxBuffered is the maximum number of bytes that BufferRecord keeps in memory. A Write of 64 KiB
// costs 4 % of the 500 Writes of small records that it replaces; larger ones gained no more.
const maxBuffered = 64 << 10

// maxKeptBuffer bounds the buffer that a Writer keeps between records, so that a few large
// records do not keep their memory forever. A group of writes is at most 1 MiB in LevelDB.
const maxKeptBuffer = 2 << 20

// maxFramed is the maximum number of bytes of framed records that are gathered before they are
// written: a record of a gigabyte needs no second gigabyte for its chunk headers. Only larger
// records need more than one Write. A buffer that grew to this size is within maxKeptBuffer.
const maxFramed = 3 << 19

// maxCopied is the length in bytes above which a record is not copied to be framed, if the file takes it in parts.
const maxCopied = 4 << 10

// Writer appends records to a log. The first failure of an append or a sync is final: a record that was cut short can
// be distinguished from damage only if nothing follows it, and a sync that succeeds after one that failed may have lost
// pages in between. So every later call returns that first error, and the file is only closed.
//
// A Writer is used by one goroutine at a time.
type Writer struct {
	file   File
	buf    []byte // framed records that the file does not have yet; the memory is reused
	size   int64  // of the file
	synced int64
	begun  int64       // the device has been asked to write up to here
	early  earlyWriter // nil if file is none
	mapped mappedFile  // nil if file is none: a Write costs no system call, and each record has one of its own
	err    error       // first failure; nothing is written or synced once it is set

	heads  []byte   // chunk headers of the record that is written in parts; the memory is reused
	pieces [][]byte // of that record

	beginning atomic.Bool    // a goroutine is asking the device to write
	beginners sync.WaitGroup // for that goroutine

	beginningPanicked atomic.Bool // the file system panicked in that goroutine

	closed   bool
	closeErr error
}

// NewWriter returns a Writer for f, which must be empty and which the Writer closes. A recovered
// log is never appended to: its tail may be torn, and records after a torn tail read as damage.
func NewWriter(f File) *Writer {
	early, _ := f.(earlyWriter)
	mapped, _ := f.(mappedFile)
	return &Writer{file: f, early: early, mapped: mapped}
}

// WriteRecord appends p as one record, together with buffered records: in one call of the file's Write, or in pieces of
// 1.5 MiB if there is more and the file is no vfs.LogFile. It does not keep p. Nothing is durable before Sync returns.
//
// Any error is final, except for a record above MaxRecordSize. The record may then be in the file
// completely, in part or not at all.
func (w *Writer) WriteRecord(p []byte) error { return w.WriteRecordParts(p) }

// BufferRecord appends p as WriteRecord does, but may leave it in memory: the next WriteRecord,
// Flush, Sync or Close writes it, or a BufferRecord that finds 64 KiB gathered or, if the file is a
// vfs.LogFile, the end of a block. An error may be about records that were buffered before.
func (w *Writer) BufferRecord(p []byte) error {
	err := w.add(maxBuffered, p)
	if err != nil || len(w.buf) < maxBuffered && !w.filledBlock() {
		return err
	}
	return w.Flush()
}

// wholeHeads says that the head of a Write to a vfs.LogFile is stored at once. A part of one with later records behind
// it would look like damage.
const wholeHeads = runtime.GOARCH == "amd64" || runtime.GOARCH == "arm64"

// filledBlock reports whether the buffer must be written because no other record fits into the block of its beginning.
// If a process is killed while it writes to a vfs.LogFile, LevelDB leaves out the rest of the block, and later blocks
// must have no records that it would apply.
func (w *Writer) filledBlock() bool {
	return w.mapped != nil && (!wholeHeads || (w.Size()+headerSize-1)/blockSize > w.size/blockSize)
}

// BufferSplit begins a log with a record of two chunks, one for each argument, although one chunk
// would do. The record is buffered as by BufferRecord. Every reader of the format joins the chunks,
// and no other writer divides a record before the end of a block, so Reader.Split recognizes such a
// record. BufferSplit panics if the log is not empty or the arguments have more than half a block.
func (w *Writer) BufferSplit(first, last []byte) error {
	if w.err != nil {
		return w.err
	}
	if w.Size() > 0 || len(first)+len(last) > blockSize/2 {
		panic("wal: a split record must be short and the first of its log")
	}
	for i, part := range [][]byte{first, last} {
		head := len(w.buf)
		w.buf = append(appendChunkHeader(w.buf, len(part), chunkKind(i == 0, i == 1)), part...)
		sealChunk(w.buf[head:])
	}
	if w.mapped != nil { // what a killed process leaves of the next record must not take this one along
		return w.Flush()
	}
	return nil
}

// WriteRecordParts appends the concatenation of parts as one record, as WriteRecord does. A group of batches need not
// be joined in a buffer first: the parts are copied once, between the chunk headers.
func (w *Writer) WriteRecordParts(parts ...[]byte) error {
	if err := w.add(maxCopied, parts...); err != nil {
		return err
	}
	return w.Flush()
}

// add frames a record after the buffered ones. One of more than maxCopied bytes is not copied if the file takes it in
// parts.
func (w *Writer) add(maxCopied int, parts ...[]byte) error {
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
	if w.mapped != nil && total > int64(maxCopied) {
		return w.writeInPlace(parts, int(total))
	}
	return w.frame(parts, int(total))
}

// Flush writes the buffered records to the file, in one call of its Write. Its error is final, as that of WriteRecord.
func (w *Writer) Flush() error {
	if w.err != nil || len(w.buf) == 0 {
		return w.err
	}
	w.err = errPanicked // unless Write returns
	n, err := w.file.Write(w.buf)
	w.err = nil
	err = w.wrote(len(w.buf), n, err)
	w.buf = w.buf[:0]
	if cap(w.buf) > maxKeptBuffer {
		w.buf = nil
	}
	return err
}

// wrote takes the result of a Write of want bytes. It returns its failure.
func (w *Writer) wrote(want, n int, err error) error {
	if err == nil && n != want {
		err = io.ErrShortWrite
	}
	if err != nil {
		w.err = errors.Wrapf(err, "append of %d bytes to the log at offset %d; it accepts no more records", want, w.size)
	}
	w.size += int64(max(0, min(n, want)))
	w.beginWriting()
	return w.err
}

// beginWriting asks the device to write the gathered bytes, unless an earlier request is still
// running. It covers only whole blocks: the page of the last block, if it were on its way to the
// device, would have to be written again and could delay the next append.
func (w *Writer) beginWriting() {
	if w.early == nil || w.err != nil || w.size-w.begun < earlyBytes || w.beginning.Load() {
		return
	}
	from, end := w.begun, w.size-w.size%blockSize
	w.begun = end
	w.beginning.Store(true)
	base.GoIn(&w.beginners, func() {
		defer func() {
			if recover() != nil { // in this goroutine it would end the process; Sync reports it
				w.beginningPanicked.Store(true)
			}
			w.beginning.Store(false)
		}()
		w.early.StartWriting(from, end-from)
	})
}

// frame appends the framed record of the given parts to w.buf: the zeros that end the block if no
// header fits, then the chunks. As in LevelDB, the zeros are written with the record after them.
// Of a large record it writes all but the last piece; its error is that of Flush.
func (w *Writer) frame(parts [][]byte, remaining int) error {
	buf := w.buf
	if remaining > maxBuffered { // the buffer would grow step by step
		buf = slices.Grow(buf, min(remaining, maxFramed)+2*blockSize)
	}
	room := int(blockSize - w.Size()%blockSize)
	if room < headerSize {
		buf = append(buf, make([]byte, headerSize-1)[:room]...)
		if w.mapped != nil && len(buf) == room { // a Write begins with the header of a record
			w.buf = buf
			if err := w.Flush(); err != nil {
				return err
			}
			buf = w.buf
		}
		room = blockSize
	}
	if remaining+headerSize <= room { // nearly always
		head := len(buf)
		buf = appendChunkHeader(buf, remaining, kindFull)
		for _, p := range parts {
			buf = append(buf, p...)
		}
		sealChunk(buf[head:])
		w.buf = buf
		return nil
	}
	var from []byte // remainder of the part being copied
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

// writeInPlace appends the record of the given parts in one call of WriteParts, without a copy: a record of a gigabyte
// needs no second gigabyte, and a process that is killed leaves all of it or none.
func (w *Writer) writeInPlace(parts [][]byte, remaining int) error {
	room := int(blockSize - w.Size()%blockSize)
	if room < headerSize {
		w.buf = append(w.buf, make([]byte, headerSize-1)[:room]...)
		room = blockSize
	}
	if err := w.Flush(); err != nil {
		return err
	}
	heads, pieces, total := w.heads[:0], w.pieces[:0], 0
	var from []byte // remainder of the part being divided
	for begins := true; remaining > 0; begins = false {
		n := min(remaining, room-headerSize)
		remaining -= n
		total += headerSize + n
		heads = appendChunkHeader(heads, n, chunkKind(begins, remaining == 0))
		head := heads[len(heads)-headerSize:]
		pieces = append(pieces, head)
		sum := util.CRC32C(head[headerSize-1:])
		for n > 0 {
			for len(from) == 0 {
				from, parts = parts[0], parts[1:]
			}
			m := min(n, len(from))
			pieces, sum = append(pieces, from[:m]), util.ExtendCRC32C(sum, from[:m])
			from, n = from[m:], n-m
		}
		util.PutFixed32(head, util.MaskCRC(sum))
		room = blockSize
	}
	w.err = errPanicked // unless WriteParts returns
	n, err := w.mapped.WriteParts(pieces...)
	w.err = nil
	err = w.wrote(total, n, err)
	clear(pieces) // the caller's memory
	w.heads, w.pieces = heads[:0], pieces[:0]
	if cap(w.heads) > maxKeptBuffer/blockSize*headerSize {
		w.heads, w.pieces = nil, nil
	}
	return err
}

// Sync makes every appended record durable, including the buffered ones. The caller makes the name
// of the file durable. A failure is final: later calls return the same error without a sync.
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
		w.err = errors.Wrapf(err, "sync of the log at offset %d; it accepts no more records", w.size)
		return w.err
	}
	w.synced, w.begun = w.size, w.size
	return nil
}

// Finish is Sync for a log that takes no more records. If the file is longer than its records, it ends behind them
// afterwards: zeros before another log would look like records that a crash has lost.
func (w *Writer) Finish() error {
	if err := w.Flush(); err != nil {
		return err
	}
	if w.mapped != nil {
		if err := w.mapped.Cut(); err != nil {
			w.err = errors.Wrapf(err, "cutting the log at offset %d", w.size)
			return w.err
		}
	}
	return w.Sync() // of the length, too
}

// Unfinished reports whether Finish has something to do.
func (w *Writer) Unfinished() bool { return w.Unsynced() > 0 || w.mapped != nil && w.size > 0 }

// Size returns the number of bytes appended to the log: those of the file, including an append
// that failed half-way, and the buffered ones.
func (w *Writer) Size() int64 { return w.size + int64(len(w.buf)) }

// Unsynced returns how many of these bytes no successful Sync has covered.
func (w *Writer) Unsynced() int64 { return w.Size() - w.synced }

// Buffered returns how many of these bytes the file does not have yet.
func (w *Writer) Buffered() int { return len(w.buf) }

// errPanicked is the error after a panic of the file system: the file may have any part of the
// bytes that were being written.
var errPanicked = errors.New("the file system panicked during an earlier write or sync of the log; " +
	"it accepts no more records")

// errWriterClosed is the error of a Writer after Close, unless an earlier failure is reported.
var errWriterClosed = errors.New("log writer was closed")

// Close writes the buffered records and closes the file without syncing it. It returns the first failure of the Writer,
// or that of closing: a file system may report only then that earlier bytes were lost. A second Close returns the same.
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
