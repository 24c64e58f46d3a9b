package tables

import (
	"bytes"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/memtable"
	"github.com/sievedb/sievedb/sstable"
)

// MergingIter merges runs into one order. It is a base.Iterator. Internal keys
// are unique over all runs of a database, unless another program's repair has brought
// tables back that a compaction had merged. Such twins come one after the other,
// the newer first: see twins.go.
//
// The runs that are valid stand in order of their keys: the one with the smallest
// key first going forward, with the greatest going backward. It is the one to
// move; in the common case that it stays the first a step costs one comparison.
// Turning round moves the other runs to the other side of the present key.
//
// Going forward from a seek, each run stands at its first entry at or behind the
// place sought, or at or behind the present key. A seek to what is not before that
// leaves the runs where they are that are there, and moves the others on.
type MergingIter struct {
	cmp      *base.Comparer
	bytewise bool // cmp.IsBytewise, asked once
	runs     []mergingRun
	order    []*mergingRun
	reverse  bool
	tied     bool // going forward, the second run may be at another version of the first one's key
	strict   bool // twins whose values differ are an error
	err      error

	sought   []byte          // the target of the last SeekGE, while isSought
	isSought bool            // nothing but SeekGE has moved it since
	turnKey  []byte          // scratch
	aims     []*sstable.Iter // scratch: the tables of runs
}

// mergingRun keeps its key at hand, and its iterator by its type where a call
// through the interface would cost as much as the step.
type mergingRun struct {
	key   []byte
	it    base.Iterator
	level *LevelIter     // it, or nil
	mem   *memtable.Iter // it, or nil
	rank  int            // that of newer runs is smaller; those of one rank go by their tables' numbers
	aimed bool           // level is at the table that a seek begins with
}

// NewMergingIter returns an iterator over children, the newest first.
func NewMergingIter(cmp *base.Comparer, children []base.Iterator) *MergingIter {
	m := new(MergingIter)
	for _, it := range children {
		m.Add(it)
	}
	m.Init(cmp)
	return m
}

// Add adds a run that is older than those before it. All are added before Init.
func (m *MergingIter) Add(it base.Iterator) { m.add(it, len(m.runs)) }

// AddNewest adds a run that is as new as others added by AddNewest, and newer than those of Add.
func (m *MergingIter) AddNewest(it base.Iterator) { m.add(it, -1) }

func (m *MergingIter) add(it base.Iterator, rank int) {
	r := mergingRun{it: it, rank: rank}
	switch it := it.(type) {
	case *LevelIter:
		r.level = it
	case *memtable.Iter:
		r.mem = it
	}
	m.runs = append(m.runs, r)
}

// SetStrict makes twins whose values differ an error. It comes after Init.
func (m *MergingIter) SetStrict() { m.strict = true }

// Init makes the iterator ready to be positioned, once all runs were added.
func (m *MergingIter) Init(cmp *base.Comparer) {
	m.cmp, m.bytewise = cmp, cmp.IsBytewise()
	m.reverse, m.tied, m.isSought, m.strict, m.err = false, true, false, false, nil
	if cap(m.order) < len(m.runs) {
		m.order = make([]*mergingRun, 0, len(m.runs))
	}
	m.order = m.order[:0]
}

func (r *mergingRun) next() (ok bool) {
	switch {
	case r.level != nil:
		if ok = r.level.Next(); ok {
			r.key = r.level.table.Key()
		}
	case r.mem != nil:
		if ok = r.mem.Next(); ok {
			r.key = r.mem.Key()
		}
	default:
		if ok = r.it.Next(); ok {
			r.key = r.it.Key()
		}
	}
	return ok
}

func (r *mergingRun) prev() (ok bool) {
	switch {
	case r.level != nil:
		if ok = r.level.table.StepBack() || r.level.Prev(); ok {
			r.key = r.level.table.Key()
		}
	case r.mem != nil:
		if ok = r.mem.Prev(); ok {
			r.key = r.mem.Key()
		}
	default:
		if ok = r.it.Prev(); ok {
			r.key = r.it.Key()
		}
	}
	return ok
}

// seekOn moves the run on to its first entry at or behind ikey, which is behind
// its present one.
func (r *mergingRun) seekOn(ikey []byte) bool {
	if r.level != nil {
		return r.level.SeekOn(ikey)
	}
	return r.it.SeekGE(ikey)
}

// begin takes all runs out of the order, to be put in again in the direction given.
func (m *MergingIter) begin(reverse bool) {
	m.reverse, m.tied, m.isSought = reverse, true, false
	m.order = m.order[:0]
}

// put puts a run in the order that was moved and is valid if ok. False after an
// error.
func (m *MergingIter) put(r *mergingRun, ok bool) bool {
	if !ok {
		err := r.it.Err()
		return err == nil || m.fail(err)
	}
	r.key = r.it.Key()
	m.order = append(m.order, r)
	m.sink(len(m.order) - 1)
	return m.err == nil || m.fail(m.err)
}

