package wire

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
)

// The types of frames. They cross the wire and never change.
const (
	frameCall    = 'C'
	frameStream  = 'S'
	frameResult  = 'R'
	frameData    = 'D'
	frameEnd     = 'E'
	frameFailure = 'F'
)

// MaxMessage is the length of the longest request or response of a call.
const MaxMessage = 16 << 20

// chunkSize is the length of the data of a stream that one frame has at most. Readers accept up to MaxMessage.
const chunkSize = 64 << 10

// writeFrame writes a frame in one call of Write.
func writeFrame(w io.Writer, kind byte, payload []byte) error {
	if len(payload) > MaxMessage {
		return fmt.Errorf("a message has %d bytes, at most %d are supported", len(payload), MaxMessage)
	}
	b := make([]byte, 0, 5+len(payload))
	b = binary.BigEndian.AppendUint32(b, uint32(1+len(payload)))
	b = append(b, kind)
	b = append(b, payload...)
	_, err := w.Write(b)
	return err
}

// readFrame reads a frame. It returns io.EOF only at the end of the connection between frames.
func readFrame(r *bufio.Reader) (kind byte, payload []byte, err error) {
	var header [5]byte
	if _, err := io.ReadFull(r, header[:1]); err != nil {
		return 0, nil, err
	}
	if _, err := io.ReadFull(r, header[1:]); err != nil {
		return 0, nil, noEOF(err)
	}
	length := int64(binary.BigEndian.Uint32(header[:]))
	if length < 1 || length > 1+MaxMessage {
		return 0, nil, fmt.Errorf("a frame has %d bytes, from 1 to %d are expected", length, 1+MaxMessage)
	}
	length--
	if length <= chunkSize {
		payload = make([]byte, length)
		_, err = io.ReadFull(r, payload)
		return header[4], payload, noEOF(err)
	}
	// The buffer grows as bytes arrive: a length alone does not get memory.
	var b bytes.Buffer
	if _, err := io.CopyN(&b, r, length); err != nil {
		return 0, nil, noEOF(err)
	}
	return header[4], b.Bytes(), nil
}

func noEOF(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
