package tables

import (
	"bytes"
	"slices"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/memtable"
	"github.com/sievedb/sievedb/sstable"
)

// MergingIter merges runs into one order. It is a base.Iterator. Internal keys are unique over all runs of a database,
// unless another program's repair has restored tables that a compaction had merged. Such twins are returned one after
// the other, the newer first: see twins.go.
//
// The valid runs are kept in the order of their keys: the one with the smallest key is first going forward, the one
// with the greatest going backward. A step moves the first run. In the common case that it stays first, a step costs
// one comparison. Changing direction moves the other runs to the other side of the current key.
//
// Going forward from a seek, each run is at its first entry at or after the target, or at or after the current key. A
// seek further forward moves only the runs that are before its target.
type MergingIter struct {
	cmp      *base.Comparer
	bytewise bool // cmp.IsBytewise()
	runs     []mergingRun
	order    []*mergingRun
	reverse  bool
	tied     bool // going forward, the second run may be at another version of the first one's key
	strict   bool // twins whose values differ are an error
	err      error

	sought   []byte          // the target of the last SeekGE, if isSought is set
	isSought bool            // the last movement was a SeekGE
	turnKey  []byte          // scratch
	aims     []*sstable.Iter // scratch: the tables of runs
}

// mergingRun caches its key, and its iterator by type, since a call through the interface would cost as much as a step.
type mergingRun struct {
	key   []byte
	it    base.Iterator
	level *LevelIter     // it, or nil
	mem   *memtable.Iter // it, or nil
	rank  int            // smaller for newer runs; within one rank, table numbers decide
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

// Add adds a run that is older than those added before. All runs must be added before Init.
func (m *MergingIter) Add(it base.Iterator) { m.add(it, len(m.runs)) }

// AddNewest adds a run that is as new as others of AddNewest, and newer than those of Add.
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

// SetStrict makes twins whose values differ an error. It must be called after Init.
func (m *MergingIter) SetStrict() { m.strict = true }

// Init prepares the iterator for positioning, after all runs have been added.
func (m *MergingIter) Init(cmp *base.Comparer) {
	m.cmp, m.bytewise = cmp, cmp.IsBytewise()
	m.reverse, m.tied, m.isSought, m.strict, m.err = false, true, false, false, nil
	if cap(m.order) < len(m.runs) {
		m.order = make([]*mergingRun, 0, len(m.runs))
	}
	m.order = m.order[:0]
}

// IsRecent reports whether the current entry is in a memtable or in a table of level0. The iterator must be Valid.
func (m *MergingIter) IsRecent(level0 []*version.FileMeta) bool {
	r := m.order[0]
	return r.mem != nil || r.level != nil && slices.Contains(level0, r.level.files[r.level.index])
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

// seekOn moves the run forward to its first entry at or after ikey, which is after its current one.
func (r *mergingRun) seekOn(ikey []byte) bool {
	if r.level != nil {
		return r.level.SeekForward(ikey)
	}
	return r.it.SeekGE(ikey)
}

// begin removes all runs from the order. They are put in again for the given direction.
func (m *MergingIter) begin(reverse bool) {
	m.reverse, m.tied, m.isSought = reverse, true, false
	m.order = m.order[:0]
}

// Unposition makes m not positioned, as after Init. The tables stay open.
func (m *MergingIter) Unposition() { m.begin(false) }

// put inserts a run that was moved into the order, if ok says that it is valid. It returns false after an error.
func (m *MergingIter) put(r *mergingRun, ok bool) bool {
	if !ok {
		err := r.it.Err()
		return err == nil || m.fail(err)
	}
	r.key = r.it.Key()
	m.order = append(m.order, r)
	m.moveUp(len(m.order) - 1)
	return m.err == nil || m.fail(m.err)
}

// moveUp moves the run at index i towards the front of the order, to its place.
func (m *MergingIter) moveUp(i int) {
	r := m.order[i]
	for ; i > 0 && m.before(r, m.order[i-1]); i-- {
		m.order[i] = m.order[i-1]
	}
	m.order[i] = r
}

func (m *MergingIter) fail(err error) bool {
	m.err = err
	m.order, m.tied = m.order[:0], true // NextDistinct does not move then
	return false
}

// before reports whether a is before b in the order.
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

// moved restores the order after the first run moved; ok reports whether that is valid.
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
		m.reinsert(top)
	}
	return m.err == nil || m.fail(m.err)
}

// movedByBytes is moved for several runs in bytewise order.
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
		m.reinsert(top)
		m.tied = m.order[1] != top && m.sameUserKey()
	default:
		m.tied = true
		if m.before(second, top) {
			m.reinsert(top)
		}
	}
}

// sameUserKey reports whether the first two runs are at versions of one key.
func (m *MergingIter) sameUserKey() bool {
	return bytes.Equal(base.UserKey(m.order[0].key), base.UserKey(m.order[1].key))
}

