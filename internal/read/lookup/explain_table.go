package lookup

import (
	"bytes"
	"time"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/tables"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/report"
	"github.com/sievedb/sievedb/sstable"
)

// explainMemtable returns the step for memtable number i, where 0 is the active one. filtered says
// whether it has a filter, ruledOut whether the filter or the memtable's emptiness ruled out the
// key, and found whether the memtable has the key.
func explainMemtable(i int, filtered, ruledOut, found bool) report.ExplainStep {
	s := report.ExplainStep{Run: "memtable", Level: -1, Filter: "none", Found: found}
	if i > 0 {
		s.Run = "immutable memtable"
	}
	switch {
	case filtered && ruledOut:
		s.Filter = "absent"
	case filtered:
		s.Filter = "maybe"
	}
	return s
}

// stopwatch measures the time between calls of lap.
type stopwatch struct{ last time.Time }

func (w *stopwatch) lap() time.Duration {
	now := time.Now()
	took := now.Sub(w.last)
	w.last = now
	return took
}

// explainTable looks up a key in one table in the same steps as a lookup, and times each step. It opens
// the table if necessary.
func explainTable(
	cache *tables.Cache, lookup *sstable.Lookup, level int, f *version.FileMeta,
) (step report.ExplainStep, res sstable.Result, err error) {
	began := time.Now()
	watch := stopwatch{began}
	step = report.ExplainStep{
		Run: "table", Level: level, FileNum: f.Num, Bytes: f.Size, Filter: "none",
		Smallest: bytes.Clone(base.UserKey(f.Smallest)), Largest: bytes.Clone(base.UserKey(f.Largest)),
	}
	step.Opened = tables.Of(f).Peek() == nil
	r, err := cache.Get(f)
	if err != nil {
		return step, res, err
	}
	if step.Opened {
		cost := r.OpenCost()
		step.OpeningReads, step.OpeningBytes = cost.Reads, cost.Bytes
	}
	step.OpenTime = watch.lap()
	step.FilterPolicy = r.FilterPolicy()
	denied := r.Denies(lookup)
	step.FilterTime = watch.lap()
	if denied {
		step.Filter = "absent"
	} else if res, err = explainSearch(&step, r, lookup, &watch); err != nil {
		return step, res, err
	}
	step.Duration = time.Since(began)
	return step, res, nil
}

// explainSearch continues the lookup if the filter of the whole table, if any, did not rule out the key.
func explainSearch(step *report.ExplainStep, r *sstable.Reader, lookup *sstable.Lookup, watch *stopwatch) (res sstable.Result, err error) {
	if step.IndexBytes, err = r.LoadIndex(); err != nil {
		return res, err
	}
	step.IndexSearched, step.IndexRead = true, step.IndexBytes > 0
	step.IndexTime = watch.lap()
	if res, err = r.GetAfterFilter(lookup); err != nil {
		return res, err
	}
	step.SearchTime = watch.lap()
	switch res.Filter {
	case sstable.FilterNegative:
		step.Filter = "absent"
	case sstable.FilterPassed:
		step.Filter = "maybe"
	}
	step.BlockFromCache, step.BlockFromDisk = res.BlockFromCache, res.BlockFromDisk
	if res.BlockFromCache || res.BlockFromDisk {
		step.BlockBytes = r.BlockBytes(lookup)
	}
	step.BytesRead = step.IndexBytes + uint64(res.BytesRead)
	step.Found = res.Found
	return res, nil
}
