package db

import (
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"slices"

	"github.com/sievedb/sievedb"
	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/filter/rangefilter"
	"github.com/sievedb/sievedb/internal/errors"
	"github.com/sievedb/sievedb/sstable"
	"github.com/sievedb/sievedb/vfs"
)

// Comparer defines the order of keys; see the fields' comments.
type Comparer = sievedb.Comparer

// BytewiseComparer is the default order, LevelDB's: bytes.Compare.
var BytewiseComparer = sievedb.Bytewise

// Compression says how the blocks of new tables are compressed. Tables of any
// kind are read whatever this says.
type Compression int

const (
	// DefaultCompression is SnappyCompression.
	DefaultCompression Compression = iota
	// SnappyCompression stores a block with Snappy where that saves an eighth.
	SnappyCompression
	// NoCompression stores blocks as they are.
	NoCompression
	// ZstdCompression stores blocks with Zstandard: smaller and slower. LevelDB up
	// to 1.23 and goleveldb cannot read such tables.
	ZstdCompression
)

// Options configure Open. The zero value of each field is its default, and a
// nil *Options is the zero Options. Open copies what it needs: an Options may
// be shared by several databases and changed afterwards.
type Options struct {
	// FS is the file system. Default: the operating system's.
	FS vfs.FS

	// FileMode is the mode of new files on the operating system's file system,
	// before the umask; new directories can be searched by whom their files can be
	// read. Default: 0600, and with it 0700 for directories: only the owner reads
	// and writes. 0640 lets the group read. The mode of files and directories that
	// exist is never changed; but compactions replace old files by new ones, so
	// that in time all have this mode. It means nothing on Windows, or where FS is
	// set.
	FileMode fs.FileMode

	// Comparer orders the keys. Default: BytewiseComparer. A database opens only
	// under the comparer name that it was created with.
	Comparer *Comparer

	// Filter makes the filters of each new table and reads those of old ones.
	// Default: filter.NewDualBloomPolicy(10), cache lines for lookups here and
	// LevelDB's for whoever opens the directory with LevelDB; with this policy, tables
	// above the last level get fifteen bits a key. filter.None writes no
	// filters and asks none; filter.Several writes up to five.
	//
	// Of a table's filters the best one that is known and sound is loaded: in Filter's
	// order if it is not the default, then filter.FusePolicy's,
	// filter.NewCacheLineBloomPolicy's, LevelDB's, and that of the old name
	// (filter.LegacyBloom). Whatever policy wrote a table, its data can be read: a
	// filter under another name is passed over, and Metrics.UnknownFilters tells.
	Filter filter.Policy

	// RangeFilters make filters of ranges for each new table, one of each policy and at most
	// four, and ask those of old ones: iterators with both bounds pass over tables that hold
	// nothing between them, and read neither their indexes nor their blocks (Metrics counts
	// how often). rangefilter.NewPrefix is for ranges within one prefix of keys,
	// rangefilter.NewGrafite for short ranges of the numbers that keys have. They need the
	// BytewiseComparer. A table has only those that were configured when it was written; UpgradeFilters gives
	// them to the others. Only filters of the names of these policies are asked; LevelDB,
	// goleveldb and stores without them pass them over. FilterBudget counts their bytes.
	// Default: none.
	RangeFilters []rangefilter.Policy

	// FilterForGoleveldb lists LevelDB's filter of each new table under the name that
	// goleveldb knows as well, "leveldb.BuiltinBloomFilter", so that goleveldb's
	// lookups profit from it too; without this it reads our tables without their
	// filters. It costs some 40 bytes a table, and needs Filter to make
	// filters of filter.NewBloomPolicy, whose encoding is goleveldb's.
	//
	// Default: off, for one hazard. LevelDB before 1.18 (2014) knows that name for
	// an encoding of its own: on machines whose char is signed (x86 among them) it
	// would not find keys whose last length mod 4 bytes hold one of 0x80 or more.
	// It does so with every directory of goleveldb's. LevelDB since 1.18 goes by
	// the other name and is not concerned.
	FilterForGoleveldb bool

	// FilterBudget is how many bytes the filters that lookups ask, and those of RangeFilters, may take in memory
	// together, all tables of the database open. The bits of RangeFilters stay as they are; what they leave is divided. Each new table's filter gets the bits a
	// key that its level deserves (filter.Curve.Allocate) for the keys that each level
	// holds at that moment: many on the small levels, few on the last, so that lookups of
	// absent keys waste half of the reads and less that they would waste with as much
	// memory spread evenly over four levels. The bits of Filter count no more; it must
	// make filters of filter.BloomPolicy, and what LevelDB reads stays so.
	// Tables that exist keep their filters until a compaction rewrites them, so new ones are
	// planned for a larger database than there is, and a twentieth of the budget is not dealt
	// out. So a database that grows by keys in random order stays within its budget, and wastes
	// hardly more reads than the best division of it would. Where tables are only moved down, as
	// by keys in their order, those in memory may come to a fifth more than the budget, and late tables
	// get no filters; UpgradeFilters or Compact deal anew then. Default: 0, no budget.
	FilterBudget int64

	// MaxWastedReads is how many reads a lookup of an absent key may waste in the mean,
	// 0.02 for two blocks in a hundred lookups, and below 1: FilterBudget the other way round. Each
	// new table's filter gets the bits a key with which this is kept by the least memory,
	// or 20 where it cannot be (16 if Filter makes LevelDB's alone). FilterBudget must be
	// 0 then. Default: 0, not used.
	MaxWastedReads float64

	// BlockCacheSize bounds the data blocks kept in memory, in bytes. They are held
	// decompressed, or, once that is too much for it, mostly as Snappy stored them
	// and decompressed where they are used often.
	// Default: 32 MiB. Negative: no cache. Filters and indexes of open tables are
	// held beside it, unless ChargeTablesToBlockCache says otherwise; Metrics reports both.
	BlockCacheSize int64

	// ChargeTablesToBlockCache takes the memory that filters and indexes of open tables
	// hold out of BlockCacheSize, so that this bounds all that is held for tables,
	// unless filters and indexes alone are more: MaxOpenFiles bounds those.
	// Default: off, so that many tables do not leave the blocks without a place.
	ChargeTablesToBlockCache bool

	// WriteBufferSize is how many bytes a memtable takes before it is flushed to a
	// table, one in 65 of them for its filter. Default: 8 MiB. Minimum 4 KiB,
	// maximum 1 GiB. Up to MaxMemtables+1 of them exist at a time.
	WriteBufferSize int

	// MaxMemtables is how many full memtables may wait for their flush before
	// writers wait for it. Default: 2.
	MaxMemtables int

	// BlockSize is the target size of a data block before compression, in bytes.
	// Default: 4 KiB. Minimum 64, maximum 4 MiB.
	BlockSize int

	// BlockRestartInterval is how many keys share a restart point. Default: 16.
	BlockRestartInterval int

	// TableSize is the target size of a compaction's output tables, in bytes.
	// Default: 2 MiB. Minimum 4 KiB, maximum 1 GiB.
	TableSize int64

	// Compression is how new blocks are stored. Default: Snappy.
	Compression Compression

	// MaxOpenFiles bounds the tables held open, with their filters and indexes, which take
	// a few per cent of what the tables do. To open a table again for a lookup costs as much
	// as twenty lookups in open ones. Default: a quarter of the descriptors that the process
	// may have, at least 1000 and at most 10000. Minimum 10. Files being written come on top.
	MaxOpenFiles int

	// OpenTablesAhead opens the tables in the background once Open has returned, those
	// first that lookups consult first, until all or MaxOpenFiles are open, so that the
	// first lookups find filters and indexes in memory. It costs one read of about a
	// twentieth of each table, some 0.3 ms of processor time for a table of 2 MiB, and the
	// memory of filters and indexes of tables that perhaps nobody asks;
	// tables that compactions replace meanwhile are removed when it is done. What cannot be
	// opened is logged, and told to the lookups that meet it. Close ends it.
	// EventListener.TablesOpenedAhead tells when it is done. Default: a table is opened when
	// it is needed.
	OpenTablesAhead bool

	// ReadOnly opens without changing anything: no file is created, written or
	// removed, but for an empty LOCK where there is none and the directory can be
	// written to; what the logs hold is kept in memory. Several processes may
	// have a database open read-only at once, but none beside a writer.
	ReadOnly bool

	// ErrorIfMissing refuses to create a database. Default: create it.
	ErrorIfMissing bool

	// ErrorIfExists refuses to open a database that exists.
	ErrorIfExists bool

	// MaxConcurrentCompactions bounds the merges that run at once, those of Compact and
	// UpgradeFilters included: of compactions that have no table in common and, where
	// those leave some of the number, of the pieces of a large one, four output tables or
	// more each. A flush runs beside them. Default: 1.
	MaxConcurrentCompactions int

	// L0CompactionTrigger is the number of tables in level 0 that starts a
	// compaction. While memtables become full in quick succession, one a second or
	// more, it is twice as many, up to two thirds of L0SlowdownTrigger: to merge more
	// of them at once costs less, and lookups have the filters. Default: 4.
	L0CompactionTrigger int

	// L0SlowdownTrigger is the number of tables in level 0 from which writes are
	// slowed, gently at first. Default: 12.
	L0SlowdownTrigger int

	// L0StopTrigger is the number of tables in level 0 at which writes wait for
	// compaction. Default: 24.
	L0StopTrigger int

	// MaxLevelBase is a size that any level may reach before it is compacted, in bytes,
	// beside a tenth of the level below it. Level 0 goes to a level of up to five times
	// that. Default: about what a compaction of level 0 takes, L0CompactionTrigger
	// tables of half a write buffer, and at least 10 MiB: a level that is smaller
	// would be rewritten for nothing.
	MaxLevelBase int64

	// MaxManifestSize is the size at which a new MANIFEST replaces the old one, in
	// bytes. One that began larger than half of that, because there are so many
	// tables, is replaced when it has doubled. Default: 4 MiB.
	MaxManifestSize int64

	// ManifestReadLimit is the size in bytes above which Open and Repair refuse a
	// MANIFEST, whose reading takes several times its size in memory; it takes some
	// million tables to get there, or 128 whose first and last keys are of MaxKeySize. The store makes none above it either: what would
	// need one fails and names this option. Default: 256 MiB, or twice
	// MaxManifestSize, which is the minimum, if that is more.
	ManifestReadLimit int64

	// Logger receives what the store does in the background. Default: nothing is
	// logged. Keys and values never appear.
	Logger *slog.Logger

	// Salvage says what becomes of a log that is damaged in the middle. Default:
	// Open refuses, with ErrCorruption. What is not read is kept in the directory
	// lost/ within the database's.
	Salvage Salvage

	// TrackOpen remembers where each iterator and snapshot was opened, so that the
	// error of Close can name those that were forgotten. It costs about a
	// microsecond each. Default: they are only counted.
	TrackOpen bool

	// EventListener is told of flushes, compactions, stalls and errors.
	EventListener *EventListener
}

