// Package opt has the options of a database, of reads and of writes.
package opt

import (
	"math"

	"github.com/syndtr/goleveldb/leveldb/comparer"
	"github.com/syndtr/goleveldb/leveldb/filter"
)

// Options are those of a database. The zero value of each field is its default, and a nil *Options the zero Options.
// Where a comment says "no effect", SieveDB has no such mechanism, or chooses by itself. Sizes are in bytes.
type Options struct {
	// AltFilters has no effect on new tables. The filters of NewBloomFilter are always read.
	AltFilters []filter.Filter

	// BlockCacher: NoCacher means no block cache. Otherwise it only says, by its Capacity, how
	// large the cache is. Default: LRUCacher.
	BlockCacher Cacher

	// BlockCacheCapacity is the size of the block cache; negative: none. Default: 8 MiB.
	BlockCacheCapacity int

	// BlockCacheEvictRemoved has no effect: blocks of removed tables always leave the cache.
	BlockCacheEvictRemoved bool

	// BlockRestartInterval is the number of keys from one restart point to the next. Default: 16.
	BlockRestartInterval int

	// BlockSize is the size of a data block before compression. Default: 4 KiB. At least 64.
	BlockSize int

	// CompactionExpandLimitFactor has no effect.
	CompactionExpandLimitFactor int

	// CompactionGPOverlapsFactor has no effect.
	CompactionGPOverlapsFactor int

	// CompactionL0Trigger is the number of tables in level 0 that starts a compaction. Default: 4.
	CompactionL0Trigger int

	// CompactionSourceLimitFactor has no effect.
	CompactionSourceLimitFactor int

	// CompactionTableSize is the size of a table, at least 4 KiB. Default: 2 MiB, and more in a database of more than
	// 4 GiB.
	CompactionTableSize int

	// CompactionTableSizeMultiplier has no effect: tables of all levels have the same size.
	CompactionTableSizeMultiplier float64

	// CompactionTableSizeMultiplierPerLevel has no effect.
	CompactionTableSizeMultiplierPerLevel []float64

	// CompactionTotalSize is the size that a level may have before it is compacted, if it is set.
	// Default: SieveDB sizes the levels.
	CompactionTotalSize int

	// CompactionTotalSizeMultiplier has no effect: a level has a tenth of the next one.
	CompactionTotalSizeMultiplier float64

	// CompactionTotalSizeMultiplierPerLevel has no effect.
	CompactionTotalSizeMultiplierPerLevel []float64

	// Comparer orders the keys. Default: comparer.DefaultComparer.
	Comparer comparer.Comparer

	// Compression is how new blocks are stored. Default: Snappy.
	Compression Compression

	// DisableBufferPool has no effect.
	DisableBufferPool bool

	// DisableBlockCache means no block cache.
	DisableBlockCache bool

	// DisableCompactionBackoff has no effect.
	DisableCompactionBackoff bool

	// DisableLargeBatchTransaction keeps a batch that is larger than WriteBuffer from being
	// synced. Otherwise it is, unless NoSync is set.
	DisableLargeBatchTransaction bool

	// DisableSeeksCompaction has no effect: reads never start a compaction.
	DisableSeeksCompaction bool

	// ErrorIfExist refuses a database that exists, with os.ErrExist.
	ErrorIfExist bool

	// ErrorIfMissing refuses to create a database, with os.ErrNotExist.
	ErrorIfMissing bool

	// Filter makes and reads the filters of tables. Default: none.
	Filter filter.Filter

	// IteratorSamplingRate has no effect.
	IteratorSamplingRate int

	// NoSync never waits for stable storage in a write. Tables and MANIFESTs are synced anyway.
	NoSync bool

	// NoWriteMerge has no effect.
	NoWriteMerge bool

	// OpenFilesCacher has no effect.
	OpenFilesCacher Cacher

	// OpenFilesCacheCapacity is the number of open tables; negative: as few as possible, which is
	// ten. Default: 500, and 200 on macOS.
	OpenFilesCacheCapacity int

	// ReadOnly opens the database without changing it.
	ReadOnly bool

	// Strict says which damage is an error. Default: DefaultStrict.
	Strict Strict

	// WriteBuffer is the size of a memtable. Default: 4 MiB. At least 4 KiB.
	WriteBuffer int

	// WriteL0PauseTrigger is the number of tables in level 0 at which writes wait. Default:
	// SieveDB's, 24.
	WriteL0PauseTrigger int

	// WriteL0SlowdownTrigger is the number of tables in level 0 from which writes are slowed. Default: SieveDB's, 12.
	WriteL0SlowdownTrigger int

	// FilterBaseLg has no effect on databases. A table.Writer makes a filter for each 2^FilterBaseLg bytes.
	FilterBaseLg int

	// MaxManifestFileSize is the size at which a new MANIFEST is begun. Default: SieveDB's, 4 MiB.
	MaxManifestFileSize int64
}

