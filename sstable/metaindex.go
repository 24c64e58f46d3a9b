package sstable

import (
	"bytes"
	"maps"
	"slices"

	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/blocks"
	"github.com/sievedb/sievedb/internal/base/codec"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/util"
)

// The keys of the metaindex never change. LevelDB looks for the key of its own policy's filter, and goleveldb skips
// filters whose policies it does not have, so both skip ours. RocksDB's sst_dump, with assertions on as in Debian,
// aborts at keys that begin neither with "filter." nor with names of RocksDB's.
const (
	// filterKeyPrefix begins the key of a filter block; the policy's name follows.
	filterKeyPrefix = "filter."
	// rangeKeyPrefix begins the key of a range filter; the policy's name follows.
	rangeKeyPrefix = filterKeyPrefix + reservedRange
	// propertiesKey is the key of the properties block. Its value has the block's handle,
	// then the offset of the last data block as a varint, then the mark of the first and
	// last key, see bounds, then which blocks are lone. From the offset a reader learns, without the index, that the
	// lone filter of a table covers all of it. Readers ignore further bytes.
	propertiesKey = filterKeyPrefix + reservedProperties

	// requiredKeyPrefix begins the key of something that readers must know to read the table
	// correctly. This version writes and knows refsKey, of the block of refSums, and idsKey, of
	// the IDs of a value table; others are for later versions.
	requiredKeyPrefix = filterKeyPrefix + reservedRequired
	refsKey           = requiredKeyPrefix + "values"
	idsKey            = requiredKeyPrefix + "value-table"

	// A policy of filters of keys must not have these names.
	reservedRange      = "sievedb.range."    // a prefix
	reservedRequired   = "sievedb.required." // a prefix
	reservedProperties = "sievedb.properties"

	// Tables that were written before the first release have these keys. They are read only.
	oldRangeKeyPrefix = "rangefilter."
	oldPropertiesKey  = "sievedb.properties"
)

// CheckFilterNames returns an error if one of the policies has a name that the metaindex uses for another block.
func CheckFilterNames(policies []filter.Policy) error {
	for _, p := range policies {
		if p == nil {
			continue
		}
		if kind, _ := kindOfKey([]byte(filterKeyPrefix + p.Name())); kind != metaFilter {
			return errors.Newf("a filter policy is named %q; %q and names that begin with %q or %q are reserved",
				p.Name(), reservedProperties, reservedRange, reservedRequired)
		}
	}
	return nil
}

// metaKind is the kind of block that an entry of the metaindex lists.
type metaKind int

const (
	metaUnknown metaKind = iota
	metaFilter
	metaRange
	metaProperties
	metaRefs
	metaIDs
	metaRequired
)

// kindOfKey returns the kind of the entry with that key, and for a filter its policy's name.
func kindOfKey(key []byte) (kind metaKind, name []byte) {
	switch string(key) {
	case propertiesKey, oldPropertiesKey:
		return metaProperties, nil
	case refsKey:
		return metaRefs, nil
	case idsKey:
		return metaIDs, nil
	}
	for _, p := range metaPrefixes {
		if name, ok := bytes.CutPrefix(key, []byte(p.prefix)); ok {
			return p.kind, name
		}
	}
	return metaUnknown, nil
}

// metaPrefixes are those of keys with names. That of filters is the beginning of others.
var metaPrefixes = []struct {
	prefix string
	kind   metaKind
}{
	{rangeKeyPrefix, metaRange}, {oldRangeKeyPrefix, metaRange}, {requiredKeyPrefix, metaRequired}, {filterKeyPrefix, metaFilter},
}

// metaEntries are the entries of a metaindex that is being written, by key.
type metaEntries map[string][]byte

// block returns the metaindex block. LevelDB searches it, so its keys must ascend.
func (m metaEntries) block() []byte {
	w := blockWriter{interval: 1}
	for _, key := range slices.Sorted(maps.Keys(m)) {
		w.add([]byte(key), m[key])
	}
	return w.finish()
}

// writeListed writes a block uncompressed, and lists it in the metaindex.
func (w *Writer) writeListed(meta metaEntries, key string, block []byte) error {
	h, err := w.writeBlock(block, NoCompression)
	if err == nil {
		meta[key] = h.Append(nil)
	}
	return err
}

// metaindex is the known part of a metaindex block.
type metaindex struct {
	filters    map[string]handle // by policy name
	lastFilter string            // the name of the last of them
	ranges     map[string]handle // range filters, by policy name
	metaHandles
	lastDataOffset uint64
	knowsLast      bool // lastDataOffset is set
	marks
}

// maxMetaNames bounds the total size of the names in a metaindex, in bytes, so that many
// names with a long shared prefix cannot use up memory. Tables have a few short ones.
const maxMetaNames = 64 << 10

func decodeMetaindex(data []byte) (m metaindex, err error) {
	const part = "metaindex block"
	names := 0
	m.filters, m.ranges = make(map[string]handle), make(map[string]handle)
	b, err := newBlock(data, part)
	if err != nil {
		return m, err
	}
	err = b.eachEntry(part, func(key, value []byte) error {
		kind, name := kindOfKey(key)
		if kind == metaUnknown {
			return nil
		}
		if names += len(key); names > maxMetaNames {
			return base.Corruptf(part, -1, "its %d bytes expand to too many bytes of names; want at most %d", len(data), maxMetaNames)
		}
		if kind == metaRequired {
			return base.Newerf(part, -1, "the table requires %q, which is unknown", name)
		}
		h, rest, err := codec.DecodeHandle(value, part)
		if err != nil {
			return err
		}
		switch kind {
		case metaFilter:
			m.lastFilter = string(name)
			m.filters[m.lastFilter] = h
		case metaRange:
			m.ranges[string(name)] = h
		case metaRefs:
			m.refs = h
		case metaIDs:
			m.ids = h
		case metaProperties:
			m.properties = h
			if v, n := util.Uvarint64(rest); n > 0 {
				m.lastDataOffset, m.knowsLast = v, true
				if m.bounds, m.marked = decodeBounds(rest[n:]); m.marked {
					m.lone = blocks.DecodeLone(rest[n+boundsLen:])
				}
			}
		}
		return nil
	})
	return m, err
}

// start returns the offset of the first block that the metaindex lists, or before if that is less. It ignores handles
// that point outside of the first limit bytes: their blocks are never read.
func (m *metaindex) start(limit, before uint64) uint64 {
	count := func(h handle) {
		if h.Check(limit, "", "") == nil {
			before = min(before, h.Offset)
		}
	}
	for _, h := range m.filters {
		count(h)
	}
	for _, h := range m.ranges {
		count(h)
	}
	for _, h := range []handle{m.properties, m.refs, m.ids} {
		if h.Size > 0 {
			count(h)
		}
	}
	return before
}