// sink moves the run at place i forward in the order, to where it belongs.
func (m *MergingIter) sink(i int) {
	r := m.order[i]
	for ; i > 0 && m.before(r, m.order[i-1]); i-- {
		m.order[i] = m.order[i-1]
	}
	m.order[i] = r
}

func (m *MergingIter) fail(err error) bool {
	m.err = err
	m.order = m.order[:0]
	return false
}

// before reports whether a stands before b in the order.
func (m *MergingIter) before(a, b *mergingRun) bool {
	switch v := m.compare(a.key, b.key); {
	case v == 0:
		return m.twinBefore(a, b)
	case m.reverse:
		return v > 0
	default:
		return v < 0
	}
}

func (m *MergingIter) compare(a, b []byte) int {
	if !m.bytewise {
		return base.CompareInternal(m.cmp, a, b)
	}
	if v := bytes.Compare(a[:len(a)-base.TrailerLen], b[:len(b)-base.TrailerLen]); v != 0 {
		return v
	}
	switch s, t := base.Trailer(a), base.Trailer(b); {
	case s > t:
		return -1
	case s < t:
		return +1
	}
	return 0
}

// moved restores the order after the first run moved; ok says whether it is valid.
func (m *MergingIter) moved(ok bool) bool {
	top := m.order[0]
	if !ok {
		if err := top.it.Err(); err != nil {
			return m.fail(err)
		}
		m.order, m.tied = m.order[:copy(m.order, m.order[1:])], true
		return len(m.order) > 0
	}
	switch {
	case len(m.order) == 1:
		m.tied = false
		return true
	case m.bytewise:
		m.movedByBytes(top)
	case m.before(m.order[1], top):
		m.passed(top)
	}
	return m.err == nil || m.fail(m.err)
}

// movedByBytes is moved for several runs in the order of bytes.
func (m *MergingIter) movedByBytes(top *mergingRun) {
	second := m.order[1]
	order := bytes.Compare(base.UserKey(top.key), base.UserKey(second.key))
	if m.reverse {
		order = -order
	}
	switch {
	case order < 0:
		m.tied = false
	case order > 0:
		m.passed(top)
		m.tied = m.order[1] != top && m.sameUserKey()
	default:
		m.tied = true
		if m.before(second, top) {
			m.passed(top)
		}
	}
}

// sameUserKey reports whether the first two runs are at versions of one key.
func (m *MergingIter) sameUserKey() bool {
	return bytes.Equal(base.UserKey(m.order[0].key), base.UserKey(m.order[1].key))
}