// Defaults of Options.
const (
	defaultBlockCacheSize  = 32 << 20
	defaultWriteBufferSize = 8 << 20
	defaultBlockSize       = 4 << 10
	defaultRestartInterval = 16
	defaultTableSize       = 2 << 20
	defaultFilterBits      = 10
	minDefaultMaxLevelBase = 10 << 20
	defaultMaxManifestSize = 4 << 20
	defaultManifestLimit   = 256 << 20
)

// defaultMaxOpenFiles holds all tables of 20 GB open where the system lets it, and never
// fewer than LevelDB. A quarter of the descriptors leaves the rest to other stores, and
// to what the program does beside them.
func defaultMaxOpenFiles() int { return min(max(vfs.MaxDescriptors()/4, 1000), 10_000) }

// withDefaults returns a copy of o in which every field has its meaning filled
// in. It does not judge: validate does.
func (o *Options) withDefaults() Options {
	var c Options
	if o != nil {
		c = *o
	}
	setDefault(&c.FileMode, vfs.DefaultFileMode)
	if c.FS == nil {
		c.FS = vfs.NewOS(c.FileMode)
	}
	if c.Comparer == nil {
		c.Comparer = BytewiseComparer
	}
	if c.Filter == nil {
		c.Filter = defaultFilter
	}
	c.RangeFilters = slices.Clone(c.RangeFilters)
	setDefault(&c.BlockCacheSize, defaultBlockCacheSize)
	setDefault(&c.WriteBufferSize, defaultWriteBufferSize)
	setDefault(&c.MaxMemtables, 2)
	setDefault(&c.BlockSize, defaultBlockSize)
	setDefault(&c.BlockRestartInterval, defaultRestartInterval)
	setDefault(&c.TableSize, defaultTableSize)
	setDefault(&c.Compression, SnappyCompression)
	setDefault(&c.MaxOpenFiles, defaultMaxOpenFiles())
	setDefault(&c.MaxConcurrentCompactions, 1)
	setDefault(&c.L0CompactionTrigger, 4)
	setDefault(&c.L0SlowdownTrigger, max(12, c.L0CompactionTrigger))
	setDefault(&c.L0StopTrigger, max(24, c.L0SlowdownTrigger+1))
	setDefault(&c.MaxLevelBase, max(minDefaultMaxLevelBase, int64(c.L0CompactionTrigger)*int64(c.WriteBufferSize)/2))
	setDefault(&c.MaxManifestSize, defaultMaxManifestSize)
	setDefault(&c.ManifestReadLimit, max(defaultManifestLimit, 2*c.MaxManifestSize))
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.EventListener == nil {
		c.EventListener = &EventListener{}
	}
	return c
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Validate reports the first field of o that is out of range, by name and with
// its bounds. Open calls it.
func (o *Options) Validate() error {
	c := o.withDefaults()
	ranges := []struct {
		field     string
		value     int64
		low, high int64
	}{
		{"WriteBufferSize", int64(c.WriteBufferSize), 4 << 10, 1 << 30},
		{"MaxMemtables", int64(c.MaxMemtables), 1, 64},
		{"BlockSize", int64(c.BlockSize), 64, 4 << 20},
		{"BlockRestartInterval", int64(c.BlockRestartInterval), 1, 1 << 16},
		{"TableSize", c.TableSize, 4 << 10, 1 << 30},
		{"Compression", int64(c.Compression), int64(SnappyCompression), int64(ZstdCompression)},
		{"MaxOpenFiles", int64(c.MaxOpenFiles), 10, math.MaxInt32},
		{"MaxConcurrentCompactions", int64(c.MaxConcurrentCompactions), 1, 64},
		{"L0CompactionTrigger", int64(c.L0CompactionTrigger), 1, 1 << 16},
		{"L0SlowdownTrigger", int64(c.L0SlowdownTrigger), int64(c.L0CompactionTrigger), 1 << 16},
		{"L0StopTrigger", int64(c.L0StopTrigger), int64(c.L0SlowdownTrigger) + 1, 1<<16 + 1},
		{"Salvage", int64(c.Salvage), int64(SalvageNothing), int64(SalvageAll)},
		{"MaxLevelBase", c.MaxLevelBase, 4 << 10, 1 << 50},
		{"MaxManifestSize", c.MaxManifestSize, 4 << 10, 1 << 30},
		{"ManifestReadLimit", c.ManifestReadLimit, 2 * c.MaxManifestSize, 1 << 40},
	}
	for _, r := range ranges {
		if r.value < r.low || r.value > r.high {
			return errors.Newf("sievedb: Options.%s is %d; it must be from %d to %d", r.field, r.value, r.low, r.high)
		}
	}
	if c.FileMode&^fs.ModePerm != 0 || c.FileMode&ownerMode != ownerMode {
		return errors.Newf("sievedb: Options.FileMode is %#o; it must be permission bits, 0777 at most, with the owner's to read and write, 0600",
			uint32(c.FileMode))
	}
	if err := c.validateComparer(); err != nil {
		return err
	}
	if err := c.validateRangeFilters(); err != nil {
		return err
	}
	return c.validateFilter()
}

// maxFilters is how many filters a table may carry: what a lookup has room for,
// less the kinds that are always read.
const maxFilters = sstable.MaxPolicies - 4

func (o *Options) validateFilter() error {
	kinds := filter.Kinds(o.Filter)
	if len(kinds) > maxFilters {
		return errors.Newf("sievedb: Options.Filter stands for %d filters a table; at most %d are supported", len(kinds), maxFilters)
	}
	for _, p := range kinds {
		if p.Name() == "" {
			return errors.New("sievedb: Options.Filter has a policy without a Name; the name tells its filters from others")
		}
	}
	if err := sstable.CheckFilterNames(kinds); err != nil {
		return errors.Wrap(err, "sievedb: Options.Filter")
	}
	if err := o.validateFilterBudget(); err != nil {
		return err
	}
	if !o.FilterForGoleveldb {
		return nil
	}
	for _, p := range kinds {
		if _, bloom := p.(filter.BloomPolicy); bloom && p.Name() == levelDBBloom.Name() {
			return nil
		}
	}
	return errors.Newf("sievedb: Options.FilterForGoleveldb lists filters of filter.NewBloomPolicy under the name %q as well, "+
		"but Options.Filter, %q, makes none; unset one of the two", filter.LegacyBloom.Name(), o.Filter.Name())
}

// ownerMode is what the owner of a database needs.
const ownerMode fs.FileMode = 0o600

// maxComparerName is what the MANIFEST reader accepts as well.
const maxComparerName = 1 << 10

func (o *Options) validateComparer() error {
	if o.Comparer.Compare == nil || o.Comparer.Name == "" || len(o.Comparer.Name) > maxComparerName {
		return errors.Newf("sievedb: Options.Comparer needs a Compare function and a Name of 1 to %d bytes", maxComparerName)
	}
	if o.Comparer.InexactEqual && slices.ContainsFunc(filter.Kinds(o.Filter), hashesBytes) {
		return errors.Newf("sievedb: comparer %q calls keys equal whose bytes differ, so filter policy %q, which hashes bytes, "+
			"would deny stored keys; set Options.Filter to filter.None or to a policy made for this comparer",
			o.Comparer.Name, o.Filter.Name())
	}
	if o.ErrorIfMissing && o.ErrorIfExists {
		return errors.New("sievedb: Options.ErrorIfMissing and Options.ErrorIfExists exclude each other")
	}
	if o.ReadOnly && o.ErrorIfExists {
		return errors.New("sievedb: Options.ReadOnly and Options.ErrorIfExists exclude each other: a database that is created is written to")
	}
	return nil
}

// tableOptions are those of new tables. o is complete.
func (o *Options) tableOptions() sstable.WriterOptions {
	return sstable.WriterOptions{
		Comparer: o.Comparer, Filter: o.Filter, FilterAliases: o.filterAliases(), RangeFilters: o.RangeFilters,
		BlockSize: o.BlockSize, BlockRestartInterval: o.BlockRestartInterval, Compression: o.tableCompression(),
	}
}

// tableCompression translates to the byte that stands in table files.
func (o *Options) tableCompression() sstable.Compression {
	switch o.Compression {
	case NoCompression:
		return sstable.NoCompression
	case ZstdCompression:
		return sstable.Zstd
	case SnappyCompression:
		return sstable.Snappy
	}
	panic(fmt.Sprintf("db: compression %d passed validation", o.Compression))
}

// filterAliases are the second names that tables list filters under.
func (o *Options) filterAliases() map[string]string {
	if !o.FilterForGoleveldb {
		return nil
	}
	return map[string]string{levelDBBloom.Name(): filter.LegacyBloom.Name()}
}

// The filters that are read whatever Options.Filter is.
var (
	defaultFilter  filter.Policy = filter.NewDualBloomPolicy(defaultFilterBits)
	binaryFuse     filter.Policy = filter.FusePolicy{}
	cacheLineBloom filter.Policy = filter.NewCacheLineBloomPolicy(defaultFilterBits)
	levelDBBloom   filter.Policy = filter.NewBloomPolicy(defaultFilterBits)
)

// hashesBytes reports whether the policy is one of our own, which say that a key
// is absent where the bytes differ from those of all keys.
func hashesBytes(p filter.Policy) bool {
	_, bloom := p.(filter.BloomPolicy)
	return bloom || p == filter.LegacyBloom || p == binaryFuse
}

// readPolicies lists the filter policies that the reader knows, best first: those
// that are configured in their order, then binary fuse, cache lines, LevelDB's, and the old
// name, which leaves open how it hashes. That one stays last when it is
// configured: of a table that lists its filter under both names, the certain one
// is used. Where nothing in particular is configured, the order is that of all.
func (o *Options) readPolicies() []filter.Policy {
	if o.Filter == filter.None {
		return nil
	}
	var policies []filter.Policy
	for _, p := range filter.Kinds(o.Filter) {
		if p != filter.LegacyBloom && o.Filter != defaultFilter { // those are among the others
			policies = append(policies, p)
		}
	}
	switch {
	case !o.Comparer.InexactEqual: // ours hash bytes that such a comparer may not compare
		policies = append(policies, binaryFuse, cacheLineBloom, levelDBBloom, filter.LegacyBloom)
	case len(policies) == 0:
		return nil
	}
	return filter.Kinds(filter.Several(policies...))
}

// WriteOptions say how durable a write must be before it is acknowledged. What
// survives a crash is always a prefix of what was written, in the order in which it
// was committed: with a write all before it are there, whatever their WriteOptions.
type WriteOptions struct {
	// NoSync acknowledges once the log's bytes are with the operating system: the
	// write survives the death of the process, not a power loss.
	NoSync bool

	// Buffered acknowledges once the log's bytes are in the store's own memory,
	// whatever NoSync says: the write may be lost when the process is killed or
	// crashes, not only with the power. It is what Pebble's NoSync promises, and saves
	// a system call a write. A Close loses nothing. The bytes go to the system with the
	// next write that is not Buffered, with SyncLog or Flush, with a switch of memtables,
	// when 64 KiB have gathered, and else some 10 ms later.
	//
	// When that fails, no call is there to tell: the next write and
	// EventListener.BackgroundError do, and what was buffered may be lost unless the
	// disk was only full.
	Buffered bool
}

// The three durabilities. A nil *WriteOptions is Sync.
var (
	// Sync acknowledges when the write is on stable storage.
	Sync = &WriteOptions{}
	// NoSync acknowledges when the write is with the operating system.
	NoSync = &WriteOptions{NoSync: true}
	// Buffered acknowledges when the write is in memory: it may be lost when the
	// process is killed.
	Buffered = &WriteOptions{NoSync: true, Buffered: true}
)
