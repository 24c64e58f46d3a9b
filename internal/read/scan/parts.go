package scan

import (
	"sync"
	"sync/atomic"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/expiry"
	"github.com/sievedb/sievedb/internal/base/keyspace"
	"github.com/sievedb/sievedb/internal/disk/tables"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/memtable"
	"github.com/sievedb/sievedb/sstable"
)

// Source is the store that cursors read. It does not change while it has cursors.
type Source struct {
	Comparer *base.Comparer
	Tables   *tables.Cache
	// Expiry says which values have expired. They are hidden. Nil: nothing expires.
	Expiry *expiry.Policy
	// Ranges counts the results of range filters.
	Ranges tables.RangeCounts
	// Hindered, if not nil, is called when a movement has stepped over so many hidden entries, and is at one that is in
	// a memtable or in level 0 of the version. A flush and a compaction could remove them. It must be fast.
	Hindered func(v *version.Version, entries int)
	// CacheSize returns the present size of the block cache, in bytes.
	CacheSize func() int64
	// Open is false once the store is closed. Then no cursor moves.
	Open *atomic.Bool
}

// Options bound a cursor; db.IterOptions documents them.
type Options struct {
	LowerBound, UpperBound []byte
	NoFillCache            bool
	KeysOnly               bool
}

// deadlines decide which values are shown.
type deadlines struct {
	expiry *expiry.Policy // nil: nothing expires
	now    uint64         // what has expired by then is hidden
	ends   uint64         // when the present value expires; expiry.Never if it does not
}

// entryState describes the entry that is shown.
type entryState struct {
	own      bool            // its value is a transaction's own write
	isRef    bool            // it refers to its value
	followed bool            // parts.value is that value, in memory of lookup
	inOrder  int             // values that were followed since the last movement of another kind than a step
	lookup   *sstable.Lookup // for follow; nil until it is needed
}

// parts is the memory of a cursor, which the next cursor reuses after Close. The Cursor itself is not reused: a caller
// that keeps a closed one must not see another's keys. So everything that a closed cursor does not need is here.
type parts struct {
	src      *Source
	open     *atomic.Bool // src.Open
	version  *version.Version
	cmp      *base.Comparer
	bytewise bool // cmp.IsBytewise, called once
	noFill   bool // Options.NoFillCache
	keysOnly bool // Options.KeysOnly
	seq      uint64
	ownFirst uint64 // the number of a transaction's first own write
	ownSeq   uint64 // the last of a transaction's own writes that is shown; 0: none
	shown    []byte // the user key shown, while the cursor is valid

	deadlines
	at entryState

	it           tables.MergingIter
	mems         []memtable.Iter
	runs         tables.Runs
	key          []byte
	bulk         *bulkRuns // older writes of a transaction, in tables; nil: none
	value        []byte    // going backward; in a block or a memtable, or a copy in valueBuf
	valueBuf     []byte
	seekKey      []byte // scratch
	bounds       []byte // lower and upper are in it
	lower, upper []byte
}

var pool = sync.Pool{New: func() any { return new(parts) }}

// mostPooled bounds each buffer that is kept of a closed cursor, in bytes.
const mostPooled = 64 << 10

// openLike makes p show the moment of q. o are its options, which leave out the prefix; nil means those of q.
func (p *parts) openLike(q *parts, o *Options, prefix []byte) {
	p.src, p.open, p.version, p.cmp, p.bytewise, p.seq = q.src, q.open, q.version, q.cmp, q.bytewise, q.seq
	p.ownFirst, p.ownSeq, p.bulk = q.ownFirst, q.ownSeq, q.bulk.another()
	p.mems, p.expiry, p.now = append(p.mems, q.mems...), q.expiry, q.now
	if o != nil {
		p.noFill, p.keysOnly = o.NoFillCache, o.KeysOnly
		p.bounds, p.lower, p.upper = keyspace.CopyBounds(p.bounds, prefix, o.LowerBound, o.UpperBound)
	} else {
		p.noFill, p.keysOnly = q.noFill, q.keysOnly
		p.bounds, p.lower, p.upper = keyspace.CopyBounds(p.bounds, nil, q.lower, q.upper)
	}
	p.openRuns()
}