// positive returns the first positive value.
func positive[T int | int64](values ...T) T {
	for _, v := range values[:len(values)-1] {
		if v > 0 {
			return v
		}
	}
	return values[len(values)-1]
}

// get returns the options as they are, and the defaults of a nil *Options.
func (o *Options) get() Options {
	if o == nil {
		return Options{}
	}
	return *o
}

// orDefault returns value; 0 means the default, and a negative value 0.
func orDefault(value, standard int) int {
	if value == 0 {
		return standard
	}
	return max(value, 0)
}

// multiplier returns the factor of a level: the level's own, or the level-th power of a base.
func multiplier(level int, perLevel []float64, base, standard float64) float64 {
	if level < len(perLevel) && perLevel[level] > 0 {
		return perLevel[level]
	}
	if base <= 0 {
		base = standard
	}
	return math.Pow(base, float64(level))
}

// GetAltFilters returns the field.
func (o *Options) GetAltFilters() []filter.Filter { return o.get().AltFilters }

// GetBlockCacher returns the field or its default.
func (o *Options) GetBlockCacher() Cacher {
	if c := o.get().BlockCacher; c != nil {
		return c
	}
	return DefaultBlockCacher
}

// GetBlockCacheCapacity returns the field or its default; 0: no cache.
func (o *Options) GetBlockCacheCapacity() int {
	return orDefault(o.get().BlockCacheCapacity, DefaultBlockCacheCapacity)
}

// GetBlockCacheEvictRemoved returns the field.
func (o *Options) GetBlockCacheEvictRemoved() bool { return o.get().BlockCacheEvictRemoved }

// GetBlockRestartInterval returns the field or its default.
func (o *Options) GetBlockRestartInterval() int {
	return positive(o.get().BlockRestartInterval, DefaultBlockRestartInterval)
}

// GetBlockSize returns the field or its default.
func (o *Options) GetBlockSize() int { return positive(o.get().BlockSize, DefaultBlockSize) }

// GetCompactionExpandLimit returns the bytes that the fields define for a level.
func (o *Options) GetCompactionExpandLimit(level int) int {
	factor := positive(o.get().CompactionExpandLimitFactor, DefaultCompactionExpandLimitFactor)
	return o.GetCompactionTableSize(level+1) * factor
}

// GetCompactionGPOverlaps returns the bytes that the fields define for a level.
func (o *Options) GetCompactionGPOverlaps(level int) int {
	factor := positive(o.get().CompactionGPOverlapsFactor, DefaultCompactionGPOverlapsFactor)
	return o.GetCompactionTableSize(level+2) * factor
}

// GetCompactionL0Trigger returns the field or its default.
func (o *Options) GetCompactionL0Trigger() int {
	if n := o.get().CompactionL0Trigger; n != 0 {
		return n
	}
	return DefaultCompactionL0Trigger
}

// GetCompactionSourceLimit returns the bytes that the fields define for a level.
func (o *Options) GetCompactionSourceLimit(level int) int {
	factor := positive(o.get().CompactionSourceLimitFactor, DefaultCompactionSourceLimitFactor)
	return o.GetCompactionTableSize(level+1) * factor
}

// GetCompactionTableSize returns the bytes that the fields define for a level.
func (o *Options) GetCompactionTableSize(level int) int {
	c := o.get()
	base := positive(c.CompactionTableSize, DefaultCompactionTableSize)
	return int(float64(base) * multiplier(level, c.CompactionTableSizeMultiplierPerLevel, c.CompactionTableSizeMultiplier, DefaultCompactionTableSizeMultiplier))
}

