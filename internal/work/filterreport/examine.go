package filterreport

import (
	"context"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/tables"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/report"
	"github.com/sievedb/sievedb/sstable"
)

// Options are the parts of a store that a report uses.
type Options struct {
	Cache    *tables.Cache
	Comparer *base.Comparer
	// Closed reports whether the store is closed, which may be the only reason that a table cannot be read.
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
	Levels [version.NumLevels]LevelCounts
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
func Examine(ctx context.Context, v *version.Version, o Options) (*report.FilterReport, error) {
	e := examination{Options: o}
	e.report = &report.FilterReport{Tables: []report.TableFilterReport{}, Levels: []report.LevelFilterReport{}} // lists in JSON too
	var err error
	v.Files(func(level int, f *version.FileMeta) {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return
		}
		t, keys := e.table(level, f)
		if o.Closed() {
			err = base.ErrClosed
			return
		}
		t.Advice = t.Verdict.Advice()
		e.add(&t, keys)
	})
	e.sumUp()
	return e.report, err
}

// examination is a call of Examine.
type examination struct {
	Options
	report *report.FilterReport
	keys   uint64 // of the last level's tables
}

// table reports on one table. keys is the number of its keys, 0 if that is unknown.
func (e *examination) table(level int, f *version.FileMeta) (t report.TableFilterReport, keys uint64) {
	t = report.TableFilterReport{
		Level: level, FileNum: f.Num, Name: f.Name(), Bytes: f.Size, FilterFigures: report.FilterFigures{Predicted: -1},
	}
	t.Lookups = e.sampled(&tables.Of(f).Sampled)
	if e.Probes <= 0 && tables.Of(f).Peek() == nil {
		t.Layout, t.Verdict = "not open", report.VerdictUnopened
		return t, 0
	}
	r, err := e.Cache.Ref(f)
	if err != nil {
		t.Layout, t.Verdict, t.Detail = "the table cannot be opened", report.VerdictDamaged, err.Error()
		return t, 0
	}
	defer r.Unref()
	status := r.FilterStatus()
	t.Policy, t.Layout = status.Policy, status.State.String()
	if blocks, bytes, ok := dataBlocks(r, e.Probes > 0); ok && blocks > 0 {
		t.BlockBytes = float64(bytes) / float64(blocks)
	}
	figures := r.FilterSummary()
	t.FilterFigures = report.FilterFigures{FilterBytes: figures.Bytes, Keys: figures.Keys, Predicted: figures.Predicted}
	setBitsPerKey(&t.FilterFigures)
	setSaved(&t.Lookups, t.BlockBytes, t.FilterBytes)
	keys = tables.Keys(r, f)
	t.Ranges = rangeReports(r, keys, level, e.Counts)
	if e.Probes > 0 {
		err = probeTable(e.Comparer, r, e.Probes, &t.Probes)
	}
	t.Verdict, t.Detail = judge(&t, status, figures.HashBits, e.Counts, err)
	return t, keys
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
func (o *Options) sampled(s *tables.SampledVerdicts) report.FilterLookups {
	return report.FilterLookups{
		Negatives:      s.Negatives.Load() * o.SampledOneIn,
		TruePositives:  s.TruePositives.Load() * o.SampledOneIn,
		FalsePositives: s.FalsePositives.Load() * o.SampledOneIn,
	}
}

// lookupsOf returns the value of that many results, if a block has blockBytes and the filters filterBytes.
func lookupsOf(v Verdicts, blockBytes float64, filterBytes uint64) report.FilterLookups {
	l := report.FilterLookups{Negatives: v.Negatives, TruePositives: v.TruePositives, FalsePositives: v.FalsePositives}
	setSaved(&l, blockBytes, filterBytes)
	return l
}

// setSaved sets the fields for the reads that negatives saved, if a block has blockBytes.
func setSaved(l *report.FilterLookups, blockBytes float64, filterBytes uint64) {
	saved := float64(l.Negatives) * blockBytes
	l.BytesSaved = uint64(saved)
	if filterBytes > 0 {
		l.ReadsPerByte, l.BytesPerByte = float64(l.Negatives)/float64(filterBytes), saved/float64(filterBytes)
	}
}

func setBitsPerKey(f *report.FilterFigures) {
	if f.Keys > 0 {
		f.BitsPerKey = 8 * float64(f.FilterBytes) / float64(f.Keys)
	}
}

// add adds a table, which has that many keys.
func (e *examination) add(t *report.TableFilterReport, keys uint64) {
	r := e.report
	r.Tables = append(r.Tables, *t)
	if n := len(r.Levels); n == 0 || r.Levels[n-1].Level != t.Level {
		r.Levels = append(r.Levels, report.LevelFilterReport{Level: t.Level, Verdicts: map[report.FilterVerdict]int{}})
		e.keys = 0
	}
	e.keys += keys
	l := &r.Levels[len(r.Levels)-1]
	l.Tables++
	l.FilterBytes += t.FilterBytes
	l.Keys += t.Keys
	l.Probes.Absent += t.Probes.Absent
	l.Probes.Passed += t.Probes.Passed
	l.Probes.Stored += t.Probes.Stored
	l.Probes.Denied += t.Probes.Denied
	addRanges(l, t, e.keys)
	l.Verdicts[t.Verdict]++
}

// sumUp computes the totals of the levels.
func (e *examination) sumUp() {
	for i := range e.report.Levels {
		l := &e.report.Levels[i]
		setBitsPerKey(&l.FilterFigures)
		l.Predicted = predicted(e.report, l.Level)
		from, block := &e.Counts.Levels[l.Level], blockBytes(e.report, l.Level)
		l.Lookups = lookupsOf(from.Keys, block, l.FilterBytes)
		l.Ranges = lookupsOf(from.Ranges, block, l.RangeBytes)
	}
}

// predicted returns the mean of the predictions for a level's tables, weighted by the probes of
// each or, without any, by its keys. It is negative if there are none.
func predicted(r *report.FilterReport, level int) float64 {
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
func blockBytes(r *report.FilterReport, level int) float64 {
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
