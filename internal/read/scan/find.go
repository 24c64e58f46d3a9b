package scan

import (
	"bytes"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/expiry"
	"github.com/sievedb/sievedb/sstable"
)

// hiddenStep is after how many hidden entries that a movement steps over Source.Hindered is called, and again after as
// many more.
const hiddenStep = 500

// findForward shows the first visible key from the position of the runs; ok says whether they
// are at an entry. With skipping, versions of c.key are skipped.
func (c *Cursor) findForward(ok, skipping bool) bool {
	hidden := 0
	for ; ok; ok = c.it.Next() {
		ikey := c.it.Key()
		user := base.UserKey(ikey)
		if skipping && c.isKey(user) {
			hidden++
			continue
		}
		if c.upper != nil && c.cmp.Compare(user, c.upper) >= 0 {
			break
		}
		seq, kind := base.SplitTrailer(base.Trailer(ikey))
		if seq > c.seq && c.hides(seq) {
			continue
		}
		if kind != base.KindDelete {
			c.valid, c.shown = true, user
			c.setRef(kind)
			if !c.held {
				if !c.at.isRef {
					c.lane = c.it.EnterLane(c.upper, base.MakeTrailer(c.seq, base.KindSet))
				}
				return true
			}
			if c.openValue(c.it.Value()) {
				return true
			}
			if c.err != nil {
				return false
			}
		}
		if hidden++; hidden >= hiddenStep {
			hidden = 0
			c.tellHindered(seq)
		}
		c.key, skipping = append(c.key[:0], user...), true
	}
	return c.end()
}

// findBackward shows the last visible key at or before the position of the runs and leaves them before its versions.
// Going backward, the versions of a key come oldest first, so the last visible one decides.
func (c *Cursor) findBackward(ok bool) bool {
	hidden := 0
	for {
		found := false // key and value hold a candidate
		for ; ok; ok = c.it.Prev() {
			ikey := c.it.Key()
			user := base.UserKey(ikey)
			if found && !c.isKey(user) {
				break
			}
			if c.lower != nil && c.cmp.Compare(user, c.lower) < 0 {
				break
			}
			seq, kind := base.SplitTrailer(base.Trailer(ikey))
			if seq > c.seq && c.hides(seq) {
				if found && !(c.keysOnly && c.expiry == nil) { // a further step might invalidate the value
					c.keepValue(c.value)
				}
				continue
			}
			if found = kind != base.KindDelete; !found {
				if hidden++; hidden >= hiddenStep {
					hidden = 0
					c.tellHindered(seq)
				}
				continue
			}
			if c.setRef(kind); c.expiry == nil && !c.at.isRef {
				if c.lane = c.it.EnterLane(c.lower, base.MakeTrailer(c.seq, base.KindSet)); c.lane != nil {
					c.valid, c.shown = true, user
					return true
				}
			}
			c.at.own, c.key = c.plain(seq), append(c.key[:0], user...)
			if c.keysOnly && c.expiry == nil {
				continue
			}
			c.value = c.it.Value()
			if !c.it.ValueStays() {
				c.keepValue(c.value)
			}
		}
		if !found || c.it.Err() != nil {
			return c.end()
		}
		c.valid, c.shown = true, c.key
		if c.expiry == nil {
			return true
		}
		if c.openValue(c.value) || c.err != nil {
			return c.valid
		}
		ok = c.it.Valid()
	}
}

// openValue makes c.value the value without its envelope. If that is hidden, the cursor is not valid afterwards.
func (c *Cursor) openValue(value []byte) bool {
	c.value, c.ends = value, expiry.Never
	if !c.reverse {
		seq, _ := base.SplitTrailer(base.Trailer(c.it.Key()))
		c.at.own = c.plain(seq)
	}
	if c.at.isRef && c.expiry.Under(c.shown) && !c.follow() { // it was written before the prefix was added
		return false
	}
	if value = c.value; !c.at.own { // a transaction's own write has no envelope yet
		c.value, c.ends, c.valid, c.err = c.expiry.OpenUntil(c.shown, value, c.now)
		if c.walk != nil {
			c.walk.reads.AddEnd(c.ends)
		}
	}
	if c.keysOnly {
		c.value = nil
	}
	return c.valid
}

// setRef records whether an entry of that kind refers to its value.
func (c *Cursor) setRef(kind base.Kind) { c.at.isRef, c.at.followed = kind == base.KindRef, false }

// fillAtMost is how many values apart from their keys a scan adds to the block cache if they displace others. Scans of
// values that are with their keys add those of as many data blocks, and more while there is room, too.
const fillAtMost = 8

// follow makes c.value the value to which it refers. After an error the cursor is not valid.
func (c *Cursor) follow() bool {
	c.at.followed = true
	c.at.inOrder++
	if c.at.lookup == nil {
		c.at.lookup = new(sstable.Lookup)
	}
	c.at.lookup.NoFillCache, c.at.lookup.Scanning = c.noFill, c.at.inOrder > fillAtMost
	value, err := c.src.Tables.Value(c.version, c.at.lookup, c.shown, c.value)
	if err != nil {
		c.valid, c.err = false, err
		return false
	}
	c.value = value
	return true
}

// keepValue makes c.value a copy of value.
func (c *Cursor) keepValue(value []byte) {
	if cap(c.valueBuf) > mostPooled && len(value) < cap(c.valueBuf)/4 {
		c.valueBuf = nil // too large to keep
	}
	c.valueBuf = append(c.valueBuf[:0], value...)
	if c.value = c.valueBuf; c.value == nil {
		c.value = []byte{}
	}
}

// tellHindered reports that hiddenStep entries were stepped over, if the present one, whose number is seq, is in a
// memtable or in level 0. A transaction's own writes do not count.
func (c *Cursor) tellHindered(seq uint64) {
	if c.src.Hindered != nil && seq <= c.seq && c.it.IsRecent(c.version.Levels[0].Files) {
		c.src.Hindered(c.version, hiddenStep)
	}
}

// isKey reports whether user is c.key.
func (c *Cursor) isKey(user []byte) bool {
	if c.bytewise {
		return bytes.Equal(user, c.key)
	}
	return c.cmp.Compare(user, c.key) == 0
}

func (c *Cursor) end() bool {
	c.valid = false
	c.err = c.it.Err()
	return false
}
