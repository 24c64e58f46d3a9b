package filterreport

import "github.com/sievedb/sievedb/filter"

// The types here have the fields of db's reports, which say what they mean, and what is
// needed to sum them up.

// Report is about all tables, in the order of the levels.
type Report struct {
	Tables []Table
	Levels []Level
}

// Table is about one table: see db.TableFilterReport.
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

	keys uint64 // of the table; 0: not known
}

// Level sums up the tables of a level: see db.LevelFilterReport.
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

// Range is about a filter of ranges: see db.RangeFilterReport.
type Range struct {
	Policy     string
	Bytes      uint64
	BitsPerKey float64
	State      string
	Verdict    string
	Detail     string
	Advice     string
}

// Figures are what filters take, and how often they should err: see db.FilterFigures.
type Figures struct {
	FilterBytes uint64
	Keys        uint64
	BitsPerKey  float64
	Predicted   float64
}

// Probes counts keys that a report asked filters for: see db.FilterProbes.
type Probes struct {
	Absent, Passed, Stored, Denied uint64
}

// Rate returns the measured false-positive rate and the bounds of its interval of 95 %
// confidence, 0 to 1.
func (p Probes) Rate() (rate, low, high float64) {
	low, high = filter.RateInterval(p.Passed, p.Absent)
	if p.Absent == 0 {
		return 0, low, high
	}
	return float64(p.Passed) / float64(p.Absent), low, high
}

// Lookups counts what filters did for lookups: see db.FilterLookups.
type Lookups struct {
	Negatives, TruePositives, FalsePositives uint64
	BytesSaved                               uint64
	ReadsPerByte, BytesPerByte               float64
}

// lookupsOf returns what so many verdicts were worth, if a block takes blockBytes and the
// filters filterBytes.
func lookupsOf(v Verdicts, blockBytes float64, filterBytes uint64) Lookups {
	l := Lookups{Negatives: v.Negatives, TruePositives: v.TruePositives, FalsePositives: v.FalsePositives}
	l.setSaved(blockBytes, filterBytes)
	return l
}

// setSaved fills in what the negatives saved, if a block takes blockBytes.
func (l *Lookups) setSaved(blockBytes float64, filterBytes uint64) {
	saved := float64(l.Negatives) * blockBytes
	l.BytesSaved = uint64(saved)
	if filterBytes > 0 {
		l.ReadsPerByte, l.BytesPerByte = float64(l.Negatives)/float64(filterBytes), saved/float64(filterBytes)
	}
}
