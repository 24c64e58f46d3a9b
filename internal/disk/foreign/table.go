package foreign

import (
	"bytes"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/codec"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/sstable"
	"github.com/sievedb/sievedb/vfs"
)

// Keys of the metaindex and of the properties in tables that Pebble and RocksDB write in LevelDB's format.
const (
	rangeDeletions    = "rocksdb.range_del" // more follows in newer versions
	rangeKeys         = "pebble.range_key"
	foreignProperties = "rocksdb.properties"
	comparerProperty  = "rocksdb.comparator"
)

// CheckTable returns an error if the table in f, which is in LevelDB's format, was written by Pebble or RocksDB and has
// something that package sstable ignores: deletions of ranges, values of ranges, or the name of another comparer. name
// is the file's, for errors.
func CheckTable(f vfs.File, name, comparer string) error {
	foot, size, err := sstable.ReadFooter(f)
	if err != nil {
		return base.InFile(err, name, -1)
	}
	eachEntry := func(h codec.Handle, fn func(key, value []byte) error) error {
		_, data, err := sstable.ReadBlock(f, size, h)
		if err == nil {
			_, err = sstable.EachEntry(data, fn)
		}
		if base.IsUnreadable(err) {
			err = base.InFile(err, name, int64(min(h.Offset, size)))
		}
		return err
	}
	var properties *codec.Handle
	err = eachEntry(foot.Metaindex, func(key, value []byte) error {
		switch {
		case bytes.HasPrefix(key, []byte(rangeDeletions)):
			return errors.New("it has deletions of ranges by RocksDB or Pebble, which are not supported; write the table without them")
		case bytes.HasPrefix(key, []byte(rangeKeys)):
			return errors.New("it has keys of ranges by Pebble, which are not supported; write the table without them")
		case string(key) == foreignProperties:
			h, _, err := codec.DecodeHandle(value, "metaindex block")
			properties = &h
			return err
		}
		return nil
	})
	if err != nil || properties == nil {
		return err
	}
	return eachEntry(*properties, func(key, value []byte) error {
		if string(key) == comparerProperty && string(value) != comparer {
			return errors.Newf("its keys are in the order of comparer %q; want %q", value, comparer)
		}
		return nil
	})
}
