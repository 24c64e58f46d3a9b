package manifest

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/util"
)

// Options are the options that Recorded has: those of the last opening for writing that decide what files look
// like, or what is kept. The zero value of a field is the default, and not recorded.
type Options struct {
	ChangeBytes, ChangeAge int64 // Options.Changes of db: bytes, and nanoseconds

	Compression      Compression
	LevelCompression []Compression // by level; the zero Compression is that of Compression
	TableSize        int64         // in bytes, as BlockSize
	BlockSize        int64
	SeparateValues   int64 // in bytes
	RestartInterval  int64

	Filters        []NamedFilter // of each new table; nil is the default, and NoFilters none
	FilterBudget   int64         // in bytes
	MaxWastedReads float64
	ForGoleveldb   bool
	RangeFilters   []NamedFilter

	FileMode    int64
	DiskReserve int64 // in bytes; negative means none
}

// Compression is 0 for the default, otherwise one more than the kind of a compressed block.
type Compression uint8

// NamedFilter is a filter policy: the name that tables have, and the bits for each key or prefix, 0 if the policy does
// not say.
type NamedFilter struct {
	Name string
	Bits uint32
}

// String returns the name, and the bits after a colon if the policy says them.
func (f NamedFilter) String() string {
	if f.Bits > 0 {
		return fmt.Sprintf("%s:%d", PlainName(f.Name), f.Bits)
	}
	return PlainName(f.Name)
}

// PlainName returns a recorded name as it is, or quoted if it has what a terminal would obey or cannot show.
func PlainName(name string) string {
	if !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(name)
	}
	return name
}

// NoFilters is the name in Options.Filters of a database whose tables have no filters.
const NoFilters = "none"

// Bounds of the lists, because each edit has them. A later version may allow more, and never less.
const (
	MaxFilterName = 1 << 10 // in bytes
	maxNamed      = 16      // more than a table has
)

// optionField is a field of the record. decode returns false for a payload that this version does not write; that
// of a later version may be such a one.
type optionField struct {
	tag    uint32
	name   string // of the field of db.Options
	encode func(*Options) []byte
	decode func(*Options, []byte) bool
	text   func(*Options) string
}

// optionFields are all fields of options that this version knows, in the order of their tags, which reach the disk and
// never change.
var optionFields = []optionField{
	number(64, "Changes.Bytes", func(o *Options) *int64 { return &o.ChangeBytes }, decimal),
	number(65, "Changes.Age", func(o *Options) *int64 { return &o.ChangeAge }, duration),
	{66, "Tables.Compression",
		func(o *Options) []byte { return encodeCompression(o.Compression) },
		func(o *Options, b []byte) bool {
			if len(b) != 1 || !knownCompression(b[0]) || b[0] == 0 {
				return false
			}
			o.Compression = Compression(b[0])
			return true
		},
		func(o *Options) string { return o.Compression.String() }},
	{67, "Tables.LevelCompression",
		func(o *Options) []byte { return encodeCompression(o.LevelCompression...) },
		func(o *Options, b []byte) bool {
			if len(b) == 0 || len(b) > version.NumLevels {
				return false
			}
			for _, c := range b {
				if !knownCompression(c) {
					return false
				}
				o.LevelCompression = append(o.LevelCompression, Compression(c))
			}
			return true
		},
		func(o *Options) string { return joined(o.LevelCompression) }},
	number(68, "Tables.Size", func(o *Options) *int64 { return &o.TableSize }, decimal),
	number(69, "Tables.BlockSize", func(o *Options) *int64 { return &o.BlockSize }, decimal),
	number(70, "Tables.RestartInterval", func(o *Options) *int64 { return &o.RestartInterval }, decimal),
	names(71, "Filters.Policy", func(o *Options) *[]NamedFilter { return &o.Filters }),
	number(72, "Filters.Budget", func(o *Options) *int64 { return &o.FilterBudget }, decimal),
	{73, "Filters.MaxWastedReads",
		func(o *Options) []byte {
			if o.MaxWastedReads == 0 {
				return nil
			}
			return binary.LittleEndian.AppendUint64(nil, math.Float64bits(o.MaxWastedReads))
		},
		func(o *Options, b []byte) bool {
			if len(b) != 8 {
				return false
			}
			o.MaxWastedReads = math.Float64frombits(binary.LittleEndian.Uint64(b))
			return o.MaxWastedReads > 0 && o.MaxWastedReads < 1
		},
		func(o *Options) string { return fmt.Sprint(o.MaxWastedReads) }},
	{74, "Filters.ForGoleveldb",
		func(o *Options) []byte {
			if !o.ForGoleveldb {
				return nil
			}
			return []byte{}
		},
		func(o *Options, b []byte) bool { o.ForGoleveldb = len(b) == 0; return o.ForGoleveldb },
		func(o *Options) string { return fmt.Sprint(o.ForGoleveldb) }},
	names(75, "Filters.RangePolicies", func(o *Options) *[]NamedFilter { return &o.RangeFilters }),
	number(76, "FileMode", func(o *Options) *int64 { return &o.FileMode }, func(v int64) string { return fmt.Sprintf("%#o", v) }),
	number(77, "Limits.DiskReserve", func(o *Options) *int64 { return &o.DiskReserve }, decimal),
	number(78, "Tables.SeparateValues", func(o *Options) *int64 { return &o.SeparateValues }, decimal),
}

func decimal(v int64) string  { return fmt.Sprint(v) }
func duration(v int64) string { return time.Duration(v).String() }

