package util

import (
	"bytes"
	"io"
)

// MinRead is the space that ReadFrom makes for each read.
const MinRead = bytes.MinRead

// Buffer is bytes.Buffer with Alloc. The zero value is an empty buffer.
type Buffer struct{ b bytes.Buffer }

// NewBuffer returns a buffer that contains buf and uses its memory.
func NewBuffer(buf []byte) *Buffer { return &Buffer{b: *bytes.NewBuffer(buf)} }

// Alloc appends n zero bytes and returns them, to be filled in place. They are valid until the next
// write. It panics if n is negative.
func (b *Buffer) Alloc(n int) []byte {
	if n < 0 {
		panic("leveldb/util.Buffer.Alloc: negative count")
	}
	b.b.Grow(n)
	room := b.b.AvailableBuffer()[:n]
	clear(room)
	b.b.Write(room)
	return b.b.Bytes()[b.b.Len()-n:]
}

// Bytes returns the unread bytes. They are valid until the next write.
func (b *Buffer) Bytes() []byte { return b.b.Bytes() }

// Grow makes space for another n bytes. It panics if n is negative.
func (b *Buffer) Grow(n int) {
	if n < 0 {
		panic("leveldb/util.Buffer.Grow: negative count")
	}
	b.b.Grow(n)
}

// Len returns the number of unread bytes.
func (b *Buffer) Len() int { return b.b.Len() }

// Next returns the next n bytes, or what is left of them, and moves past them.
func (b *Buffer) Next(n int) []byte { return b.b.Next(n) }

// Read implements io.Reader.
func (b *Buffer) Read(p []byte) (n int, err error) { return b.b.Read(p) }

// ReadByte implements io.ByteReader.
func (b *Buffer) ReadByte() (c byte, err error) { return b.b.ReadByte() }

// ReadBytes reads up to and including delim; the error is io.EOF if the buffer has none.
func (b *Buffer) ReadBytes(delim byte) (line []byte, err error) { return b.b.ReadBytes(delim) }

// ReadFrom implements io.ReaderFrom.
func (b *Buffer) ReadFrom(r io.Reader) (n int64, err error) { return b.b.ReadFrom(r) }

// Reset empties the buffer and keeps its memory.
func (b *Buffer) Reset() { b.b.Reset() }

// String returns the unread bytes, and "<nil>" for a nil Buffer.
func (b *Buffer) String() string {
	if b == nil {
		return "<nil>"
	}
	return b.b.String()
}

// Truncate keeps the first n unread bytes. It panics if there are fewer.
func (b *Buffer) Truncate(n int) {
	if n < 0 || n > b.b.Len() {
		panic("leveldb/util.Buffer: truncation out of range")
	}
	b.b.Truncate(n)
}

// Write implements io.Writer. It always succeeds.
func (b *Buffer) Write(p []byte) (n int, err error) { return b.b.Write(p) }

// WriteByte implements io.ByteWriter. It always succeeds.
func (b *Buffer) WriteByte(c byte) error { return b.b.WriteByte(c) }

// WriteTo implements io.WriterTo.
func (b *Buffer) WriteTo(w io.Writer) (n int64, err error) { return b.b.WriteTo(w) }
