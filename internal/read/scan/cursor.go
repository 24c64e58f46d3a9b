package scan

import (
	"slices"
	"time"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/expiry"
	"github.com/sievedb/sievedb/internal/base/keyspace"
	"github.com/sievedb/sievedb/internal/disk/tables"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/memtable"
	"github.com/sievedb/sievedb/sstable"
)

// Cursor shows the keys of a store at one moment; db.Iterator documents its movements. It begins
// with Start, then AddWrites and AddMemtable for what is in memory, then Open. It is used by one
// goroutine at a time. The zero value is a closed cursor.
type Cursor struct {
	*parts // nil once closed, because other cursors use them then
	err    error
	guarded

	// Going forward, the runs are at the entry shown, whose user key is shown. Going backward, they are before all
	// versions of the key shown, which key and value hold. While the cursor is not valid, reverse gives the side:
	// before the first key if set, after the last otherwise. So the end of a movement need not record the side.
	valid, reverse bool
	held           bool // value is what Value returns: going backward, or without an envelope

	// lane is the table in which the cursor takes quick steps, nil if it does not. Then it is at the entry shown,
	// going backward too, and no other run has entries of that key.
	lane *sstable.Iter

	// walk records what a transaction reads; nil otherwise.
	walk *walk

	// prefix is that of the cursor's namespace, which is before each key in the runs and is
	// not shown; nil if there is none.
	prefix []byte
}

// Start makes c a cursor over v, to which the caller has a reference, and which c releases when it
// closes. Entries above seq are hidden, and so are values that have expired by now.
func (c *Cursor) Start(src *Source, v *version.Version, seq, now uint64) {
	p := pool.Get().(*parts)
	if p.mems == nil {
		p.mems = make([]memtable.Iter, 0, usualMemtables)
	}
	p.src, p.open, p.version, p.cmp, p.bytewise = src, src.Open, v, src.Comparer, src.Comparer.IsBytewise()
	p.seq, p.ownSeq, p.expiry, p.now = seq, 0, src.Expiry, now
	c.parts, c.reverse = p, true
}

// usualMemtables is the number of memtables that a cursor rarely exceeds.
const usualMemtables = 4

// AddWrites adds a transaction's own writes, which are numbered from base.FirstOwnSeq to last, above all others.
// Those that the transaction makes later are not visible to this cursor. A nil iterator means none.
func (c *Cursor) AddWrites(own *memtable.Iter, last uint64) {
	if own != nil {
		c.mems, c.ownFirst, c.ownSeq = append(c.mems, *own), base.FirstOwnSeq, last
	}
}

// AddBulk adds the writes of a bulk transaction, which are numbered from first to last, above all others: a
// memtable, which may be nil and have later ones too, and tables, to which it takes a reference.
func (c *Cursor) AddBulk(mem *memtable.Memtable, first, last uint64, runs tables.PrivateRuns, owner *tables.Private) {
	if last < first {
		return
	}
	c.ownFirst, c.ownSeq = first, last
	if mem != nil {
		c.AddMemtable(mem)
	}
	if len(runs) > 0 {
		owner.Ref()
		c.bulk = &bulkRuns{runs: runs, tables: owner}
	}
}

// AddMemtable adds a memtable, unless it is empty: what is added to it later is not visible to this cursor.
func (c *Cursor) AddMemtable(m *memtable.Memtable) {
	if !m.Empty() {
		c.mems = append(c.mems, *m.NewIter())
	}
}

// Open ends the making of a cursor, which is then before its first key. The bounds are copied. Nothing is read yet.
func (c *Cursor) Open(o *Options) {
	c.noFill, c.keysOnly = o.NoFillCache, o.KeysOnly
	c.bounds, c.lower, c.upper = keyspace.CopyBounds(c.bounds, nil, o.LowerBound, o.UpperBound)
	c.openRuns()
}

// SetPrefix makes c leave out the prefix of a namespace, with which all of its keys begin.
func (c *Cursor) SetPrefix(prefix []byte) { c.prefix = prefix }

// ShowExpired makes c show all values as they are stored. It is called before the first movement.
func (c *Cursor) ShowExpired() { c.expiry = nil }

// Bounds returns the bounds, with the prefix of the namespace; nil means none. The slices belong to
// c and are valid until SetBounds or Close.
func (c *Cursor) Bounds() (lower, upper []byte) { return c.lower, c.upper }

// SetBounds replaces the bounds and moves c before the first key within them.
func (c *Cursor) SetBounds(lower, upper []byte) {
	if !c.Rewind() { // within the old bounds
		return
	}
	c.err = c.reopen(c.prefix, lower, upper)
	if c.walk != nil {
		c.walk.lower, c.walk.upper = c.Bounds()
	}
}

