package main

import (
	"slices"
)

// base says which database a workload begins with.
type base int

const (
	empty  base = iota
	loaded      // all keys in random order, settled; the workload leaves it as it is
	copied      // a copy of that
)

// A workload is what one process measures of one engine.
type workload struct {
	name, about string
	base        base
	sync        bool
	scales      bool // with --threads, its readers
	writers     bool // with --writers
	cold        bool
	cache       func(data int64) int64           // of the block cache, for so many bytes of keys and values; nil: as --cache says
	settles     bool                             // its debt is paid and accounted for
	ops         func(c *config, threads int) int // of all threads together
	make        func(s *session) task
	left        func(num, ops int) int // keys that are there afterwards; nil: not counted
}

func all(num, _ int) int         { return num }
func written(_, ops int) int     { return ops }
func rest(num, ops int) int      { return num - ops }
func keys(c *config, _ int) int  { return c.Num }
func half(c *config, _ int) int  { return c.Num / 2 }
func reads(c *config, _ int) int { return c.Reads }

func part(n int) func(*config, int) int {
	return func(c *config, _ int) int { return max(c.Reads/n, 1) }
}

// scanned is what readseq and readreverse read: many times more than is looked up
// in the same time.
func scanned(c *config, _ int) int { return min(c.Num, 10*c.Reads) }

// synced grows with the writers that share a sync, while more of them help.
func synced(c *config, writers int) int {
	return min(max(c.Num/200, 20)*min(writers, 10), c.Num)
}

func coldReads(c *config, _ int) int { return min(c.ColdReads, c.Num) }

// coldMisses are more: one in a hundred reads anything, and two dozen reads tell little.
func coldMisses(c *config, _ int) int { return min(10*c.ColdReads, c.Num) }

var workloads = []workload{
	{name: "fillseq", about: "puts in the order of keys, into an empty database", settles: true, ops: keys, make: fillSeq, left: all},
	{name: "fillbatch", about: "the same, 100 keys a batch", settles: true, ops: keys, make: fillBatch, left: all},
	{name: "fillsync", about: "puts in random order, each synced", sync: true, writers: true, ops: synced, make: fillRandom, left: written},
	{name: "fillrandom", about: "puts in random order, each key once", writers: true, settles: true, ops: keys, make: fillRandom, left: all},
	{name: "overwrite", about: "puts of random stored keys", base: copied, settles: true, ops: keys, make: overwrite, left: all},
	{name: "deleterandom", about: "deletes half of the keys in random order", base: copied, settles: true, ops: half, make: deleteRandom, left: rest},
	{name: "readrandom", about: "gets random stored keys", base: loaded, scales: true, ops: reads, make: readStored},
	{name: "readmissing", about: "gets random absent keys", base: loaded, scales: true, ops: reads, make: readAbsent},
	{name: "readhot", about: "gets random keys of a hundredth", base: loaded, scales: true, ops: reads, make: readHot},
	{name: "readrandom-cacheall", about: "readrandom with a block cache that holds all", base: loaded, scales: true, cache: func(data int64) int64 { return 2*data + 32<<20 }, ops: reads, make: readStored},
	{name: "readrandom-cachetenth", about: "readrandom with a block cache that holds a tenth", base: loaded, scales: true, cache: func(data int64) int64 { return max(data/10, 1<<20) }, ops: reads, make: readStored},
	{name: "seekrandom", about: "seeks a random stored key and reads 10 more", base: loaded, scales: true, ops: part(4), make: seekRandom},
	{name: "readseq", about: "reads all in the order of keys", base: loaded, ops: scanned, make: readSeq},
	{name: "readreverse", about: "reads all in reverse", base: loaded, ops: scanned, make: readReverse},
	{name: "readwhilewriting", about: "readrandom beside 10,000 puts a second", base: copied, ops: part(2), make: readWhileWriting},
	{name: "ycsb-a", about: "half reads, half updates, zipfian", base: copied, ops: part(2), make: ycsb(shares{update: 50})},
	{name: "ycsb-b", about: "95 % reads, 5 % updates, zipfian", base: copied, ops: part(2), make: ycsb(shares{update: 5})},
	{name: "ycsb-c", about: "reads, zipfian", base: loaded, scales: true, ops: part(2), make: ycsb(shares{})},
	{name: "ycsb-d", about: "95 % reads of the latest, 5 % inserts", base: copied, ops: part(2), make: ycsb(shares{insert: 5, latest: true})},
	{name: "ycsb-e", about: "95 % scans of up to 100, 5 % inserts, zipfian", base: copied, ops: part(10), make: ycsb(shares{insert: 5, scan: true})},
	{name: "ycsb-f", about: "half reads, half read-modify-writes, zipfian", base: copied, ops: part(2), make: ycsb(shares{modify: 50})},
	{name: "coldrandom", about: "readrandom after the page cache was dropped", base: loaded, cold: true, ops: coldReads, make: readStored},
	{name: "coldmissing", about: "readmissing after the page cache was dropped", base: loaded, cold: true, ops: coldMisses, make: readAbsent},
}

// writes says that latencies are taken while it is measured, not in a second pass.
func (w *workload) writes() bool { return w.base != loaded }

// unsynced says that it writes what only some engines keep when they are killed.
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
