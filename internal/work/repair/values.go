package repair

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"fmt"
	"slices"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/disk/tables"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/report"
	"github.com/sievedb/sievedb/sstable"
	"github.com/sievedb/sievedb/util"
)

// Value tables that are intact stay, with the tables that refer to them. A table that refers to others is treated as a
// damaged one: its entries are written again, with the values that can be read from any value table, and without those
// that cannot. All tables that the repair writes have their values.
//
// Key, sequence number and length do not identify a value: compactions give old versions the number 0, and an ingested
// table keeps its own. So a value is taken only from a table that may have values of the reference's ID.
//
// Entries of value tables have all that entries of other tables have. So they replace those that referred to them, if
// these are gone: all of them, or those of missing tables and damaged blocks.

// valueFinder has the value tables of the directory.
type valueFinder struct {
	files  []*foundValues
	byID   map[uint64][]*foundValues // the newest first
	named  map[uint64]bool           // the IDs to which entries refer
	cache  *tables.Cache
	blocks *sstable.BlockCache
	spare  []*run // what was salvaged of damaged value tables
	lookup sstable.Lookup
	key    []byte // of home
}

// foundValues is a value table of the directory.
type foundValues struct {
	foundTable
	ids  []uint64 // nil if it is damaged, and neither it nor the MANIFEST says them
	file *version.FileMeta
	runs []*run // what was salvaged of it
	// shared means that a table of another kind has its number: a version has only one of them.
	shared bool
}

// sound reports whether the table may stay.
func (v *foundValues) sound() bool { return v.intact() && v.canonical() && !v.shared }

// mayHave reports whether the table may have values of an ID.
func (v *foundValues) mayHave(id uint64) bool { return v.ids == nil || slices.Contains(v.ids, id) }

// scanValues reads every value table.
func (r *Repairer) scanValues() error {
	r.closeValues()
	blocks := sstable.NewBlockCache(r.opts.BlockCacheSize)
	o := r.opts.Cache
	o.Reader.Cache, o.Reader.Policies, o.Reader.RangePolicies = blocks, nil, nil
	r.values = valueFinder{blocks: blocks, cache: tables.NewCache(o)}
	r.values.byID, r.values.named = map[uint64][]*foundValues{}, map[uint64]bool{}
	others := r.ofKind(base.FileTable, base.FileOldTable)
	for _, f := range r.ofKind(base.FileValues) {
		v := &foundValues{foundTable: foundTable{dirFile: f, line: &File{Name: f.name, Level: -1, Bytes: uint64(f.Size)}}}
		byNum := func(f dirFile, num uint64) int { return cmp.Compare(f.Num, num) }
		_, v.shared = slices.BinarySearchFunc(others, f.Num, byNum)
		r.values.files = append(r.values.files, v)
		if err := r.scanTable(&v.foundTable, false); err != nil {
			return err
		}
		if err := r.findIDs(v); err != nil {
			return err
		}
		for _, id := range v.ids {
			if v.sound() {
				r.values.byID[id] = append(r.values.byID[id], v)
			}
			if id < maxNum {
				r.nextNum = max(r.nextNum, id+1)
			}
		}
	}
	for _, list := range r.values.byID {
		slices.SortFunc(list, func(a, b *foundValues) int { return cmp.Compare(b.Num, a.Num) })
	}
	return nil
}

// findIDs finds out the IDs of a value table. Damaged ones may be known only to the MANIFEST.
func (r *Repairer) findIDs(v *foundValues) error {
	v.file = version.NewFileMeta(v.Num, uint64(v.Size), v.smallest, v.largest)
	v.file.SetValueBytes(v.rawValues)
	v.file.Handle = tables.NewHandle()
	ids, err := r.readIDs(v)
	switch {
	case base.IsUnreadable(err):
		if v.intact() {
			v.err, v.line.Damage = err, err.Error()
		}
		ids = nil
		if known := r.manifest.version; known != nil {
			for _, t := range known.Values {
				if t.File.Num == v.Num {
					ids = append(ids, t.ID)
				}
			}
		}
	case err != nil:
		return err
	case v.sound():
		v.salvaged = nil
	}
	v.ids = ids
	return nil
}

