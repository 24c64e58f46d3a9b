package db

import (
	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/filter/rangefilter"
)

// FilterOptions configure the filters of tables. The zero value of each field is its default.
type FilterOptions struct {
	// Policy makes the filters of each new table and reads those of existing ones. Default:
	// filter.NewDualBloomPolicy(10), which writes a cache-line filter, for lookups here, and
	// LevelDB's, for programs that open the directory with LevelDB. With the default policy,
	// tables above the last level get 15 bits a key. filter.None writes and uses no filters;
	// filter.Several writes up to five.
	//
	// Of the filters of a table, the first known and sound one is loaded, in this order:
	// those of Policy if it is not the default, then filter.FusePolicy's,
	// filter.NewCacheLineBloomPolicy's, LevelDB's, and that of the old name
	// (filter.LegacyBloom). The data of a table can be read whichever policy wrote it: a
	// filter under an unknown name is ignored and counted in Metrics.Tables.UnknownFilters.
	Policy filter.Policy

	// RangePolicies make range filters for each new table, at most four, and use those of
	// existing tables. Iterators with both bounds skip tables without keys between them, and
	// read neither their indexes nor their blocks (Metrics.Levels counts how often).
	// rangefilter.NewPrefix is for ranges within one prefix of keys, rangefilter.NewGrafite
	// for short ranges of the numbers in keys. They need the BytewiseComparer. A table has
	// only the filters that were configured when it was written; UpgradeFilters adds them to
	// existing tables. Only filters under the names of these policies are used. LevelDB,
	// goleveldb and stores without them ignore them. Budget includes their bytes. Default:
	// none.
	RangePolicies []rangefilter.Policy

	// Budget is the maximum memory in bytes of all filters together when all tables of the database are open: the key
	// filters in use, and those of RangePolicies. Range filters keep their bits; the others share the remaining budget.
	// The filter of each new table gets the bits a key that its level deserves (filter.Curve.Allocate) for the present
	// number of keys on each level: many on the small levels, few on the last. Lookups of absent keys then waste at
	// most half of the reads that they would waste with the same memory spread evenly over four levels. The bits of
	// Policy no longer count; it must make filters of filter.BloomPolicy, which LevelDB reads as before, or of
	// filter.FusePolicy.
	//
	// Existing tables keep their filters until a compaction rewrites them, so new filters are planned for a larger
	// database than the present one and for as many tables of level 0 as start a compaction, and a new table gets no
	// more than is left. Compact of everything and UpgradeFilters use nine tenths and more of the budget, or as many
	// bits as are of use; tables that are written after them share the rest until level 0 is compacted. A database that
	// grows by keys in random order wastes hardly more reads than with the best division. If tables are only moved
	// down, as with keys written in order, late tables get no filters until UpgradeFilters or Compact divides the
	// budget again. Default: 0, no budget.
	Budget int64

	// MaxWastedReads is how many reads a lookup of an absent key may waste on average, below 1: 0.02 for two blocks in
	// a hundred lookups. It is the reverse of Budget: each new table's filter gets the bits a key that keep this bound
	// with the least memory, or 20 if nothing can (16 if Policy makes LevelDB's alone). Budget must be 0 then. Default:
	// 0, not used.
	MaxWastedReads float64

	// ForGoleveldb lists LevelDB's filter of each new table also under goleveldb's name, "leveldb.BuiltinBloomFilter",
	// so that goleveldb's lookups use it too. Otherwise goleveldb reads SieveDB's tables without their filters. It
	// costs some 40 bytes a table, and needs a Policy that makes filters of filter.NewBloomPolicy, whose encoding is
	// goleveldb's.
	//
	// Default: off, because of one hazard. LevelDB before 1.18 (2014) uses that name for another encoding: on machines
	// whose char is signed, such as x86, it would not find keys whose last length mod 4 bytes contain a byte of 0x80 or
	// more. Every directory of goleveldb has the same problem. LevelDB since 1.18 uses the other name and is not
	// affected.
	ForGoleveldb bool
}

