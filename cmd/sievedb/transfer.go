package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/sievedb/sievedb/util"
)

// The binary form of an export:
//
//	header  8  magic, "sieveEXP"
//	        4  version, fixed32: 1
//	        8  last sequence number of the moment that is exported, fixed64
//	        4  masked CRC-32C of these 20 bytes
//	frame   4  length of the payload in bytes, fixed32, not 0
//	        4  masked CRC-32C of the payload
//	           payload: entries, each a length-prefixed key and a length-prefixed value
//	end     4  zeros
//	        4  masked CRC-32C of the count
//	        8  count of all entries, fixed64
//
// A file without its end was cut short. Keys ascend. Lengths are varint32.
const (
	exportMagic   = "sieveEXP"
	exportVersion = 1
	headerLen     = 24
	frameHeadLen  = 8
	frameTarget   = 256 << 10 // bytes of a payload, unless one entry is larger
	maxFrame      = 1 << 30
)

// entryWriter writes entries in one of the forms.
type entryWriter interface {
	add(key, value []byte) error
	// finish writes what ends the file.
	finish() error
}

type jsonLines struct {
	w      *bufio.Writer
	format format
}

func (j *jsonLines) add(key, value []byte) error {
	_, err := j.w.Write(append(appendJSON(nil, entry{key, nonNil(value)}, j.format), '\n'))
	return err
}

func (j *jsonLines) finish() error { return j.w.Flush() }

type frames struct {
	w       *bufio.Writer
	payload []byte
	count   uint64
}

func (f *frames) header(seq uint64) error {
	b := util.AppendFixed64(util.AppendFixed32([]byte(exportMagic), exportVersion), seq)
	_, err := f.w.Write(util.AppendFixed32(b, util.MaskCRC(util.CRC32C(b))))
	return err
}

func (f *frames) add(key, value []byte) error {
	f.payload = util.AppendLengthPrefixed(util.AppendLengthPrefixed(f.payload, key), value)
	f.count++
	if len(f.payload) >= frameTarget {
		return f.flush()
	}
	return nil
}

func (f *frames) flush() error {
	if len(f.payload) == 0 {
		return nil
	}
	head := util.AppendFixed32(util.AppendFixed32(nil, uint32(len(f.payload))), util.MaskCRC(util.CRC32C(f.payload)))
	_, err := f.w.Write(append(head, f.payload...))
	f.payload = f.payload[:0]
	return err
}

func (f *frames) finish() error {
	if err := f.flush(); err != nil {
		return err
	}
	count := util.AppendFixed64(nil, f.count)
	head := util.AppendFixed32(util.AppendFixed32(nil, 0), util.MaskCRC(util.CRC32C(count)))
	if _, err := f.w.Write(append(head, count...)); err != nil {
		return err
	}
	return f.w.Flush()
}

// group is some entries of a file that is being read, up to a place where reading can begin again.
type group struct {
	entries []entry
	end     int64 // the place, in bytes from the beginning of the file
}

// groupReader reads a file group by group. It returns io.EOF after the last one.
type groupReader interface{ next() (group, error) }

var errTruncated = errors.New("the file ends too early: the export that wrote it was interrupted, or the file was cut")

// frameReader reads the binary form.
type frameReader struct {
	r     *bufio.Reader
	at    int64
	seq   uint64
	count uint64
	began bool
	// partial says that reading began in the middle, so that the count at the end is of more entries.
	partial bool
}

func (f *frameReader) read(n int64) ([]byte, error) {
	var b bytes.Buffer // it grows with what is there, and not with what a length claims
	got, err := io.CopyN(&b, f.r, n)
	f.at += got
	if err == io.EOF {
		err = errTruncated
	}
	return b.Bytes(), err
}

func (f *frameReader) header() error {
	b, err := f.read(headerLen)
	if err != nil {
		return err
	}
	switch {
	case string(b[:8]) != exportMagic:
		return errors.New("the file does not begin as an export")
	case util.MaskCRC(util.CRC32C(b[:20])) != util.Fixed32(b[20:]):
		return errors.New("the checksum of the header does not match")
	case util.Fixed32(b[8:]) != exportVersion:
		return fmt.Errorf("the export has version %d; this tool reads version %d", util.Fixed32(b[8:]), exportVersion)
	}
	f.seq, f.began = util.Fixed64(b[12:]), true
	return nil
}

func (f *frameReader) next() (g group, err error) {
	if !f.began {
		if err := f.header(); err != nil {
			return g, err
		}
	}
	at := f.at
	head, err := f.read(frameHeadLen)
	if err != nil {
		return g, err
	}
	n, crc := util.Fixed32(head), util.Fixed32(head[4:])
	if n == 0 {
		return g, f.end(crc)
	}
	if n > maxFrame {
		return g, fmt.Errorf("the frame at byte %d claims %d bytes; at most %d are possible", at, n, maxFrame)
	}
	payload, err := f.read(int64(n))
	if err != nil {
		return g, err
	}
	if util.MaskCRC(util.CRC32C(payload)) != crc {
		return g, fmt.Errorf("the checksum of the frame at byte %d does not match", at)
	}
	for len(payload) > 0 {
		key, rest, ok := util.LengthPrefixed(payload)
		var value []byte
		if ok {
			value, rest, ok = util.LengthPrefixed(rest)
		}
		if !ok {
			return g, fmt.Errorf("the frame at byte %d has an entry that is cut", at)
		}
		g.entries = append(g.entries, entry{key, value})
		payload = rest
	}
	f.count += uint64(len(g.entries))
	g.end = f.at
	return g, nil
}

