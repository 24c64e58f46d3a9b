package explain

import "time"

// Step is the work of a lookup in one run. db.ExplainStep, which has the same fields, documents
// them.
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

// Memtable returns the step for memtable number i, where 0 is the active one. filtered says
// whether it has a filter, ruledOut whether the filter or the memtable's emptiness ruled out the
// key, and found whether the memtable has the key.
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
