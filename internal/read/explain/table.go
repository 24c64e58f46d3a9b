package explain

import (
	"bytes"
	"time"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/disk/tables"
	"github.com/sievedb/sievedb/sstable"
)

// stopwatch measures the time between calls of lap.
type stopwatch struct{ last time.Time }

func (w *stopwatch) lap() time.Duration {
	now := time.Now()
	took := now.Sub(w.last)
	w.last = now
	return took
}

// Table looks up a key in one table in the same steps as a lookup, and times each step. It opens
// the table if necessary.
func Table(
	cache *tables.Cache, lookup *sstable.Lookup, level int, f *manifest.FileMeta,
) (step Step, res sstable.Result, err error) {
	began := time.Now()
	watch := stopwatch{began}
	step = Step{
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
	} else if res, err = search(&step, r, lookup, &watch); err != nil {
		return step, res, err
	}
	step.Duration = time.Since(began)
	return step, res, nil
}

// search continues the lookup if the filter of the whole table, if any, did not rule out the
// key.
func search(step *Step, r *sstable.Reader, lookup *sstable.Lookup, watch *stopwatch) (res sstable.Result, err error) {
	if step.IndexBytes, err = r.ReadIndex(); err != nil {
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
