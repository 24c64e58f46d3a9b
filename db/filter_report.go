package db

import (
	"context"
	"encoding/json"
	"math"

	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/counters"
	"github.com/sievedb/sievedb/internal/errors"
	"github.com/sievedb/sievedb/internal/manifest"
	"github.com/sievedb/sievedb/internal/tables"
	"github.com/sievedb/sievedb/sstable"
)

// FilterReport says of each table's filter how well it should work, how well it does,
// and what to do about it.
type FilterReport struct {
	// Tables are in the order of the levels.
	Tables []TableFilterReport `json:"tables"`
	// Levels sums them up, one for each level that has tables.
	Levels []LevelFilterReport `json:"levels"`
}

// TableFilterReport is about the filter that lookups of one table ask.
type TableFilterReport struct {
	Level   int    `json:"level"`
	FileNum uint64 `json:"fileNum"`
	Name    string `json:"name"`
	Bytes   uint64 `json:"bytes"` // of the file
	// Policy is the name of the filter's policy as it stands in the file, which may be
	// any bytes: quote it. Layout is "whole table", "per block range", or why there is
	// no filter to ask.
	Policy string `json:"policy"`
	Layout string `json:"layout"`
	FilterFigures
	// BlockBytes is what a data block takes in the file, in the mean: what a lookup
	// reads that no filter spares. 0: not known.
	BlockBytes float64 `json:"blockBytes"`
	// Probes are the questions of this report; Lookups those of the store's users, as
	// sampled: multiplied with the number of lookups that a sample stands for.
	Probes  FilterProbes  `json:"probes"`
	Lookups FilterLookups `json:"lookups"`
	// Ranges are the table's filters of ranges, those that iterators ask first.
	Ranges []RangeFilterReport `json:"ranges,omitempty"`
	// Verdict sums it up. Detail is the figures behind it, or the error. Advice is what to
	// do about it.
	Verdict FilterVerdict `json:"verdict"`
	Detail  string        `json:"detail"`
	Advice  string        `json:"advice"`

	keys uint64 // of the table; 0: not known
}

// LevelFilterReport sums up the tables of a level.
type LevelFilterReport struct {
	Level  int `json:"level"`
	Tables int `json:"tables"`
	FilterFigures
	Probes FilterProbes `json:"probes"`
	// Lookups are not samples here: Metrics counts them by level, with those of tables
	// that are gone.
	Lookups FilterLookups `json:"lookups"`
	// RangeBytes is what the filters of ranges take that are asked, RangeBitsPerKey what
	// that is for each key of the level's tables, 0 where their number is not known. Ranges is what they
	// did for iterators, as Metrics counts it: each negative is a table passed over, and
	// spared one read of a block at least.
	RangeBytes      uint64        `json:"rangeBytes"`
	RangeBitsPerKey float64       `json:"rangeBitsPerKey"`
	Ranges          FilterLookups `json:"ranges"`
	// Verdicts counts the tables by verdict.
	Verdicts map[FilterVerdict]int `json:"verdicts"`

	keys uint64 // of its tables
}

// RangeFilterReport is about one of a table's filters of ranges.
type RangeFilterReport struct {
	// Policy is the name of its policy, as it stands in the file, which may be any bytes.
	Policy     string  `json:"policy"`
	Bytes      uint64  `json:"bytes"`
	BitsPerKey float64 `json:"bitsPerKey"` // of the table's keys, which may share prefixes; 0: not known
	// State is "asked", or why it is not.
	State string `json:"state"`
	// Verdict sums up what it did, as far as that is known, which is by level. Detail is the
	// figures behind it, or the error. Advice is what to do about it.
	Verdict FilterVerdict `json:"verdict"`
	Detail  string        `json:"detail"`
	Advice  string        `json:"advice"`
}

// FilterFigures are what filters take, and how often they should err.
type FilterFigures struct {
	FilterBytes uint64 `json:"filterBytes"`
	// Keys is how many distinct keys the filter has: what the table's writer noted or,
	// of other programs' tables, an estimate from the filter's bits. 0: not known.
	Keys       uint64  `json:"keys"`
	BitsPerKey float64 `json:"bitsPerKey"` // 0: not known
	// Predicted is the false-positive rate, 0 to 1, that the filter's mathematics
	// gives, hashes that are equal by chance included; negative where it is not known.
	Predicted float64 `json:"predicted"`
}

