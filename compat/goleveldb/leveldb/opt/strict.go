package opt

// Compression says how the blocks of new tables are stored.
type Compression uint

// The compressions.
const (
	DefaultCompression Compression = iota
	NoCompression
	SnappyCompression

	compressions
)

// String returns the name of the compression.
func (c Compression) String() string {
	switch c {
	case DefaultCompression:
		return "default"
	case NoCompression:
		return "none"
	case SnappyCompression:
		return "snappy"
	}
	return "invalid"
}

// Strict says which damage is an error. Values can be combined with |. Every checksum of a table is
// verified, and damage to a MANIFEST is an error, whatever Strict says.
type Strict uint

// The levels of strictness. Only StrictJournal changes something in SieveDB: without it, Open keeps
// what it can read of a damaged log, and says so in LOG.
const (
	StrictManifest Strict = 1 << iota
	StrictJournalChecksum
	StrictJournal
	StrictBlockChecksum
	StrictCompaction
	StrictReader
	StrictRecovery
	// StrictOverride in ReadOptions replaces the Strict of Options.
	StrictOverride

	StrictAll = StrictManifest | StrictJournalChecksum | StrictJournal | StrictBlockChecksum | StrictCompaction | StrictReader | StrictRecovery

	DefaultStrict = StrictJournalChecksum | StrictBlockChecksum | StrictCompaction | StrictReader

	NoStrict = ^StrictAll
)

// GetStrict reports whether strict is set for a read.
func GetStrict(o *Options, ro *ReadOptions, strict Strict) bool {
	return ro.GetStrict(strict) || !ro.GetStrict(StrictOverride) && o.GetStrict(strict)
}

// ReadOptions are those of a read; nil means the defaults.
type ReadOptions struct {
	// DontFillCache keeps blocks that are read from disk out of the block cache.
	DontFillCache bool

	// Strict adds to Options.Strict, or replaces it if it contains StrictOverride.
	Strict Strict
}

// GetDontFillCache returns the field.
func (ro *ReadOptions) GetDontFillCache() bool { return ro != nil && ro.DontFillCache }

// GetStrict reports whether the field has strict.
func (ro *ReadOptions) GetStrict(strict Strict) bool { return ro != nil && ro.Strict&strict != 0 }

// WriteOptions are those of a write; nil means the defaults.
type WriteOptions struct {
	// NoWriteMerge has no effect: a group of writers shares a log record in any case.
	NoWriteMerge bool

	// Sync acknowledges the write when it is on stable storage. Otherwise it survives the end of
	// the process, but not a power cut.
	Sync bool
}

// GetNoWriteMerge returns the field.
func (wo *WriteOptions) GetNoWriteMerge() bool { return wo != nil && wo.NoWriteMerge }

// GetSync returns the field.
func (wo *WriteOptions) GetSync() bool { return wo != nil && wo.Sync }
