package filterreport

import (
	"context"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/disk/tables"
	"github.com/sievedb/sievedb/sstable"
)

// Options are the parts of a store that a report uses.
type Options struct {
	Cache    *tables.Cache
	Comparer *base.Comparer
	// Closed reports whether the store is closed, which may be the only reason that a table
	// cannot be read.
	Closed func() bool
	// Probes is the number of absent keys with which to query each filter. If it is 0, the
	// report queries none, and examines only open tables.
	Probes int
	// Counts are the counters of lookups. For single tables only a sample of the lookups is
	// counted, one in SampledOneIn.
	Counts       *Counts
	SampledOneIn uint64
}

// Counts are the counters of a store on which verdicts depend.
type Counts struct {
	Gets   uint64
	Levels [manifest.NumLevels]LevelCounts
}

// LevelCounts are the counters of a level: the tables that lookups consulted, and the results of
// filters for lookups and for iterators.
type LevelCounts struct {
	Reads        uint64
	Keys, Ranges Verdicts
}

// Verdicts counts the results of filters by whether they were right.
type Verdicts struct{ Negatives, TruePositives, FalsePositives uint64 }

func (v *Verdicts) checks() uint64 { return v.Negatives + v.TruePositives + v.FalsePositives }

// rangeChecks returns how often range filters were queried on all levels.
func (c *Counts) rangeChecks() (n uint64) {
	for i := range c.Levels {
		n += c.Levels[i].Ranges.checks()
	}
	return n
}

// Examine reports on the filters of all tables of v. The error means that the store was closed or
// ctx is done; the report then has the tables examined so far.
func Examine(ctx context.Context, v *manifest.Version, o Options) (*Report, error) {
	report := &Report{}
	var err error
	v.Files(func(level int, f *manifest.FileMeta) {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return
		}
		t := o.table(level, f)
		if o.Closed() {
			err = base.ErrClosed
			return
		}
		t.Advice = Advice(t.Verdict)
		report.add(t)
	})
	report.sumUp(o.Counts)
	return report, err
}

// table reports on one table.
func (o *Options) table(level int, f *manifest.FileMeta) Table {
	t := Table{Level: level, FileNum: f.Num, Name: f.Name(), Bytes: f.Size, Figures: Figures{Predicted: -1}}
	t.Lookups = o.sampled(&tables.Of(f).Sampled)
	if o.Probes <= 0 && tables.Of(f).Peek() == nil {
		t.Layout, t.Verdict = "not open", Unopened
		return t
	}
	r, err := o.Cache.Ref(f)
	if err != nil {
		t.Layout, t.Verdict, t.Detail = "the table cannot be opened", Damaged, err.Error()
		return t
	}
	defer r.Unref()
	status := r.FilterStatus()
	t.Policy, t.Layout = status.Policy, status.State.String()
	if blocks, bytes, ok := dataBlocks(r, o.Probes > 0); ok && blocks > 0 {
		t.BlockBytes = float64(bytes) / float64(blocks)
	}
	figures := r.FilterSummary()
	t.Figures = Figures{FilterBytes: figures.Bytes, Keys: figures.Keys, Predicted: figures.Predicted}
	t.setBitsPerKey()
	t.Lookups.setSaved(t.BlockBytes, t.FilterBytes)
	t.keys = tables.Keys(r, f)
	t.Ranges = rangeReports(r, t.keys, level, o.Counts)
	if o.Probes > 0 {
		err = probeTable(o.Comparer, r, o.Probes, &t.Probes)
	}
	t.Verdict, t.Detail = judge(&t, status, figures.HashBits, o.Counts, err)
	return t
}

// dataBlocks returns the number of a table's data blocks and their bytes. ok is false if they
// are unknown: only with mayRead does it read the index to find out.
func dataBlocks(r *sstable.Reader, mayRead bool) (blocks, bytes uint64, ok bool) {
	if p, ok := r.Properties(); ok {
		return p.DataBlocks, p.DataBytes, true
	}
	if !mayRead && r.IndexSize() == 0 {
		return 0, 0, false
	}
	n, bytes, err := r.DataBlocks()
	return uint64(n), bytes, err == nil
}

// sampled returns the estimated number of lookups that a table's samples represent.
func (o *Options) sampled(s *tables.SampledVerdicts) Lookups {
	return Lookups{
		Negatives:      s.Negatives.Load() * o.SampledOneIn,
		TruePositives:  s.TruePositives.Load() * o.SampledOneIn,
		FalsePositives: s.FalsePositives.Load() * o.SampledOneIn,
	}
}

func (f *Figures) setBitsPerKey() {
	if f.Keys > 0 {
		f.BitsPerKey = 8 * float64(f.FilterBytes) / float64(f.Keys)
	}
}

func (r *Report) add(t Table) {
	r.Tables = append(r.Tables, t)
	if n := len(r.Levels); n == 0 || r.Levels[n-1].Level != t.Level {
		r.Levels = append(r.Levels, Level{Level: t.Level, Verdicts: map[string]int{}})
	}
	l := &r.Levels[len(r.Levels)-1]
	l.Tables++
	l.FilterBytes += t.FilterBytes
	l.Keys += t.Keys
	l.Probes.Absent += t.Probes.Absent
	l.Probes.Passed += t.Probes.Passed
	l.Probes.Stored += t.Probes.Stored
	l.Probes.Denied += t.Probes.Denied
	l.addRanges(&t)
	l.Verdicts[t.Verdict]++
}

// sumUp computes the totals of the levels.
func (r *Report) sumUp(c *Counts) {
	for i := range r.Levels {
		l := &r.Levels[i]
		l.setBitsPerKey()
		l.Predicted = r.predicted(l.Level)
		from, block := &c.Levels[l.Level], r.blockBytes(l.Level)
		l.Lookups = lookupsOf(from.Keys, block, l.FilterBytes)
		l.Ranges = lookupsOf(from.Ranges, block, l.RangeBytes)
	}
}

// predicted returns the mean of the predictions for a level's tables, weighted by the probes of
// each or, without any, by its keys. It is negative if there are none.
func (r *Report) predicted(level int) float64 {
	var sum, weights float64
	for _, t := range r.Tables {
		if t.Level != level || t.Predicted < 0 {
			continue
		}
		weight := float64(t.Probes.Absent)
		if weight == 0 {
			weight = float64(t.Keys) * 1e-9 // negligible compared to a probe
		}
		sum, weights = sum+weight*t.Predicted, weights+weight
	}
	if weights == 0 {
		return -1
	}
	return sum / weights
}

// blockBytes returns the mean size of a data block over a level's tables.
func (r *Report) blockBytes(level int) float64 {
	var sum, tables float64
	for _, t := range r.Tables {
		if t.Level == level && t.BlockBytes > 0 {
			sum, tables = sum+t.BlockBytes, tables+1
		}
	}
	if tables == 0 {
		return 0
	}
	return sum / tables
}