// readIDs reads the IDs of a value table.
func (r *Repairer) readIDs(v *foundValues) (ids []uint64, err error) {
	reader, err := r.openTable(v.name)
	if err != nil {
		return nil, err
	}
	ids, err = tables.IDs(reader, v.Num)
	err = base.InFile(err, r.path(v.name), -1)
	return ids, errors.CombineErrors(err, reader.Close())
}

// planValues uses the entries of value tables to which no entry refers, unless the MANIFEST says that they died.
func (r *Repairer) planValues(p *plan) {
	for _, v := range r.values.files {
		named := v.ids == nil && len(r.values.named) > 0 ||
			slices.ContainsFunc(v.ids, func(id uint64) bool { return r.values.named[id] })
		if named || v.entries == 0 || r.manifest.dead[v.Num] ||
			r.manifest.version != nil && !r.unknown(p, &v.foundTable) {
			continue
		}
		r.report.MayResurrect = true
		r.lastSeq = max(r.lastSeq, v.maxSeq)
		p.lone = append(p.lone, &v.foundTable)
		r.use(p, &v.foundTable, "no entry refers to its values, and nothing says that they were deleted")
	}
}

// closeValues closes all value tables.
func (r *Repairer) closeValues() {
	r.values.lookup.Release()
	if r.values.cache != nil {
		r.values.cache.Close()
		r.values.blocks.Close()
	}
	r.values = valueFinder{}
}

// valueTable returns the value table for an ID: that of the MANIFEST, or the newest. It is nil if none is intact.
func (r *Repairer) valueTable(id uint64) *foundValues {
	list := r.values.byID[id]
	if v := r.manifest.version; v != nil {
		if f := v.ValueTableOf(id); f != nil {
			for _, found := range list {
				if found.Num == f.Num {
					return found
				}
			}
		}
	}
	if len(list) > 0 {
		return list[0]
	}
	return nil
}

// refer records what an entry of t refers to. The table counts as damaged if the value is not where it should be.
func (r *Repairer) refer(t *foundTable, ikey, encoded []byte) error {
	ref, err := base.DecodeValueRef(encoded)
	if err == nil {
		r.values.named[ref.ID] = true
		err = t.refs.Count(ikey, encoded)
	}
	if err == nil {
		if v := r.valueTable(ref.ID); v == nil {
			err = base.Corruptf("data block", -1, "an entry refers to the values of ID %d, which are missing or damaged", ref.ID)
		} else {
			_, err = r.valueIn(v.file, base.UserKey(ikey), ref)
		}
	}
	if !base.IsUnreadable(err) {
		return err
	}
	if t.refErr == nil {
		t.refErr = base.InFile(err, r.path(t.name), -1)
	}
	there, err := r.salvageable(base.UserKey(ikey), ref)
	if err == nil && !there {
		t.lost.add(base.UserKey(ikey), t.entries)
	}
	return err
}

// lostValues are the entries of a table whose values are nowhere.
type lostValues struct {
	count  uint64
	ranges []keyRange
	last   uint64 // the number of the entry that was added last
}

// add adds an entry, the one of that number. Neighbours make one range.
func (l *lostValues) add(user []byte, number uint64) {
	l.count++
	if n := len(l.ranges); n > 0 && number <= l.last+1 {
		l.ranges[n-1].last = bytes.Clone(user)
	} else {
		l.ranges = append(l.ranges, keyRange{bytes.Clone(user), bytes.Clone(user)})
	}
	l.last = number
}

// valueHash stands for a value in what can be read of a damaged value table.
type valueHash [16]byte

func hashOf(user []byte, seq, length uint64) (h valueHash) {
	sum := sha256.Sum256(util.AppendFixed64(base.AppendInternalKey(nil, user, seq, base.KindSet), length))
	copy(h[:], sum[:])
	return h
}

// salvageable reports whether a value that is not where it should be can be read elsewhere. One that may be another
// version's makes the report say so.
func (r *Repairer) salvageable(user []byte, ref base.ValueRef) (bool, error) {
	if ref.ID == 0 {
		return false, nil // the reference itself is damaged
	}
	h, there := hashOf(user, ref.Seq, ref.Len), false
	for _, v := range r.values.files {
		if v.salvaged[h] && v.mayHave(ref.ID) {
			if v.ids != nil {
				return true, nil
			}
			there = true
		}
	}
	if there {
		r.report.MayResurrect = true
		return true, nil
	}
	_, err := r.valueOf(user, ref)
	if base.IsUnreadable(err) {
		return false, nil
	}
	return err == nil, err
}

