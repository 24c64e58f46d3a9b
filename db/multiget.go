package db

import (
	"sync"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/counters"
	"github.com/sievedb/sievedb/internal/manifest"
	"github.com/sievedb/sievedb/sstable"
)

// MultiGet returns the values of keys, in their order: values[i] is nil where
// keys[i] has none, and not nil where it is empty. All are of one moment. Keys may
// come in any order and more than once; in ascending order they cost least, for
// neighbours then share the reading of a data block.
//
// It is faster than a Get for each key, since what several keys need of memory or
// disk is waited for side by side or once, and it allocates a few times in all. (Absent
// keys near each other, whose filters the processor has in its cache, take as long one by one.)
// Values belong to the caller, but share memory: to hold on to one keeps up to 32 KiB of others.
//
// On an error, which is that of one of the keys that could not be looked up, there
// are no values: Get tells for each key.
func (d *DB) MultiGet(keys [][]byte) (values [][]byte, err error) {
	return d.multiGet(keys, latest)
}

// MultiGet is DB.MultiGet as of the snapshot.
func (s *Snapshot) MultiGet(keys [][]byte) (values [][]byte, err error) {
	if s == nil || s.closed.Load() {
		return nil, ErrClosed
	}
	values, err = s.db.multiGet(keys, s.seq)
	if s.closed.Load() {
		return nil, ErrClosed
	}
	return values, err
}

// groupSize is how many keys go through the levels together. With 16 a key costs a
// few percent more; more loads than about 32 no processor waits for at once.
const groupSize = 32

// groupLookup looks up groups of keys. It is kept for the next MultiGet.
type groupLookup struct {
	d      *DB
	state  *readState
	seq    uint64
	c      *counters.Stripe
	found  int // of all groups
	used   int // of what has groupSize elements
	values valueBuffer

	// Of one group: its lookups, which of them no run has answered yet, those that the
	// present run answers, and what is asked of it.
	lookups  [groupSize]sstable.Lookup
	targets  [groupSize]manifest.Target
	open     [groupSize]uint8
	opened   int
	answered uint32
	sampled  uint32 // those that are samples, as bits
	group    sstable.Group
	asks     [groupSize]sstable.Ask
	about    [groupSize]askedOf
	asked    int
	denials  uint64 // of filters, at the present level
}

// askedOf says what an Ask is about.
type askedOf struct {
	key uint8 // of the group
	at  int   // the table's number in its level
}

var groupLookups = sync.Pool{New: func() any { return new(groupLookup) }}

// multiGet is MultiGet as of seq. It takes no reference, as Get takes none, until a
// table is closed under it; then it starts over with the version referenced.
func (d *DB) multiGet(keys [][]byte, seq uint64) (values [][]byte, err error) {
	if d == nil || d.closed.Load() {
		return nil, ErrClosed
	}
	g := groupLookups.Get().(*groupLookup)
	defer g.release()
	g.d, g.c, g.used = d, d.lookups.Own(), min(len(keys), groupSize)
	before := g.c.Begin(len(keys))
	values = make([][]byte, len(keys))
	s, at := d.stateAt(seq)
	err = g.run(s, keys, values, at, before, false)
	if tableGone(err) && !d.closed.Load() {
		s, at = d.refStateAt(seq)
		defer s.version.Unref()
		clear(values)
		err = g.run(s, keys, values, at, before, true)
	}
	switch {
	case err == nil:
		g.c.CountFound(g.found)
		return values, nil
	case !tableGone(err):
		return nil, err
	case d.closed.Load():
		return nil, ErrClosed
	}
	return nil, d.keptClosing(err)
}

// run fills values, which are nil, from one read state as of seq; so many lookups were counted before them.
// If the state is pinned, a group whose table was closed under it is looked up again, key by key.
func (g *groupLookup) run(s *readState, keys, values [][]byte, seq, before uint64, pinned bool) error {
	g.state, g.seq, g.found = s, seq, 0
	for start := 0; start < len(keys); start += groupSize {
		end := min(start+groupSize, len(keys))
		g.values.toCome = len(keys) - start
		g.sampled = counters.SamplesAmong(before+uint64(start), end-start)
		err := g.lookUp(keys[start:end], values[start:end])
		if pinned && tableGone(err) {
			clear(values[start:end])
			err = g.oneByOne(keys[start:end], values[start:end])
		}
		if err != nil {
			return err
		}
		for _, v := range values[start:end] {
			if v != nil {
				g.found++
			}
		}
	}
	return nil
}