// passed restores the order after the first run came behind the second.
func (m *MergingIter) passed(top *mergingRun) {
	lo, hi := 2, len(m.order) // the first of these that top stands before
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if m.before(m.order[mid], top) {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	for i := 1; i < lo; i++ { // few as a rule: copy would be slower
		m.order[i-1] = m.order[i]
	}
	m.order[lo-1] = top
}

func (m *MergingIter) First() bool {
	m.begin(false)
	for i := range m.runs {
		r := &m.runs[i]
		if m.err != nil || !m.put(r, r.it.First()) {
			return false
		}
	}
	return len(m.order) > 0
}

func (m *MergingIter) Last() bool {
	m.begin(true)
	for i := range m.runs {
		r := &m.runs[i]
		if m.err != nil || !m.put(r, r.it.Last()) {
			return false
		}
	}
	return len(m.order) > 0
}

func (m *MergingIter) SeekGE(ikey []byte) bool {
	if m.onward(ikey) {
		return m.seekOn(ikey)
	}
	m.begin(false)
	m.aim(ikey)
	for i := range m.runs {
		r := &m.runs[i]
		if m.err != nil || !m.put(r, r.seekAimed(ikey)) {
			return false
		}
	}
	m.sought, m.isSought = append(m.sought[:0], ikey...), true
	return len(m.order) > 0
}

// aim prepares seekAimed of all runs: what they need from memory is loaded side by side.
func (m *MergingIter) aim(ikey []byte) {
	m.aims = m.aims[:0]
	for i := range m.runs {
		r := &m.runs[i]
		if r.level == nil {
			continue
		}
		if r.aimed = r.level.toTableOf(ikey); r.aimed {
			m.aims = append(m.aims, &r.level.table)
		}
	}
	sstable.Aim(m.aims, ikey)
}

// seekAimed is SeekGE to the key that m.aim was for.
func (r *mergingRun) seekAimed(ikey []byte) bool {
	switch {
	case r.level == nil:
		return r.it.SeekGE(ikey)
	case !r.aimed:
		return false
	}
	r.aimed = false
	return r.level.seekAimed(ikey)
}

// onward reports whether a seek to ikey moves no run back.
func (m *MergingIter) onward(ikey []byte) bool {
	switch {
	case m.reverse || m.err != nil:
		return false
	case m.isSought:
		return m.compare(ikey, m.sought) >= 0
	}
	return len(m.order) > 0 && m.compare(ikey, m.order[0].key) >= 0
}

// seekOn is SeekGE for what is onward. Runs that are at their end stay there.
func (m *MergingIter) seekOn(ikey []byte) bool {
	m.tied = true
	behind := 0 // how many runs are before ikey
	for behind < len(m.order) && m.compare(m.order[behind].key, ikey) < 0 {
		behind++
	}
	for ; behind > 0; behind-- {
		r := m.order[behind-1]
		if !r.seekOn(ikey) {
			if err := r.it.Err(); err != nil {
				return m.fail(err)
			}
			m.order = append(m.order[:behind-1], m.order[behind:]...)
			continue
		}
		r.key = r.it.Key()
		// All behind it are in order and at or behind ikey.
		m.rise(behind - 1)
	}
	if m.err != nil {
		return m.fail(m.err)
	}
	m.sought, m.isSought = append(m.sought[:0], ikey...), true
	return len(m.order) > 0
}

// rise moves the run at place i backward in the order, to where it belongs.
func (m *MergingIter) rise(i int) {
	r := m.order[i]
	for ; i+1 < len(m.order) && m.before(m.order[i+1], r); i++ {
		m.order[i] = m.order[i+1]
	}
	m.order[i] = r
}

func (m *MergingIter) SeekLT(ikey []byte) bool {
	m.begin(true)
	for i := range m.runs {
		r := &m.runs[i]
		if m.err != nil || !m.put(r, r.it.SeekLT(ikey)) {
			return false
		}
	}
	return len(m.order) > 0
}

func (m *MergingIter) Next() bool {
	if m.reverse {
		return m.turn(false)
	}
	m.isSought = false
	return m.moved(m.order[0].next())
}

// StepApart is Next to an entry whose user key is another than the present one's, in the
// common case that this is known at once. Otherwise nothing moves.
func (m *MergingIter) StepApart() bool {
	if m.reverse || m.tied || !m.bytewise {
		return false
	}
	top := m.order[0]
	if top.level == nil || !top.level.table.StepApart() {
		return false
	}
	m.isSought = false
	top.key = top.level.table.Key()
	return m.moved(true)
}

func (m *MergingIter) Prev() bool {
	if !m.reverse {
		return m.turn(true)
	}
	return m.moved(m.order[0].prev())
}

// turn is the step that changes direction. Going back, the runs but the first
// stand before the present key, or at their end; the first key behind the present
// one is what is wanted of each. And the other way round.
func (m *MergingIter) turn(reverse bool) bool {
	top := m.order[0]
	m.turnKey = append(m.turnKey[:0], top.key...)
	m.begin(reverse)
	for i := range m.runs {
		r := &m.runs[i]
		var ok bool
		switch {
		case r == top && reverse:
			ok = r.it.Prev()
		case r == top:
			ok = r.it.Next()
		case reverse:
			ok = r.it.SeekLT(m.turnKey)
		default:
			ok = r.it.SeekGE(m.turnKey)
		}
		if !m.put(r, ok) {
			return false
		}
	}
	return len(m.order) > 0
}

// Run returns the run that the present entry is in. The iterator is valid.
func (m *MergingIter) Current() base.Iterator { return m.order[0].it }

// Trim drops the buffers of more than so many bytes, once the iterator is closed.
func (m *MergingIter) Trim(most int) {
	for _, b := range []*[]byte{&m.sought, &m.turnKey} {
		if cap(*b) > most {
			*b = nil
		}
	}
}

func (m *MergingIter) Valid() bool { return len(m.order) > 0 }
func (m *MergingIter) Key() []byte { return m.order[0].key }
func (m *MergingIter) Err() error  { return m.err }

func (m *MergingIter) Value() []byte {
	switch r := m.order[0]; {
	case r.level != nil:
		return r.level.table.Value()
	default:
		return r.it.Value()
	}
}

// ValueStays reports whether Value's slice outlasts a step back.
func (m *MergingIter) ValueStays() bool {
	switch r := m.order[0]; {
	case r.level != nil:
		return r.level.table.ValueStays()
	default:
		return r.mem != nil
	}
}

// CheckRest checks that what the runs hold behind the present key stands where their
// indexes say, as far as that concerns somebody who began there: see
// sstable.Iter.CheckRest. It leaves the iterator not positioned.
func (m *MergingIter) CheckRest() error {
	for _, r := range m.order {
		if r.level != nil {
			if err := r.level.table.CheckRest(); err != nil {
				return err
			}
		}
	}
	m.order = m.order[:0]
	return nil
}

// Close closes the runs and forgets them; add and init can follow.
func (m *MergingIter) Close() error {
	m.order = m.order[:0]
	for i := range m.runs {
		if err := m.runs[i].it.Close(); err != nil && m.err == nil {
			m.err = err
		}
	}
	clear(m.runs)
	m.runs = m.runs[:0]
	clear(m.aims)
	return m.err
}
