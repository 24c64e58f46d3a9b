package db

import (
	"fmt"
	"strings"
	"time"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/manifest"
	"github.com/sievedb/sievedb/sstable"
)

// Explanation says what one lookup did: every run that it consulted, in order.
// A run whose key range excludes the key is not consulted and not listed.
type Explanation struct {
	// Found says whether the key has a value; Deleted that a tombstone answered.
	Found, Deleted bool
	// Steps are the runs consulted, the answering one last.
	Steps []ExplainStep
	// DiskReads counts the index and data blocks read from disk; not what opening a
	// table read, which is done once for all lookups. ReadsSaved counts
	// the tables whose filter spared the lookup a data block; ReadsWasted those
	// whose filter passed, or that had none, and that did not hold the key.
	DiskReads, ReadsSaved, ReadsWasted int

	began time.Time // of the present step
}

// ExplainStep is one run of an Explanation.
type ExplainStep struct {
	// Run is "memtable", "immutable memtable" or "table".
	Run string
	// Level, FileNum and Bytes describe a table; -1 and zeros otherwise.
	Level   int
	FileNum uint64
	Bytes   uint64
	// Filter is the verdict: "absent", "maybe" or "none" (nothing to ask: the table
	// has no filter, or the memtable is empty). FilterPolicy is the name of the policy
	// whose filter the table's lookups ask, empty for none and for a memtable.
	Filter, FilterPolicy string
	// Found says that the run holds the key, be it as a tombstone.
	Found bool
	// IndexRead says that the table's index was read from disk by itself, not with the
	// opening of the table as it mostly is; BlockFromCache and
	// BlockFromDisk where the data block came from; BytesRead is what the disk
	// gave.
	IndexRead, BlockFromCache, BlockFromDisk bool
	BytesRead                                uint64
	Duration                                 time.Duration
}

// Explain looks key up and says how: which runs were consulted, what their
// filters said, which blocks were read. It reads what Get would read and fills
// the caches alike, but counts nothing in Metrics.
func (d *DB) Explain(key []byte) (*Explanation, error) {
	if d.closed.Load() {
		return nil, ErrClosed
	}
	for attempt := 0; ; attempt++ {
		x := &Explanation{began: time.Now()}
		var lookup sstable.Lookup
		_, kind, err := d.findOnce(&lookup, key, latest, nil, x)
		lookup.Release()
		if tableGone(err) && attempt < maxAttempts && !d.closed.Load() {
			continue
		}
		if err != nil {
			return nil, err
		}
		x.finish(kind)
		return x, nil
	}
}

func (x *Explanation) finish(kind base.Kind) {
	for i := range x.Steps {
		s := &x.Steps[i]
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

func (x *Explanation) add(s ExplainStep) {
	now := time.Now()
	s.Duration = now.Sub(x.began)
	x.began = now
	x.Steps = append(x.Steps, s)
}

// inMemtable notes that a memtable was asked: whether it has a filter, whether
// that or its emptiness ruled the key out, and whether it holds the key.
func (x *Explanation) inMemtable(m *memBuffer, filtered, ruledOut, found bool) {
	s := ExplainStep{Run: "memtable", Level: -1, Filter: "none", Found: found}
	if m.maxSeq != 0 {
		s.Run = "immutable memtable"
	}
	switch {
	case filtered && ruledOut:
		s.Filter = "absent"
	case filtered:
		s.Filter = "maybe"
	}
	x.add(s)
}

func (x *Explanation) beginTable(level int, f *manifest.FileMeta) {
	x.began = time.Now()
	x.Steps = append(x.Steps, ExplainStep{Run: "table", Level: level, FileNum: f.Num, Bytes: f.Size})
}

func (x *Explanation) endTable(r *sstable.Reader, res *sstable.Result) {
	s := &x.Steps[len(x.Steps)-1]
	s.FilterPolicy = r.FilterPolicy()
	s.Duration = time.Since(x.began)
	s.Found = res.Found
	switch res.Filter {
	case sstable.FilterNegative:
		s.Filter = "absent"
	case sstable.FilterPassed:
		s.Filter = "maybe"
	default:
		s.Filter = "none"
	}
	s.IndexRead, s.BlockFromCache, s.BlockFromDisk = res.IndexRead, res.BlockFromCache, res.BlockFromDisk
	s.BytesRead = uint64(res.BytesRead)
}

// String returns the explanation as a table for people.
func (x *Explanation) String() string {
	var b strings.Builder
	for _, s := range x.Steps {
		where := s.Run
		if s.Run == "table" {
			where = fmt.Sprintf("level %d table %06d", s.Level, s.FileNum)
		}
		outcome := "not here"
		if s.Found {
			outcome = "found"
		}
		verdict := s.Filter
		if s.FilterPolicy != "" {
			verdict += " by " + s.FilterPolicy
		}
		fmt.Fprintf(&b, "%-24s filter: %-7s %s", where, verdict, outcome)
		if s.IndexRead {
			b.WriteString(", index read from disk")
		}
		if s.BlockFromCache {
			b.WriteString(", data block from cache")
		}
		if s.BlockFromDisk {
			b.WriteString(", data block from disk")
		}
		if s.BytesRead > 0 {
			fmt.Fprintf(&b, " (%d bytes)", s.BytesRead)
		}
		fmt.Fprintf(&b, ", %s\n", s.Duration)
	}
	answer := "not found"
	switch {
	case x.Found:
		answer = "found"
	case x.Deleted:
		answer = "deleted"
	}
	fmt.Fprintf(&b, "%s: %d disk reads, %d saved by filters, %d wasted\n", answer, x.DiskReads, x.ReadsSaved, x.ReadsWasted)
	return b.String()
}
