package leveldb

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"github.com/sievedb/sievedb/db"
	sieve "github.com/sievedb/sievedb/filter"

	"github.com/syndtr/goleveldb/leveldb/comparer"
	"github.com/syndtr/goleveldb/leveldb/filter"
	"github.com/syndtr/goleveldb/leveldb/opt"
	"github.com/syndtr/goleveldb/leveldb/storage"
	"github.com/syndtr/goleveldb/leveldb/util"
)

// The bounds of SieveDB's options. Values beyond them become the nearest one.
const (
	minSize      = 4 << 10
	maxSize      = 1 << 30
	minBlock     = 64
	maxBlock     = 4 << 20
	minOpenFiles = 10
	maxL0        = 1 << 16
)

func within[T int | int64](value, low, high T) T { return min(max(value, low), high) }

// nativeOptions returns SieveDB's options for those of goleveldb.
func nativeOptions(o *opt.Options) *db.Options {
	n := &db.Options{ReadOnly: o.GetReadOnly(), Comparer: nativeComparer(o.GetComparer())}
	n.Memtables = db.MemtableOptions{Size: within(o.GetWriteBuffer(), minSize, maxSize), MaxWaiting: 1}
	n.Tables = db.TableOptions{
		BlockSize:       within(o.GetBlockSize(), minBlock, maxBlock),
		RestartInterval: min(o.GetBlockRestartInterval(), maxL0),
		Compression:     db.SnappyCompression,
	}
	if o != nil && o.CompactionTableSize > 0 {
		n.Tables.Size = int64(within(o.CompactionTableSize, minSize, maxSize))
	}
	if o.GetCompression() == opt.NoCompression {
		n.Tables.Compression = db.NoCompression
	}
	n.Cache = db.CacheOptions{Size: blockCache(o), MaxOpenFiles: max(o.GetOpenFilesCacheCapacity(), minOpenFiles)}
	n.Filters.Policy, n.Filters.ForGoleveldb = nativeFilter(o.GetFilter())
	if n.Comparer != db.BytewiseComparer && !n.Filters.ForGoleveldb {
		// The comparer may call keys equal whose bytes differ, as goleveldb allows. A filter of
		// NewBloomFilter denies such keys there too.
		n.Comparer.InexactEqual = true
	}
	if !o.GetStrict(opt.StrictJournal) {
		n.Salvage = db.SalvageAll
	}
	setLevels(n, o)
	return n
}

// setLevels sets the options of compactions and of the MANIFEST that a program gave. The others are SieveDB's.
func setLevels(n *db.Options, o *opt.Options) {
	if o == nil {
		return
	}
	c := &n.Compaction
	if o.CompactionL0Trigger > 0 || o.WriteL0SlowdownTrigger > 0 || o.WriteL0PauseTrigger > 0 {
		c.L0Trigger = min(first(o.CompactionL0Trigger, 4), maxL0)
		c.L0Slowdown = within(first(o.WriteL0SlowdownTrigger, 12), c.L0Trigger, maxL0)
		c.L0Stop = within(first(o.WriteL0PauseTrigger, 24), c.L0Slowdown+1, maxL0+1)
	}
	if o.CompactionTotalSize > 0 {
		c.MaxLevelBase = int64(max(o.CompactionTotalSize, minSize))
	}
	if o.MaxManifestFileSize > 0 {
		n.Limits.ManifestSize = within(o.MaxManifestFileSize, minSize, maxSize)
	}
}

func first(value, standard int) int {
	if value > 0 {
		return value
	}
	return standard
}

// blockCache returns the size of the block cache; negative: none.
func blockCache(o *opt.Options) int64 {
	size := o.GetBlockCacheCapacity()
	if o.GetDisableBlockCache() || size == 0 {
		return -1
	}
	cacher := o.GetBlockCacher().New(size)
	if cacher == nil {
		return -1
	}
	return int64(max(cacher.Capacity(), 1))
}

// nativeComparer returns SieveDB's form of a comparer.
func nativeComparer(c comparer.Comparer) *db.Comparer {
	if c == comparer.Comparer(comparer.DefaultComparer) {
		return db.BytewiseComparer
	}
	// A separator or successor that is out of its bounds is replaced by the key itself.
	return &db.Comparer{
		Name:    c.Name(),
		Compare: c.Compare,
		Separator: func(dst, a, b []byte) []byte {
			if x := c.Separator(nil, a, b); x != nil && c.Compare(a, x) <= 0 && c.Compare(x, b) < 0 {
				return append(dst, x...)
			}
			return append(dst, a...)
		},
		Successor: func(dst, a []byte) []byte {
			if x := c.Successor(nil, a); x != nil && c.Compare(a, x) <= 0 {
				return append(dst, x...)
			}
			return append(dst, a...)
		},
	}
}

// nativeFilter returns SieveDB's form of a filter, and whether it is to be listed under goleveldb's name.
func nativeFilter(f filter.Filter) (policy sieve.Policy, forGoleveldb bool) {
	if f == nil {
		return sieve.None, false
	}
	if b, ok := f.(interface{ BitsPerKey() int }); ok && f == filter.NewBloomFilter(b.BitsPerKey()) {
		return sieve.NewBloomPolicy(b.BitsPerKey()), true
	}
	return filterPolicy{f}, false
}

// filterPolicy is a program's own filter.
type filterPolicy struct{ filter.Filter }

func (p filterPolicy) CreateFilter(dst []byte, keys [][]byte) []byte {
	g := p.NewGenerator()
	for _, key := range keys {
		g.Add(key)
	}
	var b util.Buffer
	g.Generate(&b)
	return append(dst, b.Bytes()...)
}

func (p filterPolicy) KeyMayMatch(key, filter []byte) bool { return p.Contains(filter, key) }

// storageLog gives SieveDB's messages to a storage.
type storageLog struct {
	stor   storage.Storage
	prefix string
}

func (l *storageLog) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelInfo
}

func (l *storageLog) Handle(_ context.Context, r slog.Record) error {
	var b strings.Builder
	if r.Level > slog.LevelInfo {
		fmt.Fprintf(&b, "%s: ", r.Level)
	}
	b.WriteString(r.Message)
	b.WriteString(l.prefix)
	r.Attrs(func(a slog.Attr) bool {
		fmt.Fprintf(&b, " %s", a)
		return true
	})
	l.stor.Log(b.String())
	return nil
}

func (l *storageLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	prefix := l.prefix
	for _, a := range attrs {
		prefix += " " + a.String()
	}
	return &storageLog{l.stor, prefix}
}

func (l *storageLog) WithGroup(string) slog.Handler { return l }