// Refresh moves c before its first key within the bounds, at another moment: that of v, to which the caller has a
// reference that c takes over, and of mems, without the empty ones. Entries above seq are hidden, and so are values
// that have expired by now. c must not record.
func (c *Cursor) Refresh(v *version.Version, seq, now uint64, mems []*memtable.Memtable) {
	if !c.Rewind() {
		v.Unref()
		return
	}
	old := c.version
	c.err = c.parts.refresh(v, seq, now, mems)
	old.Unref()
}

// Rewind moves c before its first key within the bounds. It returns false if c has failed or is closed.
func (c *Cursor) Rewind() bool {
	c.EndWalk()
	ok := c.ready()
	c.valid, c.reverse = false, true
	return ok
}

// Clone makes to, which is zero, a cursor over the same moment. Nil options mean those of c. It
// returns false if c or the store is closed.
func (c *Cursor) Clone(to *Cursor, o *Options) bool {
	if c.parts == nil || !c.open.Load() || !c.version.TryRef() {
		return false
	}
	to.parts, to.reverse, to.prefix = pool.Get().(*parts), true, c.prefix
	to.openLike(c.parts, o, c.prefix)
	return true
}

// ready reports whether the cursor may move.
func (c *Cursor) ready() bool {
	if c.lane != nil {
		c.it.LeaveLane()
		c.lane = nil
	}
	switch {
	case c.err != nil:
	case c.parts == nil || !c.open.Load():
		c.err = base.ErrClosed
	case !Guarded:
		return true
	default:
		if c.err = c.ended(); c.err == nil {
			return true
		}
	}
	c.valid = false
	return false
}

// First moves to the first key.
func (c *Cursor) First() bool {
	c.EndWalk()
	if !c.ready() {
		return false
	}
	if c.lower != nil {
		return c.seekGE(c.lower)
	}
	c.beginWalk(true, nil, false)
	c.turn(false)
	return c.findForward(c.it.First(), false)
}

// Last moves to the last key.
func (c *Cursor) Last() bool {
	c.EndWalk()
	if !c.ready() {
		return false
	}
	if c.upper != nil {
		return c.seekLT(c.upper)
	}
	c.beginWalk(false, nil, false)
	c.turn(true)
	return c.findBackward(c.it.Last())
}

// SeekGE moves to the first key that is >= key, or after the last key if none is.
func (c *Cursor) SeekGE(key []byte) bool { return c.seekGE(c.stored(key)) }

// seekGE is SeekGE for a key with the namespace's prefix.
func (c *Cursor) seekGE(key []byte) bool {
	c.EndWalk()
	if !c.ready() {
		return false
	}
	if c.lower != nil && c.cmp.Compare(key, c.lower) < 0 {
		key = c.lower
	}
	c.turn(false)
	if c.upper != nil && c.cmp.Compare(key, c.upper) >= 0 {
		c.valid = false
		return false
	}
	c.beginWalk(true, key, false)
	c.seekKey = base.AppendInternalKey(c.seekKey[:0], key, max(c.seq, c.ownSeq), base.KindSeek)
	return c.findForward(c.it.SeekGE(c.seekKey), false)
}

// SeekLT moves to the last key that is < key, or before the first key if none is.
func (c *Cursor) SeekLT(key []byte) bool { return c.seekLT(c.stored(key)) }

// seekLT is SeekLT for a key with the namespace's prefix.
func (c *Cursor) seekLT(key []byte) bool {
	c.EndWalk()
	if !c.ready() {
		return false
	}
	if key == nil {
		key = []byte{} // nil would be the end for the walk
	}
	if c.upper != nil && c.cmp.Compare(key, c.upper) > 0 {
		key = c.upper
	}
	c.turn(true)
	if c.lower != nil && c.cmp.Compare(key, c.lower) <= 0 {
		c.valid = false
		return false
	}
	c.beginWalk(false, key, false)
	c.seekKey = base.AppendInternalKey(c.seekKey[:0], key, base.MaxSeq, base.KindSeek)
	return c.findBackward(c.it.SeekLT(c.seekKey))
}

// Next moves to the next key: from before the first key to the first, from the last to after it.
func (c *Cursor) Next() bool {
	if c.lane != nil && !c.reverse && c.inLane() && c.lane.NextInLane() {
		c.shown = base.UserKey(c.lane.Key())
		return true
	}
	return c.next()
}

// inLane reports whether the cursor may take another step in its lane. If not, the caller takes an ordinary step, in
// which ready reports the error.
func (c *Cursor) inLane() bool {
	return c.open.Load() && (!Guarded || c.unchanged())
}

