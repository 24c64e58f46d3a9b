package explain

import "time"

// Step is one run that a lookup consulted. db.ExplainStep, which has the same fields, says
// what they mean.
type Step struct {
	Run                                         string
	Level                                       int
	FileNum                                     uint64
	Bytes                                       uint64
	Smallest, Largest                           []byte
	Filter, FilterPolicy                        string
	Found                                       bool
	Opened                                      bool
	OpeningReads, OpeningBytes                  uint64
	IndexSearched, IndexRead                    bool
	IndexBytes                                  uint64
	BlockFromCache, BlockFromDisk               bool
	BlockBytes, BytesRead                       uint64
	Duration                                    time.Duration
	OpenTime, FilterTime, IndexTime, SearchTime time.Duration
}

// Memtable returns the step of number i of the memtables, the active one first: whether it
// has a filter, whether that or its emptiness ruled the key out, and whether it holds the key.
func Memtable(i int, filtered, ruledOut, found bool) Step {
	s := Step{Run: "memtable", Level: -1, Filter: "none", Found: found}
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
