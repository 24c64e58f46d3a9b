package journal

import (
	"encoding/binary"
	"errors"
	"io"

	ldberrors "github.com/syndtr/goleveldb/leveldb/errors"
	"github.com/syndtr/goleveldb/leveldb/storage"
	"github.com/syndtr/goleveldb/leveldb/util"
)

var errStaleReader = errors.New("leveldb/journal: stale reader")

// errSkipped says that a chunk was dropped and that reading continues after it.
var errSkipped = errors.New("leveldb/journal: skipped chunk")

// Reader reads journals. It is used by one goroutine at a time.
type Reader struct {
	r                io.Reader
	dropper          Dropper
	strict, checksum bool
	err              error

	block  [blockSize]byte
	filled int // bytes of the block
	at     int // where the next chunk begins
	chunk  []byte
	last   bool // whether chunk ends its journal
	number int  // of the present journal
}

// NewReader returns a Reader of the log in r. dropper may be nil. With strict, the first damage ends
// the log with an error; otherwise damaged chunks are skipped. With checksum, checksums are verified.
func NewReader(r io.Reader, dropper Dropper, strict, checksum bool) *Reader {
	return &Reader{r: r, dropper: dropper, strict: strict, checksum: checksum, last: true}
}

// Reset reads another log from now on. It returns the error of the present one.
func (r *Reader) Reset(reader io.Reader, dropper Dropper, strict, checksum bool) error {
	err := r.err
	number := r.number + 1
	*r = *NewReader(reader, dropper, strict, checksum)
	r.number = number
	return err
}

// drop reports damage of n bytes in a journal, or between journals if first is set. An orphan, a part of
// a journal that was not read to its end, is never an error.
func (r *Reader) drop(n int, reason string, orphan, first bool) error {
	damage := &ErrCorrupted{Size: n, Reason: reason}
	if r.dropper != nil {
		r.dropper.Drop(damage)
	}
	switch {
	case r.strict && !orphan:
		r.err = ldberrors.NewErrCorrupted(storage.FileDesc{}, damage)
		return r.err
	case first:
		return errSkipped
	}
	return io.ErrUnexpectedEOF
}

// nextChunk reads a chunk: the first of a journal if first is set, otherwise another one of it.
func (r *Reader) nextChunk(first bool) error {
	for r.at+headerSize > r.filled {
		if err := r.nextBlock(first); err != nil {
			return err
		}
	}
	header := r.block[r.at:r.filled]
	kind, end := header[6], headerSize+int(binary.LittleEndian.Uint16(header[4:]))
	rest := len(header)
	switch {
	case kind == 0 && end == headerSize && binary.LittleEndian.Uint32(header) == 0:
		r.at = r.filled
		return r.drop(rest, "zero header", false, first)
	case kind < fullChunk || kind > lastChunk:
		r.at = r.filled
		return r.drop(rest, "invalid chunk type", false, first)
	case end > rest:
		r.at = r.filled
		return r.drop(rest, "chunk length overflows block", false, first)
	case r.checksum && util.NewCRC(header[6:end]).Value() != binary.LittleEndian.Uint32(header):
		r.at = r.filled
		return r.drop(rest, "checksum mismatch", false, first)
	}
	if first && kind != fullChunk && kind != firstChunk {
		r.at += end
		return r.drop(end, "orphan chunk", true, first)
	}
	r.chunk, r.last = header[headerSize:end], kind == fullChunk || kind == lastChunk
	r.at += end
	return nil
}

// nextBlock reads a block. The error is io.EOF at the end, and damage in the middle of a journal.
func (r *Reader) nextBlock(first bool) error {
	if r.filled > 0 && r.filled < blockSize { // the log's last block
		if !first {
			return r.drop(0, "missing chunk part", false, first)
		}
		r.err = io.EOF
		return io.EOF
	}
	n, err := io.ReadFull(r.r, r.block[:])
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		r.err = err
		return err
	}
	r.at, r.filled = 0, n
	if n == 0 {
		if !first {
			return r.drop(0, "missing chunk part", false, first)
		}
		r.err = io.EOF
		return io.EOF
	}
	return nil
}

// Next returns a reader of the next journal, which is valid until the next call, or io.EOF. If a
// part of a journal is missing, the returned reader ends with io.ErrUnexpectedEOF.
func (r *Reader) Next() (io.Reader, error) {
	r.number++
	if r.err != nil {
		return nil, r.err
	}
	for {
		err := r.nextChunk(true)
		if err == nil {
			return &journalReader{r: r, number: r.number}, nil
		}
		if err != errSkipped {
			return nil, err
		}
	}
}

type journalReader struct {
	r      *Reader
	number int
	err    error // that ended this journal
}

func (j *journalReader) Read(p []byte) (int, error) {
	r := j.r
	switch {
	case r.number != j.number:
		return 0, errStaleReader
	case j.err != nil:
		return 0, j.err
	case r.err != nil:
		return 0, r.err
	}
	for len(r.chunk) == 0 {
		if r.last {
			return 0, io.EOF
		}
		if err := r.nextChunk(false); err != nil {
			j.err = err
			return 0, err
		}
	}
	n := copy(p, r.chunk)
	r.chunk = r.chunk[n:]
	return n, nil
}

// ReadByte implements io.ByteReader.
func (j *journalReader) ReadByte() (byte, error) {
	var b [1]byte
	if _, err := j.Read(b[:]); err != nil {
		return 0, err
	}
	return b[0], nil
}
