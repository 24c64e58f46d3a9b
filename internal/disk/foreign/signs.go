package foreign

import (
	"bytes"
	"slices"
	"strings"
)

// The names of the engines.
const (
	rocksDB = "RocksDB"
	pebble  = "Pebble"
	badger  = "Badger"
	sqlite  = "SQLite"
	bbolt   = "bbolt"
	lmdb    = "LMDB"
	riak    = "Riak (eleveldb)"
	netEase = "NetEase's Minecraft, encrypted"
)

// headSize is the number of bytes of a file that are searched for signs.
const headSize = 4 << 10

// sign returns the engine of which a file of that name is a sign, or "". head is nil if only the
// name is known; contents means that the file's first bytes decide.
func sign(name string, head []byte) (engine string, contents bool) {
	if number, ok := strings.CutPrefix(name, "OPTIONS-"); ok && isNumber(number) {
		switch {
		case bytes.Contains(head, []byte("pebble_version=")):
			return pebble, true
		case bytes.Contains(head, []byte("RocksDB option file")), bytes.Contains(head, []byte("rocksdb_version=")):
			return rocksDB, true
		}
		return "", true
	}
	switch name {
	case "IDENTITY":
		return rocksDB, false
	case "KEYREGISTRY", "DISCARD":
		return badger, false
	case "MANIFEST":
		if bytes.HasPrefix(head, []byte("Bdgr")) {
			return badger, true
		}
		return "", true
	}
	if rest, ok := strings.CutPrefix(name, "marker."); ok {
		// marker.NAME.N.VALUE, where N counts the changes of the value
		if parts := strings.SplitN(rest, ".", 3); len(parts) == 3 && parts[0] != "" && isNumber(parts[1]) {
			return pebble, false
		}
		return "", false
	}
	if number, ok := strings.CutSuffix(name, ".vlog"); ok && isNumber(number) {
		return badger, false
	}
	if number, ok := strings.CutSuffix(name, ".mem"); ok && isNumber(number) {
		return badger, false
	}
	return "", false
}

// netEaseHead is how NetEase's edition of Minecraft begins the encrypted files of a world.
const netEaseHead = "\x80\x1d\x30\x01"

// hasRiakLevels reports whether the names are of a database of Riak's LevelDB, which has a directory for the tables of
// each level. MANIFEST and CURRENT are in LevelDB's format, and name tables that are not beside them.
func hasRiakLevels(names []string) bool {
	for _, level := range "0123456" {
		if !slices.Contains(names, "sst_"+string(level)) {
			return false
		}
	}
	return true
}

// isProof reports whether the sign of that name is enough alone.
func isProof(engine, name string) bool { return engine == badger && name == "MANIFEST" }

// infoLogIsRocksDBs reports whether a file LOG that begins with head is RocksDB's.
func infoLogIsRocksDBs(head []byte) bool { return bytes.Contains(head, []byte("RocksDB version")) }

// isNumber reports whether s consists of decimal digits.
func isNumber(s string) bool {
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return false
		}
	}
	return s != ""
}

// fileEngine returns the engine whose single-file database begins with head, or "".
func fileEngine(head []byte) string {
	at := func(offset int, magic string) bool {
		return len(head) >= offset+len(magic) && string(head[offset:offset+len(magic)]) == magic
	}
	for _, f := range []struct {
		engine string
		offset int
		magic  string
	}{
		{sqlite, 0, "SQLite format 3\x00"},
		// The magic numbers of bbolt and LMDB follow a page header, in the machine's byte order.
		{bbolt, 16, "\xed\xda\x0c\xed"}, {bbolt, 16, "\xed\x0c\xda\xed"},
		{lmdb, 16, "\xde\xc0\xef\xbe"}, {lmdb, 16, "\xbe\xef\xc0\xde"},
		{lmdb, 12, "\xde\xc0\xef\xbe"}, {lmdb, 12, "\xbe\xef\xc0\xde"},
	} {
		if at(f.offset, f.magic) {
			return f.engine
		}
	}
	return ""
}
