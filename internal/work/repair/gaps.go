package repair

import (
	"bytes"
	"encoding/binary"
	"slices"
	"sort"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/expiry"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/sstable"
)

// A copy of the files of an open database has tables of one moment and a MANIFEST of a later one. The
// tables that a compaction made in between are missing. But those that it replaced, and the logs that a
// flush replaced, are there. Repair takes from these what belongs to the key ranges of the missing tables,
// below everything else: an entry counts only if no other file has a newer one of its key.
//
// A compaction drops tombstones and the versions that they hide. So a key that was deleted may return, if
// its tombstone was in another table that the copy does not have.

// keyRange is a range of user keys with both bounds. A nil bound is none, and an empty one the empty key.
type keyRange struct{ first, last []byte }

// keyRanges are ranges that do not overlap, ascending.
type keyRanges []keyRange

// gapsOf returns the ranges of the blocks that were lost from a table. They include the neighbouring
// keys, because the versions of a key may be in several blocks.
func gapsOf(rep sstable.SalvageReport) (gaps []keyRange) {
	for _, g := range rep.Gaps {
		var k keyRange
		if g.After != nil {
			k.first = notNil(base.UserKey(g.After))
		}
		if g.Before != nil {
			k.last = notNil(base.UserKey(g.Before))
		}
		gaps = append(gaps, k)
	}
	return gaps
}

func notNil(key []byte) []byte {
	if key == nil {
		return []byte{}
	}
	return key
}

// boundsOf returns the range of a table. An edit may have its bounds in the wrong order: then no version has
// the table, but its range is known, and overlap needs ranges in order.
func (r *Repairer) boundsOf(f *version.FileMeta) keyRange {
	k := keyRange{notNil(base.UserKey(f.Smallest)), notNil(base.UserKey(f.Largest))}
	if r.cmp.Compare(k.first, k.last) > 0 {
		k.first, k.last = k.last, k.first
	}
	return k
}

// clip returns the part of a range that is within bounds, which has both bounds. ok is false if there is none.
func (r *Repairer) clip(k, bounds keyRange) (clipped keyRange, ok bool) {
	if k.first == nil || r.cmp.Compare(k.first, bounds.first) < 0 {
		k.first = bounds.first
	}
	if k.last == nil || r.cmp.Compare(k.last, bounds.last) > 0 {
		k.last = bounds.last
	}
	return k, r.cmp.Compare(k.first, k.last) <= 0
}

// newRanges sorts ranges with both bounds, and unites those that overlap.
func (r *Repairer) newRanges(all []keyRange) keyRanges {
	slices.SortFunc(all, func(a, b keyRange) int { return r.cmp.Compare(a.first, b.first) })
	var out keyRanges
	for _, k := range all {
		if n := len(out); n > 0 && r.cmp.Compare(k.first, out[n-1].last) <= 0 {
			if r.cmp.Compare(k.last, out[n-1].last) > 0 {
				out[n-1].last = k.last
			}
			continue
		}
		out = append(out, k)
	}
	return out
}

// overlap reports whether a range of gaps has a key from first to last.
func (r *Repairer) overlap(gaps keyRanges, first, last []byte) bool {
	i := sort.Search(len(gaps), func(i int) bool { return r.cmp.Compare(gaps[i].last, first) >= 0 })
	return i < len(gaps) && r.cmp.Compare(gaps[i].first, last) <= 0
}

// findGaps returns where tables that a MANIFEST names are missing, or have lost blocks. If no MANIFEST is
// complete, its readable edits say which tables it names.
func (r *Repairer) findGaps() keyRanges {
	byNum := map[uint64][]*foundTable{}
	for _, t := range r.tables {
		byNum[t.Num] = append(byNum[t.Num], t)
	}
	var gaps []keyRange
	for _, a := range r.manifest.added {
		if a.Level == version.ValuesLevel {
			continue // it has no keys but those of tables of the levels
		}
		gaps = append(gaps, r.gapsIn(a.File, byNum[a.File.Num])...)
	}
	return r.newRanges(gaps)
}

// gapsIn returns the part of the range of a table in the MANIFEST that the files with its number lack.
func (r *Repairer) gapsIn(f *version.FileMeta, found []*foundTable) (gaps []keyRange) {
	bounds := r.boundsOf(f)
	for _, t := range found {
		switch {
		case t.dead || !t.canonical() || t.entries == 0:
			continue
		case bytes.Equal(t.smallest, f.Smallest) && bytes.Equal(t.largest, f.Largest) && len(t.gaps) == 0:
			return nil
		case t.err == nil || base.CompareInternal(r.cmp, t.smallest, f.Smallest) < 0 || base.CompareInternal(r.cmp, t.largest, f.Largest) > 0:
			continue // another table with the same number
		}
		for _, g := range t.gaps {
			if g, ok := r.clip(g, bounds); ok {
				gaps = append(gaps, g)
			}
		}
		if base.CompareInternal(r.cmp, f.Smallest, t.smallest) < 0 { // perhaps another table has the name
			gaps = append(gaps, keyRange{bounds.first, notNil(base.UserKey(t.smallest))})
		}
		if base.CompareInternal(r.cmp, t.largest, f.Largest) < 0 {
			gaps = append(gaps, keyRange{notNil(base.UserKey(t.largest)), bounds.last})
		}
		return gaps
	}
	return []keyRange{bounds}
}

