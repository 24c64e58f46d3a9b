// Package engine puts the stores that are compared behind one interface, each
// with the calls that its users would make.
//
// What they share is in Options; what could not be made equal stands in each
// Driver's Remark, which the reports print.
package engine

import (
	"runtime/debug"
	"strings"
)

// Options are the settings that every engine gets, as far as it has them.
type Options struct {
	FilterBits      int    `json:"filter_bits"` // of a bloom filter for each key; 0: none
	Compression     string `json:"compression"` // one of Compressions
	CacheBytes      int64  `json:"cache_bytes"` // of the block cache
	WriteBufferSize int    `json:"write_buffer_bytes"`
	BackgroundJobs  int    `json:"background_jobs"`
	OpenFiles       int    `json:"open_files"` // tables held open at most; 0: the engine's default. Badger and bbolt have no such bound
	// Sync makes every write wait for stable storage. Where an engine lets that be
	// chosen for each write, so does the driver.
	Sync bool `json:"sync"`
	// OpenLazily has tables opened when they are first needed, in the engines that
	// otherwise open them with the database and leave the choice (MayOpenLazily).
	OpenLazily bool `json:"open_lazily"`
}

// The values of Options.Compression.
const (
	None   = "none"
	Snappy = "snappy"
	Zstd   = "zstd"
)

// An Engine is an open store. Get, Put, Delete and NewIterator may be called by
// several goroutines at once, the rest by one at a time.
type Engine interface {
	// Get appends the value of key to dst and returns it, or reports that there is
	// none. An engine whose own call returns a copy may return that in place of dst.
	Get(dst, key []byte) (value []byte, found bool, err error)
	Put(key, value []byte) error
	Delete(key []byte) error
	// Apply puts n entries at once. The slices that entry returns are valid until
	// its next call.
	Apply(n int, entry func(i int) (key, value []byte)) error
	// NewIterator returns an iterator over what is visible now; with reverse it is
	// for Last and Prev only, otherwise for First, Seek and Next.
	NewIterator(reverse bool) (Iterator, error)
	// Flush moves what is in memory to where the engine keeps its data; background
	// work may follow.
	Flush() error
	Close() error
}

// An Iterator is used by one goroutine at a time. Its moves report whether it
// stands at an entry. Key and Value are valid until the next move.
type Iterator interface {
	First() bool
	Last() bool
	Seek(key []byte) bool // to the first key at or behind key
	Next() bool
	Prev() bool
	Key() []byte
	Value() []byte
	Close() error // and the first error of all moves
}

// A Driver opens one kind of engine.
type Driver struct {
	Name    string // as --engines has it
	Title   string // as reports have it
	Version string
	Remark  string // what is not as with the others
	Native  bool   // not Go: the runtime does not see its allocations
	// MayOpenLazily: Options.OpenLazily makes a difference.
	MayOpenLazily bool
	// LosesUnsynced says that writes that were acknowledged without Options.Sync may
	// be lost when the process is killed.
	LosesUnsynced bool
	Open          func(dir string, o Options) (Engine, error)
	// LeftOut says why the engine is not in this program; Open is nil then.
	LeftOut string
}

// Go returns the drivers of the engines that are written in Go, SieveDB first.
func Go() []Driver {
	return []Driver{sieveDriver(), bufferedDriver(), pebbleDriver(), goleveldbDriver(), badgerDriver(), bboltDriver()}
}

// moduleVersion is the version of a module that this program was built with.
func moduleVersion(path string) string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "?"
	}
	for _, m := range info.Deps {
		if m.Path == path {
			if m.Replace != nil {
				m = m.Replace
			}
			return strings.TrimPrefix(m.Version, "v")
		}
	}
	return "?"
}
