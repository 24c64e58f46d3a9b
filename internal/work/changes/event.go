package changes

import (
	"io"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/wal"
	"github.com/sievedb/sievedb/util"
	"github.com/sievedb/sievedb/vfs"
)

// Range is the keys from Start to Limit, Limit excluded; nil means no bound.
type Range struct{ Start, Limit []byte }

// Event describes a change that the log does not have. Its file is a log with one record:
//
//	varint    the version of this format, 1
//	varint    the number of the MANIFEST when it was written
//	varint    the number of ranges; for each of them:
//	  byte      1: it has a start, 2: it has a limit, 3: both, 0: neither
//	  bytes     the start and the limit, as far as it has them, each with its length
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

const (
	hasStart = 1 << iota
	hasLimit
)

func (e *Event) encode() []byte {
	b := util.AppendUvarint64(nil, eventVersion)
	b = util.AppendUvarint64(b, e.Manifest)
	b = util.AppendUvarint64(b, uint64(len(e.Ranges)))
	for _, r := range e.Ranges {
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
	}
	b = util.AppendLengthPrefixed(b, e.Own)
	b = util.AppendUvarint64(b, uint64(len(e.Tables)))
	for _, t := range e.Tables {
		b = util.AppendLengthPrefixed(b, []byte(t))
	}
	return b
}

// decoder reads the parts of an event. After a failure all parts are empty.
type decoder struct {
	rest   []byte
	failed bool
}

func (d *decoder) number() uint64 {
	v, n := util.Uvarint64(d.rest)
	if n <= 0 || d.failed {
		d.failed = true
		return 0
	}
	d.rest = d.rest[n:]
	return v
}

func (d *decoder) bytes() []byte {
	s, rest, ok := util.LengthPrefixed(d.rest)
	if !ok || d.failed {
		d.failed = true
		return nil
	}
	d.rest = rest
	return s
}

func (d *decoder) flags() byte {
	if len(d.rest) == 0 || d.rest[0] > hasStart|hasLimit {
		d.failed = true
	}
	if d.failed {
		return 0
	}
	f := d.rest[0]
	d.rest = d.rest[1:]
	return f
}

func decodeEvent(b []byte) (*Event, error) {
	d := decoder{rest: b}
	if v := d.number(); v > eventVersion && !d.failed {
		return nil, base.Newerf("change", 0, "its format has version %d; the known one is %d", v, eventVersion)
	} else if v != eventVersion && !d.failed {
		return nil, base.Corruptf("change", 0, "its format has version %d, want %d", v, eventVersion)
	}
	e := &Event{Manifest: d.number()}
	for n := d.number(); n > 0 && !d.failed; n-- {
		var r Range
		flags := d.flags()
		if flags&hasStart != 0 {
			r.Start = append([]byte{}, d.bytes()...)
		}
		if flags&hasLimit != 0 {
			r.Limit = append([]byte{}, d.bytes()...)
		}
		e.Ranges = append(e.Ranges, r)
	}
	if own := d.bytes(); len(own) > 0 {
		e.Own = append([]byte{}, own...)
	}
	for n := d.number(); n > 0 && !d.failed; n-- {
		name := string(d.bytes())
		if kind, num, ok := base.ParseFileName(name); !d.failed && (!ok || kind != base.FileTable || base.FileName(kind, num) != name) {
			return nil, base.Corruptf("change", -1, "%q is not the name of a table", name)
		}
		e.Tables = append(e.Tables, name)
	}
	if d.failed || len(d.rest) > 0 {
		return nil, base.Corruptf("change", -1, "it does not decode: %d bytes are left of %d", len(d.rest), len(b))
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