// fillers are the files that may have entries of missing tables.
type fillers struct {
	tables []*foundTable
	logs   []*foundLog
}

// findFillers looks for gaps, and for what may fill them: tables that others replaced, and logs whose entries
// were written to tables.
func (r *Repairer) findFillers(p *plan) error {
	p.gaps = r.findGaps()
	if len(p.gaps) == 0 {
		return nil
	}
	for _, t := range r.tables {
		if !t.dead && !r.wasReplaced(p, t) {
			continue
		}
		if t.dead {
			if err := r.scanTable(t, true); err != nil {
				return err
			}
		}
		r.offerFiller(p, t)
	}
	sums := r.refSums(func(*foundTable) bool { return true })
	for _, v := range r.values.files {
		lacks := func(id uint64) bool { return r.manifest.version.LiveBytes(id) > sums[id] }
		if r.manifest.version != nil && slices.ContainsFunc(v.ids, lacks) {
			r.offerFiller(p, &v.foundTable)
			r.report.MayResurrect = r.report.MayResurrect || v.fill
		}
	}
	for _, l := range r.logs {
		if l.needed {
			continue
		}
		if err := r.readLog(l, nil); err != nil {
			return err
		}
		if l.line.Entries > 0 {
			l.fill = true
			p.fillers.logs = append(p.fillers.logs, l)
		}
	}
	return nil
}

// offerFiller makes a table fill gaps if it has keys in them.
func (r *Repairer) offerFiller(p *plan, t *foundTable) {
	if t.entries > 0 && !slices.Contains(p.lone, t) &&
		r.overlap(p.gaps, base.UserKey(t.smallest), base.UserKey(t.largest)) {
		t.fill = true
		r.lastSeq = max(r.lastSeq, t.maxSeq)
		p.fillers.tables = append(p.fillers.tables, t)
	}
}

// wasReplaced reports whether a table that the MANIFEST does not name is older than the MANIFEST, which lists
// all tables that were in use when it was begun. An earlier MANIFEST named the table, or none did.
func (r *Repairer) wasReplaced(p *plan, t *foundTable) bool {
	m := &r.manifest
	if !m.inForce || m.version == nil || m.lostEnd || m.lines[m.name].BytesLost > 0 ||
		p.named[t.Num] || r.unknown(p, t) {
		return false
	}
	_, num, ok := base.ParseFileName(m.name)
	return ok && t.Num < num
}

// planFiller makes the entries of a table that is not in use fill gaps.
func (r *Repairer) planFiller(p *plan, t *foundTable, reason string) {
	r.report.MayResurrect = true
	p.healthy = false
	t.line.Fate, t.line.Reason = rewritten, reason
	p.moves = append(p.moves, t.line)
}

// fill writes the entries of the fillers that are in the gaps, and newer than all others of their keys, to
// new tables above all others.
func (r *Repairer) fill(p *plan) error {
	if len(p.fillers.tables) == 0 && len(p.fillers.logs) == 0 {
		return nil
	}
	s := &spill{r: r}
	var runs []*run
	for _, t := range p.fillers.tables {
		if t.err == nil {
			runs = append(runs, r.tableRun(t))
			continue
		}
		if err := r.spillTable(s, t); err != nil {
			return err
		}
	}
	s.from = 0
	for _, l := range p.fillers.logs {
		err := r.readLog(l, func(seq uint64, kind base.Kind, key, value []byte) error {
			if !r.overlap(p.gaps, key, key) {
				return nil
			}
			return s.add(seq, kind, key, value)
		})
		if err != nil {
			return err
		}
	}
	if err := s.flush(); err != nil {
		return err
	}
	return r.fillFrom(p, append(runs, s.runs...))
}