// valueIn reads a value in one table.
func (r *Repairer) valueIn(f *version.FileMeta, user []byte, ref base.ValueRef) ([]byte, error) {
	lk := &r.values.lookup
	lk.NoFillCache = true
	lk.Init(user, ref.Seq)
	res, err := r.values.cache.GetHeld(f, lk)
	if err == nil && (!res.Found || res.Trailer != base.MakeTrailer(ref.Seq, base.KindSet) || uint64(len(res.Value)) != ref.Len) {
		err = base.Corruptf("value table", -1, "%s has no value of sequence number %d and %d bytes for a key that refers to it", f.Name(), ref.Seq, ref.Len)
	}
	return res.Value, err
}

// valueOf reads a value from one of the tables that may have it: those of its ID, what was salvaged of others of that
// ID, and what was salvaged of tables whose IDs are unknown.
func (r *Repairer) valueOf(user []byte, ref base.ValueRef) ([]byte, error) {
	var places []*version.FileMeta
	for _, v := range r.values.byID[ref.ID] {
		places = append(places, v.file)
	}
	for _, known := range []bool{true, false} {
		for _, v := range r.values.files {
			if (v.ids != nil) == known && v.mayHave(ref.ID) {
				for _, u := range v.runs {
					places = append(places, u.meta)
				}
			}
		}
	}
	err := error(base.Corruptf("value table", -1, "none has the value"))
	for _, f := range places {
		if r.cmp.Compare(user, base.UserKey(f.Smallest)) < 0 || r.cmp.Compare(user, base.UserKey(f.Largest)) > 0 {
			continue
		}
		value, failed := r.valueIn(f, user, ref)
		if failed == nil || !base.IsUnreadable(failed) {
			return value, failed
		}
		err = failed
	}
	return nil, err
}

// salvageValues writes the readable entries of damaged value tables to runs in which they are found.
func (r *Repairer) salvageValues() error {
	s := &spill{r: r}
	for _, v := range r.values.files {
		if v.sound() {
			continue
		}
		first := len(s.runs)
		_, err := r.salvageTable(&v.foundTable, func(ikey, value []byte) error {
			seq, kind := base.SplitTrailer(base.Trailer(ikey))
			if kind != base.KindSet {
				return nil
			}
			return s.add(seq, kind, base.UserKey(ikey), value)
		})
		if err == nil {
			err = s.flush()
		}
		if err != nil {
			return err
		}
		v.runs = s.runs[first:]
	}
	r.values.spare = s.runs
	for _, u := range s.runs {
		u.meta.Temporary, u.meta.Handle = true, tables.NewHandle()
	}
	return nil
}

// discardValues removes what salvageValues has written.
func (r *Repairer) discardValues() {
	for _, u := range r.values.spare {
		r.values.cache.Drop(u.meta)
	}
	r.discard(r.values.spare)
	r.values.spare = nil
}

// home returns an entry with its value, if it refers to one. ok is false if that cannot be read: the entry is left out.
// The slices are valid until the next call.
func (r *Repairer) home(ikey, value []byte) (k, v []byte, ok bool, err error) {
	seq, kind := base.SplitTrailer(base.Trailer(ikey))
	if kind != base.KindRef {
		return ikey, value, true, nil
	}
	user := base.UserKey(ikey)
	ref, err := base.DecodeValueRef(value)
	if err == nil {
		value, err = r.valueOf(user, ref)
	}
	switch {
	case base.IsUnreadable(err):
		return nil, nil, false, r.countLost(user, ref)
	case err != nil:
		return nil, nil, false, err
	}
	r.values.key = base.AppendInternalKey(r.values.key[:0], user, seq, base.KindSet)
	return r.values.key, value, true, nil
}

// countLost counts a value that cannot be read, unless refer has: what is damaged may have become more meanwhile.
func (r *Repairer) countLost(user []byte, ref base.ValueRef) error {
	there, err := r.salvageable(user, ref)
	if there {
		r.report.ValuesLost++
		r.report.Ranges = append(r.report.Ranges, report.RepairedRange{First: bytes.Clone(user), Last: bytes.Clone(user)})
	}
	return err
}

// homeIter is an iterator over a table with the values to which entries refer. It only moves forward.
type homeIter struct {
	base.Iterator
	r          *Repairer
	key, value []byte
	err        error
}

