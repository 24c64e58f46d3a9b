// Package engine has one interface for the stores that are compared, and a driver for each, with the
// calls that its users would make.
//
// Options has the settings that they share. Each Driver's Remark describes the remaining differences;
// the JSON report has it.
package engine

import (
	"runtime/debug"
	"strings"
)

// The settings that all engines have in all runs, if they have such a setting. Compression is Snappy.
const (
	FilterBits      = 10 // of a bloom filter, per key
	WriteBufferSize = 16 << 20
	BackgroundJobs  = 2
)

// Options are the settings that runs differ in. An engine ignores settings that it does not have.
type Options struct {
	CacheBytes int64 `json:"cache_bytes"` // of the block cache
	// OpenFiles is the maximum number of open tables; 0: the engine's default. Badger and bbolt ignore it.
	OpenFiles int `json:"open_files"`
	// Sync makes every write wait for stable storage. The driver sets it for each write if the
	// engine has such a setting.
	Sync bool `json:"sync"`
	// OpenLazily makes engines with Driver.MayOpenLazily open a table when it is first needed, and
	// not with the database.
	OpenLazily bool `json:"open_lazily"`
}

// An Engine is an open store. Get, Put, Delete and NewIterator may be called concurrently, the other methods may not.
type Engine interface {
	// Get appends the value of key to dst and returns the result, or reports that key is absent. An
	// engine whose own call returns a copy may return that instead.
	Get(dst, key []byte) (value []byte, found bool, err error)
	Put(key, value []byte) error
	Delete(key []byte) error
	// Apply puts n entries in a batch. The slices that entry returns are valid until its next call.
	Apply(n int, entry func(i int) (key, value []byte)) error
	// NewIterator returns an iterator over the current entries.
	NewIterator(IterOptions) (Iterator, error)
	// Flush writes memtables to the engine's files. Background work may follow.
	Flush() error
	Close() error
}

// A Worker is an Engine that can say whether it works in the background.
type Worker interface {
	// Working reports whether a flush or a compaction is running or due.
	Working() (bool, error)
}

// IterOptions say how an iterator is used.
type IterOptions struct {
	Reverse  bool // only with Last and Prev; otherwise only with First, Seek and Next
	KeysOnly bool // Value is not called
}

// An Iterator is not safe for concurrent use. Its moves report whether it is at an entry. Key and
// Value are valid until the next move.
type Iterator interface {
	First() bool
	Last() bool
	Seek(key []byte) bool // to the first key at or after key
	Next() bool
	Prev() bool
	Key() []byte
	Value() []byte
	Close() error // also returns the first error of a move
}

// A Driver opens one kind of engine.
type Driver struct {
	Name    string // in --engines
	Title   string // in reports
	Version string
	Remark  string // differences from the other engines
	Native  bool   // not Go: the runtime does not count its allocations
	// Asked is set if the engine is measured only if it is named.
	Asked bool
	// MayOpenLazily is set if the engine supports Options.OpenLazily.
	MayOpenLazily bool
	// LosesUnsynced is set if writes that were acknowledged without Options.Sync may be lost when the
	// process is killed.
	LosesUnsynced bool
	Open          func(dir string, o Options) (Engine, error)
	// LeftOut is the reason why the engine is not in this program. Open is nil then.
	LeftOut string
	// Program is the program to measure the engine with, if it cannot be in this one.
	Program string
}

// Go returns the drivers of the engines written in Go, SieveDB first.
func Go() []Driver {
	return []Driver{sieveDriver(), bufferedDriver(), asGoleveldbDriver(), pebbleDriver(), goleveldbDriver(), badgerDriver(), bboltDriver(),
		pebbleSeparatedDriver(), badgerSeparatedDriver(), sieveSeparatedDriver()}
}

// SeparateFrom is the size in bytes from which engines with separated values keep a value outside of their tables.
const SeparateFrom = 1 << 10

// moduleVersion returns the version of a module in this program.
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
