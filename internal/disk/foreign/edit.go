package foreign

import "github.com/sievedb/sievedb/util"

// The fields of a version edit that LevelDB writes, by tag: n is a varint, s a string preceded by its length.
var levelDBFields = map[uint32]string{
	1:          "s",  // comparator
	2:          "n",  // log number
	3:          "n",  // next file number
	4:          "n",  // last sequence
	5:          "ns", // compact pointer: level, key
	6:          "nn", // deleted file: level, number
	tagNewFile: "nnnss",
	9:          "n", // previous log number
}

// tagNewFile adds a table: level, number, size, smallest and largest key.
const tagNewFile = 7

// isForeignTag reports whether RocksDB or Pebble writes the tag and LevelDB does not. No such tag
// is one flipped bit away from a tag of LevelDB's.
func isForeignTag(tag uint32) bool {
	switch {
	case tag >= 100 && tag <= 108: // tables with more fields, backing tables, blob files
	case tag >= 200 && tag <= 203: // column families
	case tag == 300, tag == 400, tag == 401: // atomic group, blob files
	case tag > 1<<13 && tag <= 1<<13+64: // tags that other versions of RocksDB may ignore
	default:
		return false
	}
	return true
}

// edit is the content of a record of a MANIFEST.
type edit struct {
	tables  []uint64 // numbers of added tables
	foreign uint32   // the first foreign tag, or 0
	whole   bool     // the whole record was decoded as LevelDB does
	newer   bool     // it has a tag that a newer version of SieveDB may use, and no other engine
}

// decodeEdit reads a record up to the first field that LevelDB would not have written.
func decodeEdit(record []byte) (e edit) {
	for len(record) > 0 {
		tag, n := util.Uvarint32(record)
		fields, known := levelDBFields[tag]
		switch {
		case n == 0:
			return e
		case !known:
			if isForeignTag(tag) {
				e.foreign = tag
			}
			e.newer = tag >= 8 && tag < 100
			return e
		}
		record = record[n:]
		var numbers []uint64
		for _, kind := range fields {
			ok := false
			if kind == 's' {
				_, record, ok = util.LengthPrefixed(record)
			} else {
				v, n := util.Uvarint64(record)
				numbers, record, ok = append(numbers, v), record[n:], n > 0
			}
			if !ok {
				return e
			}
		}
		if tag == tagNewFile {
			e.tables = append(e.tables, numbers[1])
		}
	}
	e.whole = true
	return e
}