// FilterProbes counts keys that a report asked filters for.
type FilterProbes struct {
	// Absent counts keys that the table does not hold and that look like those that it
	// holds: each is between two neighbours in it, with characters of theirs, and longer
	// than they are where keys are numbers without gaps. Passed
	// counts those that the filter could not rule out.
	Absent uint64 `json:"absent"`
	Passed uint64 `json:"passed"`
	// Stored counts keys that the table holds, of the same blocks, Denied those that one of its filters denies: a
	// lookup would not find them.
	Stored uint64 `json:"stored"`
	Denied uint64 `json:"denied"`
}

// Rate returns the measured false-positive rate and the bounds of its interval of 95 %
// confidence (filter.RateInterval), 0 to 1.
func (p FilterProbes) Rate() (rate, low, high float64) {
	low, high = filter.RateInterval(p.Passed, p.Absent)
	if p.Absent == 0 {
		return 0, low, high
	}
	return float64(p.Passed) / float64(p.Absent), low, high
}

// MarshalJSON adds what Rate returns.
func (p FilterProbes) MarshalJSON() ([]byte, error) {
	type counts FilterProbes
	rate, low, high := p.Rate()
	return json.Marshal(struct {
		counts
		Rate float64 `json:"rate"`
		Low  float64 `json:"low"`
		High float64 `json:"high"`
	}{counts(p), rate, low, high})
}

// FilterLookups counts what filters did for lookups since the store was opened. Of
// lookups no rate of the filter itself can be had: programs ask some keys again and
// again, and one unlucky key that is asked a million times is a million false positives.
type FilterLookups struct {
	// Negatives were spared a read; TruePositives found their key; FalsePositives read
	// in vain, where there is no filter too.
	Negatives      uint64 `json:"negatives"`
	TruePositives  uint64 `json:"truePositives"`
	FalsePositives uint64 `json:"falsePositives"`
	// BytesSaved is what the blocks take that the negatives would have read, from disk
	// or from the block cache.
	BytesSaved uint64 `json:"bytesSaved"`
	// ReadsPerByte and BytesPerByte are the reads, and their bytes, that each byte of
	// filter has saved.
	ReadsPerByte float64 `json:"readsPerByte"`
	BytesPerByte float64 `json:"bytesPerByte"`
}

// Asked returns how many lookups there were.
func (l FilterLookups) Asked() uint64 { return l.Negatives + l.TruePositives + l.FalsePositives }

// setSaved fills in what the negatives saved, if a block takes blockBytes.
func (l *FilterLookups) setSaved(blockBytes float64, filterBytes uint64) {
	saved := float64(l.Negatives) * blockBytes
	l.BytesSaved = uint64(saved)
	if filterBytes > 0 {
		l.ReadsPerByte, l.BytesPerByte = float64(l.Negatives)/float64(filterBytes), saved/float64(filterBytes)
	}
}

// LookupsToRepay returns after how many lookups of absent keys the filter has saved
// reading as many bytes as it takes: +Inf where it rules nothing out. The rate is the
// measured one, or else the predicted one.
func (t *TableFilterReport) LookupsToRepay() float64 {
	rate, _, _ := t.Probes.Rate()
	if t.Probes.Absent == 0 {
		rate = max(t.Predicted, 0)
	}
	if saved := (1 - rate) * t.BlockBytes; saved > 0 {
		return float64(t.FilterBytes) / saved
	}
	return math.Inf(1)
}

// Filters reports on the filters of all tables. probes is how many keys that are absent
// from it each table's filter is asked, where the table has gaps for so many, and of
// how many of its own keys at most; some thousand tell a rate of one in a hundred to a
// third.
//
// With probes 0 nothing is asked and only tables that lookups have opened are looked
// into, so that no disk is read but for a table's properties, once; the verdicts then
// rest on predictions. Otherwise each table is opened, some of its blocks are read
// from disk, past the cache, and nothing of it is counted in Metrics. A table that is
// damaged is reported as such. The error is for a store that is closed or a context
// that is done; the report has the tables up to there.
func (d *DB) Filters(ctx context.Context, probes int) (*FilterReport, error) {
	if d == nil || d.closed.Load() {
		return nil, ErrClosed
	}
	if ctx == nil {
		return nil, errNilContext("Filters")
	}
	if probes < 0 {
		return nil, errors.Newf("sievedb: Filters: %d probes; want 0 to ask nothing, or more", probes)
	}
	s := d.refState()
	defer s.version.Unref()
	report := &FilterReport{Tables: []TableFilterReport{}, Levels: []LevelFilterReport{}} // lists in JSON too
	metrics := d.Metrics()
	var err error
	s.version.Files(func(level int, f *manifest.FileMeta) {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return
		}
		t := d.filterReport(level, f, probes, metrics)
		if d.closed.Load() { // which may be all that is wrong with the table
			err = ErrClosed
			return
		}
		t.Advice = t.Verdict.Advice()
		report.add(t)
	})
	report.sumUp(metrics)
	return report, err
}

