package dump

import (
	"fmt"
	"io"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/batch"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/internal/disk/wal"
)

// records calls fn with each record of a log or MANIFEST, and emits items for the bytes between them
// that do not decode.
func (d *dumper) records(o wal.ReaderOptions, fn func(r *wal.Reader, record []byte) error) error {
	r := wal.NewReader(d.file, d.size, o)
	for {
		record, err := r.Next()
		switch {
		case err == nil:
			if err := fn(r, record); err != nil {
				return err
			}
		case err == io.EOF:
			return d.tail(r)
		case base.IsUnreadable(err):
			if err := d.lostRecords(r.Tail()); err != nil {
				return err
			}
			if !r.Skip() {
				return nil
			}
		default:
			return err
		}
	}
}

// tail emits the bytes after the last record.
func (d *dumper) tail(r *wal.Reader) error {
	t := r.Tail()
	if t.Kind == wal.TailClean {
		return d.zeros(r.End())
	}
	if err := d.lostRecords(t); err != nil || t.Resume >= 0 {
		return err
	}
	return d.zeros(t.Offset + t.Dropped)
}

// zeros emits the space from an offset on that was reserved and not used, if there is any.
func (d *dumper) zeros(from int64) error {
	if from >= d.size {
		return nil
	}
	return d.begin("unwritten zeros", from, d.size-from).end()
}

func (d *dumper) lostRecords(t wal.Tail) error {
	end := t.Offset + t.Dropped // zeros may follow
	if t.Resume >= 0 {
		end = t.Resume
	}
	d.begin("lost bytes", t.Offset, end-t.Offset).add("end of the log", t.Kind.String())
	d.item.Fault = t.Reason
	if t.Kind == wal.TailNewer {
		d.item.Fault = "written by a newer version: " + t.Reason
	}
	d.item.Torn = t.Kind == wal.TailTorn && !t.BitFlip
	if t.Kind == wal.TailHole {
		// A power cut can leave it, and Open then drops the records after it. They were not synced, unless
		// the file was damaged. So it is not an ordinary end.
		d.item.Fault += "; records follow, which Open does not use"
	}
	return d.end()
}

// log decodes a write-ahead log: each record is a batch.
func (d *dumper) log() error {
	return d.records(wal.ReaderOptions{Last: true}, func(r *wal.Reader, record []byte) error {
		d.begin("batch", r.Offset(), r.End()-r.Offset())
		if last, ok := batch.ReadPreamble(r, record); ok {
			d.item.Kind = "preamble"
			return d.add("operations before", last).end()
		}
		b, err := batch.NewReader(record)
		if err == nil {
			d.add("sequence", b.Seq).add("count", uint64(b.Count))
		}
		_, _, checked := batch.Check(record)
		if err == nil {
			err = checked
		}
		if err := d.fault(err); err != nil {
			return err
		}
		if err := d.end(); err != nil || !d.o.Entries {
			return err
		}
		return d.batchEntries(&b, r.Offset(), r.End()-r.Offset())
	})
}

// batchEntries emits the entries of a batch, as far as it decodes.
func (d *dumper) batchEntries(b *batch.Reader, offset, size int64) error {
	for {
		kind, key, value, seq, ok, err := b.Next()
		if !ok || err != nil {
			return nil // the batch's item has the fault
		}
		d.begin("entry", offset, size).add("operation", operation(kind)).add("sequence", seq).add("key", key)
		if kind == base.KindSet {
			d.add("value", value)
		}
		if err := d.end(); err != nil {
			return err
		}
	}
}

func operation(kind base.Kind) string {
	if kind == base.KindDelete {
		return "delete"
	}
	return "put"
}

// manifest decodes a MANIFEST: each record is a version edit.
func (d *dumper) manifest() error {
	return d.records(wal.ReaderOptions{AllowTornEnd: true}, func(r *wal.Reader, record []byte) error {
		offset, size := r.Offset(), r.End()-r.Offset()
		d.begin("edit", offset, size)
		e, err := manifest.DecodeEdit(record)
		if err != nil {
			d.add("record", record)
			if err := d.fault(err); err != nil {
				return err
			}
			return d.end()
		}
		if e.Comparer != "" {
			d.add("comparer", []byte(e.Comparer))
		}
		for _, n := range []struct {
			name string
			num  manifest.OptionalNum
		}{{"log", e.LogNum}, {"previous log", e.PrevLogNum}, {"next file", e.NextFileNum}, {"last sequence", e.LastSeq}} {
			if n.num.Set {
				d.add(n.name, n.num.Value)
			}
		}
		if err := d.end(); err != nil {
			return err
		}
		return d.editFiles(e, offset, size)
	})
}

// editFiles emits the compact pointers and tables of an edit.
func (d *dumper) editFiles(e *manifest.Edit, offset, size int64) error {
	for _, p := range e.CompactPointers {
		if r, ok := p.Recorded(); ok {
			if err := d.recorded(&r, offset, size); err != nil {
				return err
			}
			continue
		}
		if err := d.begin("compact pointer", offset, size).add("level", p.Level).internalKey("key", p.Key).end(); err != nil {
			return err
		}
	}
	for _, f := range e.Deleted {
		if f.Level == version.ValuesLevel {
			d.begin("deleted value table", offset, size)
		} else {
			d.begin("deleted table", offset, size).add("level", f.Level)
		}
		if err := d.add("table", f.Num).end(); err != nil {
			return err
		}
	}
	for _, f := range e.Added {
		if f.Level == version.ValuesLevel {
			d.begin("new value table", offset, size).add("bytes of values", f.File.ValueBytes())
		} else {
			d.begin("new table", offset, size).add("level", f.Level)
		}
		d.add("table", f.File.Num).add("bytes", f.File.Size).
			internalKey("smallest", f.File.Smallest).internalKey("largest", f.File.Largest)
		if err := d.end(); err != nil {
			return err
		}
	}
	for _, v := range e.Values {
		d.begin("values", offset, size).add("ID", v.ID)
		if v.File > 0 {
			d.add("table", v.File)
		}
		if err := d.add("change of the bytes in use", v.Live).end(); err != nil {
			return err
		}
	}
	return nil
}

// recorded emits what an edit records about the database as a whole.
func (d *dumper) recorded(r *manifest.Recorded, offset, size int64) error {
	d.begin("recorded", offset, size)
	if r.Time > 0 {
		d.add("time", r.Time)
	}
	for _, prefix := range r.Prefixes {
		d.add("expiry prefix", prefix)
	}
	o, unreadable := r.Options()
	for _, option := range o.List() {
		d.add(option.Name, option.Text)
	}
	for _, u := range unreadable {
		d.add(fmt.Sprintf("field %d of a later version", u.Tag), u.Payload)
	}
	return d.end()
}

// internalKey adds the user key with its sequence number and kind, or the bytes if they are not an internal key.
func (d *dumper) internalKey(name string, ikey []byte) *dumper {
	if !base.ValidInternalKey(ikey) {
		d.item.Fault = "the " + name + " is not an internal key; want at least 8 bytes, with a trailer of kind 0 or 1"
		return d.add(name, ikey)
	}
	seq, kind := base.SplitTrailer(base.Trailer(ikey))
	d.add(name, base.UserKey(ikey))
	if name != "key" {
		return d.add(name+" sequence", seq).add(name+" operation", operation(kind))
	}
	return d.add("sequence", seq).add("operation", operation(kind))
}
