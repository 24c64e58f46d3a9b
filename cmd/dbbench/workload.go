package main

import (
	"context"
	"fmt"
	"strings"
)

// workload is one name of --benchmarks.
type workload struct {
	name, about string
	fresh       bool // begins with an empty database
	storesAll   bool // every key of a key file is stored afterwards
	deletes     bool
	needsFilter bool
	run         func(ctx context.Context, s *session, name string) error
}

var workloads = []*workload{
	{name: "fillseq", about: "write the keys in order, into an empty database", fresh: true, storesAll: true, run: fill(inOrder)},
	{name: "fillrandom", about: "write in random order, into an empty database", fresh: true, storesAll: true, run: fill(atRandom)},
	{name: "fillsync", about: "as fillrandom, a thousandth of it, each write synced", fresh: true, run: fillSync},
	{name: "fillbatch", about: "as fillseq, --batch_size keys in each write", fresh: true, storesAll: true, run: fillBatch},
	{name: "fillbulk", about: "as fillseq, by one goroutine with a Loader, its Commit included", fresh: true, storesAll: true, run: fillBulk},
	{name: "overwrite", about: "write in random order, into what is there", run: fill(atRandom)},
	{name: "deleterandom", about: "delete keys at random", deletes: true, run: deleteRandom},
	{name: "readrandom", about: "get keys at random", run: readRandom},
	{name: "readmissing", about: "get keys that are not stored but lie between those that are", run: readMissing},
	{name: "readhot", about: "get keys at random from the first hundredth", run: readHot},
	{name: "readseq", about: "read all entries in order", run: readSeq},
	{name: "readreverse", about: "read all entries in reverse order", run: readReverse},
	{name: "seekrandom", about: "seek keys at random, then read --seek_nexts entries", run: seekRandom},
	{name: "scanempty", about: "scan short ranges that hold nothing, with filters of ranges and without; fills a database of its own", fresh: true, run: scanEmpty},
	{name: "readwhilewriting", about: "readrandom beside a goroutine that overwrites", run: readWhileWriting},
	{name: "compact", about: "compact the whole database", run: compact},
	{name: "settle", about: "flush, and wait until nothing is left to compact", run: settle},
	{name: "stats", about: "print what the store counted since it was opened", run: printStats},
	{name: reportName, about: "report the disk reads that filters save, on the data there is", needsFilter: true, run: filterReads},
	{name: sweepName, about: "compare kinds of filters and bits a key, on real keys and made ones; --html writes a page with plots", fresh: true, run: filterSweep},
}

func findWorkload(name string) (*workload, bool) {
	for _, w := range workloads {
		if w.name == name {
			return w, true
		}
	}
	return nil, false
}

func workloadNames() string {
	names := make([]string, len(workloads))
	for i, w := range workloads {
		names[i] = w.name
	}
	return strings.Join(names, ", ")
}

// runWorkload runs one of them on the session's database.
func (s *session) runWorkload(ctx context.Context, w *workload) error {
	if w.fresh && s.cfg.UseExistingDB {
		fmt.Fprintf(s.stdout, "%-17s: left out, because of --use_existing_db\n", w.name)
		return nil
	}
	open := s.openDB
	if w.fresh {
		open = s.freshDB
	}
	if err := open(); err != nil {
		return err
	}
	if w.fresh || w.deletes {
		s.allKeysStored = false
	}
	if err := w.run(ctx, s, w.name); err != nil {
		return fmt.Errorf("%s: %w", w.name, err)
	}
	if w.storesAll && s.keys.list != nil && s.cfg.Duration == 0 {
		s.allKeysStored = true
	}
	return nil
}

// measureAndPrint measures a job and prints its line, also of one cut short.
func (s *session) measureAndPrint(ctx context.Context, j job) error {
	r, err := s.measure(ctx, j)
	s.addResult(r)
	return err
}

func (s *session) addResult(r *result) {
	s.results = append(s.results, r)
	fmt.Fprintln(s.stdout, r)
}
