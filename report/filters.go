package report

import (
	"encoding/json"
	"math"

	"github.com/sievedb/sievedb/filter"
)

// FilterReport says of each table's filter how well it should work, how well it does, and what to do about it.
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
	// Policy is the name of the filter's policy as it is in the file, which may be any bytes: quote it. Layout is
	// "whole table", "per block range", or the reason why there is no usable filter.
	Policy string `json:"policy"`
	Layout string `json:"layout"`
	FilterFigures
	// BlockBytes is the mean size of a data block in the file: what a lookup reads if no
	// filter excludes the table. 0 if unknown.
	BlockBytes float64 `json:"blockBytes"`
	// Probes counts the probes of this report, Lookups the lookups of the store's users, by
	// samples: each is multiplied by the number of lookups that it represents.
	Probes  FilterProbes  `json:"probes"`
	Lookups FilterLookups `json:"lookups"`
	// Ranges are the table's range filters that iterators use.
	Ranges []RangeFilterReport `json:"ranges,omitempty"`
	// Verdict summarizes the filter. Detail has the figures for it, or the error. Advice says what to do about it.
	Verdict FilterVerdict `json:"verdict"`
	Detail  string        `json:"detail"`
	Advice  string        `json:"advice"`
}

// LevelFilterReport summarizes the tables of a level.
type LevelFilterReport struct {
	Level  int `json:"level"`
	Tables int `json:"tables"`
	FilterFigures
	Probes FilterProbes `json:"probes"`
	// Lookups are exact here, not samples: Metrics counts them by level, including those of removed tables.
	Lookups FilterLookups `json:"lookups"`
	// RangeBytes is the size of the range filters in use and RangeBitsPerKey that size for each key of the level's
	// tables, 0 if the number of keys is unknown. Ranges counts their results for iterators, as Metrics does: each
	// negative is a skipped table, which saved at least one block read.
	RangeBytes      uint64        `json:"rangeBytes"`
	RangeBitsPerKey float64       `json:"rangeBitsPerKey"`
	Ranges          FilterLookups `json:"ranges"`
	// Verdicts counts the tables by verdict.
	Verdicts map[FilterVerdict]int `json:"verdicts"`
}

// RangeFilterReport describes one range filter of a table.
type RangeFilterReport struct {
	// Policy is the name of its policy as it is in the file, which may be any bytes.
	Policy     string  `json:"policy"`
	Bytes      uint64  `json:"bytes"`
	BitsPerKey float64 `json:"bitsPerKey"` // of the table's keys, which may share prefixes; 0 if unknown
	// State is "asked", or the reason why the filter is not used.
	State string `json:"state"`
	// Verdict summarizes its results, as far as they are known, which is by level. Detail has
	// the figures for it, or the error. Advice says what to do about it.
	Verdict FilterVerdict `json:"verdict"`
	Detail  string        `json:"detail"`
	Advice  string        `json:"advice"`
}

// FilterFigures are the size of filters and their expected false-positive rate.
type FilterFigures struct {
	FilterBytes uint64 `json:"filterBytes"`
	// Keys is the number of distinct keys in the filter: as the table's writer recorded it
	// or, for tables of other programs, an estimate from the filter's bits. 0 if unknown.
	Keys       uint64  `json:"keys"`
	BitsPerKey float64 `json:"bitsPerKey"` // 0 if unknown
	// Predicted is the false-positive rate, 0 to 1, that the filter's mathematics predicts,
	// including hashes that are equal by chance. It is negative if unknown.
	Predicted float64 `json:"predicted"`
}

// FilterProbes counts the keys with which a report probed filters.
type FilterProbes struct {
	// Absent counts keys that the table does not contain but that resemble its keys: each is between two neighbours in
	// the table and has the same kind of characters. It is longer than they are if the keys are numbers without gaps.
	// Passed counts those that the filter did not exclude.
	Absent uint64 `json:"absent"`
	Passed uint64 `json:"passed"`
	// Stored counts keys of the table, from the same blocks; Denied those that one of its
	// filters excludes, so that a lookup would not find them.
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

// MarshalJSON adds the results of Rate.
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

// FilterLookups counts the results of filters for lookups since the store was opened. They
// do not give the false-positive rate of the filter: programs look some keys up again and
// again, and one unlucky key that is looked up a million times is a million false positives.
type FilterLookups struct {
	// Negatives were saved a read; TruePositives found their key; FalsePositives read a
	// table for nothing, also because it has no filter.
	Negatives      uint64 `json:"negatives"`
	TruePositives  uint64 `json:"truePositives"`
	FalsePositives uint64 `json:"falsePositives"`
	// BytesSaved is the size of the blocks that the negatives would have read, from disk or from the block cache.
	BytesSaved uint64 `json:"bytesSaved"`
	// ReadsPerByte and BytesPerByte are the reads, and their bytes, that each byte of the filter has saved.
	ReadsPerByte float64 `json:"readsPerByte"`
	BytesPerByte float64 `json:"bytesPerByte"`
}

// Asked returns the number of lookups.
func (l FilterLookups) Asked() uint64 { return l.Negatives + l.TruePositives + l.FalsePositives }

// LookupsToRepay returns after how many lookups of absent keys the filter has saved as many bytes of reads as it has
// itself, +Inf if it excludes nothing. The rate is the measured one or, if there is none, the predicted one.
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