// GetCompactionTotalSize returns the bytes that the fields define for a level.
func (o *Options) GetCompactionTotalSize(level int) int64 {
	c := o.get()
	base := positive(c.CompactionTotalSize, DefaultCompactionTotalSize)
	return int64(float64(base) * multiplier(level, c.CompactionTotalSizeMultiplierPerLevel, c.CompactionTotalSizeMultiplier, DefaultCompactionTotalSizeMultiplier))
}

// GetComparer returns the field or its default.
func (o *Options) GetComparer() comparer.Comparer {
	if c := o.get().Comparer; c != nil {
		return c
	}
	return comparer.DefaultComparer
}

// GetCompression returns the field or its default.
func (o *Options) GetCompression() Compression {
	if c := o.get().Compression; c > DefaultCompression && c < compressions {
		return c
	}
	return DefaultCompressionType
}

// GetDisableBufferPool returns the field.
func (o *Options) GetDisableBufferPool() bool { return o.get().DisableBufferPool }

// GetDisableBlockCache returns the field.
func (o *Options) GetDisableBlockCache() bool { return o.get().DisableBlockCache }

// GetDisableCompactionBackoff returns the field.
func (o *Options) GetDisableCompactionBackoff() bool { return o.get().DisableCompactionBackoff }

// GetDisableLargeBatchTransaction returns the field.
func (o *Options) GetDisableLargeBatchTransaction() bool { return o.get().DisableLargeBatchTransaction }

// GetDisableSeeksCompaction returns the field.
func (o *Options) GetDisableSeeksCompaction() bool { return o.get().DisableSeeksCompaction }

// GetErrorIfExist returns the field.
func (o *Options) GetErrorIfExist() bool { return o.get().ErrorIfExist }

// GetErrorIfMissing returns the field.
func (o *Options) GetErrorIfMissing() bool { return o.get().ErrorIfMissing }

// GetFilter returns the field.
func (o *Options) GetFilter() filter.Filter { return o.get().Filter }

// GetIteratorSamplingRate returns the field or its default.
func (o *Options) GetIteratorSamplingRate() int {
	return orDefault(o.get().IteratorSamplingRate, DefaultIteratorSamplingRate)
}

// GetNoSync returns the field.
func (o *Options) GetNoSync() bool { return o.get().NoSync }

// GetNoWriteMerge returns the field.
func (o *Options) GetNoWriteMerge() bool { return o.get().NoWriteMerge }

// GetOpenFilesCacher returns the field or its default.
func (o *Options) GetOpenFilesCacher() Cacher {
	if c := o.get().OpenFilesCacher; c != nil {
		return c
	}
	return DefaultOpenFilesCacher
}

// GetOpenFilesCacheCapacity returns the field or its default; 0: as few as possible.
func (o *Options) GetOpenFilesCacheCapacity() int {
	return orDefault(o.get().OpenFilesCacheCapacity, DefaultOpenFilesCacheCapacity)
}

// GetReadOnly returns the field.
func (o *Options) GetReadOnly() bool { return o.get().ReadOnly }

// GetStrict reports whether the field or its default has strict.
func (o *Options) GetStrict(strict Strict) bool {
	if s := o.get().Strict; s != 0 {
		return s&strict != 0
	}
	return DefaultStrict&strict != 0
}

// GetWriteBuffer returns the field or its default.
func (o *Options) GetWriteBuffer() int { return positive(o.get().WriteBuffer, DefaultWriteBuffer) }

// GetWriteL0PauseTrigger returns the field or its default.
func (o *Options) GetWriteL0PauseTrigger() int {
	if n := o.get().WriteL0PauseTrigger; n != 0 {
		return n
	}
	return DefaultWriteL0PauseTrigger
}

// GetWriteL0SlowdownTrigger returns the field or its default.
func (o *Options) GetWriteL0SlowdownTrigger() int {
	if n := o.get().WriteL0SlowdownTrigger; n != 0 {
		return n
	}
	return DefaultWriteL0SlowdownTrigger
}

// GetFilterBaseLg returns the field or its default.
func (o *Options) GetFilterBaseLg() int { return positive(o.get().FilterBaseLg, DefaultFilterBaseLg) }

// GetMaxManifestFileSize returns the field or its default.
func (o *Options) GetMaxManifestFileSize() int64 {
	return positive(o.get().MaxManifestFileSize, DefaultMaxManifestFileSize)
}
