package manifest

import (
	"bytes"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/util"
)

// The tags of an edit's fields. They reach the disk and never change. New ones are below 100, because
// RocksDB's and Pebble's begin there; see docs/format.md, "What later versions may use".
const (
	tagComparer       = 1
	tagLogNum         = 2
	tagNextFileNum    = 3
	tagLastSeq        = 4
	tagCompactPointer = 5
	tagDeletedFile    = 6
	tagNewFile        = 7
	tagPrevLogNum     = 9

	// Those of value tables, which no other engine has.
	tagNewValues     = 10
	tagDeletedValues = 11
	tagValues        = 12
)

// maxFileNum limits file numbers, so that arithmetic on them cannot overflow.
const maxFileNum = uint64(1)<<63 - 1

// OptionalNum is a number that an edit may or may not have.
type OptionalNum struct {
	Value uint64
	Set   bool
}

// Num returns an OptionalNum that is set to v.
func Num(v uint64) OptionalNum { return OptionalNum{Value: v, Set: true} }

// CompactPointer is the key at which LevelDB's next compaction of a level starts. We decode and ignore it: our choice
// of compactions does not depend on the end of the last one. One pointer has another meaning; see Recorded.
type CompactPointer struct {
	Level int
	Key   []byte // internal key
}

// Edit is the difference between two versions.
type Edit struct {
	Comparer        string // empty if the edit does not have it
	LogNum          OptionalNum
	PrevLogNum      OptionalNum
	NextFileNum     OptionalNum
	LastSeq         OptionalNum
	CompactPointers []CompactPointer
	Deleted         []version.DeletedFile
	Added           []version.LevelFile
	Values          []version.ValueDelta
}

// Change returns what e says about tables.
func (e *Edit) Change() version.Change {
	return version.Change{Deleted: e.Deleted, Added: e.Added, Values: e.Values}
}

// Encode appends the edit's bytes to dst.
func (e *Edit) Encode(dst []byte) []byte {
	if e.Comparer != "" {
		dst = util.AppendUvarint32(dst, tagComparer)
		dst = util.AppendLengthPrefixed(dst, []byte(e.Comparer))
	}
	for _, f := range []struct {
		tag uint32
		num OptionalNum
	}{
		{tagLogNum, e.LogNum}, {tagPrevLogNum, e.PrevLogNum},
		{tagNextFileNum, e.NextFileNum}, {tagLastSeq, e.LastSeq},
	} {
		if f.num.Set {
			dst = util.AppendUvarint32(dst, f.tag)
			dst = util.AppendUvarint64(dst, f.num.Value)
		}
	}
	for _, p := range e.CompactPointers {
		dst = util.AppendUvarint32(dst, tagCompactPointer)
		dst = util.AppendUvarint32(dst, uint32(p.Level))
		dst = util.AppendLengthPrefixed(dst, p.Key)
	}
	for _, d := range e.Deleted {
		if d.Level == version.ValuesLevel {
			dst = util.AppendUvarint32(dst, tagDeletedValues)
		} else {
			dst = util.AppendUvarint32(dst, tagDeletedFile)
			dst = util.AppendUvarint32(dst, uint32(d.Level))
		}
		dst = util.AppendUvarint64(dst, d.Num)
	}
	for _, a := range e.Added {
		if a.Level == version.ValuesLevel {
			dst = util.AppendUvarint32(dst, tagNewValues)
			dst = util.AppendUvarint64(dst, a.File.ValueBytes())
		} else {
			dst = util.AppendUvarint32(dst, tagNewFile)
			dst = util.AppendUvarint32(dst, uint32(a.Level))
		}
		dst = util.AppendUvarint64(dst, a.File.Num)
		dst = util.AppendUvarint64(dst, a.File.Size)
		dst = util.AppendLengthPrefixed(dst, a.File.Smallest)
		dst = util.AppendLengthPrefixed(dst, a.File.Largest)
	}
	return e.encodeValues(dst)
}

// DecodeEdit decodes an edit. The result does not share memory with record. The error is a
// base.CorruptionError, or a base.NewerError for an unknown tag, whose offset is within record.
func DecodeEdit(record []byte) (*Edit, error) {
	e := &Edit{}
	err := decodeEdit(record, e, &editVisitor{
		pointer: func(level int, key []byte) {
			e.CompactPointers = append(e.CompactPointers, CompactPointer{Level: level, Key: bytes.Clone(key)})
		},
		deleted: func(level int, num uint64) {
			e.Deleted = append(e.Deleted, version.DeletedFile{Level: level, Num: num})
		},
		added: func(level int, f *addedFile) {
			e.Added = append(e.Added, version.LevelFile{Level: level, File: f.meta()})
		},
		values: func(d version.ValueDelta) { e.Values = append(e.Values, d) },
	})
	if err != nil {
		return nil, err
	}
	return e, nil
}

// editVisitor has functions that are called for the repeatable fields of an edit, in their order.
// If a function is nil, the fields are checked and ignored. Keys share memory with the record.
type editVisitor struct {
	pointer func(level int, key []byte)
	deleted func(level int, num uint64)
	added   func(level int, f *addedFile)
	values  func(version.ValueDelta)

	table addedFile // for added, because one would be allocated for each table
}

// addedFile is the description of a table that an edit adds. The keys share memory with the record.
type addedFile struct {
	num, size, valueBytes uint64
	smallest, largest     []byte
	values                bool // it is a value table
}

