package db

import (
	"strings"
	"time"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/explain"
	"github.com/sievedb/sievedb/sstable"
)

// Explanation says what one lookup did: every run that it consulted, in order.
// A run whose key range excludes the key is not consulted and not listed.
type Explanation struct {
	// Found says whether the key has a value; Deleted that a tombstone answered.
	Found, Deleted bool
	// Steps are the runs consulted, the answering one last. Where the tables of level 0
	// are in no order of age, as another program's repair leaves them, all of them that
	// cover the key are consulted, and the newest entry found answers.
	Steps []ExplainStep
	// DiskReads counts the index and data blocks read from disk, and BytesRead their
	// bytes; not what opening a table read, which is done once for all lookups: that is
	// OpeningReads and OpeningBytes. ReadsSaved counts
	// the tables whose filter spared the lookup a data block; ReadsWasted those
	// whose filter passed, or that had none, and that did not hold the key.
	DiskReads, ReadsSaved, ReadsWasted    int
	BytesRead, OpeningReads, OpeningBytes uint64
	// Duration is what all took, some 100 ns a step for looking at the clock included.
	Duration time.Duration
}

// ExplainStep is one run of an Explanation.
type ExplainStep struct {
	// Run is "memtable", "immutable memtable" or "table".
	Run string
	// Level, FileNum and Bytes describe a table; -1 and zeros otherwise. Smallest and
	// Largest are the user keys at the ends of its range: copies, the caller's.
	Level             int
	FileNum           uint64
	Bytes             uint64
	Smallest, Largest []byte
	// Filter is the verdict: "absent", "maybe" or "none" (nothing to ask: the table
	// has no filter, or the memtable is empty). FilterPolicy is the name of the policy
	// whose filter the table's lookups ask, empty for none and for a memtable.
	Filter, FilterPolicy string
	// Found says that the run holds the key, be it as a tombstone.
	Found bool
	// Opened says that the table was not open; opening it took OpeningReads reads of
	// OpeningBytes bytes in all.
	Opened                     bool
	OpeningReads, OpeningBytes uint64
	// IndexSearched says that the filter let the lookup go on to the table's index.
	// IndexRead says that it was read from disk by itself, not with the
	// opening of the table as it mostly is; IndexBytes are then its bytes.
	IndexSearched, IndexRead bool
	IndexBytes               uint64
	// BlockFromCache and BlockFromDisk say where the data block came from, BlockBytes
	// what it takes in the file, wherever it came from. None of them is set where
	// the lookup needed no block. BytesRead is what the disk gave, the index included.
	BlockFromCache, BlockFromDisk bool
	BlockBytes, BytesRead         uint64
	// Duration is what the step took: OpenTime to have the table open, FilterTime to ask
	// its filter, IndexTime to have its index in memory, and SearchTime for the
	// index and the data block, reading it included. A memtable's is not divided.
	Duration                                    time.Duration
	OpenTime, FilterTime, IndexTime, SearchTime time.Duration
}

// Explain looks key up and says how: which runs were consulted, what their
// filters said, which blocks were read. It reads what Get would read and fills
// the caches alike, but counts nothing in Metrics.
func (d *DB) Explain(key []byte) (*Explanation, error) {
	if d == nil || d.closed.Load() {
		return nil, ErrClosed
	}
	for attempt := 0; ; attempt++ {
		x := &Explanation{}
		began := time.Now()
		var lookup sstable.Lookup
		kind, err := d.explainOnce(&lookup, key, x)
		lookup.Release()
		switch {
		case err == nil:
			x.sumUp(kind)
			x.Duration = time.Since(began)
			return x, nil
		case !tableGone(err):
			return nil, err
		case d.closed.Load():
			return nil, ErrClosed
		case attempt == maxAttempts:
			return nil, d.keptClosing(err)
		}
	}
}

// explainOnce is findOnce for an Explanation: the same runs in the same order. It stands by
// itself so that lookups pay nothing for it.
func (d *DB) explainOnce(lookup *sstable.Lookup, key []byte, x *Explanation) (base.Kind, error) {
	s := d.state.Load()
	seq := d.visibleSeq.Load()
	lookup.Init(key, seq)
	d.memHash.set(lookup)
	for i, m := range append([]*memBuffer{s.mem}, s.imm...) {
		began := time.Now()
		filtered := m.Filtered()
		ruledOut := filtered && !m.MayHold(d.memHash.of(lookup)) || m.Empty()
		var kind base.Kind
		var found bool
		if !ruledOut {
			_, kind, found = m.Get(key, seq)
		}
		step := ExplainStep(explain.Memtable(i, filtered, ruledOut, found))
		step.Duration = time.Since(began)
		x.Steps = append(x.Steps, step)
		if found {
			return kind, nil
		}
	}
	return d.explainTables(s, lookup, x)
}

// explainTables is findInTables for an Explanation.
func (d *DB) explainTables(s *readState, lookup *sstable.Lookup, x *Explanation) (base.Kind, error) {
	t := tableSearch{kind: base.KindDelete}
	ordered := s.version.Level0InOrder()
	for level, f := range s.version.MayHold(lookup.UserKey()) {
		if t.found && (ordered || level > 0) {
			break
		}
		step, res, err := explain.Table(d.tables, lookup, level, f)
		if err != nil {
			return 0, d.openError(s, err)
		}
		x.Steps = append(x.Steps, ExplainStep(step))
		if res.Found {
			if err := t.takeNewer(res.Trailer, res.Value, f); err != nil {
				return 0, err
			}
		}
	}
	if !ordered {
		d.learnOrder(s.version, lookup.UserKey())
	}
	return t.kind, nil
}

// sumUp adds up the steps.
func (x *Explanation) sumUp(kind base.Kind) {
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

// String returns the explanation as lines for people: one for each run, with what it
// took indented below, and the sum.
func (x *Explanation) String() string {
	var b strings.Builder
	for i := range x.Steps {
		(*explain.Step)(&x.Steps[i]).Write(&b)
	}
	sum := explain.Sum{
		Found: x.Found, Deleted: x.Deleted, DiskReads: x.DiskReads, ReadsSaved: x.ReadsSaved, ReadsWasted: x.ReadsWasted,
		BytesRead: x.BytesRead, OpeningReads: x.OpeningReads, OpeningBytes: x.OpeningBytes, Duration: x.Duration,
	}
	sum.Write(&b)
	return b.String()
}