func (r *Repairer) fillFrom(p *plan, runs []*run) error {
	below, err := r.newPlacedTables(p.placedBefore())
	if err != nil {
		return err
	}
	defer below.close()
	made := r.newCursor(p.made)
	defer made.close()
	newest := newestOf{cmp: r.cmp, find: func(key []byte) (newestVersion, error) {
		v, err := below.newest(key)
		if err != nil {
			return v, err
		}
		if v.found && v.seq == 0 {
			v.limit = r.formerSeq(below, key)
		}
		seq, found, err := made.newest(key)
		if found && seq == 0 {
			v.limit = base.MaxSeq
		}
		v.seq, v.found = max(v.seq, seq), v.found || found
		return v, err
	}}
	keep := func(ikey []byte, _ uint64) (bool, error) {
		user := base.UserKey(ikey)
		if !r.overlap(p.gaps, user, user) {
			return false, nil
		}
		kept, err := newest.isBelow(r, ikey, 0)
		if kept {
			r.report.EntriesFilled++
		}
		return kept, err
	}
	r.sealed.Policy = expiry.New(r.manifest.recorded.Prefixes, nil)
	filled, err := r.merge(runs, r.tableSize(), keep)
	r.sealed.Policy = nil
	if err != nil {
		return err
	}
	level := 0
	if len(p.placed) == 0 {
		level = version.NumLevels - 1
	}
	for _, u := range filled {
		p.adopt(u, level)
	}
	return nil
}

// formerSeq returns the greatest number that the newest version of a key may have had before a compaction
// changed it to 0.
func (r *Repairer) formerSeq(below *placedTables, key []byte) (limit uint64) {
	for level := range below.version.Levels {
		for _, f := range below.version.Overlapping(level, key, key) {
			i := slices.IndexFunc(r.tables, func(t *foundTable) bool { return t.Num == f.Num && t.minSeq == 0 && t.intact() })
			if i >= 0 && r.tables[i].seqsLost {
				return base.MaxSeq
			}
			if i >= 0 {
				limit = max(limit, r.tables[i].maxSeq)
			}
		}
	}
	return limit
}

// placedBefore returns the tables that stay and that the repair did not make.
func (p *plan) placedBefore() (placed []version.LevelFile) {
	made := map[uint64]bool{}
	for _, u := range p.made {
		made[u.meta.Num] = true
	}
	for _, f := range p.placed {
		if !made[f.File.Num] {
			placed = append(placed, f)
		}
	}
	return placed
}

// newestOf finds the newest version of each key of an ascending series of internal keys, once for each user key.
type newestOf struct {
	cmp  *base.Comparer
	find func(key []byte) (newestVersion, error)

	key []byte // nil before the first one
	newestVersion
}

// newestVersion is what is known about the newest version of a key. If its sequence number is 0, limit is the
// greatest that it may have been before. lastLevel means that tables of the last level alone have the key.
type newestVersion struct {
	seq, limit uint64
	found      bool
	lastLevel  bool
}

// isBelow reports whether all other versions of the key are older, and counts the entry if not. from is as in keepFunc.
func (n *newestOf) isBelow(r *Repairer, ikey []byte, from uint64) (bool, error) {
	first := false
	if user := base.UserKey(ikey); n.key == nil || n.cmp.Compare(n.key, user) != 0 {
		first = true
		n.key = notNil(append(n.key[:0], user...))
		var err error
		if n.newestVersion, err = n.find(n.key); err != nil {
			return false, err
		}
	}
	seq, kind := base.SplitTrailer(base.Trailer(ikey))
	if seq == 0 && first && n.lastLevel {
		if former := r.recalledSeq(from); former > n.seq {
			binary.LittleEndian.PutUint64(ikey[len(ikey)-base.TrailerLen:], base.MakeTrailer(former, kind))
			return true, nil
		}
	}
	switch {
	case !n.found || seq > n.seq && (n.seq > 0 || seq > n.limit):
		return true, nil
	case seq == n.seq:
		r.report.EntriesDuplicate++
	default:
		r.report.EntriesShadowed++
	}
	return false, nil
}

// recalledSeq returns foundTable.maxSeq of a table that has foundTable.recall, otherwise 0.
func (r *Repairer) recalledSeq(num uint64) uint64 {
	for _, t := range r.tables {
		if t.Num == num && t.recall {
			return t.maxSeq
		}
	}
	return 0
}

// cursor looks up ascending keys in runs that the repair made, which have temporary names.
type cursor struct {
	it      base.Iterator
	cmp     *base.Comparer
	started bool
	ok      bool
}

func (r *Repairer) newCursor(runs []*run) *cursor {
	return &cursor{it: r.newMergingIter(r.chains(slices.Clone(runs)), false), cmp: r.cmp}
}

// newest returns the number of the newest version of key.
func (c *cursor) newest(key []byte) (seq uint64, found bool, err error) {
	if !c.started {
		c.started, c.ok = true, c.it.First()
	}
	for c.ok && c.cmp.Compare(base.UserKey(c.it.Key()), key) < 0 {
		c.ok = c.it.Next()
	}
	if !c.ok || c.cmp.Compare(base.UserKey(c.it.Key()), key) != 0 {
		return 0, false, c.it.Err()
	}
	seq, _ = base.SplitTrailer(base.Trailer(c.it.Key()))
	return seq, true, nil
}

func (c *cursor) close() { _ = c.it.Close() } // newest has returned the error