// meta returns the table, with copies of the keys.
func (f *addedFile) meta() *version.FileMeta {
	n := len(f.smallest)
	keys := append(append(make([]byte, 0, n+len(f.largest)), f.smallest...), f.largest...)
	m := version.NewFileMeta(f.num, f.size, keys[:n:n], keys[n:])
	if f.values {
		m.SetValueBytes(f.valueBytes)
	}
	return m
}

// decodeEdit decodes an edit. Fields that an edit has once go to e, also those before an error. The
// other fields go to v.
func decodeEdit(record []byte, e *Edit, v *editVisitor) error {
	d := editDecoder{rest: record, size: len(record)}
	for len(d.rest) > 0 && d.err == nil {
		d.field(e, v)
	}
	return d.err
}

// editDecoder consumes rest and keeps the first error.
type editDecoder struct {
	rest []byte
	size int
	err  error
}

func (d *editDecoder) field(e *Edit, v *editVisitor) {
	switch tag := d.uvarint32("tag"); tag {
	case tagComparer:
		e.Comparer = d.comparerName()
	case tagLogNum:
		e.LogNum = Num(d.fileNum("log number"))
	case tagPrevLogNum:
		e.PrevLogNum = Num(d.fileNum("previous log number"))
	case tagNextFileNum:
		e.NextFileNum = Num(d.fileNum("next file number"))
	case tagLastSeq:
		e.LastSeq = Num(d.uvarint64("last sequence"))
		if e.LastSeq.Value > base.MaxSeq {
			d.fail("last sequence is %d, want at most %d", e.LastSeq.Value, base.MaxSeq)
		}
	case tagCompactPointer:
		level, key := d.pointer()
		if d.err == nil && v.pointer != nil {
			v.pointer(level, key)
		}
	case tagDeletedFile:
		level, num := d.level(), d.fileNum("deleted file number")
		if d.err == nil && v.deleted != nil {
			v.deleted(level, num)
		}
	case tagNewFile:
		v.table = addedFile{}
		d.newFile(v, d.level())
	case tagNewValues, tagDeletedValues, tagValues:
		d.valueField(tag, v)
	default:
		if d.err == nil { // the size of its payload is unknown too
			d.err = base.Newerf("version edit", int64(d.size-len(d.rest)), "tag %d is unknown", tag)
		}
	}
}

// newFile decodes the rest of a table that is added.
func (d *editDecoder) newFile(v *editVisitor, level int) {
	f := &v.table
	f.num, f.size = d.fileNum("new file number"), d.uvarint64("new file size")
	f.smallest, f.largest = d.internalKey("smallest key"), d.internalKey("largest key")
	if d.err == nil && v.added != nil {
		v.added(level, f)
	}
}

func (d *editDecoder) comparerName() string {
	name := string(d.bytes("comparator name"))
	if d.err == nil && (name == "" || len(name) > 1<<10) {
		d.fail("comparator name is %d bytes long, want 1 to 1024", len(name))
	}
	return name
}

// pointer decodes a compact pointer. One of the last level must be known to Recorded.
func (d *editDecoder) pointer() (level int, key []byte) {
	level, key = d.level(), d.internalKey("compact pointer")
	if d.err != nil {
		return level, key
	}
	if err := new(Recorded).apply(level, key); errors.Is(err, base.ErrNewer) {
		d.err = err
	} else if err != nil {
		d.fail("%v", err)
	}
	return level, key
}

func (d *editDecoder) fail(format string, args ...any) {
	if d.err == nil {
		d.err = base.Corruptf("version edit", int64(d.size-len(d.rest)), format, args...)
	}
}

func (d *editDecoder) uvarint32(what string) uint32 {
	v, n := util.Uvarint32(d.rest)
	if n == 0 {
		d.fail("%s is not a varint32", what)
	}
	d.rest = d.rest[n:]
	return v
}

func (d *editDecoder) uvarint64(what string) uint64 {
	v, n := util.Uvarint64(d.rest)
	if n == 0 {
		d.fail("%s is not a varint64", what)
	}
	d.rest = d.rest[n:]
	return v
}

func (d *editDecoder) fileNum(what string) uint64 {
	v := d.uvarint64(what)
	if v > maxFileNum {
		d.fail("%s is %d, want at most %d", what, v, maxFileNum)
	}
	return v
}

func (d *editDecoder) level() int {
	v := d.uvarint32("level")
	if v >= version.NumLevels {
		d.fail("level is %d, want less than %d", v, version.NumLevels)
		return 0
	}
	return int(v)
}

func (d *editDecoder) bytes(what string) []byte {
	s, rest, ok := util.LengthPrefixed(d.rest)
	if !ok {
		d.fail("%s exceeds the end of the edit", what)
		return nil
	}
	d.rest = rest
	return s
}

func (d *editDecoder) internalKey(what string) []byte {
	key := d.bytes(what)
	if d.err == nil && base.HasNewerKind(key) {
		d.err = base.Newerf("version edit", int64(d.size-len(d.rest)), "the %s has the unknown kind %d", what, base.Trailer(key)&0xff)
	}
	if d.err == nil && !base.ValidInternalKey(key) {
		d.fail("%s of %d bytes is not an internal key", what, len(key))
	}
	return key
}
