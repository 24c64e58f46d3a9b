package db

import (
	"bytes"
	"cmp"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"slices"
	"time"

	"github.com/sievedb/sievedb"
	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/limit/share"
	"github.com/sievedb/sievedb/sstable"
	"github.com/sievedb/sievedb/vfs"
)

// Comparer defines the order of keys. Fields: Name, Compare, Separator, Successor, InexactEqual. Methods: IsBytewise.
type Comparer = sievedb.Comparer

// BytewiseComparer is the default order, LevelDB's: bytes.Compare.
var BytewiseComparer = sievedb.Bytewise

// Compression says how the blocks of new tables are compressed. Tables of any compression are read whatever this says.
type Compression int

const (
	// DefaultCompression is SnappyCompression, or NoCompression in a database without Snappy: see
	// TableOptions.Compression.
	DefaultCompression Compression = iota
	// SnappyCompression stores a block with Snappy if that saves an eighth.
	SnappyCompression
	// NoCompression stores blocks as they are.
	NoCompression
	// ZstdCompression stores blocks with Zstandard: smaller and slower. LevelDB up
	// to 1.23 and goleveldb cannot read such tables.
	ZstdCompression
)

// Options configure Open. The zero value of each field is its default, in the groups as well, and a nil *Options is the
// zero Options. Open copies what it needs: an Options may be shared by several databases and changed afterwards.
//
// The fields of the groups, which FilterOptions, CompactionOptions and so on describe:
//
//   - Filters: Policy, RangePolicies, Budget, MaxWastedReads, ForGoleveldb
//   - Compaction: MaxConcurrent, L0Trigger, L0Slowdown, L0Stop, MaxLevelBase, MaxBytesPerSecond, Filter
//   - Expiry: Prefixes, Namespaces, Raw, Clock
//   - Changes: Bytes, Age
//   - Tables: Size, BlockSize, RestartInterval, Compression, LevelCompression, SeparateValues
//   - Cache: Size, Memory, ChargeTables, MaxOpenFiles, OpenAhead
//   - Memtables: Size, MaxWaiting
//   - Limits: ManifestSize, ManifestRead, DiskReserve
type Options struct {
	// FS is the file system. Default: the operating system's, vfs.NewOS(FileMode). With ReadOnly, and in OpenFollower,
	// it is vfs.NewOSForReading(FileMode), where files of the database may be symbolic links; set vfs.OS to refuse
	// links there too, as for a directory from somebody else.
	FS vfs.FS

	// FileMode is the mode of new files on the operating system's file system, before the umask. New directories also
	// get the search bit for everyone who may read their files. Default: 0600, and with it 0700 for directories: only
	// the owner reads and writes. 0640 lets the group read. The mode of existing files and directories never changes,
	// but compactions replace old files with new ones, so eventually all tables have this mode. FileMode has no effect
	// on Windows, or if FS is set.
	FileMode fs.FileMode

	// LogDir is a directory for the logs of the database alone, for example on another device. It is
	// created if it does not exist. The database records it, so later calls of Open find it with an
	// empty LogDir too, which is the default: the directory that the database recorded, or else
	// its own. Set the database's own directory to bring the logs back. To move them from one such directory
	// to another, bring them back first; Open refuses to move them directly, and changes nothing then.
	//
	// LevelDB and goleveldb refuse such a database, and Open does if the logs are not there:
	// without them, it would open with writes missing.
	LogDir string

	// Comparer orders the keys. Default: BytewiseComparer. A database opens only
	// under the comparer name that it was created with.
	Comparer *Comparer

	// Filters says which filters tables have, and how much memory they use.
	Filters FilterOptions

	// Compaction says when tables are merged, and when writes wait for it.
	Compaction CompactionOptions

	// Expiry lets values expire.
	Expiry ExpiryOptions

	// Changes says which changes of the past DB.Changes can read.
	Changes ChangeRetention

	// Tables describes new tables.
	Tables TableOptions

	// Cache bounds the parts of tables kept in memory, and the number of open tables.
	Cache CacheOptions

	// Memtables bounds the memory of recent writes.
	Memtables MemtableOptions

	// Limits bounds the size of the MANIFEST, and has the reserve for a full disk.
	Limits LimitOptions

	// Resources, if not nil, are shared with other databases of the process. Cache.Size,
	// Cache.MaxOpenFiles, Memtables and Compaction.MaxConcurrent then are upper limits for this
	// one; by default the first, the second and the last are as large as the Resources. Default:
	// the database shares nothing.
	Resources *Resources

	// ReadOnly opens without changing anything: no file is created, written or removed, except that an empty LOCK is
	// created if there is none and the directory is writable. The content of the logs is kept in memory. Several
	// processes may have a database open read-only, but not while another one has it open for writing. Files of the
	// database may be symbolic links to plain files, unless FS is set.
	ReadOnly bool

	// FollowInterval makes a follower call Refresh by itself, this long after the end of each call. It
	// has an effect on OpenFollower only. Default: 0, which leaves Refresh to the program; at most a day.
	FollowInterval time.Duration

	// KeepRecord leaves the options that the database has recorded as they are, whatever this opening has. It is for
	// tools that open the database of another program, once, with the options of RecordedOptions or with others.
	// Prefixes of Expiry are recorded in any case. Default: an opening for writing records its options, and
	// OpenReport.OptionsChanged has those that were otherwise before.
	KeepRecord bool

	// ErrorIfMissing refuses to create a database. Default: create it.
	ErrorIfMissing bool

	// ErrorIfExists refuses to open an existing database.
	ErrorIfExists bool

	// Salvage says how Open treats a log that is damaged in the middle. Default: Open refuses with ErrCorruption. Bytes
	// that are not used are kept in the directory lost/ within the database's.
	Salvage Salvage

	// Logger receives messages about background work. Default: nothing is logged. Keys and values never appear.
	Logger *slog.Logger

	// EventListener is notified of flushes, compactions, stalls and errors.
	EventListener *EventListener

	// TrackOpen records where each iterator and snapshot was opened, so that the error of Close can name those that
	// were not closed. It costs about a microsecond each. Default: they are only counted.
	TrackOpen bool
}