// oneByOne is lookUp for a group that needs more tables at once than may be open:
// those that it opens close those that it was about to read.
func (g *groupLookup) oneByOne(keys, values [][]byte) error {
	g.sampled = 0
	for i := range keys {
		err := g.lookUp(keys[i:i+1], values[i:i+1])
		for n := 0; n < maxAttempts && tableGone(err) && !g.d.closed.Load(); n++ {
			err = g.lookUp(keys[i:i+1], values[i:i+1])
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// lookUp answers one group, run by run.
func (g *groupLookup) lookUp(keys, values [][]byte) error {
	for i, key := range keys {
		g.lookups[i].Init(key, g.seq)
		g.d.memHash.set(&g.lookups[i]) // of all at once: the keys may be far from each other in memory
		g.open[i] = uint8(i)
	}
	g.opened, g.asked, g.answered, g.denials = len(keys), 0, 0, 0
	g.inMemtable(g.state.mem, values)
	for _, m := range g.state.imm {
		g.inMemtable(m, values)
	}
	g.aim()
	for level := range g.state.version.Levels {
		l := &g.state.version.Levels[level]
		if len(l.Files) == 0 || g.opened == 0 {
			continue
		}
		if err := g.inLevel(level, l, values); err != nil {
			return err
		}
	}
	return nil
}

// inMemtable asks one memtable for all open keys.
func (g *groupLookup) inMemtable(m *memBuffer, values [][]byte) {
	if m.Empty() {
		return
	}
	for _, i := range g.open[:g.opened] {
		value, kind, ok := g.d.findInMemtable(m, g.seq, &g.lookups[i], g.c)
		if ok {
			g.answer(values, i, value, kind)
		}
	}
	g.closeAnswered()
}

// aim prepares the search for tables of all open keys. Those that no table can hold have
// their answer.
func (g *groupLookup) aim() {
	for _, i := range g.open[:g.opened] {
		var inRange bool
		if g.targets[i], inRange = g.state.version.Target(g.lookups[i].UserKey()); !inRange {
			g.answered |= 1 << i
		}
	}
	g.closeAnswered()
}

// inLevel asks the tables of one level for all open keys that they may hold.
func (g *groupLookup) inLevel(level int, l *manifest.Level, values [][]byte) error {
	if level == 0 && !g.state.version.Level0InOrder() {
		return g.inUnordered(l, values)
	}
	if level == 0 {
		for at := range l.Files {
			if err := g.inTable0(l, at, values); err != nil {
				return err
			}
		}
		return nil
	}
	for _, i := range g.open[:g.opened] {
		if at := l.Seek(g.targets[i]); at < len(l.Files) && l.Covers(at, g.targets[i]) {
			if err := g.ask(i, l, at); err != nil {
				return err
			}
		}
	}
	return g.askAll(level, l, values)
}

// inTable0 asks table number at of level 0 for all open keys that it may hold.
func (g *groupLookup) inTable0(l *manifest.Level, at int, values [][]byte) error {
	for _, i := range g.open[:g.opened] {
		if !l.Covers(at, g.targets[i]) {
			continue
		}
		if err := g.ask(i, l, at); err != nil {
			return err
		}
	}
	return g.askAll(0, l, values)
}

// inUnordered asks the tables of a level 0 that is not known to be in the order of its
// sequence numbers, key by key.
func (g *groupLookup) inUnordered(l *manifest.Level, values [][]byte) error {
	for _, i := range g.open[:g.opened] {
		lookup := &g.lookups[i]
		t := tableSearch{c: g.c, target: g.targets[i]}
		err := g.d.findNewest(g.state, &t, lookup, l)
		g.c.CountNegatives(t.ruledOut)
		lookup.Release()
		if err != nil {
			return err
		}
		if t.found {
			g.sample(i, t.answer, false, true)
			g.answer(values, i, t.value, t.kind)
		}
	}
	g.closeAnswered()
	return nil
}

// ask adds a question for key i and table number at of a level, unless the table's filter
// answers it.
func (g *groupLookup) ask(i uint8, l *manifest.Level, at int) error {
	f := l.Files[at]
	r, err := g.d.tables.Get(f)
	if err != nil {
		return g.d.openError(g.state, err)
	}
	if r.Denies(&g.lookups[i]) {
		g.denials++
		g.sample(i, f, true, false)
		return nil
	}
	g.asks[g.asked] = sstable.Ask{Reader: r, Lookup: &g.lookups[i]}
	g.about[g.asked] = askedOf{key: i, at: at}
	g.asked++
	return nil
}

// askAll asks what was added.
func (g *groupLookup) askAll(level int, l *manifest.Level, values [][]byte) error {
	asks := g.asks[:g.asked]
	g.asked = 0
	g.group.Prepare(asks)
	for n := range asks {
		of := &g.about[n]
		res, err := g.group.Get(&asks[n])
		if err != nil {
			return err
		}
		g.c.CountRead(level, &res)
		g.sample(of.key, l.Files[of.at], res.Filter == sstable.FilterNegative, res.Found)
		if res.Found {
			_, kind := base.SplitTrailer(res.Trailer)
			g.answer(values, of.key, res.Value, kind)
			continue
		}
		// See findInLevel.
		if level > 0 && l.EndsWith(of.at, g.targets[of.key]) {
			if err := g.goOn(level, l, of, values); err != nil {
				return err
			}
		}
	}
	if g.denials > 0 {
		g.c.CountDenied(level, g.denials)
		g.denials = 0
	}
	g.closeAnswered()
	return nil
}

// sample counts for table f what became of asking it for key i, if that lookup is a sample.
func (g *groupLookup) sample(i uint8, f *manifest.FileMeta, denied, found bool) {
	if g.sampled>>i&1 != 0 {
		counters.CountSample(f, denied, found)
	}
}

// goOn asks the tables of a level behind the one that an ask was about.
func (g *groupLookup) goOn(level int, l *manifest.Level, of *askedOf, values [][]byte) error {
	lookup := &g.lookups[of.key]
	defer lookup.Release()
	t := tableSearch{c: g.c, target: g.targets[of.key]}
	err := g.d.findInLevel(g.state, &t, lookup, level, l, of.at+1)
	g.c.CountNegatives(t.ruledOut)
	if err != nil || !t.found {
		return err
	}
	if t.plain {
		g.c.CountPlainRead(level)
	}
	g.sample(of.key, t.answer, false, true)
	g.answer(values, of.key, t.value, t.kind)
	return nil
}

// answer keeps the answer for key i of the group.
func (g *groupLookup) answer(values [][]byte, i uint8, value []byte, kind base.Kind) {
	g.answered |= 1 << i
	if kind == base.KindSet {
		values[i] = g.values.copy(value)
	}
}

// closeAnswered takes the keys that were answered out of the open ones.
func (g *groupLookup) closeAnswered() {
	if g.answered == 0 {
		return
	}
	n := 0
	for _, i := range g.open[:g.opened] {
		if g.answered>>i&1 == 0 {
			g.open[n] = i
			n++
		}
	}
	g.opened, g.answered = n, 0
}

// release puts g back for others. It must not keep alive what it pointed to.
func (g *groupLookup) release() {
	g.group.Release()
	clear(g.lookups[:g.used])
	clear(g.targets[:g.used])
	clear(g.asks[:g.used])
	g.d, g.state, g.c, g.values, g.used = nil, nil, nil, valueBuffer{}, 0
	groupLookups.Put(g)
}

// valueBuffer copies values, many into one piece of memory.
type valueBuffer struct {
	free   []byte // the rest of the last piece
	toCome int    // how many values there may still be
}

// maxValuePiece bounds the memory that values share, in bytes.
const maxValuePiece = 32 << 10

func (b *valueBuffer) copy(value []byte) []byte {
	n := len(value)
	if n == 0 {
		return []byte{}
	}
	if n > len(b.free) {
		if n > maxValuePiece/4 { // it need not take the rest of a piece from others
			return append(make([]byte, 0, n), value...)
		}
		// As if all that are still to come were like this one.
		b.free = make([]byte, max(n, min(maxValuePiece, n*b.toCome)))
	}
	copied := b.free[:n:n]
	b.free = b.free[n:]
	copy(copied, value)
	return copied
}
