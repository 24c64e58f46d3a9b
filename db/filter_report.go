package db

import (
	"context"
	"encoding/json"
	"math"

	"github.com/sievedb/sievedb/internal/counters"
	"github.com/sievedb/sievedb/internal/errors"
	"github.com/sievedb/sievedb/internal/filterreport"
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
	return filterreport.Probes(p).Rate()
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
	found, err := filterreport.Examine(ctx, s.version, filterreport.Options{
		Cache: d.tables, Comparer: d.cmp, Closed: d.closed.Load, Probes: probes,
		Counts: filterCounts(d.lookupTotals()), SampledOneIn: counters.SampledOneIn,
	})
	report := &FilterReport{Tables: []TableFilterReport{}, Levels: []LevelFilterReport{}} // lists in JSON too
	for i := range found.Tables {
		report.Tables = append(report.Tables, tableFilterReport(&found.Tables[i]))
	}
	for i := range found.Levels {
		report.Levels = append(report.Levels, levelFilterReport(&found.Levels[i]))
	}
	return report, err
}

// filterCounts returns what a report on filters needs of the store's counters.
func filterCounts(t *counters.Totals) *filterreport.Counts {
	c := &filterreport.Counts{Gets: t.Gets}
	for level := range t.Levels {
		l := &t.Levels[level]
		c.Levels[level] = filterreport.LevelCounts{
			Reads:  l.Reads(),
			Keys:   filterreport.Verdicts{Negatives: l.FilterNegatives, TruePositives: l.FilterTruePositives, FalsePositives: l.FilterFalsePositives},
			Ranges: filterreport.Verdicts{Negatives: l.RangeNegatives, TruePositives: l.RangeTruePositives, FalsePositives: l.RangeFalsePositives},
		}
	}
	return c
}

func tableFilterReport(t *filterreport.Table) TableFilterReport {
	r := TableFilterReport{
		Level: t.Level, FileNum: t.FileNum, Name: t.Name, Bytes: t.Bytes, Policy: t.Policy, Layout: t.Layout,
		FilterFigures: FilterFigures(t.Figures), BlockBytes: t.BlockBytes,
		Probes: FilterProbes(t.Probes), Lookups: FilterLookups(t.Lookups),
		Verdict: FilterVerdict(t.Verdict), Detail: t.Detail, Advice: t.Advice,
	}
	for _, f := range t.Ranges {
		r.Ranges = append(r.Ranges, RangeFilterReport{
			Policy: f.Policy, Bytes: f.Bytes, BitsPerKey: f.BitsPerKey, State: f.State,
			Verdict: FilterVerdict(f.Verdict), Detail: f.Detail, Advice: f.Advice,
		})
	}
	return r
}

func levelFilterReport(l *filterreport.Level) LevelFilterReport {
	r := LevelFilterReport{
		Level: l.Level, Tables: l.Tables, FilterFigures: FilterFigures(l.Figures),
		Probes: FilterProbes(l.Probes), Lookups: FilterLookups(l.Lookups),
		RangeBytes: l.RangeBytes, RangeBitsPerKey: l.RangeBitsPerKey, Ranges: FilterLookups(l.Ranges),
		Verdicts: map[FilterVerdict]int{},
	}
	for verdict, n := range l.Verdicts {
		r.Verdicts[FilterVerdict(verdict)] = n
	}
	return r
}