func (f *frameReader) end(crc uint32) error {
	b, err := f.read(8)
	if err != nil {
		return err
	}
	count := util.Fixed64(b)
	if util.MaskCRC(util.CRC32C(b)) != crc || count != f.count && !f.partial {
		return fmt.Errorf("the end of the file says %d entries, but there are %d", count, f.count)
	}
	if _, err := f.r.ReadByte(); err != io.EOF {
		return errors.New("there are bytes after the end of the export")
	}
	return io.EOF
}

// lineReader reads JSON lines, or lines as scan prints them.
type lineReader struct {
	r      *bufio.Reader
	at     int64
	number int
	parse  func(line []byte) (key, value []byte, err error)
	// whole says that a last line without an end was cut.
	whole bool
}

// groupLines is how many lines a group has at most, groupBytes how many bytes.
const (
	groupLines = 1000
	groupBytes = 1 << 20
)

func (l *lineReader) next() (g group, err error) {
	size := 0
	for len(g.entries) < groupLines && size < groupBytes {
		text, err := readLine(l.r, maxLine)
		if err != nil && err != io.EOF {
			return g, fmt.Errorf("line %d: %w", l.number+1, err)
		}
		if len(text) == 0 {
			if len(g.entries) == 0 {
				return g, io.EOF
			}
			break
		}
		l.number++
		size += len(text)
		key, value, perr := l.parse(bytes.TrimSuffix(text, []byte("\n")))
		if perr == nil && l.whole && err == io.EOF {
			perr = errTruncated
		}
		if perr != nil {
			return g, fmt.Errorf("line %d: %w", l.number, perr)
		}
		l.at += int64(len(text))
		g.entries, g.end = append(g.entries, entry{bytes.Clone(key), bytes.Clone(value)}), l.at
	}
	return g, nil
}

// jsonEntry is a line of JSON as export, scan and get print it.
type jsonEntry struct {
	Key, KeyBase64, KeyHex, KeyNamespaced *string
	Value, ValueBase64, ValueHex          *string
}

var errJSONLine = errors.New(`want {"key": …, "value": …}, each as text or as keyBase64, keyHex, valueBase64, valueHex`)

func parseJSONLine(line []byte) (key, value []byte, err error) {
	if !utf8.Valid(line) { // the decoder would replace bytes without a word
		return nil, nil, fmt.Errorf("%w; it is not UTF-8", errJSONLine)
	}
	var e jsonEntry
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&e); err != nil {
		return nil, nil, fmt.Errorf("%w: %w", errJSONLine, err)
	}
	if _, more := d.Token(); more != io.EOF {
		return nil, nil, errJSONLine
	}
	if key, err = oneOf(e.Key, e.KeyBase64, e.KeyHex, e.KeyNamespaced); err == nil {
		value, err = oneOf(e.Value, e.ValueBase64, e.ValueHex, nil)
	}
	return key, value, err
}

// oneOf returns the bytes of the one form that is set.
func oneOf(forms ...*string) (b []byte, err error) {
	err = errJSONLine
	for i, form := range forms {
		switch {
		case form == nil:
		case err == nil || b != nil: // a second one
			return nil, errJSONLine
		default:
			b, err = []encoding{encRaw, encBase64, encHex, encNamespace}[i].decode([]byte(*form))
			b = nonNil(b)
		}
	}
	return b, err
}

// The forms of entries in files.
const (
	formAuto   = "auto"
	formJSON   = "jsonl"
	formBinary = "binary"
	formLines  = "lines"
)

// detectForm returns the form of a file by its beginning.
func detectForm(r *bufio.Reader) string {
	head, _ := r.Peek(len(exportMagic) + 2) // a read error shows again when the file is read
	switch {
	case bytes.HasPrefix(head, []byte(exportMagic)) && (len(head) <= 9 || head[9] == 0): // of the version; lines have no such byte
		return formBinary
	case len(head) > 0 && head[0] == '{' && !isScanned(r):
		return formJSON
	}
	return formLines
}

// isScanned reports whether a file that begins with a brace has lines as scan prints them, whose first key does: a tab
// ends it, which JSON has at most between its parts.
func isScanned(r *bufio.Reader) bool {
	for n := 1; ; n = r.Buffered() + 1 {
		_, err := r.Peek(n)
		text, _ := r.Peek(r.Buffered())
		line, _, whole := bytes.Cut(text, []byte("\n"))
		if whole || err != nil { // the end of the file, or a line that is longer than the buffer
			return bytes.IndexByte(line, '\t') >= 0 && !json.Valid(line)
		}
	}
}

// groups returns a reader of a file in the given form, from byte at on, before which are some entries.
func (a *app) groups(r *bufio.Reader, form string, at int64, entries uint64) (groupReader, error) {
	switch form {
	case formBinary:
		return &frameReader{r: r, at: at, began: at > 0, partial: at > 0}, nil
	case formJSON:
		return &lineReader{r: r, at: at, number: int(entries), parse: parseJSONLine}, nil
	case formLines:
		return &lineReader{r: r, at: at, number: int(entries), parse: a.parseLine}, nil
	}
	return nil, misuse("--format %q; want %s, %s, %s or %s", form, formAuto, formJSON, formBinary, formLines)
}