// CompactionOptions configure when and how tables are merged. The zero value of each field is its default.
type CompactionOptions struct {
	// MaxConcurrent is the maximum number of concurrent merges, including those of Compact and UpgradeFilters:
	// compactions without a common table and, if those leave slots free, pieces of a large one, each of four output
	// tables or more. Flushes run in addition to them. Default: 1.
	MaxConcurrent int

	// L0Trigger is the number of tables in level 0 that starts a compaction. While memtables become full in quick
	// succession, one a second or more, the number is twice that, but at most two thirds of L0Slowdown: merging more of
	// them together costs less, and lookups have the filters. Default: 4.
	L0Trigger int

	// L0Slowdown is the number of tables in level 0 from which writes are slowed, gently at first. Default: 12.
	L0Slowdown int

	// L0Stop is the number of tables in level 0 at which writes wait for compaction. Default: 24.
	L0Stop int

	// MaxLevelBase is a size, in bytes, that any level may reach before it is compacted, even if it exceeds a tenth of
	// the level below. Level 0 goes to a level of up to five times that. Default: about the input of a compaction of
	// level 0, L0Trigger tables of half a memtable each, and at least 10 MiB: rewriting a smaller level gains nothing.
	MaxLevelBase int64

	// MaxBytesPerSecond limits what compactions and filter upgrades read from tables and write to tables, together.
	// Flushes and loads are not limited. The limit does not hold while level 0 has L0Slowdown tables or more, or
	// separated values so much garbage that writers are slowed, so writers wait at most a tenth of a second for it.
	// Compact is limited too. SetOptions changes it, also for compactions that run. Default: 0, no limit.
	MaxBytesPerSecond int64

	// Filter, if not nil, may drop or replace values while compactions merge tables. It gets a key and its newest value
	// among the merged tables. It returns the value to keep, which may be the same or another one of at most
	// MaxValueSize bytes, and true, or false to delete the key. Readers see the result once the compaction has ended.
	//
	// Filter is not called for values that an open snapshot sees, for older versions of a key, and where tables are
	// written without a merge: by flushes, loads and UpgradeFilters, and when a table is moved. Only Compact calls it
	// for all values in its range that were written before and that no snapshot sees. Filter may be called several
	// times for one value, and for values that were replaced. Repair may bring back values that were dropped shortly
	// before.
	//
	// The slices are valid only during the call and must not be changed. The result is copied before the next call in
	// the same goroutine. Several goroutines call Filter at once. It may read from the store; methods that would wait
	// return ErrInListener. A panic ends the writes; see PanicError. A result that is too large fails the compaction,
	// which is tried again later. If SetOptions changes Filter, compactions that run keep the former one. Default:
	// values are kept.
	Filter func(key, value []byte) (kept []byte, keep bool)
}

// TableOptions describe new tables. Existing tables are read whatever these say. The zero
// value of each field is its default.
type TableOptions struct {
	// Size is the target size of a compaction's output tables, in bytes. Default: 2 MiB, as LevelDB's, in a
	// database of up to 4 GiB; in a larger one about a 2,048th of its last level, at most 64 MiB or a sixteenth of
	// Cache.Memory, and less in the levels above the last two. So a few thousand files are enough. Tables that
	// exist become larger when they are compacted. Minimum 4 KiB, maximum 1 GiB.
	Size int64

	// BlockSize is the target size of a data block before compression, in bytes.
	// Default: 4 KiB. Minimum 64, maximum 4 MiB.
	BlockSize int

	// RestartInterval is how many keys share a restart point. Default: 16. Fewer share one
	// if they are long and share most of their bytes: see docs/format.md, "Blocks".
	RestartInterval int

	// Compression is how new blocks are stored. Default: Snappy, but no compression in a database
	// whose existing tables have none by Snappy or Zstandard, because the program that owns it may
	// not read them: Minecraft's worlds have zlib, and Bitcoin Core is built without Snappy. Before the
	// first table is written, some blocks of at most 8 tables are looked at. A value that is set applies
	// to every database: SnappyCompression compresses the new tables of such a one, too.
	Compression Compression

	// LevelCompression replaces Compression for the tables that a flush or a compaction writes to a level: the first
	// value is for level 0. Levels after its end, and zero values, have Compression, and so have the tables of a load.
	// A table that only moves to another level stays as it is. Default: none.
	LevelCompression []Compression

	// SeparateValues is the size in bytes from which on flushes and compactions write values to value tables, apart
	// from their keys. Compactions then copy no large values; a value that is read alone costs a search more, and one
	// that is read in order of the keys may cost a read. Value tables are compressed as the last level. Values under
	// Options.Expiry.Prefixes are not separated. LevelDB and goleveldb cannot open such a database. 0: compactions put
	// values back to their keys, and Compact does so for all. Default: 0.
	SeparateValues int
}