// filterReport reports on one table.
func (d *DB) filterReport(level int, f *manifest.FileMeta, probes int, metrics *Metrics) TableFilterReport {
	t := TableFilterReport{Level: level, FileNum: f.Num, Name: f.Name(), Bytes: f.Size, FilterFigures: FilterFigures{Predicted: -1}}
	t.Lookups = sampledLookups(&tables.Of(f).Sampled)
	if probes <= 0 && tables.Of(f).Peek() == nil {
		t.Layout, t.Verdict = "not open", VerdictUnopened
		return t
	}
	r, err := d.tables.Ref(f)
	if err != nil {
		t.Layout, t.Verdict, t.Detail = "the table cannot be opened", VerdictDamaged, err.Error()
		return t
	}
	defer r.Unref()
	status := r.FilterStatus()
	t.Policy, t.Layout = status.Policy, status.State.String()
	if blocks, bytes, ok := dataBlocks(r, probes > 0); ok && blocks > 0 {
		t.BlockBytes = float64(bytes) / float64(blocks)
	}
	figures := r.FilterFigures()
	t.FilterFigures = FilterFigures{FilterBytes: figures.Bytes, Keys: figures.Keys, Predicted: figures.Predicted}
	t.setBitsPerKey()
	t.Lookups.setSaved(t.BlockBytes, t.FilterBytes)
	t.keys = tables.Keys(r, f)
	t.Ranges = rangeReports(r, t.keys, level, metrics)
	if probes > 0 {
		err = d.probeTable(r, probes, &t.Probes)
	}
	t.Verdict, t.Detail = judge(&t, status, figures.HashBits, metrics, err)
	return t
}

// dataBlocks returns the data blocks of a table and their bytes, if they are known
// without reading the index, or it may be read.
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

func sampledLookups(s *tables.SampledVerdicts) FilterLookups {
	return FilterLookups{
		Negatives:      s.Negatives.Load() * counters.SampledOneIn,
		TruePositives:  s.TruePositives.Load() * counters.SampledOneIn,
		FalsePositives: s.FalsePositives.Load() * counters.SampledOneIn,
	}
}

func (f *FilterFigures) setBitsPerKey() {
	if f.Keys > 0 {
		f.BitsPerKey = 8 * float64(f.FilterBytes) / float64(f.Keys)
	}
}

func (r *FilterReport) add(t TableFilterReport) {
	r.Tables = append(r.Tables, t)
	if n := len(r.Levels); n == 0 || r.Levels[n-1].Level != t.Level {
		r.Levels = append(r.Levels, LevelFilterReport{Level: t.Level, Verdicts: map[FilterVerdict]int{}})
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

// sumUp finishes the levels.
func (r *FilterReport) sumUp(m *Metrics) {
	for i := range r.Levels {
		l := &r.Levels[i]
		l.setBitsPerKey()
		l.Predicted = r.predicted(l.Level)
		from := &m.Levels[l.Level]
		l.Lookups = FilterLookups{
			Negatives: from.FilterNegatives, TruePositives: from.FilterTruePositives,
			FalsePositives: from.FilterFalsePositives,
		}
		l.Lookups.setSaved(r.blockBytes(l.Level), l.FilterBytes)
		l.Ranges = FilterLookups{
			Negatives: from.RangeNegatives, TruePositives: from.RangeTruePositives, FalsePositives: from.RangeFalsePositives,
		}
		l.Ranges.setSaved(r.blockBytes(l.Level), l.RangeBytes)
	}
}

// predicted returns the mean of the predictions for a level's tables, in proportion to
// the probes that each got or, without any, to its keys; negative if there are none.
func (r *FilterReport) predicted(level int) float64 {
	var sum, weights float64
	for _, t := range r.Tables {
		if t.Level != level || t.Predicted < 0 {
			continue
		}
		weight := float64(t.Probes.Absent)
		if weight == 0 {
			weight = float64(t.Keys) * 1e-9 // next to nothing beside a probe
		}
		sum, weights = sum+weight*t.Predicted, weights+weight
	}
	if weights == 0 {
		return -1
	}
	return sum / weights
}

// blockBytes returns the mean over a level's tables.
func (r *FilterReport) blockBytes(level int) float64 {
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
