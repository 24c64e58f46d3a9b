package wire

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
)

const (
	recordHeader   = 2
	keyLength      = 32
	recordOverhead = 16 // of AES-GCM
	maxSealed      = 1<<16 - 1
	maxRecord      = maxSealed - recordOverhead // bytes that one record carries at most
	// rekeyAfter is how many records a key seals. AES-GCM is good for some 2^38 bytes of one key (RFC 8446, 5.5); these
	// are 2^36 at most.
	rekeyAfter = 1 << 20
	// smallBuffer is what a connection keeps; longer records use the pool.
	smallBuffer = 4 << 10
)

// ErrRecord is what reading from another node fails with if what arrived is not what that node has sent next.
var ErrRecord = errors.New("a record between nodes was altered, repeated, left out or cut: does somebody change what " +
	"the two nodes send?")

// bigBuffers has buffers for the longest record.
var bigBuffers = sync.Pool{New: func() any { return new([recordHeader + maxSealed]byte) }}

// direction is the records of one direction.
type direction struct {
	key   []byte
	aead  cipher.AEAD
	seq   uint64 // of the next record
	rekey uint64 // how many records a key seals
	nonce [12]byte
}

func newDirection(key []byte) direction {
	d := direction{rekey: rekeyAfter}
	d.use(key)
	return d
}

func (d *direction) use(key []byte) {
	block, err := aes.NewCipher(key)
	if err == nil {
		d.aead, err = cipher.NewGCM(block)
	}
	if err != nil {
		panic("encrypt the connection between nodes: " + err.Error()) // only keys of other sizes
	}
	d.key = key
}

// next returns the nonce of the next record, which no other record of the key has. It is valid until the next call.
func (d *direction) next() []byte {
	if d.seq > 0 && d.seq%d.rekey == 0 {
		d.use(expand(d.key, "sieved peer next key"))
	}
	binary.BigEndian.PutUint64(d.nonce[4:], d.seq)
	d.seq++
	return d.nonce[:]
}

// secureConn encrypts and authenticates what goes over a connection, in records:
//
//	length of what follows (2), big-endian | sealed bytes, with the tag of AES-256-GCM
//
// Each direction has its own key and counts its records; the length is authenticated. So what Read returns is what the
// other side has written, in order and from the start. The end of the connection between records is io.EOF: what
// is above knows the end of its messages itself.
//
// After an error of Write, and after ErrRecord, the connection is of no use. After a timeout of Read it continues.
type secureConn struct {
	net.Conn

	writing sync.Mutex
	out     direction
	failed  error // of Write

	reading sync.Mutex
	in      direction
	small   []byte
	big     *[recordHeader + maxSealed]byte // from the pool, while it is needed
	buf     []byte                          // read and not decrypted yet, in small or big
	plain   []byte                          // decrypted and not returned yet, before buf
	broken  error                           // of Read
}

// expand derives a key from another one.
func expand(key []byte, info string) []byte {
	derived, err := hkdf.Expand(sha256.New, key, info, keyLength)
	if err != nil {
		panic("derive a key of the connection between nodes: " + err.Error()) // only sizes that it does not support
	}
	return derived
}

func newSecureConn(conn net.Conn, send, receive []byte) *secureConn {
	return &secureConn{Conn: conn, out: newDirection(send), in: newDirection(receive), small: make([]byte, smallBuffer)}
}

func (c *secureConn) Write(p []byte) (n int, err error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	if c.failed != nil {
		return 0, c.failed
	}
	buf := bigBuffers.Get().(*[recordHeader + maxSealed]byte)
	defer bigBuffers.Put(buf)
	for len(p) > 0 {
		part := p[:min(len(p), maxRecord)]
		if _, err := c.Conn.Write(c.seal(buf[:0], part)); err != nil {
			c.failed = err // the other side may have got a part of the record
			return n, err
		}
		n += len(part)
		p = p[len(part):]
	}
	return n, nil
}

func (c *secureConn) seal(dst, plain []byte) []byte {
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(plain)+recordOverhead))
	nonce := c.out.next() // before aead, which it may replace
	return c.out.aead.Seal(dst, nonce, plain, dst[:recordHeader])
}

func (c *secureConn) Read(p []byte) (int, error) {
	c.reading.Lock()
	defer c.reading.Unlock()
	if len(p) == 0 {
		return 0, nil
	}
	for len(c.plain) == 0 {
		if c.broken != nil {
			return 0, c.broken
		}
		if err := c.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, c.plain)
	c.plain = c.plain[n:]
	return n, nil
}

// next reads and decrypts a record. After an error of the connection that passes, it continues where it was.
func (c *secureConn) next() error {
	if err := c.fill(recordHeader); err != nil {
		return err
	}
	size := int(binary.BigEndian.Uint16(c.buf))
	if size <= recordOverhead {
		c.broken = fmt.Errorf("%w (its length is %d)", ErrRecord, size)
		return c.broken
	}
	if err := c.fill(recordHeader + size); err != nil {
		return err
	}
	header, sealed := c.buf[:recordHeader], c.buf[recordHeader:recordHeader+size]
	nonce := c.in.next()
	plain, err := c.in.aead.Open(sealed[:0], nonce, sealed, header)
	if err != nil {
		c.broken = ErrRecord
		return c.broken
	}
	c.plain, c.buf = plain, c.buf[recordHeader+size:]
	return nil
}

// fill reads until n bytes of the next record are there. There is nothing decrypted.
func (c *secureConn) fill(n int) error {
	if len(c.buf) < n {
		c.room(n)
	}
	for len(c.buf) < n {
		got, err := c.Conn.Read(c.buf[len(c.buf):cap(c.buf)])
		c.buf = c.buf[:len(c.buf)+got]
		switch {
		case len(c.buf) >= n:
		case err == io.EOF && len(c.buf) > 0:
			c.broken = fmt.Errorf("%w (%w)", ErrRecord, io.ErrUnexpectedEOF)
			return c.broken
		case err != nil:
			return err
		}
	}
	return nil
}

// room moves what was read to the front of a buffer for n bytes.
func (c *secureConn) room(n int) {
	old := c.big
	switch {
	case n <= len(c.small) && len(c.buf) <= len(c.small):
		c.buf, c.big = c.small[:copy(c.small, c.buf)], nil
	case old != nil:
		c.buf, old = old[:copy(old[:], c.buf)], nil
	default:
		c.big = bigBuffers.Get().(*[recordHeader + maxSealed]byte)
		c.buf = c.big[:copy(c.big[:], c.buf)]
	}
	if old != nil {
		bigBuffers.Put(old)
	}
}
