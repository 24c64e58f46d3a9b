package dump

import (
	"path/filepath"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/util"
	"github.com/sievedb/sievedb/vfs"
)

// Item is a part of a file.
type Item struct {
	// Offset and Size are where it is in the file, in bytes. Parts of a block or of a record have
	// those of the block or record.
	Offset, Size int64
	// Kind is what it is, such as "footer", "data block", "entry" or "edit".
	Kind   string
	Fields []Field
	// Fault says what is wrong with it, and Torn that a crash explains that. Both are empty for a sound part.
	Fault string
	Torn  bool
}

// Field is a field of a part. The value is a uint64, an int, a string, or a []byte for keys, values and
// names from the file.
type Field struct {
	Name  string
	Value any
}

// Kind is a kind of file.
type Kind int

// The kinds of files that File decodes.
const (
	Unknown Kind = iota
	Table
	Log
	Manifest
	Current
	Closed
)

// KindOf returns the kind of a file by its name.
func KindOf(path string) Kind {
	kind, _, ok := base.ParseFileName(filepath.Base(path))
	if !ok {
		return Unknown
	}
	switch kind {
	case base.FileLog:
		return Log
	case base.FileTable, base.FileOldTable, base.FileValues:
		return Table
	case base.FileManifest:
		return Manifest
	case base.FileCurrent:
		return Current
	case base.FileClosed:
		return Closed
	}
	return Unknown
}

// Options say what to decode.
type Options struct {
	// Kind is the kind of the file; Unknown stands for that of its name.
	Kind Kind
	// Entries includes the entries of data blocks and logs.
	Entries bool
}

// Summary counts what a dump found. Faults does not count the torn end of a log.
type Summary struct {
	Items, Faults uint64
	Torn          bool
}

// dumper decodes one file.
type dumper struct {
	file vfs.File
	size int64
	o    Options
	emit func(*Item) error
	sum  Summary
	item Item
	// keyBudget is how many bytes of rebuilt keys are still emitted; see maxKeys.
	keyBudget uint64
}

// File decodes the file at path and calls emit with each part. Damage is in the parts. The error is one of
// reading the file, or of emit, which ends the dump.
func File(fsys vfs.FS, path string, o Options, emit func(*Item) error) (Summary, error) {
	if o.Kind == Unknown {
		if o.Kind = KindOf(path); o.Kind == Unknown {
			return Summary{}, errors.Newf("sievedb: %s has not the name of a table, a log, a MANIFEST, CURRENT or CLOSED; "+
				"say which kind of file it is", path)
		}
	}
	f, err := fsys.Open(path)
	if err != nil {
		return Summary{}, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return Summary{}, base.InFile(err, path, -1)
	}
	d := &dumper{file: f, size: size, o: o, emit: emit, keyBudget: maxKeys(size)}
	switch o.Kind {
	case Table:
		err = d.table()
	case Log:
		err = d.log()
	case Manifest:
		err = d.manifest()
	case Current:
		err = d.current()
	case Closed:
		err = d.closed()
	}
	return d.sum, base.InFile(err, path, -1)
}

// begin starts an item.
func (d *dumper) begin(kind string, offset, size int64) *dumper {
	d.item = Item{Offset: offset, Size: size, Kind: kind, Fields: d.item.Fields[:0]}
	return d
}

// add adds a field to the item.
func (d *dumper) add(name string, value any) *dumper {
	d.item.Fields = append(d.item.Fields, Field{name, value})
	return d
}

// fault marks the item as damaged if err is damage, and as unknown if a newer version wrote it. It
// returns other errors.
func (d *dumper) fault(err error) error {
	if err == nil {
		return nil
	}
	var n *base.NewerError
	if errors.As(err, &n) {
		d.item.Fault = "written by a newer version: " + n.Found
		return nil
	}
	var c *base.CorruptionError
	if !errors.As(err, &c) {
		return err
	}
	d.item.Fault = c.Detail
	return nil
}

// end emits the item.
func (d *dumper) end() error {
	d.sum.Items++
	switch {
	case d.item.Torn:
		d.sum.Torn = true
	case d.item.Fault != "":
		d.sum.Faults++
	}
	return d.emit(&d.item)
}

// maxSmall is the size up to which CURRENT and CLOSED are read. Sound ones are much smaller.
const maxSmall = 4 << 10

// small reads a small file.
func (d *dumper) small() ([]byte, error) {
	b := make([]byte, min(d.size, maxSmall))
	_, err := vfs.ReadFull(d.file, b, 0)
	return b, err
}

func (d *dumper) current() error {
	b, err := d.small()
	if err != nil {
		return err
	}
	name, err := manifest.ParseCurrent(b)
	d.begin("current", 0, d.size)
	if err != nil {
		d.add("content", b)
	} else {
		d.add("manifest", name)
	}
	if err := d.fault(err); err != nil {
		return err
	}
	return d.end()
}

func (d *dumper) closed() error {
	b, err := d.small()
	if err != nil {
		return err
	}
	m, err := manifest.DecodeCloseMark(b)
	d.begin("close mark", 0, d.size)
	if err == nil {
		d.add("log", m.Log.Num).add("log size", m.Log.Size).add("manifest", m.Manifest.Num).add("manifest size", m.Manifest.Size).
			add("manifest begin crc", uint64(util.UnmaskCRC(m.Begin))).add("last sequence", m.LastSeq)
	}
	if err := d.fault(err); err != nil {
		return err
	}
	return d.end()
}