// reinsert moves the first run to its place after the second one or a later one.
func (m *MergingIter) reinsert(top *mergingRun) {
	lo, hi := 2, len(m.order) // the first run after top is in [lo, hi]
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if m.before(m.order[mid], top) {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	for i := 1; i < lo; i++ { // usually few, so copy would be slower
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

// aim prepares seekAimed for all runs, which wait for memory together.
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

// seekAimed is SeekGE to the key of the last m.aim.
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

// onward reports whether a seek to ikey moves no run backward.
func (m *MergingIter) onward(ikey []byte) bool {
	switch {
	case m.reverse || m.err != nil:
		return false
	case m.isSought:
		return m.compare(ikey, m.sought) >= 0
	}
	return len(m.order) > 0 && m.compare(ikey, m.order[0].key) >= 0
}

// seekOn is SeekGE if onward is true. Runs at their end stay there.
func (m *MergingIter) seekOn(ikey []byte) bool {
	m.tied = true
	n := 0 // how many runs are before ikey
	for n < len(m.order) && m.compare(m.order[n].key, ikey) < 0 {
		n++
	}
	for ; n > 0; n-- {
		r := m.order[n-1]
		if !r.seekOn(ikey) {
			if err := r.it.Err(); err != nil {
				return m.fail(err)
			}
			m.order = append(m.order[:n-1], m.order[n:]...)
			continue
		}
		r.key = r.it.Key()
		// All runs after it are in order and at or after ikey.
		m.moveDown(n - 1)
	}
	if m.err != nil {
		return m.fail(m.err)
	}
	m.sought, m.isSought = append(m.sought[:0], ikey...), true
	return len(m.order) > 0
}

// moveDown moves the run at index i towards the end of the order, to its place.
func (m *MergingIter) moveDown(i int) {
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
	switch {
	case len(m.order) == 0: // NextDistinct has failed
		return false
	case m.reverse:
		return m.turn(false)
	}
	m.isSought = false
	return m.moved(m.order[0].next())
}

// NextDistinct is Next if the next entry has a different user key and this is quickly known, as
// it commonly is. Otherwise it returns false and the iterator does not move, or has failed.
func (m *MergingIter) NextDistinct() bool {
	if m.reverse || m.tied || !m.bytewise {
		return false
	}
	top := m.order[0]
	if top.level == nil || !top.level.table.NextDistinct() {
		return false
	}
	m.isSought = false
	top.key = top.level.table.Key()
	return m.moved(true)
}

func (m *MergingIter) Prev() bool {
	switch {
	case len(m.order) == 0:
		return false
	case !m.reverse:
		return m.turn(true)
	}
	return m.moved(m.order[0].prev())
}

// turn is a step that changes direction. Going backward, the runs except the first are before
// the current key or at their end. To go forward, each moves to its first key after the
// current one; to go backward, each moves to its last key before it.
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

// EnterLane returns the table of the first run with a lane as far as the second run's key, or the bound if that
// comes first; nil if there is none. See sstable.Iter.EnterLane: the caller may take steps in the lane, and calls
// LeaveLane before any other use of m. bound is a user key: the upper bound forward, and the lower one backward,
// nil for none. In a lane no other run has entries of the keys.
func (m *MergingIter) EnterLane(bound []byte, newest uint64) *sstable.Iter {
	top := m.order[0]
	if top.level == nil || !m.bytewise {
		return nil
	}
	fence := bound
	if len(m.order) > 1 {
		second := base.UserKey(m.order[1].key)
		if bound == nil || bytes.Compare(second, bound) < 0 != m.reverse {
			fence = second
		}
	}
	if !top.level.table.EnterLane(fence, newest, m.reverse) {
		return nil
	}
	m.tied = false
	return &top.level.table
}

// LeaveLane ends a lane. Without a step in it, the last seek still says where the runs are.
func (m *MergingIter) LeaveLane() {
	top := m.order[0]
	if top.level.table.SteppedInLane() {
		top.key, m.isSought = top.level.table.Key(), false
	}
}

// Current returns the run of the current entry. The iterator must be Valid.
func (m *MergingIter) Current() base.Iterator { return m.order[0].it }

// Trim releases buffers of more than maxBytes. The iterator must be closed.
func (m *MergingIter) Trim(maxBytes int) {
	for _, b := range []*[]byte{&m.sought, &m.turnKey} {
		if cap(*b) > maxBytes {
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

// ValueStays reports whether Value's slice stays valid after a step back.
func (m *MergingIter) ValueStays() bool {
	switch r := m.order[0]; {
	case r.level != nil:
		return r.level.table.ValueStays()
	default:
		return r.mem != nil
	}
}

// CheckRemainder checks that the remaining entries of each run's current block are where the index says, so that
// another goroutine can continue there: see sstable.Iter.CheckRemainder. It leaves the iterator not positioned.
func (m *MergingIter) CheckRemainder() error {
	for _, r := range m.order {
		if r.level != nil {
			if err := r.level.table.CheckRemainder(); err != nil {
				return err
			}
		}
	}
	m.order = m.order[:0]
	return nil
}

// Close closes and removes the runs. Add and Init can follow.
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