// CacheOptions bound the parts of tables that are kept in memory, and the number of open
// tables. The zero value of each field is its default.
type CacheOptions struct {
	// Size bounds the block cache: the data blocks kept in memory, in bytes. They are held
	// decompressed or, if they do not fit, mostly as Snappy stored them, with the frequently
	// used ones decompressed. Default: 32 MiB, or Memory if that is set. Negative: no cache.
	// Memory bounds blocks, filters and indexes together, so a Size above Memory counts as Memory.
	Size int64

	// Memory bounds all memory held for tables, in bytes: the blocks of the cache, and the filters and indexes of open
	// tables, including those that iterators keep open. Filters and indexes may use all but an eighth of it, or all but
	// Size if that is less. They come first, because reopening a table costs more than reading a block: blocks have the
	// rest, up to Size. If filters and indexes need more, the tables that were not used lately are closed, except for
	// ten and those that iterators hold. Metrics.Cache.Memory and Metrics.Tables.MemoryNeeded say what more would be of
	// use. Default: Size, and an eighth of the memory that the process may use (on Linux the machine's or its control
	// group's; GOMEMLIMIT), which is at least 128 MiB and at most 1 GiB. With Options.Resources it must not be set:
	// ResourcesOptions.CacheSize is the bound.
	Memory int64

	// ChargeTables charges the memory of filters and indexes of open tables to Size from their first byte, even if
	// Memory has room for both, so that Size bounds both unless filters and indexes alone need more. Default: off, so
	// that many tables do not leave the blocks without space.
	ChargeTables bool

	// MaxOpenFiles bounds the number of open tables, with their filters and indexes, which
	// need a few per cent of the size of the tables: see Memory. Reopening a table of 2 MiB for a
	// lookup costs as much as twenty lookups in open ones. Default: a quarter of the descriptors that the
	// process may have, at least 1000 and at most 10000. Minimum 10. Files being written
	// count in addition.
	MaxOpenFiles int

	// OpenAhead opens the tables in the background once Open has returned, until all or MaxOpenFiles are open or Memory
	// is used, so that the first lookups find filters and indexes in memory. It starts with the tables that lookups
	// consult first. It costs one read of about a twentieth of each table, some 0.3 ms of processor time for a table of
	// 2 MiB, and the memory of filters and indexes that lookups may not need. Tables that compactions replace meanwhile
	// are removed when it is done. A table that cannot be opened is logged, and lookups that need it return the error.
	// Close ends it. EventListener.TablesOpenedAhead is called when it is done. Default: a table is opened when it is
	// needed.
	OpenAhead bool
}

// MemtableOptions bound the memory of recent writes. The zero value of each field is its default.
type MemtableOptions struct {
	// Size is the number of bytes of a memtable at which it is flushed to a table; one in 65 is for its filter.
	// Default: 8 MiB. Minimum 4 KiB, maximum 1 GiB. Up to MaxWaiting+1 memtables exist at a time.
	Size int

	// MaxWaiting is how many full memtables may wait for their flush before writers wait for it. Default: 2.
	MaxWaiting int
}

// LimitOptions bound the size of the MANIFEST. The zero value of each field is its default.
type LimitOptions struct {
	// ManifestSize is the size at which a new MANIFEST replaces the old one, in bytes. A MANIFEST that began larger
	// than half of that, because there are so many tables, is replaced when it has doubled. Default: 4 MiB.
	ManifestSize int64

	// ManifestRead is the size in bytes above which Open and Repair refuse a MANIFEST, because reading one needs
	// several times its size in memory. Some million tables reach it, or 128 tables whose first and last keys have
	// MaxKeySize. The store writes none above it either: operations that would exceed it fail with an error naming this
	// option. Default: 256 MiB, or twice ManifestSize, which is the minimum, if that is more.
	ManifestRead int64

	// DiskReserve is the size in bytes of a file RESERVE in the database's directory, which is removed when the
	// disk is full and DeleteRange or Open needs space, so that the program can free space by itself. After
	// DeleteRange has freed space, a flush makes it again.
	//
	// Default: 0, which is room for all memtables and 1 MiB, (1 + Memtables.MaxWaiting) * Memtables.Size + 1<<20, as
	// soon as the tables have 16 times as many bytes: 400 MiB by default. The file is made after a flush, in the
	// background, and removed if the tables shrink to less than half of that. So a small database has none. A
	// positive value is the exact size, made by Open. A negative value means no reserve: Open removes the file.
	DiskReserve int64
}
