package machine

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"io/fs"
	"path/filepath"
	"regexp"

	"github.com/sievedb/sievedb/sstable"
	"github.com/sievedb/sievedb/vfs"
)

// The marks and lengths of a stream, which the package comment describes. They never change.
const (
	headerMagic   = "SIEVEDST"
	trailerMagic  = "SIEVEDND"
	streamVersion = 1

	headerLen  = 41
	trailerLen = 20
	sumLen     = 4
)

// Bounds of what a stream may announce. No memory depends on them.
const (
	maxFiles      = 1 << 22
	maxStateBytes = 1 << 50
)

const chunkLen = 128 << 10

// filePattern matches the names of the files of a checkpoint.
var filePattern = regexp.MustCompile(`^(?:CURRENT|CLOSED|MANIFEST-[0-9]{6,20}|[0-9]{6,20}\.(?:log|ldb|sst|values))$`)

// header is the beginning of a stream.
type header struct {
	files       uint32
	index, term uint64
	bytes       uint64 // of all files
}

func (h header) encode() []byte {
	b := append(make([]byte, 0, headerLen), headerMagic...)
	b = append(b, streamVersion)
	b = binary.BigEndian.AppendUint32(b, h.files)
	for _, n := range []uint64{h.index, h.term, h.bytes} {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

func parseHeader(b []byte) (h header, err error) {
	switch {
	case string(b[:8]) != headerMagic:
		return h, fmt.Errorf("%w: it does not begin like one", ErrStream)
	case crc32.Checksum(b[:headerLen-sumLen], castagnoli) != binary.BigEndian.Uint32(b[headerLen-sumLen:]):
		return h, fmt.Errorf("%w: the checksum of its header differs", ErrStream)
	case b[8] != streamVersion:
		return h, fmt.Errorf("%w: it has version %d, and version %d is supported: upgrade this node", ErrStream, b[8], streamVersion)
	}
	h.files = binary.BigEndian.Uint32(b[9:])
	h.index, h.term, h.bytes = binary.BigEndian.Uint64(b[13:]), binary.BigEndian.Uint64(b[21:]), binary.BigEndian.Uint64(b[29:])
	if h.files > maxFiles || h.bytes > maxStateBytes {
		return h, fmt.Errorf("%w: it announces %d files with %d bytes, at most %d with %d are supported", ErrStream, h.files, h.bytes, maxFiles, uint64(maxStateBytes))
	}
	return h, nil
}

// file is a file of a state.
type file struct {
	name string
	size uint64
}

func (f file) encode() []byte {
	b := append([]byte{byte(len(f.name))}, f.name...)
	b = binary.BigEndian.AppendUint64(b, f.size)
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// streamLen returns the length of the stream of files.
func streamLen(files []file) (n uint64) {
	n = headerLen + trailerLen
	for _, f := range files {
		n += uint64(len(f.encode())) + f.size + sumLen
	}
	return n
}

// listFiles returns the files of a checkpoint.
func listFiles(fsys vfs.FS, dir string) (files []file, bytes uint64, err error) {
	names, err := fsys.List(dir)
	if err != nil {
		return nil, 0, err
	}
	for _, name := range names {
		if name == "LOCK" {
			continue // opening the checkpoint made it
		}
		info, err := fsys.Lstat(filepath.Join(dir, name))
		if err != nil {
			return nil, 0, err
		}
		if !filePattern.MatchString(name) || !info.Mode().IsRegular() {
			return nil, 0, fmt.Errorf("a checkpoint has the unexpected file %s", name)
		}
		files = append(files, file{name, uint64(info.Size())})
		bytes += uint64(info.Size())
	}
	return files, bytes, nil
}

// sender writes a stream.
type sender struct {
	ctx  context.Context
	w    io.Writer
	pace pacer
	sum  hash.Hash32 // of all that was written
	sent uint64
	buf  []byte
}

func newSender(ctx context.Context, w io.Writer, perSecond int64) *sender {
	return &sender{ctx: ctx, w: w, pace: pacer{perSecond: perSecond}, sum: crc32.New(castagnoli), buf: make([]byte, chunkFor(perSecond))}
}

func (s *sender) write(b []byte) error {
	if err := s.pace.wait(s.ctx, len(b)); err != nil {
		return err
	}
	n, err := s.w.Write(b)
	if err == nil && n < len(b) {
		err = io.ErrShortWrite
	}
	_, _ = s.sum.Write(b[:n])
	s.sent += uint64(n)
	return err
}

// send writes the files of a directory.
func (s *sender) send(fsys vfs.FS, dir string, files []file, h header) error {
	if err := s.write(h.encode()); err != nil {
		return err
	}
	for _, f := range files {
		if err := s.sendFile(fsys, dir, f); err != nil {
			return err
		}
	}
	b := binary.BigEndian.AppendUint64([]byte(trailerMagic), s.sent+trailerLen)
	_, _ = s.sum.Write(b)
	sum := s.sum.Sum32()
	return s.write(binary.BigEndian.AppendUint32(b, sum))
}

func (s *sender) sendFile(fsys vfs.FS, dir string, f file) (err error) {
	src, err := fsys.Open(filepath.Join(dir, f.name))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, src.Close()) }()
	if err := verify(src, f.name); err != nil {
		return err
	}
	if err := s.write(f.encode()); err != nil {
		return err
	}
	sum := uint32(0)
	for at := uint64(0); at < f.size; {
		b := s.buf[:min(uint64(len(s.buf)), f.size-at)]
		if _, err := vfs.ReadFull(src, b, int64(at)); err != nil {
			return err
		}
		sum = crc32.Update(sum, castagnoli, b)
		if err := s.write(b); err != nil {
			return err
		}
		at += uint64(len(b))
	}
	return s.write(binary.BigEndian.AppendUint32(nil, sum))
}

// verify reads a table before it is sent. The checksums of the stream are those of the bytes that were read: with a
// damaged table, the damage of one replica would become that of all who get their state from it.
func verify(src vfs.File, name string) error {
	if ext := filepath.Ext(name); ext != ".ldb" && ext != ".sst" && ext != ".values" {
		return nil // the database was opened, which reads its other files
	}
	if err := sstable.VerifyContent(src, nil); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// receiver unpacks a stream into a directory.
type receiver struct {
	ctx  context.Context
	r    io.Reader
	fs   vfs.FS
	dir  string
	sum  hash.Hash32
	got  uint64
	left uint64 // bytes of files that the header has announced and that did not come yet
	buf  []byte
}

// receive makes the directory dir from a stream, which must end after it. When it returns nil, dir is durable. After an
// error, the caller removes it.
func receive(ctx context.Context, fsys vfs.FS, dir string, r io.Reader) (header, error) {
	if err := vfs.MkdirAllSynced(fsys, dir); err != nil {
		return header{}, err
	}
	v := &receiver{ctx: ctx, r: r, fs: fsys, dir: dir, sum: crc32.New(castagnoli), buf: make([]byte, chunkLen)}
	h, err := v.receive()
	if err == nil {
		err = fsys.SyncDir(dir)
	}
	return h, err
}

func (v *receiver) receive() (h header, err error) {
	b, err := v.read(headerLen)
	if err != nil {
		return h, err
	}
	if h, err = parseHeader(b); err != nil {
		return h, err
	}
	v.left = h.bytes
	for range h.files {
		if err := v.file(); err != nil {
			return h, err
		}
	}
	if v.left != 0 {
		return h, fmt.Errorf("%w: its files have %d bytes less than it announces", ErrStream, v.left)
	}
	return h, v.trailer()
}

// read reads n bytes, at most chunkLen. They are valid until the next read.
func (v *receiver) read(n int) ([]byte, error) {
	if err := v.ctx.Err(); err != nil {
		return nil, err
	}
	b := v.buf[:n]
	if _, err := io.ReadFull(v.r, b); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, fmt.Errorf("%w: it ends after %d bytes or less", ErrStream, v.got+uint64(n))
		}
		return nil, err
	}
	_, _ = v.sum.Write(b)
	v.got += uint64(n)
	return b, nil
}

