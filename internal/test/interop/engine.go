package interop

// Entry is a key and its value.
type Entry struct{ Key, Value []byte }

// Op is one entry of a batch.
type Op struct {
	Delete     bool
	Key, Value []byte
}

// Put returns the Op that sets key to value.
func Put(key, value []byte) Op { return Op{Key: key, Value: value} }

// Delete returns the Op that removes key.
func Delete(key []byte) Op { return Op{Delete: true, Key: key} }

// The names of Options.Compression.
const (
	Snappy = "snappy"
	None   = "none"
	Zstd   = "zstd"
)

// FilterKind is one of SieveDB's choices of filters; others have LevelDB's only.
type FilterKind int

// The kinds of filters.
const (
	BothFilters FilterKind = iota // the default: cache lines and LevelDB's
	CacheLineFilter
	LevelDBFilter
	FuseFilter
	FuseAndLevelDBFilters
)

// Options are what the engines have in common; each takes what it knows of them. Zeros are the engine's defaults.
type Options struct {
	// BloomBits is the bits a key of the filter; 0: no filter.
	BloomBits int
	// Compression is Snappy, None or Zstd; "" is Snappy.
	Compression string
	// Sizes in bytes.
	WriteBufferSize, BlockSize, TableSize int
	// LevelBase is the size of level 1 in bytes, where an engine lets it be chosen.
	LevelBase int
	// MustExist forbids to create the database.
	MustExist bool
	// Paranoid asks for every check that the engine has: paranoid_checks and
	// verify_checksums of LevelDB, StrictAll of goleveldb.
	Paranoid bool
	// ReservedLogs says that SieveDB was killed, so its newest log may have reserved space behind its records. Then
	// goleveldb cannot have StrictJournal, which takes zeros for damage.
	ReservedLogs bool
	// NoBlockCache makes every read of a data block a read of the file.
	NoBlockCache bool

	// Comparator, if not empty, names the order of keys, and Reverse turns bytewise order round. LevelDB only.
	Comparator string
	Reverse    bool
	// HoldBackground keeps background work from running until Driver.RunHeld. LevelDB only.
	HoldBackground bool
	// ReuseLogs makes LevelDB append to the log and MANIFEST that it finds.
	ReuseLogs bool

	// StandardFilterName makes goleveldb read and write its filter under LevelDB's
	// name leveldb.BuiltinBloomFilter2 instead of its own, the same without the 2.
	StandardFilterName bool
	// FilterKind says which filters SieveDB writes: BothFilters, or one alone.
	FilterKind FilterKind
	// BothFilterNames makes SieveDB list its filters under goleveldb's name too.
	BothFilterNames bool
	// RangeFilters makes SieveDB write range filters in addition to key filters.
	RangeFilters bool
	// LevelFactor is how many times larger than the one above a level is. goleveldb only; 0: 10.
	LevelFactor float64
}

// Engine is a program that keeps databases in LevelDB's format.
type Engine interface {
	Name() string
	Open(dir string, o Options) (DB, error)
}

// Repairer is an Engine that can make a database of what is left of one.
type Repairer interface {
	Engine
	// Repair repairs the closed database in dir.
	Repair(dir string, o Options) error
}

// View is what can be read: the present, or a snapshot.
type View interface {
	// Get returns the value of each key, nil for those that are absent.
	Get(keys [][]byte) ([][]byte, error)
	// Scan returns every entry, in ascending or descending order.
	Scan(backward bool) ([]Entry, error)
	// Seek returns for each key the first entry that is >= key, nil where none is.
	Seek(keys [][]byte) ([]*Entry, error)
}

// Snapshot is a View that does not change; Release gives it up.
type Snapshot interface {
	View
	Release() error
}

// DB is a database that an engine has open. It is used by one goroutine.
type DB interface {
	View
	// Write applies one batch.
	Write(ops []Op, sync bool) error
	Snapshot() (Snapshot, error)
	// Flush writes what is in memory to tables.
	Flush() error
	// Compact merges the tables whose keys are in [start, limit]; nil: no bound.
	Compact(start, limit []byte) error
	// Tables returns the number of tables of each level.
	Tables() ([]int, error)
	// TableReads returns how often tables were read since it was last called, each read of a block a read.
	TableReads() (uint64, error)
	Close() error
	// Kill leaves in the new directory into what the death of the process would have left. The DB is gone then.
	Kill(into string) error
}
