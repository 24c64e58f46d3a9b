package sstable

import (
	"bytes"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/codec"
	"github.com/sievedb/sievedb/internal/base/errors"
)

// Keys of the metaindex and of the properties in tables that Pebble and RocksDB write in LevelDB's format.
const (
	rangeDeletions    = "rocksdb.range_del" // more follows in newer versions
	rangeKeys         = "pebble.range_key"
	foreignProperties = "rocksdb.properties"
	comparerProperty  = "rocksdb.comparator"
)

// CheckForeign returns an error if the table was written by Pebble or RocksDB and has something that a
// Reader ignores: deletions of ranges, values of ranges, or the name of another comparer.
func (r *Reader) CheckForeign() error {
	var properties []byte
	err := r.eachMeta(r.foot.Metaindex, "metaindex block", func(key, value []byte) error {
		switch {
		case bytes.HasPrefix(key, []byte(rangeDeletions)):
			return errors.New("it has deletions of ranges by RocksDB or Pebble, which are not supported; write the table without them")
		case bytes.HasPrefix(key, []byte(rangeKeys)):
			return errors.New("it has keys of ranges by Pebble, which are not supported; write the table without them")
		case string(key) == foreignProperties:
			properties = bytes.Clone(value)
		}
		return nil
	})
	if err != nil || properties == nil {
		return err
	}
	h, _, err := codec.DecodeHandle(properties, "metaindex block")
	if err == nil {
		err = h.Check(r.limit, "metaindex block", propertiesPart)
	}
	if err != nil {
		return base.InFile(err, r.name, -1)
	}
	return r.eachMeta(h, propertiesPart, func(key, value []byte) error {
		if string(key) == comparerProperty && string(value) != r.cmp.Name {
			return errors.Newf("its keys are in the order of comparer %q; want %q", value, r.cmp.Name)
		}
		return nil
	})
}

// eachMeta calls f for the entries of a block. An error of f is returned as it is.
func (r *Reader) eachMeta(h handle, part string, f func(key, value []byte) error) error {
	data, err := r.blockIfOpen(h, part)
	if err != nil {
		return err
	}
	b, err := newBlock(data, part)
	if err == nil {
		err = b.eachEntry(part, f)
	}
	if base.IsUnreadable(err) {
		err = base.InFile(err, r.name, int64(h.Offset))
	}
	return err
}
