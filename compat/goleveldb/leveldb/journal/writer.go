package journal

import (
	"encoding/binary"
	"errors"
	"io"

	"github.com/syndtr/goleveldb/leveldb/util"
)

var (
	errStale        = errors.New("leveldb/journal: stale writer")
	errWriterClosed = errors.New("leveldb/journal: closed Writer")
)

// Writer writes journals. It is used by one goroutine at a time. After a failure every call returns its error.
type Writer struct {
	w   io.Writer
	err error

	block   [blockSize]byte
	end     int // of the block's content
	written int // how much of the content was given to w
	blocks  int64

	header int  // where the present chunk begins
	first  bool // whether that is the journal's first one
	open   bool // whether there is a present journal
	number int  // of the present journal
}

// NewWriter returns a Writer that begins a log.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w} }

// finishChunk writes the header of the present chunk.
func (w *Writer) finishChunk(last bool) {
	kind := byte(middleChunk)
	switch {
	case w.first && last:
		kind = fullChunk
	case w.first:
		kind = firstChunk
	case last:
		kind = lastChunk
	}
	chunk := w.block[w.header:w.end]
	chunk[6] = kind
	binary.LittleEndian.PutUint16(chunk[4:], uint16(len(chunk)-headerSize))
	binary.LittleEndian.PutUint32(chunk, util.NewCRC(chunk[6:]).Value())
}

// flush gives the finished part of the block to w.
func (w *Writer) flush() {
	if w.err == nil && w.end > w.written {
		_, w.err = w.w.Write(w.block[w.written:w.end])
		w.written = w.end
	}
}

// nextBlock fills the block with zeros and begins another one.
func (w *Writer) nextBlock() {
	clear(w.block[w.end:])
	w.end = blockSize
	w.flush()
	w.end, w.written = 0, 0
	w.blocks++
}

func (w *Writer) beginChunk(first bool) {
	w.header, w.first = w.end, first
	w.end += headerSize
}

// finish ends the present journal.
func (w *Writer) finish() {
	if w.open && w.err == nil {
		w.finishChunk(true)
	}
	w.open = false
	w.number++
}

// Next begins a journal. The Writer that it returns is valid until the next call of another method.
func (w *Writer) Next() (io.Writer, error) {
	if w.err != nil {
		return nil, w.err
	}
	w.finish()
	if w.end+headerSize > blockSize {
		w.nextBlock()
	}
	w.beginChunk(true)
	w.open = true
	return journalWriter{w, w.number}, w.err
}

type journalWriter struct {
	w      *Writer
	number int
}

func (j journalWriter) Write(p []byte) (n int, err error) {
	w := j.w
	if w.number != j.number || !w.open {
		return 0, errStale
	}
	for w.err == nil && len(p) > 0 {
		if w.end == blockSize {
			w.finishChunk(false)
			w.nextBlock()
			w.beginChunk(false)
		}
		m := copy(w.block[w.end:], p)
		w.end += m
		n += m
		p = p[m:]
	}
	return n, w.err
}

// Flush ends the present journal, and writes everything to the underlying writer. If that has a method
// Flush() error, it is called.
func (w *Writer) Flush() error {
	w.finish()
	w.flush()
	if f, ok := w.w.(interface{ Flush() error }); ok && w.err == nil {
		w.err = f.Flush()
	}
	return w.err
}

// Close ends the present journal, and writes everything to the underlying writer.
func (w *Writer) Close() error {
	w.finish()
	w.flush()
	if w.err != nil {
		return w.err
	}
	w.err = errWriterClosed
	return nil
}

// Reset closes the Writer unless it is closed, and begins a log in another writer.
func (w *Writer) Reset(writer io.Writer) (err error) {
	if w.err == nil {
		err = w.Close()
	}
	number := w.number
	*w = Writer{w: writer, number: number}
	return err
}

// Size returns the size of the log so far.
func (w *Writer) Size() int64 {
	if w == nil {
		return 0
	}
	return w.blocks*blockSize + int64(w.end)
}
