package main

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/sievedb/sievedb/internal/test/interop"
)

// programInfo says for a README which program it was and how it was run.
type programInfo struct{ name, command string }

var programs = map[string]programInfo{
	"leveldb-1.23": {
		"LevelDB 1.23 (Debian 12, libleveldb-dev 1.23-4)",
		"go run ./makegolden -program=leveldb-1.23",
	},
	"goleveldb": {
		"goleveldb v1.0.1-0.20220721030215-126854af5e6d",
		"go run ./makegolden -program=goleveldb",
	},
	"sievedb": {
		"SieveDB, at the commit that added this directory",
		"go run ./makegolden -program=sievedb",
	},
	"leveldb-1.17": {
		"LevelDB 1.17 (tag v1.17 of google/leveldb, its Makefile's libleveldb.a, g++ 12 on x86-64, where char is signed)",
		"g++ -std=c++14 -O2 -DLEVELDB_BEFORE_1_21 -I LEVELDB/include \\\n    -o DRIVER leveldb/driver.cc LEVELDB/libleveldb.a -lsnappy -pthread\n" +
			"go run ./makegolden -program=leveldb-1.17 -driver=DRIVER",
	},
	"leveldb-main": {
		"LevelDB's main branch at commit 78a352f47ed6c1e9d750545e9b242289185b87e1 of google/leveldb, built with Snappy 1.1.9 and zstd 1.5.4",
		"g++ -std=c++17 -O2 -fno-rtti -DLEVELDB_ZSTD -I LEVELDB/include \\\n    -o DRIVER leveldb/driver.cc LEVELDB/libleveldb.a -lsnappy -lzstd -pthread\n" +
			"go run ./makegolden -program=leveldb-main -driver=DRIVER",
	},
}

// golden is one directory.
type golden struct {
	name, program, about string
	opts                 interop.Options
	fill                 func(*maker)
	killed               bool // the process ended without closing the database
	oldSuffix            bool // the tables were called .sst afterwards
}

var (
	filtered   = interop.Options{BloomBits: 10}
	unfiltered = interop.Options{}
)

var cases = []golden{
	{name: "leveldb-1.23-levels-filter", program: "leveldb-1.23", opts: filtered, fill: fillLevels,
		about: "Tables on levels 0, 1 and 2 with filters, a filter for each 2 KiB of file, and a few entries in the log."},
	{name: "leveldb-1.23-levels-no-filter", program: "leveldb-1.23", opts: unfiltered, fill: fillLevels,
		about: "Tables on levels 0, 1 and 2 without filters, and a few entries in the log."},
	{name: "leveldb-1.23-uncompressed", program: "leveldb-1.23", fill: fillLevels,
		opts:  interop.Options{BloomBits: 10, Compression: interop.None},
		about: "Tables on levels 0, 1 and 2 whose blocks are not compressed."},
	{name: "leveldb-1.23-log-only", program: "leveldb-1.23", opts: filtered, fill: fillLog, killed: true,
		about: "All data in the log of a process that ended without closing; batches of one and of many entries, and a record that spans two blocks."},
	{name: "leveldb-1.23-sst-names", program: "leveldb-1.23", opts: filtered, fill: fillLevels, oldSuffix: true,
		about: "As leveldb-1.23-levels-filter, with the tables called .sst as LevelDB before 1.14 did, renamed after closing."},
	{name: "leveldb-1.23-versions", program: "leveldb-1.23", opts: filtered, fill: fillVersions, killed: true,
		about: "Overwrites and deletions under snapshots, so that tables hold several versions of a key, tombstones among them."},
	{name: "leveldb-1.23-sequence-ahead", program: "leveldb-1.23", fill: fillSequenceAhead, killed: true,
		opts:  interop.Options{WriteBufferSize: 64 << 10, HoldBackground: true},
		about: "The MANIFEST's last sequence is ahead of the records in the live log, which a reader must not drop for it (goleveldb does). The process ended without closing."},
	{name: "leveldb-1.23-reverse-comparator", program: "leveldb-1.23", fill: fillLevels,
		opts:  interop.Options{BloomBits: 10, Comparator: "interop.ReverseBytewise", Reverse: true},
		about: "Keys in descending order of their bytes, under the comparator name interop.ReverseBytewise. The listing is in ascending order all the same."},
	{name: "leveldb-1.23-idb-cmp1", program: "leveldb-1.23", fill: fillLevels,
		opts:  interop.Options{BloomBits: 10, Comparator: "idb_cmp1"},
		about: "The comparator name idb_cmp1, Chrome's for IndexedDB; the order is bytewise, not Chrome's."},
	{name: "leveldb-main-zstd", program: "leveldb-main", fill: fillLevels,
		opts:  interop.Options{BloomBits: 10, Compression: interop.Zstd},
		about: "Tables on levels 0, 1 and 2 with Zstandard blocks. LevelDB 1.23 does not know Zstandard yet: kZstdCompression came after it."},
	{name: "goleveldb-filter", program: "goleveldb", opts: filtered, fill: fillLevels,
		about: "Tables with goleveldb's filters, named leveldb.BuiltinBloomFilter, tail bytes hashed unsigned."},
	{name: "goleveldb-default", program: "goleveldb", opts: unfiltered, fill: fillLevels,
		about: "Tables with goleveldb's default options: no filter, compressed metaindex."},
	{name: "goleveldb-log-only", program: "goleveldb", opts: filtered, fill: fillLog, killed: true,
		about: "All data in the log of a process that ended without closing: the directory was copied while goleveldb had it open."},
	{name: "goleveldb-empty-flush", program: "goleveldb", opts: filtered, fill: fillEmptyFlush, killed: true,
		about: "The MANIFEST names a log that does not exist, although nothing is lost: goleveldb compacted everything when its " +
			"memtable was empty, so it began a new log and removed the old one without an edit. Later writes are in the new log. " +
			"The directory was copied while goleveldb had it open."},
	{name: "sievedb-cache-line-filter", program: "sievedb", fill: fillLevels,
		opts:  interop.Options{BloomBits: 10, FilterKind: interop.CacheLineFilter},
		about: "Tables of SieveDB whose only filter is the cache-line bloom filter, sievedb.CacheLineBloom, in its version 1."},
	{name: "sievedb-both-filters", program: "sievedb", fill: fillLevels,
		opts:  interop.Options{BloomBits: 10, FilterKind: interop.BothFilters, BothFilterNames: true},
		about: "Tables of SieveDB with two filters, cache lines and LevelDB's, the latter under goleveldb's name as well."},
	{name: "sievedb-binary-fuse-filter", program: "sievedb", fill: fillLevels,
		opts:  interop.Options{BloomBits: 10, FilterKind: interop.FuseFilter},
		about: "Tables of SieveDB whose only filter is the binary fuse filter, sievedb.BinaryFuse8, in its version 1."},
	{name: "leveldb-1.17-signed-filter", program: "leveldb-1.17", opts: filtered, fill: fillSignedTails,
		about: "A table whose filter, named leveldb.BuiltinBloomFilter, hashes tail bytes signed, and keys whose last length%4 bytes " +
			"are 0x80 or more: a reader that hashes them unsigned, as goleveldb does for this name, loses most of them. " +
			"On a machine whose char is unsigned LevelDB 1.17 would have hashed them unsigned."},
}

