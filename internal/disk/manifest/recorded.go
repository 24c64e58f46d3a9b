package manifest

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"path/filepath"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/util"
	"github.com/sievedb/sievedb/vfs"
)

// Recorded is what a MANIFEST records about the database as a whole. Each edit has all of it, unless it
// is zero and no edit before it in the MANIFEST had more. Its slices are never changed.
//
// LevelDB and goleveldb must be able to read the MANIFEST and should keep what it records, so it is a
// compact pointer of the last level: a compaction from there has nowhere to go, so LevelDB copies the
// pointer and does not use it. (When goleveldb adds an eighth level, it begins with a table after this
// key, which is as good as any.) They keep one pointer of a level, so all fields are in the same one. Its
// user key is recordedPrefix and then fields in ascending order, each
//
//	tag      varint32
//	length   varint32
//	payload  length bytes
//
//	tag  field            payload
//	  1  time             fixed64, see Recorded.Time
//	  2  expiry prefixes  each length-prefixed, ascending; none begins with another
//
// A reader must stop at a tag below firstOptional that it does not know. It copies other unknown fields to
// the edits that it writes. Those from firstOptional on that this version knows are options; see Options.
type Recorded struct {
	// Time is the latest time that the store has seen, in milliseconds since 1970; 0 if no edit recorded
	// it, which is the case if no value ever had an envelope.
	Time uint64
	// Prefixes begin the keys whose values have envelopes; see package expiry. If there are none and Time
	// is not 0, an earlier version wrote the MANIFEST, and the prefixes are unknown.
	Prefixes [][]byte

	optional []byte // encoded fields from firstOptional on
}

// MaxPrefixBytes bounds the list of prefixes, because each edit has it. It reaches the disk: a later version may allow
// more, and never less.
const MaxPrefixBytes = 64 << 10

// PrefixBytes returns the length of the list of prefixes as it is recorded.
func PrefixBytes(prefixes [][]byte) (n int) {
	for _, p := range prefixes {
		n += len(util.AppendLengthPrefixed(nil, p))
	}
	return n
}

// The parts of the record. They reach the disk and never change.
const (
	recordedPrefix      = "sievedb.state\x00"
	recordedTime        = 1
	recordedPrefixes    = 2
	recordedLevel       = version.NumLevels - 1
	firstOptional       = 64
	earlierRecordPrefix = "sievedb.time\x00" // of versions that recorded the time only, as a fixed64
)

// PrefixesUnknown reports whether values have envelopes, but it is not recorded which.
func (r *Recorded) PrefixesUnknown() bool { return r.Time > 0 && len(r.Prefixes) == 0 }

// appendPointer appends the pointer that records r, unless r is zero.
func (r *Recorded) appendPointer(to []CompactPointer) []CompactPointer {
	key := []byte(recordedPrefix)
	if r.Time > 0 {
		key = util.AppendUvarint32(key, recordedTime)
		key = util.AppendLengthPrefixed(key, binary.LittleEndian.AppendUint64(nil, r.Time))
	}
	if len(r.Prefixes) > 0 {
		var list []byte
		for _, prefix := range r.Prefixes {
			list = util.AppendLengthPrefixed(list, prefix)
		}
		key = util.AppendUvarint32(key, recordedPrefixes)
		key = util.AppendLengthPrefixed(key, list)
	}
	key = append(key, r.optional...)
	if len(key) == len(recordedPrefix) {
		return to
	}
	return append(to, pointerTo(key))
}

func pointerTo(key []byte) CompactPointer {
	return CompactPointer{Level: recordedLevel, Key: base.AppendInternalKey(nil, key, 0, base.KindDelete)}
}

// recordedNothing is the pointer of a record without fields. It replaces what an earlier edit of the MANIFEST recorded,
// which an edit without a record leaves.
func recordedNothing() CompactPointer { return pointerTo([]byte(recordedPrefix)) }

func (r *Recorded) isZero() bool { return r.Time == 0 && len(r.Prefixes) == 0 && len(r.optional) == 0 }

// AddTo makes e record r, for WriteFile. A Set adds what it records by itself.
func (r *Recorded) AddTo(e *Edit) { e.CompactPointers = r.appendPointer(e.CompactPointers) }

// apply takes what a pointer records, if it is one that does. Those of later edits replace what is there,
// but the time never goes back. It returns why the record cannot be used.
func (r *Recorded) apply(level int, key []byte) error {
	if level != recordedLevel {
		return nil
	}
	user := base.UserKey(key)
	if len(user) == len(earlierRecordPrefix)+8 && bytes.HasPrefix(user, []byte(earlierRecordPrefix)) {
		r.Time = max(r.Time, binary.LittleEndian.Uint64(user[len(earlierRecordPrefix):]))
		return nil
	}
	fields, ok := bytes.CutPrefix(user, []byte(recordedPrefix))
	if !ok {
		return nil
	}
	next, err := decodeRecorded(fields)
	if err == nil {
		next.Time = max(next.Time, r.Time)
		*r = next
	}
	return err
}