// Defaults of Options that other code has as well.
const (
	defaultFilterBits      = 10
	defaultMaxManifestSize = 4 << 20
)

// withDefaults returns a copy of o in which every field has its default filled in, and the error of the first number
// that is out of range. validate checks the other fields.
func (o *Options) withDefaults() (c Options, outOfRange error) {
	c = o.copied()
	setDefault(&c.FileMode, vfs.DefaultFileMode)
	if c.FS == nil {
		c.FS = vfs.NewOS(c.FileMode)
	}
	if c.Comparer == nil {
		c.Comparer = BytewiseComparer
	}
	if c.Filters.Policy == nil {
		c.Filters.Policy = defaultFilter
	}
	if c.Expiry.Clock == nil {
		c.Expiry.Clock = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.EventListener == nil {
		c.EventListener = &EventListener{}
	}
	shared := c.Resources.limits()
	c.Cache.ChargeTables = c.Cache.ChargeTables || shared.MaxStores > 0
	setDefault(&c.Cache.Size, cmp.Or(shared.CacheBytes, c.Cache.Memory, 32<<20))

	// The numbers: each has its default and its bounds here. Some depend on those above them.
	n, compact := &numbers{of: "Options"}, &c.Compaction
	number(n, "Memtables.Size", &c.Memtables.Size, 8<<20, 4<<10, 1<<30)
	number(n, "Memtables.MaxWaiting", &c.Memtables.MaxWaiting, 2, 1, 64)
	number(n, "Tables.BlockSize", &c.Tables.BlockSize, 4<<10, 64, 4<<20)
	number(n, "Tables.SeparateValues", &c.Tables.SeparateValues, 0, 0, MaxValueSize)
	number(n, "Tables.RestartInterval", &c.Tables.RestartInterval, 16, 1, 1<<16)
	number(n, "Tables.Size", &c.Tables.Size, 0, 4<<10, 1<<30)
	number(n, "Tables.Compression", &c.Tables.Compression, SnappyCompression, SnappyCompression, ZstdCompression)
	number(n, "Cache.Memory", &c.Cache.Memory, c.Cache.defaultMemory(shared.MaxStores > 0), minMemory, maxMemory)
	number(n, "Cache.MaxOpenFiles", &c.Cache.MaxOpenFiles, cmp.Or(shared.MaxOpenFiles, share.DefaultMaxOpenFiles()), 10, math.MaxInt32)
	number(n, "Compaction.MaxConcurrent", &compact.MaxConcurrent, cmp.Or(shared.MaxMerges, 1), 1, 64)
	number(n, "Compaction.L0Trigger", &compact.L0Trigger, 4, 1, 1<<16)
	number(n, "Compaction.L0Slowdown", &compact.L0Slowdown, max(12, compact.L0Trigger), compact.L0Trigger, 1<<16)
	number(n, "Compaction.L0Stop", &compact.L0Stop, max(24, compact.L0Slowdown+1), compact.L0Slowdown+1, 1<<16+1)
	number(n, "Salvage", &c.Salvage, SalvageNothing, SalvageNothing, SalvageAll)
	number(n, "Changes.Bytes", &c.Changes.Bytes, 0, math.MinInt64, maxChangeBytes)
	number(n, "Changes.Age", &c.Changes.Age, 0, 0, math.MaxInt64)
	number(n, "FollowInterval", &c.FollowInterval, 0, 0, 24*time.Hour)
	number(n, "Compaction.MaxBytesPerSecond", &compact.MaxBytesPerSecond, 0, 0, 1<<50)
	inputOfLevel0 := int64(compact.L0Trigger) * int64(c.Memtables.Size) / 2
	number(n, "Compaction.MaxLevelBase", &compact.MaxLevelBase, max(10<<20, inputOfLevel0), 4<<10, 1<<50)
	number(n, "Limits.ManifestSize", &c.Limits.ManifestSize, defaultMaxManifestSize, 4<<10, 1<<30)
	number(n, "Limits.ManifestRead", &c.Limits.ManifestRead, max(256<<20, 2*c.Limits.ManifestSize), 2*c.Limits.ManifestSize, 1<<40)
	number(n, "Limits.DiskReserve", &c.Limits.DiskReserve, 0, math.MinInt64, 1<<40)
	c.Cache.Size = min(c.Cache.Size, c.Cache.Memory)
	return c, n.outOfRange
}

// numbers are the fields of a struct that number has seen.
type numbers struct {
	of         string
	outOfRange error // of the first field
}

// number sets a field to its default if it is zero, and checks its range. A default of 0 needs not be in the range.
func number[T ~int | ~int64](n *numbers, name string, field *T, value, least, most T) {
	setDefault(field, value)
	if v := *field; v != 0 && (v < least || v > most) && n.outOfRange == nil {
		n.outOfRange = errors.Newf("sievedb: %s.%s is %d; it must be from %d to %d", n.of, name, int64(v), int64(least), int64(most))
	}
}

// copied returns a copy that shares no slice with o.
func (o *Options) copied() (c Options) {
	if o != nil {
		c = *o
	}
	c.Filters.RangePolicies = slices.Clone(c.Filters.RangePolicies)
	c.Tables.LevelCompression = slices.Clone(c.Tables.LevelCompression)
	c.Expiry.Namespaces = slices.Clone(c.Expiry.Namespaces)
	c.Expiry.Prefixes = slices.Clone(c.Expiry.Prefixes)
	for i, prefix := range c.Expiry.Prefixes {
		c.Expiry.Prefixes[i] = bytes.Clone(prefix)
	}
	return c
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Validate reports the first field of o that is out of range, by name and with its bounds. Open calls it.
func (o *Options) Validate() error {
	_, err := newOptionsNow(o)
	return err
}

// validate checks what is no number. o has all defaults filled in.
func (o *Options) validate() error {
	if o.FileMode&^fs.ModePerm != 0 || o.FileMode&ownerMode != ownerMode {
		return errors.Newf("sievedb: Options.FileMode is %#o; it must be permission bits, 0777 at most, with the owner's to read and write, 0600",
			uint32(o.FileMode))
	}
	if err := o.Tables.validateLevelCompression(); err != nil {
		return err
	}
	if err := o.validateComparer(); err != nil {
		return err
	}
	if err := o.validateRangeFilters(); err != nil {
		return err
	}
	return o.validateFilter()
}

// maxFilters is how many filters a table may have: the number that a lookup has room for,
// minus the kinds that are always read.
const maxFilters = sstable.MaxPolicies - 4

func (o *Options) validateFilter() error {
	kinds := filter.Kinds(o.Filters.Policy)
	if len(kinds) > maxFilters {
		return errors.Newf("sievedb: Options.Filters.Policy has %d filters a table; at most %d are supported", len(kinds), maxFilters)
	}
	for _, p := range kinds {
		if p.Name() == "" {
			return errors.New("sievedb: Options.Filters.Policy has a policy without a Name; the name identifies its filters")
		}
		if n := len(p.Name()); n > manifest.MaxFilterName {
			return errors.Newf("sievedb: Options.Filters.Policy has a policy with a Name of %d bytes; at most %d are supported", n, manifest.MaxFilterName)
		}
	}
	if err := sstable.CheckFilterNames(kinds); err != nil {
		return errors.Wrap(err, "sievedb: Options.Filters.Policy")
	}
	if err := o.validateFilterBudget(); err != nil {
		return err
	}
	if !o.Filters.ForGoleveldb {
		return nil
	}
	for _, p := range kinds {
		if _, bloom := p.(filter.BloomPolicy); bloom && p.Name() == levelDBBloom.Name() {
			return nil
		}
	}
	return errors.Newf("sievedb: Options.Filters.ForGoleveldb lists filters of filter.NewBloomPolicy under the name %q as well, "+
		"but Options.Filters.Policy, %q, makes none; unset one of the two", filter.LegacyBloom.Name(), o.Filters.Policy.Name())
}

// ownerMode is the permission that the owner of a database needs.
const ownerMode fs.FileMode = 0o600

// maxComparerName is the limit of the MANIFEST reader as well.
const maxComparerName = 1 << 10

func (o *Options) validateComparer() error {
	if o.Comparer.Compare == nil || o.Comparer.Name == "" || len(o.Comparer.Name) > maxComparerName || o.Comparer.Name != base.PlainComparerName(o.Comparer.Name) {
		return errors.Newf("sievedb: Options.Comparer needs a Compare function and a Name of 1 to %d bytes that does not begin with %q or %q", maxComparerName, base.LogDirPrefix, base.ValuesPrefix)
	}
	if o.Comparer.InexactEqual && slices.ContainsFunc(filter.Kinds(o.Filters.Policy), hashesBytes) {
		return errors.Newf("sievedb: comparer %q treats keys with different bytes as equal, so filter policy %q, which hashes bytes, "+
			"would deny stored keys; set Options.Filters.Policy to filter.None or to a policy made for this comparer",
			o.Comparer.Name, o.Filters.Policy.Name())
	}
	if err := o.Expiry.validate(o.Comparer); err != nil {
		return err
	}
	if o.ErrorIfMissing && o.ErrorIfExists {
		return errors.New("sievedb: Options.ErrorIfMissing and Options.ErrorIfExists exclude each other")
	}
	if o.ReadOnly && o.ErrorIfExists {
		return errors.New("sievedb: Options.ReadOnly and Options.ErrorIfExists exclude each other: a database that is created is written to")
	}
	return nil
}

// tableOptions returns the options of new tables. o has all defaults filled in.
func (o *Options) tableOptions() sstable.WriterOptions {
	return sstable.WriterOptions{
		Comparer: o.Comparer, Filter: o.Filters.Policy, FilterAliases: o.filterAliases(), RangeFilters: o.Filters.RangePolicies,
		BlockSize: o.Tables.BlockSize, BlockRestartInterval: o.Tables.RestartInterval, Compression: o.Tables.Compression.inTables(),
	}
}

// inTables returns the byte for c in table files.
func (c Compression) inTables() sstable.Compression {
	switch c {
	case NoCompression:
		return sstable.NoCompression
	case ZstdCompression:
		return sstable.Zstd
	case SnappyCompression:
		return sstable.Snappy
	}
	panic(fmt.Sprintf("db: compression %d passed validation", c))
}

// compressionFor returns the compression of tables that are written for a level.
func (t *TableOptions) compressionFor(level int) sstable.Compression {
	if level < len(t.LevelCompression) && t.LevelCompression[level] != 0 {
		return t.LevelCompression[level].inTables()
	}
	return t.Compression.inTables()
}

// validateLevelCompression checks what t.compressionFor returns.
func (t *TableOptions) validateLevelCompression() error {
	if n := len(t.LevelCompression); n > NumLevels {
		return errors.Newf("sievedb: Options.Tables.LevelCompression has %d values; there are %d levels", n, NumLevels)
	}
	for level, c := range t.LevelCompression {
		if c != 0 && (c < SnappyCompression || c > ZstdCompression) {
			return errors.Newf("sievedb: Options.Tables.LevelCompression is %d for level %d; it must be from %d to %d, or 0 for Options.Tables.Compression",
				c, level, SnappyCompression, ZstdCompression)
		}
	}
	return nil
}

// filterAliases are the second names that tables list filters under.
func (o *Options) filterAliases() map[string]string {
	if !o.Filters.ForGoleveldb {
		return nil
	}
	return map[string]string{levelDBBloom.Name(): filter.LegacyBloom.Name()}
}

// The filters that are read whatever Options.Filters.Policy is.
var (
	defaultFilter  filter.Policy = filter.NewDualBloomPolicy(defaultFilterBits)
	binaryFuse     filter.Policy = filter.FusePolicy{}
	cacheLineBloom filter.Policy = filter.NewCacheLineBloomPolicy(defaultFilterBits)
	levelDBBloom   filter.Policy = filter.NewBloomPolicy(defaultFilterBits)
)

// hashesBytes reports whether the policy is one of the store's own, which say that a key is
// absent if its bytes differ from those of all keys.
func hashesBytes(p filter.Policy) bool {
	switch p.(type) {
	case filter.BloomPolicy, filter.FusePolicy:
		return true
	}
	return p == filter.LegacyBloom
}

// readPolicies lists the filter policies that the reader knows, best first: the configured ones in their order, then
// binary fuse, cache lines, LevelDB's, and the old name, which does not determine how it hashes. That one stays last
// even if it is configured: of a table that lists its filter under both names, the certain one is used. If nothing in
// particular is configured, the order is that of all.
func (o *Options) readPolicies() []filter.Policy {
	if o.Filters.Policy == filter.None {
		return nil
	}
	var policies []filter.Policy
	for _, p := range filter.Kinds(o.Filters.Policy) {
		if p != filter.LegacyBloom && o.Filters.Policy != defaultFilter { // they are added below
			policies = append(policies, p)
		}
	}
	switch {
	case !o.Comparer.InexactEqual: // the built-in policies hash bytes that such a comparer may not compare
		policies = append(policies, binaryFuse, cacheLineBloom, levelDBBloom, filter.LegacyBloom)
	case len(policies) == 0:
		return nil
	}
	return filter.Kinds(filter.Several(policies...))
}

// WriteOptions say how durable a write must be before it is acknowledged. After a crash the database has a prefix of
// the writes, in the order of their commits: with a write, all earlier ones are present, whatever their WriteOptions.
type WriteOptions struct {
	// NoSync acknowledges once the operating system has the log's bytes: the write survives
	// the death of the process, not a power cut.
	NoSync bool

	// Buffered acknowledges once the log's bytes are in the store's own memory, whatever NoSync says: the write may be
	// lost when the process is killed or crashes, not only in a power cut. It is what Pebble's NoSync promises. Close
	// loses nothing. The bytes go to the system with the next write that is not Buffered, with SyncLog or Flush, with a
	// switch of memtables, when some 32 to 64 KiB have gathered, and otherwise some 10 ms later. While a history is
	// kept (Options.Changes), it is NoSync.
	//
	// If that fails, there is no call that could return the error: the next write and EventListener.BackgroundError
	// report it. The buffered writes may be lost, unless the disk was only full.
	Buffered bool
}

// The three durabilities. A nil *WriteOptions means Sync.
var (
	// Sync acknowledges when the write is on stable storage.
	Sync = &WriteOptions{}
	// NoSync acknowledges when the operating system has the write.
	NoSync = &WriteOptions{NoSync: true}
	// Buffered acknowledges when the write is in memory: it may be lost when the process is killed.
	Buffered = &WriteOptions{NoSync: true, Buffered: true}
)
