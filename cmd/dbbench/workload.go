package main

import (
	"context"
	"fmt"
	"strings"
)

// workload is one name of --benchmarks.
type workload struct {
	name, about string
	fresh       bool // starts with an empty database
	storesAll   bool // the database has every key of a key file afterwards
	deletes     bool
	needsFilter bool
	run         func(ctx context.Context, s *session, name string) error
}

var workloads = []*workload{
	{name: "fillseq", about: "write the keys in order to an empty database", fresh: true, storesAll: true, run: fill(inOrder)},
	{name: "fillrandom", about: "write in random order to an empty database", fresh: true, storesAll: true, run: fill(atRandom)},
	{name: "fillsync", about: "like fillrandom, a thousandth of the writes, each synced", fresh: true, run: fillSync},
	{name: "fillbatch", about: "like fillseq, --batch_size keys per write", fresh: true, storesAll: true, run: fillBatch},
	{name: "fillbulk", about: "like fillseq, one goroutine with a Loader, including its Commit",
		fresh: true, storesAll: true, run: fillBulk},
	{name: "overwrite", about: "write in random order to the current database", run: fill(atRandom)},
	{name: "deleterandom", about: "delete keys at random", deletes: true, run: deleteRandom},
	{name: "readrandom", about: "get keys at random", run: readRandom},
	{name: "readmissing", about: "get absent keys that sort between stored ones", run: readMissing},
	{name: "readhot", about: "get keys at random from the first hundredth", run: readHot},
	{name: "readseq", about: "read all entries in order", run: readSeq},
	{name: "readreverse", about: "read all entries in reverse order", run: readReverse},
	{name: "seekrandom", about: "seek keys at random, then read --seek_nexts entries", run: seekRandom},
	{name: "scanempty", about: "scan short empty ranges with and without range filters; fills its own database", fresh: true, run: scanEmpty},
	{name: "readwhilewriting", about: "readrandom with a concurrent goroutine that overwrites", run: readWhileWriting},
	{name: "compact", about: "compact the whole database", run: compact},
	{name: "settle", about: "flush, and wait until no compaction is due", run: settle},
	{name: "stats", about: "print the store's metrics since it was opened", run: printStats},
	{name: reportName, about: "report the disk reads that filters save, with the current data", needsFilter: true, run: filterReads},
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

// runWorkload runs a workload on the session's database.
func (s *session) runWorkload(ctx context.Context, w *workload) error {
	if w.fresh && s.cfg.UseExistingDB {
		fmt.Fprintf(s.stdout, "%-17s: skipped because of --use_existing_db\n", w.name)
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

// measureAndPrint measures a job and prints its line, even after an error or an interrupt.
func (s *session) measureAndPrint(ctx context.Context, j job) error {
	r, err := s.measure(ctx, j)
	s.addResult(r)
	return err
}

func (s *session) addResult(r *result) {
	s.results = append(s.results, r)
	fmt.Fprintln(s.stdout, r)
}
