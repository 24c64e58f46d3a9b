package codec

import (
	"bytes"
	"io"
	"sync"

	"github.com/golang/snappy"
	"github.com/klauspost/compress/zstd"

	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/util"
)

// Parts are consecutive bytes in several slices.
type Parts [][]byte

// Len returns the number of bytes.
func (p Parts) Len() (n int) {
	for _, b := range p {
		n += len(b)
	}
	return n
}

// reader returns a reader of all parts.
func (p Parts) reader() io.Reader {
	readers := make([]io.Reader, len(p))
	for i, b := range p {
		readers[i] = bytes.NewReader(b)
	}
	return io.MultiReader(readers...)
}

// Stored is a block as it is to be stored.
type Stored struct {
	Parts
	Kind uint8
	made bool // Parts are slabs
}

// Release returns the memory of Parts for reuse, unless it is that of the block.
func (s *Stored) Release() {
	if s.made {
		releaseSlabs(s.Parts)
	}
	*s = Stored{}
}

// CompressParts returns block in the form in which Append would store it. Its Parts may be block itself. The caller
// releases them.
func CompressParts(block Parts, kind uint8) (Stored, error) {
	n := block.Len()
	if kind == None || n > MaxDecoded {
		return Stored{Parts: block}, nil
	}
	stored := pieces{most: n - n/8 - 1}
	var err error
	switch kind {
	case Snappy:
		err = stored.writeSnappy(block)
	case Zstd:
		err = stored.writeZstd(block)
	default:
		_, _, err = Append(nil, nil, kind) // for its error
	}
	if err == nil {
		return Stored{stored.parts, kind, true}, nil
	}
	releaseSlabs(stored.parts)
	if errors.Is(err, errTooLong) {
		return Stored{Parts: block}, nil
	}
	return Stored{}, err
}

// pieces is the output of a compressor. It collects bytes in slabs, which are never copied to
// a larger one, and rejects more than most bytes.
type pieces struct {
	parts Parts
	size  int
	most  int
}

const (
	slabBytes = 512 << 10
	// mostIdle is how many slabs of a block are kept for the next one.
	mostIdle = 8
)

var slabs = sync.Pool{New: func() any { return new([slabBytes]byte) }}

func releaseSlabs(made Parts) {
	for _, slab := range made[:min(len(made), mostIdle)] {
		slabs.Put((*[slabBytes]byte)(slab[:slabBytes]))
	}
}

var errTooLong = errors.New("the block does not shrink by an eighth")

func (p *pieces) Write(b []byte) (int, error) {
	if p.size += len(b); p.size > p.most {
		return 0, errTooLong
	}
	for rest := b; len(rest) > 0; {
		n := len(p.parts)
		if n == 0 || len(p.parts[n-1]) == cap(p.parts[n-1]) {
			p.parts = append(p.parts, slabs.Get().(*[slabBytes]byte)[:0])
			n++
		}
		last := &p.parts[n-1]
		fits := min(len(rest), cap(*last)-len(*last))
		*last = append(*last, rest[:fits]...)
		rest = rest[fits:]
	}
	return len(b), nil
}

// snappyPiece is how many bytes snappy.Encode compresses at a time, independently of earlier
// ones. So compressing pieces of that size one by one gives the same output.
const snappyPiece = 64 << 10

// writeSnappy writes the output of snappy.Encode for block.
func (p *pieces) writeSnappy(block Parts) error {
	if _, err := p.Write(util.AppendUvarint64(nil, uint64(block.Len()))); err != nil {
		return err
	}
	memory := slabs.Get().(*[slabBytes]byte)
	defer slabs.Put(memory)
	from, piece, encoded := block.reader(), memory[:snappyPiece], memory[snappyPiece:]
	for {
		n, err := io.ReadFull(from, piece)
		if err == io.EOF {
			return nil
		}
		body := snappy.Encode(encoded, piece[:n])
		_, prefix := util.Uvarint32(body) // the length of the piece
		if _, err := p.Write(body[prefix:]); err != nil {
			return err
		}
	}
}

// zstdStreams are encoders for writeZstd, each of which holds several megabytes.
var zstdStreams sync.Pool

// writeZstd writes block as a Zstandard frame that states its size.
func (p *pieces) writeZstd(block Parts) error {
	enc, _ := zstdStreams.Get().(*zstd.Encoder)
	if enc == nil {
		var err error
		enc, err = zstd.NewWriter(nil,
			zstd.WithEncoderLevel(ZstdLevel),
			zstd.WithEncoderCRC(false),
			zstd.WithEncoderConcurrency(1)) // no background goroutine
		if err != nil {
			return err
		}
	}
	enc.ResetContentSize(p, int64(block.Len()))
	_, err := io.Copy(enc, block.reader())
	if err == nil {
		err = enc.Close()
	}
	enc.Reset(nil) // the pool must not keep the block alive
	zstdStreams.Put(enc)
	return err
}