// number returns a field whose payload is a varint64, with the sign in its lowest bit.
func number(tag uint32, name string, of func(*Options) *int64, text func(int64) string) optionField {
	return optionField{tag, name,
		func(o *Options) []byte {
			if v := *of(o); v != 0 {
				return binary.AppendVarint(nil, v)
			}
			return nil
		},
		func(o *Options, b []byte) bool {
			v, n := binary.Varint(b)
			*of(o) = v
			return n == len(b) && v != 0
		},
		func(o *Options) string { return text(*of(o)) },
	}
}

// names returns a field whose payload is a list of filters: for each a length-prefixed name and a varint32, its bits.
func names(tag uint32, name string, of func(*Options) *[]NamedFilter) optionField {
	return optionField{tag, name,
		func(o *Options) (b []byte) {
			for _, f := range *of(o) {
				b = util.AppendUvarint32(util.AppendLengthPrefixed(b, []byte(f.Name)), f.Bits)
			}
			return b
		},
		func(o *Options, b []byte) bool {
			list := of(o)
			for len(b) > 0 {
				name, rest, ok := util.LengthPrefixed(b)
				bits, n := util.Uvarint32(rest)
				if !ok || n == 0 || len(name) == 0 || len(name) > MaxFilterName || len(*list) == maxNamed {
					return false
				}
				*list, b = append(*list, NamedFilter{string(name), bits}), rest[n:]
			}
			return len(*list) > 0
		},
		func(o *Options) string { return joined(*of(o)) },
	}
}

func joined[T fmt.Stringer](list []T) string {
	words := make([]string, len(list))
	for i, e := range list {
		words[i] = e.String()
	}
	return strings.Join(words, ", ")
}

func encodeCompression(all ...Compression) (b []byte) {
	for _, c := range all {
		b = append(b, byte(c))
	}
	if strings.Trim(string(b), "\x00") == "" { // all are the default
		return nil
	}
	return b
}

func knownCompression(b byte) bool { return b < byte(len(compressionNames)) }

var compressionNames = []string{"default", "none", "snappy", "zstd"}

// String returns the name of the compression.
func (c Compression) String() string { return compressionNames[c] }

// Option is an option in words.
type Option struct{ Name, Text string }

// List returns the options that are not the default, in the order of their tags.
func (o *Options) List() (list []Option) {
	for _, f := range optionFields {
		if f.encode(o) != nil {
			list = append(list, Option{f.name, f.text(o)})
		}
	}
	return list
}

// OptionChange is an option that differs. An empty text means the default.
type OptionChange struct{ Name, Before, After string }

// Compare returns the options in which o and other differ.
func (o *Options) Compare(other *Options) (changed []OptionChange) {
	for _, f := range optionFields {
		var texts [2]string
		for i, o := range []*Options{o, other} {
			if f.encode(o) != nil {
				texts[i] = f.text(o)
			}
		}
		if texts[0] != texts[1] {
			changed = append(changed, OptionChange{f.name, texts[0], texts[1]})
		}
	}
	return changed
}

// UnreadableOption is a recorded field that this version does not understand: an option of a later version, whose Name
// is empty, or one that has a value of a later version.
type UnreadableOption struct {
	Tag     uint32
	Name    string
	Payload []byte
}

// Options returns the recorded options. The second result lists fields that cannot be read; their options are zero.
func (r *Recorded) Options() (o Options, unreadable []UnreadableOption) {
	for _, raw := range rawFields(r.optional) {
		i := fieldOf(raw.Tag)
		if i < 0 {
			unreadable = append(unreadable, raw)
			continue
		}
		before := o
		if !optionFields[i].decode(&o, raw.Payload) {
			o, raw.Name = before, optionFields[i].name
			unreadable = append(unreadable, raw)
		}
	}
	return o, unreadable
}

// WithOptions returns what r records with other options. Fields that are not known stay.
func (r *Recorded) WithOptions(o *Options) Recorded {
	fields := slices.DeleteFunc(rawFields(r.optional), func(f UnreadableOption) bool { return fieldOf(f.Tag) >= 0 })
	for _, f := range optionFields {
		if payload := f.encode(o); payload != nil {
			fields = append(fields, UnreadableOption{Tag: f.tag, Payload: payload})
		}
	}
	slices.SortFunc(fields, func(a, b UnreadableOption) int { return cmp.Compare(a.Tag, b.Tag) })
	next := *r
	next.optional = nil
	for _, f := range fields {
		next.optional = util.AppendLengthPrefixed(util.AppendUvarint32(next.optional, f.Tag), f.Payload)
	}
	return next
}

func fieldOf(tag uint32) int {
	return slices.IndexFunc(optionFields, func(f optionField) bool { return f.tag == tag })
}

// rawFields takes fields apart that decodeRecorded has checked.
func rawFields(b []byte) (fields []UnreadableOption) {
	for len(b) > 0 {
		tag, n := util.Uvarint32(b)
		payload, rest, _ := util.LengthPrefixed(b[n:])
		fields, b = append(fields, UnreadableOption{Tag: tag, Payload: payload}), rest
	}
	return fields
}

// RecordOptions makes o the options that each later edit records. A caller must not change its slices afterwards.
func (s *Set) RecordOptions(o *Options) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.recorded
	s.recorded = before.WithOptions(o)
	s.unrecorded = s.unrecorded || !before.isZero() && s.recorded.isZero()
}
