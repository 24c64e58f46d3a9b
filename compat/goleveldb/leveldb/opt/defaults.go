package opt

// Units of sizes in bytes.
const (
	KiB = 1024
	MiB = KiB * 1024
	GiB = MiB * 1024
)

// What the zero value of each option means. A program may change them before it opens databases.
var (
	DefaultBlockCacher                   = LRUCacher
	DefaultBlockCacheCapacity            = 8 * MiB
	DefaultBlockRestartInterval          = 16
	DefaultBlockSize                     = 4 * KiB
	DefaultCompactionExpandLimitFactor   = 25
	DefaultCompactionGPOverlapsFactor    = 10
	DefaultCompactionL0Trigger           = 4
	DefaultCompactionSourceLimitFactor   = 1
	DefaultCompactionTableSize           = 2 * MiB
	DefaultCompactionTableSizeMultiplier = 1.0
	DefaultCompactionTotalSize           = 10 * MiB
	DefaultCompactionTotalSizeMultiplier = 10.0
	DefaultCompressionType               = SnappyCompression
	DefaultIteratorSamplingRate          = 1 * MiB
	DefaultOpenFilesCacher               = LRUCacher
	DefaultWriteBuffer                   = 4 * MiB
	DefaultWriteL0PauseTrigger           = 12
	DefaultWriteL0SlowdownTrigger        = 8
	DefaultFilterBaseLg                  = 11
	DefaultMaxManifestFileSize           = int64(64 * MiB)
)

// DefaultOpenFilesCacheCapacity is the default number of open tables.
var DefaultOpenFilesCacheCapacity = defaultOpenFiles