// fillLevels makes three tables that overlap: LevelDB puts the first on level 2,
// the next on level 1, the last on level 0.
func fillLevels(m *maker) {
	const keys = 400
	for round := range 3 {
		for i := round; i < keys; i += round + 1 {
			key := fmt.Sprintf("key%05d", i*7919%keys)
			if round > 0 && i%5 == 0 {
				m.delete(key)
			} else {
				m.put(key, fmt.Sprintf("value %d of round %d %s", i, round, strings.Repeat("x", m.rng.IntN(40))))
			}
		}
		m.put("", fmt.Sprintf("the empty key, round %d", round))
		m.put("\xff\xff\x00", "")
		m.flush()
	}
	m.put("in the log", "put")
	m.delete("key00001")
	m.put("", "")
}

func fillLog(m *maker) {
	for i := range 200 {
		m.put(fmt.Sprintf("key%05d", i*7919%300), fmt.Sprintf("value %d", i))
	}
	for i := range 10 {
		var ops []interop.Op
		for j := range 20 {
			key := fmt.Appendf(nil, "key%05d", (i*20+j)*13%300)
			if j%4 == 3 {
				ops = append(ops, interop.Delete(key))
			} else {
				ops = append(ops, interop.Put(key, fmt.Appendf(nil, "batch %d entry %d", i, j)))
			}
		}
		m.write(ops...)
	}
	m.write(interop.Put([]byte("spans two blocks"), m.bytes(30_000)))
	m.put("last", "small")
}

func fillEmptyFlush(m *maker) {
	for i := range 50 {
		m.put(fmt.Sprintf("in a table %d", i), "v")
	}
	m.flush()
	m.do(func() error { return m.db.Compact(nil, nil) })
	for i := range 10 {
		m.put(fmt.Sprintf("in the log %d", i), "v")
	}
}

func fillVersions(m *maker) {
	for round := range 4 {
		for i := range 120 {
			key := fmt.Sprintf("key%03d", i)
			switch (i + round) % 4 {
			case 0:
				m.delete(key)
			case 1, 2:
				m.put(key, fmt.Sprintf("value %d of round %d", i, round))
			}
		}
		m.do(func() error {
			_, err := m.db.Snapshot() // held until the process ends
			return err
		})
		if round == 1 || round == 2 {
			m.flush()
		}
	}
}

func fillSequenceAhead(m *maker) {
	m.put("fills the memtable", strings.Repeat("x", 70_000))
	for i := range 20 {
		m.put(fmt.Sprintf("in the live log %d", i), "v")
	}
	m.do(func() error { return m.db.(*interop.Driver).RunHeld() })
}

func fillSignedTails(m *maker) {
	const keys, keyLen = 2000, 7
	rng := rand.New(rand.NewPCG(117, 0))
	for range keys {
		key := make([]byte, keyLen)
		for i := range key {
			key[i] = byte(rng.Uint32())
			if i >= keyLen-keyLen%4 {
				key[i] |= 0x80
			}
		}
		m.write(interop.Put(key, key[:2]))
	}
	m.flush()
}
