package main

import (
	"slices"
)

// base is the database with which a workload starts.
type base int

const (
	empty  base = iota
	loaded      // all keys, loaded in random order and settled; the workload does not change it
	copied      // a copy of loaded
)

// A workload is what one process measures of one engine.
type workload struct {
	name, about string
	base        base
	sync        bool
	scales      bool // measured with each number of --threads, its readers
	writers     bool // measured with each number of --writers
	cold        bool // with a cold page cache
	cached      bool // reads everything before the measurement, so that cache has it all
	// cache returns the size of the block cache for this size of keys and values; nil: --cache.
	cache   func(data int64) int64
	settles bool                             // the engine settles afterwards, and that is measured too
	ops     func(c *config, threads int) int // of all threads together
	make    func(s *session) task
	left    func(num, ops int) int // number of keys afterwards; nil: not checked
}

func all(num, _ int) int         { return num }
func written(_, ops int) int     { return ops }
func undeleted(num, ops int) int { return num - ops }
func keys(c *config, _ int) int  { return c.Num }
func half(c *config, _ int) int  { return c.Num / 2 }
func reads(c *config, _ int) int { return c.Reads }

// overwritten is a part of the keys with --scale.
func overwritten(c *config, _ int) int {
	if c.scaled() {
		return max(c.Num/100*c.Overwrites+c.Num%100*c.Overwrites/100, 1)
	}
	return c.Num
}

func part(n int) func(*config, int) int {
	return func(c *config, _ int) int { return max(c.Reads/n, 1) }
}

// scanned returns the entries that readseq and readreverse read. Scanning is far faster than looking up keys.
func scanned(c *config, _ int) int { return min(c.Num, 10*c.Reads) }

// scannedAgain returns the entries of scans of cached data. Reading them once would take less than a tenth of a second.
func scannedAgain(c *config, _ int) int { return 10 * c.Reads }

// forAllData is larger than the data with index and filters, decompressed. Each engine uses as much of
// it as its form of the data needs, which its resident memory shows.
func forAllData(data int64) int64 { return 2*data + 32<<20 }

// synced grows with the number of writers, which share syncs, up to ten.
func synced(c *config, writers int) int {
	return min(max(c.Num/200, 20)*min(writers, 10), c.Num)
}

func coldReads(c *config, _ int) int { return min(2000, c.Num) }

// coldMisses is larger than coldReads: with filters one in a hundred lookups reads a block, and two
// dozen reads are too few to measure.
func coldMisses(c *config, _ int) int { return min(20_000, c.Num) }

var workloads = []workload{
	{name: "fillseq", about: "puts in key order to an empty database", settles: true, ops: keys, make: fillSeq, left: all},
	{name: "fillbatch", about: "the same, 100 keys per batch", settles: true, ops: keys, make: fillBatch, left: all},
	{name: "fillsync", about: "puts in random order, each synced", sync: true, writers: true, ops: synced, make: fillRandom, left: written},
	{name: "fillrandom", about: "puts in random order, each key once", writers: true, settles: true, ops: keys, make: fillRandom, left: all},
	{name: "overwrite", about: "puts of random stored keys", base: copied, settles: true, ops: overwritten, make: overwrite, left: all},
	{name: "deleterandom", about: "deletes half of the keys in random order",
		base: copied, settles: true, ops: half, make: deleteRandom, left: undeleted},
	{name: "readrandom", about: "gets random stored keys", base: loaded, scales: true, ops: reads, make: readStored},
	{name: "readmissing", about: "gets random absent keys", base: loaded, scales: true, ops: reads, make: readAbsent},
	{name: "readhot", about: "gets random keys of the first hundredth", base: loaded, scales: true, ops: reads, make: readHot},
	{name: "readrandom-cacheall", about: "readrandom with all data in the block cache", base: loaded, scales: true,
		cache: forAllData, cached: true, ops: reads, make: readStored},
	{name: "readrandom-cachetenth", about: "readrandom with a block cache for a tenth of the data", base: loaded, scales: true,
		cache: func(data int64) int64 { return max(data/10, 1<<20) }, ops: reads, make: readStored},
	{name: "seekrandom", about: "seeks a random stored key and reads 10 more entries",
		base: loaded, scales: true, ops: part(4), make: seekRandom},
	{name: "seekrandom-cacheall", about: "seekrandom with all data in the block cache", base: loaded, scales: true,
		cache: forAllData, cached: true, ops: part(4), make: seekRandom},
	{name: "readkeys", about: "reads all keys in order, without values", base: loaded, ops: scanned, make: readKeys},
	{name: "readseq", about: "reads all entries in order", base: loaded, ops: scanned, make: readSeq},
	{name: "readseq-cacheall", about: "readseq with all data in the block cache, again and again",
		base: loaded, cache: forAllData, cached: true, ops: scannedAgain, make: readSeq},
	{name: "readreverse", about: "reads all entries in reverse order", base: loaded, ops: scanned, make: readReverse},
	{name: "readreverse-cacheall", about: "readreverse with all data in the block cache, again and again",
		base: loaded, cache: forAllData, cached: true, ops: scannedAgain, make: readReverse},
	{name: "readwhilewriting", about: "readrandom during 10,000 puts per second", base: copied, ops: part(2), make: readWhileWriting},
	{name: "ycsb-a", about: "half reads, half updates, zipfian", base: copied, ops: part(2), make: ycsb(shares{update: 50})},
	{name: "ycsb-b", about: "95 % reads, 5 % updates, zipfian", base: copied, ops: part(2), make: ycsb(shares{update: 5})},
	{name: "ycsb-c", about: "reads, zipfian", base: loaded, scales: true, ops: part(2), make: ycsb(shares{})},
	{name: "ycsb-d", about: "95 % reads of the latest inserts, 5 % inserts",
		base: copied, ops: part(2), make: ycsb(shares{insert: 5, latest: true})},
	{name: "ycsb-e", about: "95 % scans of up to 100 entries, 5 % inserts, zipfian",
		base: copied, ops: part(10), make: ycsb(shares{insert: 5, scan: true})},
	{name: "ycsb-f", about: "half reads, half read-modify-writes, zipfian", base: copied, ops: part(2), make: ycsb(shares{modify: 50})},
	{name: "coldrandom", about: "readrandom with a cold page cache", base: loaded, cold: true, ops: coldReads, make: readStored},
	{name: "coldmissing", about: "readmissing with a cold page cache", base: loaded, cold: true, ops: coldMisses, make: readAbsent},
}

// writes reports whether the workload changes its database. Then latencies are measured in the same pass as the rate.
func (w *workload) writes() bool { return w.base != loaded }

// unsynced reports whether the workload makes unsynced writes, which some engines may lose when they are killed.
func (w *workload) unsynced() bool { return w.writes() && !w.sync }

func findWorkload(name string) (*workload, bool) {
	i := slices.IndexFunc(workloads, func(w workload) bool { return w.name == name })
	if i < 0 {
		return nil, false
	}
	return &workloads[i], true
}

func workloadNames() []string {
	var names []string
	for _, w := range workloads {
		names = append(names, w.name)
	}
	return names
}