// fileHeader reads a file's name and length.
func (v *receiver) fileHeader() (f file, err error) {
	b, err := v.read(1)
	if err != nil {
		return f, err
	}
	length := b[0]
	if b, err = v.read(int(length) + 8 + sumLen); err != nil {
		return f, err
	}
	f.name, f.size = string(b[:length]), binary.BigEndian.Uint64(b[length:])
	switch encoded := f.encode(); {
	case string(encoded[1:]) != string(b):
		return f, fmt.Errorf("%w: the checksum of a file's name differs", ErrStream)
	case !filePattern.MatchString(f.name):
		return f, fmt.Errorf("%w: a file has a name that no file of a database has", ErrStream)
	case f.size > v.left:
		return f, fmt.Errorf("%w: %s has %d bytes, and at most %d are left", ErrStream, f.name, f.size, v.left)
	}
	v.left -= f.size
	return f, nil
}

func (v *receiver) file() (err error) {
	f, err := v.fileHeader()
	if err != nil {
		return err
	}
	dst, err := v.fs.Create(filepath.Join(v.dir, f.name))
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w: it has %s twice", ErrStream, f.name)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dst.Close()) }()
	sum := uint32(0)
	for left := f.size; left > 0; {
		b, err := v.read(int(min(left, chunkLen)))
		if err != nil {
			return err
		}
		sum = crc32.Update(sum, castagnoli, b)
		if _, err := dst.Write(b); err != nil {
			return err
		}
		left -= uint64(len(b))
	}
	b, err := v.read(sumLen)
	if err != nil {
		return err
	}
	if binary.BigEndian.Uint32(b) != sum {
		return fmt.Errorf("%w: the checksum of %s differs", ErrStream, f.name)
	}
	return dst.Sync()
}

// trailer reads the end of the stream.
func (v *receiver) trailer() error {
	b, err := v.read(trailerLen - sumLen)
	if err != nil {
		return err
	}
	if string(b[:8]) != trailerMagic || binary.BigEndian.Uint64(b[8:]) != v.got+sumLen {
		return fmt.Errorf("%w: its trailer differs", ErrStream)
	}
	sum := v.sum.Sum32()
	if b, err = v.read(sumLen); err != nil {
		return err
	}
	if binary.BigEndian.Uint32(b) != sum {
		return fmt.Errorf("%w: its checksum differs", ErrStream)
	}
	if n, err := io.ReadFull(v.r, v.buf[:1]); n != 0 || !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: it does not end after its trailer", ErrStream)
	}
	return nil
}