func (it *homeIter) First() bool { return it.find(it.Iterator.First()) }
func (it *homeIter) Next() bool  { return it.find(it.Iterator.Next()) }

func (it *homeIter) find(ok bool) bool {
	for ; ok; ok = it.Iterator.Next() {
		var there bool
		it.key, it.value = it.Iterator.Key(), it.Iterator.Value()
		if _, kind := base.SplitTrailer(base.Trailer(it.key)); kind != base.KindRef {
			return true
		}
		if it.key, it.value, there, it.err = it.r.home(it.key, it.value); there {
			it.key, it.value = slices.Clone(it.key), slices.Clone(it.value) // other tables use the same memory
			return true
		}
		if it.err != nil {
			break
		}
	}
	it.key, it.value = nil, nil
	return false
}

func (it *homeIter) Valid() bool   { return it.key != nil }
func (it *homeIter) Key() []byte   { return it.key }
func (it *homeIter) Value() []byte { return it.value }

func (it *homeIter) Err() error {
	if it.err != nil {
		return it.err
	}
	return it.Iterator.Err()
}

func (it *homeIter) Close() error { return errors.CombineErrors(it.err, it.Iterator.Close()) }

// checkValues lists the value tables and compares them with the MANIFEST. A difference makes the plan one of a damaged
// database.
func (r *Repairer) checkValues(p *plan) {
	for _, found := range r.values.files {
		p.lines = append(p.lines, found.line)
	}
	v := r.manifest.version
	if v == nil {
		return
	}
	sums := r.refSums(func(t *foundTable) bool { _, live := p.live[t]; return live })
	for _, t := range v.Values {
		found := r.valueTable(t.ID)
		if found == nil || found.Num != t.File.Num || uint64(found.Size) != t.File.Size || sums[t.ID] != t.Live {
			p.healthy = false
		}
		delete(sums, t.ID)
	}
	if len(sums) > 0 {
		p.healthy = false
	}
	for _, t := range v.ValueFiles() {
		if !slices.ContainsFunc(r.values.files, func(found *foundValues) bool { return found.Num == t.File.Num }) {
			p.lines = append(p.lines, &File{Name: t.File.Name(), Fate: missing, Level: -1, Bytes: t.File.Size,
				Reason: fmt.Sprintf("the MANIFEST names it with %d bytes; tables refer to %d bytes of its values", t.File.Size, t.Live)})
		}
	}
}

// placeValues adds the value tables to which the placed tables refer to the edit of the new MANIFEST. The others are
// left out.
func (r *Repairer) placeValues(p *plan, e *manifest.Edit) {
	placed := map[uint64]bool{}
	for _, f := range p.placed {
		placed[f.File.Num] = true
	}
	sums := r.useValues(p, func(t *foundTable) bool { return placed[t.Num] && t.canonical() })
	added := map[*foundValues]bool{}
	for id, bytes := range sums {
		v := r.valueTable(id)
		if !added[v] {
			added[v] = true
			e.Added = append(e.Added, version.LevelFile{Level: version.ValuesLevel, File: v.file})
		}
		e.Values = append(e.Values, version.ValueDelta{ID: id, File: v.Num, Live: int64(bytes)})
	}
}

// refSums returns to how many bytes of the values of each ID some tables refer.
func (r *Repairer) refSums(of func(*foundTable) bool) map[uint64]uint64 {
	sums := map[uint64]uint64{}
	for _, t := range r.tables {
		if of(t) {
			for id, bytes := range t.refs {
				sums[id] += bytes
			}
		}
	}
	return sums
}

// useValues returns to how many bytes of the values of each ID the tables refer that stay. It leaves out the value
// tables to which none refers.
func (r *Repairer) useValues(p *plan, stays func(*foundTable) bool) (sums map[uint64]uint64) {
	sums = r.refSums(stays)
	used := map[*foundValues]bool{}
	for id := range sums {
		used[r.valueTable(id)] = true
	}
	for _, v := range r.values.files {
		switch {
		case used[v] || v.line.Fate == rewritten:
		case v.fill:
			r.planFiller(p, &v.foundTable,
				"tables that referred to its values are missing or damaged: it fills their key ranges")
		default:
			p.leaveOut(&v.foundTable, "no table refers to its values")
		}
	}
	return sums
}
