package lookup

import (
	"sync"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/internal/read/counters"
	"github.com/sievedb/sievedb/sstable"
)

// groupSize is how many keys go through the levels together. With 16 a key costs a few per
// cent more; no processor waits for more than about 32 loads at a time.
//
// In groups of 100 keys and more (BenchmarkMultiGet), a stored key takes 750 ns instead of 1,320
// in a loop of Gets, and an absent one 141 instead of 170; in groups of ten, up to 15 % more than
// there. Touching the cached blocks ahead gives most of that. Touching the filters' lines too saves
// 4 ns of 26 and costs 1 if they are in the processor's cache. Sorting the keys costs 130 ns each.
const groupSize = 32

// groupLookup looks up groups of keys. It is reused by the next FindAll.
type groupLookup struct {
	f      *Finder
	state  *State
	seq    uint64
	c      *counters.Stripe
	found  int // of all groups
	used   int // of the arrays with groupSize elements
	values valueBuffer

	// Of one group: its lookups, those that no run has answered yet, those that the present
	// run answers, and the questions to it.
	lookups  [groupSize]sstable.Lookup
	targets  [groupSize]version.Target
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

// askedOf describes the subject of an Ask.
type askedOf struct {
	key uint8 // of the group
	at  int   // the table's number in its level
}

var groupLookups = sync.Pool{New: func() any { return new(groupLookup) }}

// FindAll returns the values of keys, in their order: nil for a key that has none. All values are of one moment. Like
// Get, it takes no reference until a table is closed while it reads; then it starts over with the version referenced.
func (f *Finder) FindAll(keys [][]byte, at *At) (values [][]byte, err error) {
	g := groupLookups.Get().(*groupLookup)
	defer g.release()
	g.f, g.c, g.used = f, f.counts.Own(), min(len(keys), groupSize)
	before := g.c.Begin(len(keys))
	values = make([][]byte, len(keys))
	s, seq := f.StateAt(at)
	pinned := at != nil && at.State != nil
	err = g.run(s, keys, values, seq, before, pinned)
	if !pinned && tableGone(err) && !f.closed() {
		s, seq = f.RefAt(at)
		defer s.Version.Unref()
		clear(values)
		err = g.run(s, keys, values, seq, before, true)
	}
	if err != nil {
		return nil, f.final(err)
	}
	g.c.CountFound(g.found)
	if f.expiry != nil {
		return f.openAll(keys, values, at)
	}
	return values, nil
}

// openAll is open for many keys, at one time.
func (f *Finder) openAll(keys, values [][]byte, at *At) ([][]byte, error) {
	now, hidden := f.Time(at), 0
	for i, value := range values {
		if value == nil {
			continue
		}
		opened, ends, alive, err := f.expiry.OpenUntil(keys[i], value, now)
		at.lowerEnds(ends)
		if err != nil {
			return nil, err
		}
		values[i] = opened
		if !alive {
			hidden++
		}
	}
	f.expiry.CountHidden(hidden)
	return values, nil
}

// run fills values, which are nil, from one read state as of seq; before is the number of lookups counted so far. If
// the state is pinned, a group whose table was closed is repeated, key by key.
func (g *groupLookup) run(s *State, keys, values [][]byte, seq, before uint64, pinned bool) error {
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

// oneByOne is lookUp for a group that needs more tables at the same time than may be open:
// opening some of them closes others that it is about to read.
func (g *groupLookup) oneByOne(keys, values [][]byte) error {
	g.sampled = 0
	for i := range keys {
		err := g.lookUp(keys[i:i+1], values[i:i+1])
		for n := 0; n < maxAttempts && tableGone(err) && !g.f.closed(); n++ {
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
		g.f.hash.set(&g.lookups[i]) // of all keys first: they may be far from each other in memory
		g.open[i] = uint8(i)
	}
	g.opened, g.asked, g.answered, g.denials = len(keys), 0, 0, 0
	g.inMemtable(g.state.Mem, values)
	for _, m := range g.state.Imm {
		g.inMemtable(m, values)
	}
	g.aim()
	for level := range g.state.Version.Levels {
		l := &g.state.Version.Levels[level]
		if len(l.Files) == 0 || g.opened == 0 {
			continue
		}
		if err := g.inLevel(level, l, values); err != nil {
			return err
		}
	}
	return nil
}

// inMemtable looks all open keys up in one memtable.
func (g *groupLookup) inMemtable(m *Memtable, values [][]byte) {
	if m.Empty() {
		return
	}
	for _, i := range g.open[:g.opened] {
		value, kind, ok := g.f.findInMemtable(m, g.seq, &g.lookups[i], g.c)
		if ok {
			_ = g.answer(values, 0, i, value, kind) // a memtable refers to nothing
		}
	}
	g.closeAnswered()
}

// aim prepares the search for the tables of all open keys. Keys outside all tables are answered.
func (g *groupLookup) aim() {
	for _, i := range g.open[:g.opened] {
		var inRange bool
		if g.targets[i], inRange = g.state.Version.Target(g.lookups[i].UserKey()); !inRange {
			g.answered |= 1 << i
		}
	}
	g.closeAnswered()
}

// inLevel looks all open keys up in the tables of one level that may contain them.
func (g *groupLookup) inLevel(level int, l *version.Level, values [][]byte) error {
	if level == 0 && !g.state.Version.Level0InOrder() {
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

// inTable0 looks all open keys up in table number at of level 0, if it may contain them.
func (g *groupLookup) inTable0(l *version.Level, at int, values [][]byte) error {
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

// inUnordered looks keys up, one by one, in the tables of a level 0 that is not known to be in
// the order of its sequence numbers.
func (g *groupLookup) inUnordered(l *version.Level, values [][]byte) error {
	for _, i := range g.open[:g.opened] {
		lookup := &g.lookups[i]
		t := tableSearch{c: g.c, target: g.targets[i]}
		err := g.f.findNewest(g.state, &t, lookup, l)
		g.c.CountNegatives(t.ruledOut)
		lookup.Release()
		if err != nil {
			return err
		}
		if t.found {
			g.sample(i, t.answer, false, true)
			if err := g.answer(values, 0, i, t.value, t.kind); err != nil {
				return err
			}
		}
	}
	g.closeAnswered()
	return nil
}

// ask adds a question for key i and table number at of a level, unless the table's filter answers it.
func (g *groupLookup) ask(i uint8, l *version.Level, at int) error {
	table := l.Files[at]
	r, err := g.f.tables.Get(table)
	if err != nil {
		return g.f.openError(g.state, err)
	}
	if r.Denies(&g.lookups[i]) {
		g.denials++
		g.sample(i, table, true, false)
		return nil
	}
	g.asks[g.asked] = sstable.Ask{Reader: r, Lookup: &g.lookups[i]}
	g.about[g.asked] = askedOf{key: i, at: at}
	g.asked++
	return nil
}

// askAll answers the questions that were added.
func (g *groupLookup) askAll(level int, l *version.Level, values [][]byte) error {
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
			if err := g.answer(values, level, of.key, res.Value, kind); err != nil {
				return err
			}
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

// sample counts the result of a table for key i, if that lookup is a sample.
func (g *groupLookup) sample(i uint8, table *version.FileMeta, denied, found bool) {
	if g.sampled>>i&1 != 0 {
		counters.CountSample(table, denied, found)
	}
}

// goOn searches the tables of a level after the one of a question.
func (g *groupLookup) goOn(level int, l *version.Level, of *askedOf, values [][]byte) error {
	lookup := &g.lookups[of.key]
	defer lookup.Release()
	t := tableSearch{c: g.c, target: g.targets[of.key]}
	err := g.f.findInLevel(g.state, &t, lookup, level, l, of.at+1)
	g.c.CountNegatives(t.ruledOut)
	if err != nil || !t.found {
		return err
	}
	if t.plain {
		g.c.CountPlainRead(level)
	}
	g.sample(of.key, t.answer, false, true)
	return g.answer(values, level, of.key, t.value, t.kind)
}

// answer keeps the answer for key i of the group, of a table of level.
func (g *groupLookup) answer(values [][]byte, level int, i uint8, value []byte, kind base.Kind) error {
	g.answered |= 1 << i
	switch kind {
	case base.KindSet:
		values[i] = g.values.copy(value)
	case base.KindRef:
		var lookup sstable.Lookup
		defer lookup.Release()
		res, err := g.f.tables.TryValue(g.state.Version, &lookup, g.lookups[i].UserKey(), value)
		if err != nil {
			return g.f.openError(g.state, err)
		}
		g.c.CountBlocks(level, &res)
		values[i] = g.values.copy(res.Value)
	}
	return nil
}

// closeAnswered removes the answered keys from the open ones.
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

// release makes g available for reuse. It must not keep alive what it pointed to.
func (g *groupLookup) release() {
	g.group.Release()
	clear(g.lookups[:g.used])
	clear(g.targets[:g.used])
	clear(g.asks[:g.used])
	g.f, g.state, g.c, g.values, g.used = nil, nil, nil, valueBuffer{}, 0
	groupLookups.Put(g)
}
