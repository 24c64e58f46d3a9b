package sstable

import (
	"strings"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/util"
)

const propertiesPart = "properties block"

// Properties are figures about a table that its writer stored in it. They are used
// for metrics and for choosing compactions. No result of a lookup depends on them, except that
// a table is removed whole when its LargestExpiry has passed.
type Properties struct {
	Entries       uint64 // entries, including tombstones
	Deletions     uint64 // tombstones
	FilterKeys    uint64 // user keys in the filter; 0 without one
	RawKeyBytes   uint64 // bytes of the internal keys, before compression
	RawValueBytes uint64 // bytes of the values, before compression
	DataBlocks    uint64 // data blocks
	DataBytes     uint64 // bytes of data blocks in the file, including trailers
	SmallestSeq   uint64 // the smallest sequence number; 0 in an empty table
	LargestSeq    uint64 // the largest sequence number before some were set to 0; see CoverSeq
	// LargestExpiry is when the last value of the table expires, in milliseconds since 1970, 0 if a
	// value does not expire, and if the table has no values. ExpiryKeys identifies the keys whose
	// values may expire (WriterOptions), 0 if there are none.
	LargestExpiry, ExpiryKeys uint64
	// ContentHash is a hash of all data blocks as they are stored, in their order. Backups recognize
	// tables by it (see Identify). It is 0 in a table without entries.
	ContentHash uint64
}

// propertyNames are the keys of the properties block, which never change, with the fields that have their values, a
// varint each. They are in ascending order, like all keys of a block.
var propertyNames = [...]struct {
	name  string
	field func(*Properties) *uint64
}{
	{"content-hash", func(p *Properties) *uint64 { return &p.ContentHash }},
	{"data-blocks", func(p *Properties) *uint64 { return &p.DataBlocks }},
	{"data-bytes", func(p *Properties) *uint64 { return &p.DataBytes }},
	{"deletions", func(p *Properties) *uint64 { return &p.Deletions }},
	{"entries", func(p *Properties) *uint64 { return &p.Entries }},
	{"expiry-keys", func(p *Properties) *uint64 { return &p.ExpiryKeys }},
	{"filter-keys", func(p *Properties) *uint64 { return &p.FilterKeys }},
	{"largest-expiry", func(p *Properties) *uint64 { return &p.LargestExpiry }},
	{"largest-seq", func(p *Properties) *uint64 { return &p.LargestSeq }},
	{"raw-key-bytes", func(p *Properties) *uint64 { return &p.RawKeyBytes }},
	{"raw-value-bytes", func(p *Properties) *uint64 { return &p.RawValueBytes }},
	{"smallest-seq", func(p *Properties) *uint64 { return &p.SmallestSeq }},
}

// encodeProperties adds the properties to an empty block writer. Those of expiry are left out if
// they are 0, as in most tables, and so is the hash of a table without entries.
func encodeProperties(w *blockWriter, p *Properties) {
	var value []byte
	for _, e := range propertyNames {
		v := *e.field(p)
		if v == 0 && (strings.Contains(e.name, "expiry") || e.name == "content-hash") {
			continue
		}
		value = util.AppendUvarint64(value[:0], v)
		w.add([]byte(e.name), value)
	}
}

// decodeProperties reads a properties block; p is of no use with an error. A missing property is zero, and an
// unknown one is ignored: a later version may store more.
func decodeProperties(data []byte) (p Properties, err error) {
	b, err := newBlock(data, propertiesPart)
	if err != nil {
		return Properties{}, err
	}
	err = b.eachEntry(propertiesPart, func(key, value []byte) error {
		for _, e := range propertyNames {
			if string(key) != e.name {
				continue
			}
			v, n := util.Uvarint64(value)
			if n == 0 || n != len(value) {
				return base.Corruptf(propertiesPart, -1, "%s has a value of %d bytes; want one varint", e.name, len(value))
			}
			*e.field(&p) = v
		}
		return nil
	})
	return p, err
}
