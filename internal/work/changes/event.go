package changes

import (
	"bytes"
	"io"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/wal"
	"github.com/sievedb/sievedb/util"
	"github.com/sievedb/sievedb/vfs"
)

// Range is the keys from Start to Limit, Limit excluded; nil means no bound.
type Range struct{ Start, Limit []byte }

const (
	hasStart = 1 << iota
	hasLimit
)

// Append appends the range: a byte with 1 if it has a start and 2 if it has a limit, and these with their lengths.
func (r Range) Append(b []byte) []byte {
	at := len(b)
	b = append(b, 0)
	if r.Start != nil {
		b[at] |= hasStart
		b = util.AppendLengthPrefixed(b, r.Start)
	}
	if r.Limit != nil {
		b[at] |= hasLimit
		b = util.AppendLengthPrefixed(b, r.Limit)
	}
	return b
}

// Event describes a change that the log does not have. Its file is a log with one record:
//
//	varint    the version of this format, 1
//	varint    the number of the MANIFEST when it was written
//	varint    the number of ranges, and the ranges
//	bytes     the other writes of the batch, as a batch of the log, with their length
//	varint    the number of tables; for each of them the name of its link, with its length
type Event struct {
	Manifest uint64
	Ranges   []Range
	// Own has the other writes of the batch that deleted the ranges, as a batch. Nil means that there are none.
	Own    []byte
	Tables []string
}

const eventVersion = 1

func (e *Event) encode() []byte {
	b := util.AppendUvarint64(nil, eventVersion)
	b = util.AppendUvarint64(b, e.Manifest)
	b = util.AppendUvarint64(b, uint64(len(e.Ranges)))
	for _, r := range e.Ranges {
		b = r.Append(b)
	}
	b = util.AppendLengthPrefixed(b, e.Own)
	b = util.AppendUvarint64(b, uint64(len(e.Tables)))
	for _, t := range e.Tables {
		b = util.AppendLengthPrefixed(b, []byte(t))
	}
	return b
}

// Decoder reads numbers, strings and ranges, which share the memory of Rest. After a failure all of them are empty.
type Decoder struct {
	Rest   []byte
	Failed bool
}

// Number reads a varint.
func (d *Decoder) Number() uint64 {
	v, n := util.Uvarint64(d.Rest)
	if n <= 0 || d.Failed {
		d.Failed = true
		return 0
	}
	d.Rest = d.Rest[n:]
	return v
}

// Bytes reads a string with its length.
func (d *Decoder) Bytes() []byte {
	s, rest, ok := util.LengthPrefixed(d.Rest)
	if !ok || d.Failed {
		d.Failed = true
		return nil
	}
	d.Rest = rest
	return s
}

// Byte reads a byte.
func (d *Decoder) Byte() byte {
	if len(d.Rest) == 0 || d.Failed {
		d.Failed = true
		return 0
	}
	b := d.Rest[0]
	d.Rest = d.Rest[1:]
	return b
}

// Range reads a range. Its bounds are not nil if they exist, also if they are empty.
func (d *Decoder) Range() (r Range) {
	flags := d.Byte()
	if flags > hasStart|hasLimit {
		d.Failed = true
	}
	if flags&hasStart != 0 {
		r.Start = d.Bytes()
	}
	if flags&hasLimit != 0 {
		r.Limit = d.Bytes()
	}
	return r
}

func decodeEvent(b []byte) (*Event, error) {
	d := Decoder{Rest: b}
	if v := d.Number(); v > eventVersion && !d.Failed {
		return nil, base.Newerf("change", 0, "its format has version %d; the known one is %d", v, eventVersion)
	} else if v != eventVersion && !d.Failed {
		return nil, base.Corruptf("change", 0, "its format has version %d, want %d", v, eventVersion)
	}
	e := &Event{Manifest: d.Number()}
	for n := d.Number(); n > 0 && !d.Failed; n-- {
		r := d.Range()
		e.Ranges = append(e.Ranges, Range{bytes.Clone(r.Start), bytes.Clone(r.Limit)})
	}
	if own := d.Bytes(); len(own) > 0 {
		e.Own = append([]byte{}, own...)
	}
	for n := d.Number(); n > 0 && !d.Failed; n-- {
		name := string(d.Bytes())
		if kind, num, ok := base.ParseFileName(name); !d.Failed && (!ok || kind != base.FileTable || base.FileName(kind, num) != name) {
			return nil, base.Corruptf("change", -1, "%q is not the name of a table", name)
		}
		e.Tables = append(e.Tables, name)
	}
	if d.Failed || len(d.Rest) > 0 {
		return nil, base.Corruptf("change", -1, "it does not decode: %d bytes are left of %d", len(d.Rest), len(b))
	}
	return e, nil
}

// write writes the event to a new file, durably except for its name.
func (e *Event) write(fsys vfs.FS, path string) error {
	f, err := vfs.Replace(fsys, path)
	if err != nil {
		return err
	}
	w := wal.NewWriter(f)
	err = w.WriteRecord(e.encode())
	if err == nil {
		err = w.Sync()
	}
	return errors.CombineErrors(err, w.Close())
}

// readEvent reads the file of an event.
func readEvent(fsys vfs.FS, path string) (*Event, error) {
	f, err := fsys.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	record, err := wal.NewReader(f, size, wal.ReaderOptions{}).Next()
	if err == io.EOF {
		err = base.Corruptf("change", 0, "the file is empty")
	}
	if err == nil {
		var e *Event
		if e, err = decodeEvent(record); err == nil {
			return e, nil
		}
	}
	return nil, base.InFile(err, path, -1)
}
