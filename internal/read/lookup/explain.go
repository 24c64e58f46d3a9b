package lookup

import (
	"time"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/internal/read/counters"
	"github.com/sievedb/sievedb/report"
	"github.com/sievedb/sievedb/sstable"
)

// Explained describes one lookup. report.Explanation documents the steps.
type Explained struct {
	Steps    []report.ExplainStep
	Kind     base.Kind // base.KindDelete if there is no value
	Expired  bool      // there is a value that has expired
	Duration time.Duration

	value  []byte
	counts *counters.Stripe // counts the lookup as Find does; nil: it does not count
}

// Explain looks key up as Get does and records each step. It fills the caches in the same way, but counts nothing.
func (f *Finder) Explain(key []byte, at *At) (*Explained, error) {
	for attempt := 0; ; attempt++ {
		x := &Explained{}
		began := time.Now()
		var lookup sstable.Lookup
		err := x.find(f, &lookup, key, at)
		if err == nil && f.expiry != nil && x.Kind == base.KindSet {
			var alive bool
			_, alive, err = f.expiry.Open(key, x.value, at.time())
			x.Expired = !alive
		}
		lookup.Release()
		x.Duration = time.Since(began)
		switch {
		case err == nil:
			return x, nil
		case !tableGone(err) || attempt == maxAttempts || f.closed():
			return nil, f.final(err)
		}
	}
}

// Explanation returns it in its public form.
func (x *Explained) Explanation() *report.Explanation {
	r := &report.Explanation{Duration: x.Duration, Steps: x.Steps, Expired: x.Expired}
	if x.Steps == nil {
		r.Steps = []report.ExplainStep{}
	}
	sumUp(r, x.Kind)
	if r.Expired {
		r.Found = false
	}
	return r
}

// sumUp adds up the steps.
func sumUp(x *report.Explanation, kind base.Kind) {
	for i := range x.Steps {
		s := &x.Steps[i]
		x.BytesRead += s.BytesRead
		x.OpeningReads += s.OpeningReads
		x.OpeningBytes += s.OpeningBytes
		if s.IndexRead {
			x.DiskReads++
		}
		if s.BlockFromDisk {
			x.DiskReads++
		}
		switch {
		case s.Run != "table":
		case s.Filter == "absent":
			x.ReadsSaved++
		case !s.Found:
			x.ReadsWasted++
		}
		if s.Found {
			x.Found = kind == base.KindSet
			x.Deleted = !x.Found
		}
	}
}

// find is Finder.findOnce for Explain: the same runs in the same order. It is separate so that
// lookups pay nothing for it.
func (x *Explained) find(f *Finder, lookup *sstable.Lookup, key []byte, at *At) error {
	s, seq := f.load(at)
	lookup.Init(key, seq)
	f.hash.set(lookup)
	for i, m := range s.Memtables() {
		began := time.Now()
		filtered, ruledOut := f.askFilter(m, lookup)
		found := false
		if !ruledOut {
			x.value, x.Kind, found = m.Get(key, seq)
			if x.counts != nil {
				x.counts.CountMemtable(found)
			}
		}
		step := explainMemtable(i, filtered, ruledOut, found)
		step.Duration = time.Since(began)
		x.Steps = append(x.Steps, step)
		if found {
			x.countAnswer(s, lookup, nil)
			return nil
		}
	}
	return x.findInTables(f, s, lookup)
}

// findInTables is Finder.findInTables for Explain.
func (x *Explained) findInTables(f *Finder, s *State, lookup *sstable.Lookup) error {
	t := tableSearch{kind: base.KindDelete}
	ordered := s.Version.Level0InOrder()
	lookup.KeyOnly = lookup.KeyOnly && ordered // see findNewest
	for level, table := range s.Version.MayHold(lookup.UserKey()) {
		if t.found && (ordered || level > 0) {
			break
		}
		step, res, err := explainTable(f.tables, lookup, level, table)
		if err != nil {
			return f.openError(s, err)
		}
		x.Steps = append(x.Steps, step)
		x.countTable(&step, res)
		if res.Found {
			if err := t.takeNewer(res.Trailer, res.Value, table); err != nil {
				return err
			}
		}
	}
	if !ordered {
		f.learnOrder(s.Version, lookup.UserKey())
	}
	if t.kind == base.KindRef {
		if err := x.follow(f, s, lookup, &t); err != nil {
			return err
		}
	}
	x.Kind, x.value = t.kind, t.value
	if t.found {
		x.countAnswer(s, lookup, t.answer)
	} else if x.counts != nil && x.counts.CountAbsent(0) {
		x.counts.SampleTables(s.Version, lookup, nil)
	}
	return nil
}

// follow is Finder.follow for Explain.
func (x *Explained) follow(f *Finder, s *State, lookup *sstable.Lookup, t *tableSearch) error {
	t.kind = base.KindSet
	if lookup.KeyOnly {
		return nil
	}
	encoded, level := t.value, x.Steps[len(x.Steps)-1].Level
	ref, err := base.DecodeValueRef(encoded)
	if table := s.Version.ValueTableOf(ref.ID); err == nil && table != nil {
		lookup.Init(lookup.UserKey(), ref.Seq)
		step, res, err := explainTable(f.tables, lookup, -1, table)
		if err != nil {
			return f.openError(s, err)
		}
		step.Run = "value table"
		x.Steps = append(x.Steps, step)
		if x.counts != nil {
			res.IndexRead, res.BytesRead = step.IndexRead, uint32(step.BytesRead)
			x.counts.CountBlocks(level, &res)
		}
	}
	res, err := f.tables.TryValue(s.Version, lookup, lookup.UserKey(), encoded) // which also checks what was found
	t.value = res.Value
	return f.openError(s, err)
}

// countTable counts the result of a table.
func (x *Explained) countTable(step *report.ExplainStep, res sstable.Result) {
	switch {
	case x.counts == nil:
	case !step.IndexSearched:
		x.counts.CountDenied(step.Level, 1)
	default:
		res.IndexRead, res.BytesRead = step.IndexRead, uint32(step.BytesRead)
		x.counts.CountRead(step.Level, &res)
	}
}

// countAnswer counts a lookup that a memtable, or the table answer, has answered.
func (x *Explained) countAnswer(s *State, lookup *sstable.Lookup, answer *version.FileMeta) {
	switch {
	case x.counts == nil || !counters.IsSample(x.counts.CountAnswer(0, x.Kind)):
	case answer != nil:
		x.counts.SampleTables(s.Version, lookup, answer)
	default:
		x.counts.SetDue()
	}
}