// Apply takes what an edit records; see apply. DecodeEdit has checked that.
func (r *Recorded) Apply(e *Edit) {
	for _, p := range e.CompactPointers {
		_ = r.apply(p.Level, p.Key)
	}
}

// Recorded returns what p records about the database; ok is false if p is another pointer.
func (p CompactPointer) Recorded() (r Recorded, ok bool) {
	err := r.apply(p.Level, p.Key)
	nothing := recordedNothing()
	return r, err == nil && (!r.isZero() || p.Level == nothing.Level && bytes.Equal(p.Key, nothing.Key))
}

// decodeRecorded decodes the fields of a record. The result shares no memory with them.
func decodeRecorded(fields []byte) (r Recorded, err error) {
	last := uint32(0)
	for len(fields) > 0 {
		tag, n := util.Uvarint32(fields)
		payload, rest, ok := util.LengthPrefixed(fields[n:])
		switch {
		case n == 0 || !ok:
			return r, errors.New("a field of what is recorded about the database exceeds its end")
		case tag <= last:
			return r, errors.Newf("what is recorded about the database has field %d after field %d", tag, last)
		case tag == recordedTime && len(payload) != 8:
			return r, errors.Newf("the recorded time has %d bytes, want 8", len(payload))
		case tag == recordedTime:
			r.Time = binary.LittleEndian.Uint64(payload)
		case tag == recordedPrefixes:
			if r.Prefixes, err = decodePrefixes(payload); err != nil {
				return r, err
			}
		case tag < firstOptional:
			return r, base.Newerf("version edit", -1, "field %d of what is recorded about the database is unknown", tag)
		default:
			r.optional = append(r.optional, fields[:len(fields)-len(rest)]...)
		}
		last, fields = tag, rest
	}
	return r, nil
}

func decodePrefixes(list []byte) (prefixes [][]byte, err error) {
	if len(list) > MaxPrefixBytes {
		return nil, errors.Newf("the list of expiry prefixes has %d bytes, want at most %d", len(list), MaxPrefixBytes)
	}
	for len(list) > 0 {
		prefix, rest, ok := util.LengthPrefixed(list)
		n := len(prefixes)
		switch {
		case !ok:
			return nil, errors.New("an expiry prefix exceeds the end of its list")
		case n > 0 && (bytes.Compare(prefix, prefixes[n-1]) < 0 || bytes.HasPrefix(prefix, prefixes[n-1])):
			return nil, errors.New("the expiry prefixes are not in order, or one begins with another")
		}
		prefixes, list = append(prefixes, bytes.Clone(prefix)), rest
	}
	if len(prefixes) == 0 {
		return nil, errors.New("the list of expiry prefixes is empty")
	}
	return prefixes, nil
}

// ReadRecorded returns what the MANIFEST in force records about the database, and the name of the comparer as it is
// recorded. After an error the results are those of the edits before. It needs no lock: a program may write the
// database.
func ReadRecorded(fsys vfs.FS, dir string, readLimit int64) (r Recorded, comparer string, err error) {
	var name string
	var failed error
	for { // an opening for writing removes the MANIFEST once CURRENT names a newer one
		before := name
		if name, err = readCurrent(fsys, dir); err != nil {
			return r, comparer, err
		}
		if name == before {
			return r, comparer, failed
		}
		r, comparer = Recorded{}, ""
		var l loading
		_, failed = l.read(fsys, filepath.Join(dir, name), readLimit, func(record []byte) error {
			e, err := DecodeEdit(record)
			if err == nil {
				r.Apply(e)
				comparer = cmp.Or(e.Comparer, comparer)
			}
			return err
		})
		if failed == nil {
			return r, comparer, nil
		}
	}
}

// advanceTime makes the present time the one to record, if values of the database expire.
func (s *Set) advanceTime() {
	if s.opts.Clock != nil && (s.recorded.Time > 0 || len(s.recorded.Prefixes) > 0) {
		s.recorded.Time = max(s.recorded.Time, s.opts.Clock())
	}
}

// Recorded returns what the MANIFEST records about the database.
func (s *Set) Recorded() Recorded {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.recorded
}

// RecordPrefixes makes prefixes, in the order that Recorded says, those that each later edit records.
func (s *Set) RecordPrefixes(prefixes [][]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.recorded.Prefixes = prefixes
}