// reopen replaces the bounds, which may be in memory of the runs. After an error p can only be closed.
func (p *parts) reopen(prefix, lower, upper []byte) error {
	p.bounds, p.lower, p.upper = keyspace.CopyBounds(p.bounds, prefix, lower, upper)
	return p.remakeRuns()
}

// remakeRuns replaces the runs by those of the version and the memtables. After an error p can only be closed.
func (p *parts) remakeRuns() error {
	err := p.it.Close()
	p.runs.Clear()
	p.value = nil
	p.openRuns()
	return err
}

// refresh makes p show the moment of v and mems. After an error it can only be closed.
func (p *parts) refresh(v *version.Version, seq, now uint64, mems []*memtable.Memtable) error {
	same := v == p.version && len(mems) == len(p.mems)
	for i := 0; same && i < len(mems); i++ {
		same = p.mems[i].Memtable() == mems[i]
	}
	p.version, p.seq, p.now = v, seq, now
	if same {
		p.it.Unposition() // entries may have come to a memtable anywhere
		return nil
	}
	clear(p.mems)
	p.mems = p.mems[:0]
	for _, m := range mems {
		p.mems = append(p.mems, *m.NewIter())
	}
	return p.remakeRuns()
}

// openRuns merges the memtables with the tables that may contain keys within the bounds. Nothing is
// read before the first movement.
func (p *parts) openRuns() {
	for i := range p.mems {
		p.it.Add(&p.mems[i])
	}
	if p.bulk != nil {
		p.bulk.addTo(&p.it, p)
	}
	p.runs.Add(&p.it, p.src.Tables, p.version, &tables.RunOptions{
		Lower: p.lower, Upper: p.upper, NoFillCache: p.noFill, KeysOnly: p.needsNoValue(), CacheSize: p.src.CacheSize(), Ranges: p.src.Ranges,
	})
	p.it.Init(p.cmp)
	if !p.needsNoValue() { // else values of twins are not compared
		p.it.SetStrict()
	}
}

// needsNoValue reports whether tables may leave out values. Those that may expire say so at their beginning.
func (p *parts) needsNoValue() bool { return p.keysOnly && p.expiry == nil }

// hides reports whether an entry above the cursor's sequence number is not one of the
// transaction's own writes that it shows.
func (p *parts) hides(seq uint64) bool { return seq < p.ownFirst || seq > p.ownSeq }

// plain reports whether an entry with that number, which is shown, has no envelope although it would have one
// once it is committed. The writes of a bulk transaction have theirs.
func (p *parts) plain(seq uint64) bool { return seq > p.seq && p.ownFirst == base.FirstOwnSeq }

// bulkRuns are the tables that a bulk transaction has written so far.
type bulkRuns struct {
	runs   tables.PrivateRuns
	tables *tables.Private // to which there is a reference
	levels []tables.LevelIter
	o      sstable.IterOptions
}

// another returns a copy with a reference of its own. It is nil if b is.
func (b *bulkRuns) another() *bulkRuns {
	if b == nil {
		return nil
	}
	b.tables.Ref()
	return &bulkRuns{runs: b.runs, tables: b.tables}
}

// addTo adds the runs to those of p.
func (b *bulkRuns) addTo(m *tables.MergingIter, p *parts) {
	if b.levels == nil {
		b.levels = make([]tables.LevelIter, len(b.runs))
	}
	b.o = sstable.IterOptions{NoFillCache: p.noFill, KeysOnly: p.needsNoValue(), Lower: p.lower, Upper: p.upper}
	b.runs.AddTo(m, p.src.Tables, b.levels, &b.o)
}

// close closes the runs and makes p available to the next cursor.
func (p *parts) close() error {
	err := p.it.Close()
	if p.at.lookup != nil {
		p.at.lookup.Release()
	}
	p.at.isRef = false
	clear(p.mems) // otherwise the pool would keep memtables in memory
	p.runs.Clear()
	if p.bulk != nil {
		p.bulk.tables.Unref()
		p.bulk = nil
	}
	p.mems = p.mems[:0]
	p.src, p.open, p.version = nil, nil, nil
	p.shown, p.value, p.lower, p.upper = nil, nil, nil, nil
	for _, b := range []*[]byte{&p.key, &p.valueBuf, &p.seekKey, &p.bounds} {
		if cap(*b) > mostPooled {
			*b = nil
		}
	}
	p.it.Trim(mostPooled)
	pool.Put(p)
	return err
}