// next is Next for all steps but those in a lane.
func (c *Cursor) next() bool {
	if !c.valid {
		return c.enterForward()
	}
	if !c.ready() {
		return false
	}
	if !c.reverse {
		if c.it.NextDistinct() {
			return c.findForward(true, false)
		}
		c.key = append(c.key[:0], c.shown...)
		return c.findForward(c.it.Next(), true)
	}
	// The runs are before the versions of the present key, or at it after a lane. Below the lower bound
	// some may have skipped entries, so a step forward could show others of those.
	c.turnWalk(true)
	c.turn(false)
	c.key = append(c.key[:0], c.shown...)
	c.seekKey = base.AppendInternalKey(c.seekKey[:0], c.key, 0, base.KindDelete)
	return c.findForward(c.it.SeekGE(c.seekKey), true)
}

// turn makes the cursor go backward or forward from here.
func (c *Cursor) turn(reverse bool) {
	c.reverse, c.held = reverse, reverse || c.expiry != nil
	c.at.inOrder = 0
}

// enterForward is Next of a cursor that is not at a key.
func (c *Cursor) enterForward() bool { return c.ready() && c.reverse && c.First() }

// enterBackward is Prev of a cursor that is not at a key.
func (c *Cursor) enterBackward() bool { return c.ready() && !c.reverse && c.Last() }

// Prev moves to the previous key: from after the last key to the last, from the first to before it.
func (c *Cursor) Prev() bool {
	if c.lane != nil && c.reverse && c.inLane() && c.lane.BackInLane() {
		c.shown = base.UserKey(c.lane.Key())
		return true
	}
	return c.prev()
}

// prev is Prev for all steps but those in a lane.
func (c *Cursor) prev() bool {
	if !c.valid {
		return c.enterBackward()
	}
	inLane := c.lane != nil
	if !c.ready() {
		return false
	}
	switch {
	case c.reverse && inLane:
		return c.findBackward(c.it.Prev())
	case c.reverse:
		return c.findBackward(c.it.Valid())
	}
	// Step back over what shadows and precedes the present entry.
	c.turnWalk(false)
	c.turn(true)
	c.key = append(c.key[:0], c.shown...)
	ok := c.it.Prev()
	for ok && c.isKey(base.UserKey(c.it.Key())) {
		ok = c.it.Prev()
	}
	return c.findBackward(ok)
}

// Valid reports whether the cursor is at a key.
func (c *Cursor) Valid() bool { return c.valid }

// Key returns the key, nil if the cursor is not at one. The slice must not be modified and is valid until the
// next movement.
func (c *Cursor) Key() []byte {
	if !c.valid {
		return nil
	}
	return c.lendKey(c.shown[len(c.prefix):])
}

// StoredKey is Key with the prefix of the namespace.
func (c *Cursor) StoredKey() []byte { return c.shown }

// stored returns key with the namespace's prefix.
func (c *Cursor) stored(key []byte) []byte {
	if c.prefix == nil {
		return key
	}
	return slices.Concat(c.prefix, key)
}

// Value returns the value, nil if the cursor is not at a key or shows only keys; an empty value is
// not nil. The slice must not be modified and is valid until the next movement.
func (c *Cursor) Value() []byte {
	switch {
	case !c.valid:
		return nil
	case c.lane != nil && !c.keysOnly:
		return c.lendValue(c.lane.Value())
	case c.at.isRef && !c.keysOnly:
		return c.followedValue()
	case c.held:
		return c.lendValue(c.value)
	case c.keysOnly:
		return nil
	}
	return c.lendValue(c.it.Value())
}

// followedValue is Value at an entry that refers to its value.
func (c *Cursor) followedValue() []byte {
	if !c.at.followed {
		if !c.held {
			c.value = c.it.Value()
		}
		if !c.follow() {
			return nil
		}
	}
	return c.lendValue(c.value)
}

// TTL returns how long the value lives after the time of the cursor, 0 if it does not expire or the cursor
// is not at a key. own means that it is a transaction's own write, of which the cursor does not know that.
func (c *Cursor) TTL() (ttl time.Duration, own bool) {
	if !c.valid || c.expiry == nil {
		return 0, false
	}
	return expiry.Remaining(c.ends, c.now), c.at.own
}

// Err returns the first failure, nil at a clean end.
func (c *Cursor) Err() error { return c.err }

// Closed reports whether the cursor is closed, or was never opened.
func (c *Cursor) Closed() bool { return c.parts == nil }

// Close releases the cursor. Err returns a failure of it.
func (c *Cursor) Close() {
	if c.parts == nil {
		return
	}
	c.EndWalk()
	c.lane = nil
	if err := c.ended(); err != nil && c.err == nil {
		c.err = err
	}
	c.valid, c.walk = false, nil
	version := c.version
	if err := c.parts.close(); err != nil && c.err == nil {
		c.err = err
	}
	c.parts = nil
	version.Unref()
}
