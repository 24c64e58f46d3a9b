package filterreport

import "github.com/sievedb/sievedb/report"

// The types here have the fields of package report's, which document them, and the fields needed to
// sum them up.

// Report has all tables in the order of their levels.
type Report struct {
	Tables []Table
	Levels []Level
}

// Table reports on one table; see report.TableFilterReport.
type Table struct {
	Level   int
	FileNum uint64
	Name    string
	Bytes   uint64
	Policy  string
	Layout  string
	Figures
	BlockBytes float64
	Probes     Probes
	Lookups    Lookups
	Ranges     []Range
	Verdict    string
	Detail     string
	Advice     string

	keys uint64 // of the table; 0 if unknown
}

// Level sums up the tables of a level; see report.LevelFilterReport.
type Level struct {
	Level, Tables int
	Figures
	Probes          Probes
	Lookups         Lookups
	RangeBytes      uint64
	RangeBitsPerKey float64
	Ranges          Lookups
	Verdicts        map[string]int

	keys uint64 // of its tables
}

// Range reports on a range filter; see report.RangeFilterReport.
type Range struct {
	Policy     string
	Bytes      uint64
	BitsPerKey float64
	State      string
	Verdict    string
	Detail     string
	Advice     string
}

// Figures are the sizes and predicted rates of filters; see report.FilterFigures.
type Figures struct {
	FilterBytes uint64
	Keys        uint64
	BitsPerKey  float64
	Predicted   float64
}

// Probes counts the keys with which a report queried filters; see report.FilterProbes.
type Probes struct {
	Absent, Passed, Stored, Denied uint64
}

// Rate returns the measured false-positive rate and the bounds of its 95 % confidence interval, 0
// to 1.
func (p Probes) Rate() (rate, low, high float64) {
	return report.FilterProbes(p).Rate()
}

// Lookups counts the results of filters for lookups; see report.FilterLookups.
type Lookups struct {
	Negatives, TruePositives, FalsePositives uint64
	BytesSaved                               uint64
	ReadsPerByte, BytesPerByte               float64
}

// lookupsOf returns the value of that many results, if a block has blockBytes and the filters
// filterBytes.
func lookupsOf(v Verdicts, blockBytes float64, filterBytes uint64) Lookups {
	l := Lookups{Negatives: v.Negatives, TruePositives: v.TruePositives, FalsePositives: v.FalsePositives}
	l.setSaved(blockBytes, filterBytes)
	return l
}

// setSaved sets the fields for the reads that negatives saved, if a block has blockBytes.
func (l *Lookups) setSaved(blockBytes float64, filterBytes uint64) {
	saved := float64(l.Negatives) * blockBytes
	l.BytesSaved = uint64(saved)
	if filterBytes > 0 {
		l.ReadsPerByte, l.BytesPerByte = float64(l.Negatives)/float64(filterBytes), saved/float64(filterBytes)
	}
}
