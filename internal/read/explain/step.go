package explain

import "github.com/sievedb/sievedb/report"

// Step is the work of a lookup in one run.
type Step = report.ExplainStep

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
