package db

import (
	"bytes"
	"time"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/manifest"
	"github.com/sievedb/sievedb/internal/tables"
	"github.com/sievedb/sievedb/sstable"
)

// stopwatch tells the time since it was last asked.
type stopwatch struct{ last time.Time }

func (w *stopwatch) lap() time.Duration {
	now := time.Now()
	took := now.Sub(w.last)
	w.last = now
	return took
}

// explainTable is findInTable for an Explanation: the same steps, one by one, each
// timed. It stands by itself so that lookups that nobody explains pay for one
// comparison.
func (d *DB) explainTable(s *readState, t *tableSearch, lookup *sstable.Lookup, level int, f *manifest.FileMeta, x *Explanation) error {
	began := time.Now()
	watch := stopwatch{began}
	step := ExplainStep{
		Run: "table", Level: level, FileNum: f.Num, Bytes: f.Size, Filter: "none",
		Smallest: bytes.Clone(base.UserKey(f.Smallest)), Largest: bytes.Clone(base.UserKey(f.Largest)),
	}
	step.Opened = tables.Of(f).Peek() == nil
	r, err := d.tables.Get(f)
	if err != nil {
		return d.openError(s, err)
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
		t.denied(level)
		step.Filter = "absent"
	} else if err := step.search(t, r, lookup, f, &watch); err != nil {
		return err
	}
	step.Duration = time.Since(began)
	x.Steps = append(x.Steps, step)
	return nil
}

// search goes on where the filter of the whole table, if there is one, did not rule the
// key out.
func (step *ExplainStep) search(t *tableSearch, r *sstable.Reader, lookup *sstable.Lookup, f *manifest.FileMeta, watch *stopwatch) error {
	var err error
	if step.IndexBytes, err = r.ReadIndex(); err != nil {
		return err
	}
	step.IndexSearched, step.IndexRead = true, step.IndexBytes > 0
	step.IndexTime = watch.lap()
	res, err := r.GetUndenied(lookup)
	if err != nil {
		return err
	}
	step.SearchTime = watch.lap()
	switch res.Filter {
	case sstable.FilterNegative:
		step.Filter = "absent"
	case sstable.FilterPassed:
		step.Filter = "maybe"
	}
	if step.BlockFromCache, step.BlockFromDisk = res.BlockFromCache, res.BlockFromDisk; res.BlockFromCache || res.BlockFromDisk {
		step.BlockBytes = r.BlockBytes(lookup)
	}
	step.BytesRead = step.IndexBytes + uint64(res.BytesRead)
	if step.Found = res.Found; res.Found {
		_, t.kind = base.SplitTrailer(res.Trailer)
		t.found, t.trailer, t.value, t.answer = true, res.Trailer, res.Value, f
	}
	return nil
}
