package tables

import (
	"cmp"
	"log/slog"
	"path/filepath"
	"slices"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/sstable"
)

// Value returns the value to which an entry of user key refers, for a reader that has a reference to version v. It is
// in memory of a block or of lk, which holds it until it is used again or released. The encoded reference may be there
// too.
func (t *Cache) Value(v *version.Version, lk *sstable.Lookup, user, encoded []byte) (value []byte, err error) {
	ref, err := base.DecodeValueRef(encoded)
	for err == nil {
		var res sstable.Result
		if res, err = t.value(v, lk, user, ref); err == sstable.ErrReaderClosed && !t.closed.Load() {
			err = nil
			continue
		}
		return res.Value, err
	}
	return nil, err
}

// TryValue is Value without a reference to the version, and says what was read. If the tables were closed or removed
// meanwhile, the error is as for a lookup in them.
func (t *Cache) TryValue(v *version.Version, lk *sstable.Lookup, user, encoded []byte) (sstable.Result, error) {
	ref, err := base.DecodeValueRef(encoded)
	if err != nil {
		return sstable.Result{}, err
	}
	return t.value(v, lk, user, ref)
}

func (t *Cache) value(v *version.Version, lk *sstable.Lookup, user []byte, ref base.ValueRef) (sstable.Result, error) {
	res, f, err := t.search(v, lk, user, ref, false)
	if err == nil && uint64(len(res.Value)) != ref.Len {
		err = t.inTable(base.Corruptf("value table", -1, "the value of a key of %d bytes has %d bytes; want %d",
			len(user), len(res.Value), ref.Len), f)
	}
	if err != nil {
		return sstable.Result{}, err
	}
	return res, nil
}

// HasValue returns an error unless the value table of a reference has a value of the key. It reads no value.
func (t *Cache) HasValue(v *version.Version, lk *sstable.Lookup, user []byte, ref base.ValueRef) error {
	for {
		if _, _, err := t.search(v, lk, user, ref, true); err != sstable.ErrReaderClosed || t.closed.Load() {
			return err
		}
	}
}

// StoredValue returns the block with the value of a reference, for AddStored of a Writer with options as those of out,
// or if it is stored otherwise the value, in memory of lk. The block has its checksum and the length that the reference
// requires. If both are nil, Value says why.
func (t *Cache) StoredValue(v *version.Version, lk *sstable.Lookup, user []byte, ref base.ValueRef, out *Writer) (stored, value []byte, err error) {
	for {
		_, r, err := t.valueTable(v, ref.ID)
		if err != nil {
			return nil, nil, err
		}
		lk.Init(user, ref.Seq)
		stored, value, err := r.StoredValue(lk, out.options.Table.Compression, ref.Len)
		if err != sstable.ErrReaderClosed || t.closed.Load() {
			return stored, value, err
		}
	}
}

// inTable adds the file of a table to an error.
func (t *Cache) inTable(err error, f *version.FileMeta) error {
	return base.InFile(err, filepath.Join(t.options.Dir, f.Name()), -1)
}

// valueTable returns the value table of an ID.
func (t *Cache) valueTable(v *version.Version, id uint64) (f *version.FileMeta, r *sstable.Reader, err error) {
	if f = v.ValueTableOf(id); f == nil {
		return nil, nil, base.Corruptf("data block", -1,
			"an entry refers to values of ID %d, of which the MANIFEST has none", id)
	}
	if r, err = t.Get(f); err != nil {
		return f, nil, err
	}
	if ids := Of(f).ids.Load(); ids != nil {
		if _, ok := slices.BinarySearch(*ids, id); !ok {
			return f, nil, t.inTable(otherIDs(*ids, id), f)
		}
	}
	return f, r, nil
}

func otherIDs(ids []uint64, id uint64) error {
	return base.Corruptf("block of IDs", -1, "it is a value table of ID %d (of %d in all), and the MANIFEST wants one of ID %d here: "+
		"the file may have got the name of another; Repair uses the right ones", ids[0], len(ids), id)
}

// CheckIDs returns an error unless the value table f says that it has the IDs that v knows it by.
func (t *Cache) CheckIDs(v *version.Version, f *version.FileMeta) error {
	r, err := t.Ref(f)
	if err != nil {
		return err
	}
	defer r.Unref()
	if _, err = IDs(r, f.Num); err != nil {
		return t.inTable(err, f)
	}
	for _, table := range v.Values {
		if table.File == f && err == nil {
			_, _, err = t.valueTable(v, table.ID)
		}
	}
	return err
}

// IDs returns the IDs of the value table of that number, in ascending order. Before the first release, a table did not
// say the one that is its number.
func IDs(r *sstable.Reader, num uint64) ([]uint64, error) {
	if !r.IsValueTable() {
		return nil, base.Corruptf("metaindex block", -1, "it does not say that it is a value table")
	}
	ids, err := r.IDs()
	if err == nil && ids == nil {
		ids = []uint64{num}
	}
	return ids, err
}

// search looks the value of a reference up in its table.
func (t *Cache) search(v *version.Version, lk *sstable.Lookup, user []byte, ref base.ValueRef, keyOnly bool) (res sstable.Result, f *version.FileMeta, err error) {
	f, r, err := t.valueTable(v, ref.ID)
	if err != nil {
		return res, f, err
	}
	before := lk.KeyOnly
	lk.KeyOnly = keyOnly
	lk.Init(user, ref.Seq)
	res, err = r.GetAfterFilter(lk)
	lk.KeyOnly = before
	if err == nil && (!res.Found || res.Trailer != base.MakeTrailer(ref.Seq, base.KindSet)) {
		err = t.inTable(base.Corruptf("value table", -1,
			"it has no value of sequence number %d for a key of %d bytes that refers to it", ref.Seq, len(user)), f)
	}
	return res, f, err
}

// GetHeld is a lookup in one table of a version to which the caller has a reference. The cache may close it meanwhile.
func (t *Cache) GetHeld(f *version.FileMeta, lk *sstable.Lookup) (sstable.Result, error) {
	for {
		r, err := t.Get(f)
		if err != nil || r.Denies(lk) {
			return sstable.Result{}, err
		}
		res, err := r.GetAfterFilter(lk)
		if err != sstable.ErrReaderClosed || t.closed.Load() {
			return res, err
		}
	}
}

// Refs returns what a table refers to.
func (t *Cache) Refs(f *version.FileMeta) ([]base.RefSum, error) {
	if written := Of(f).refs.Swap(nil); written != nil {
		return *written, nil
	}
	r, err := t.Ref(f)
	if err != nil {
		return nil, err
	}
	defer r.Unref()
	return r.Refs()
}

// LearnRefs reads what the table refers to, for the edit of v that is to remove it soon, while no writer waits for
// that.
func (t *Cache) LearnRefs(v *version.Version, f *version.FileMeta) {
	if len(v.Values) == 0 {
		return
	}
	if refs, err := t.Refs(f); err == nil { // the edit meets the error again
		Of(f).refs.Store(&refs)
	}
}

// HasRefs reports whether a table refers to values; true if it cannot be read, so that the caller meets the error.
func (t *Cache) HasRefs(f *version.FileMeta) bool {
	r, err := t.Ref(f)
	if err != nil {
		return true
	}
	defer r.Unref()
	return r.HasRefs()
}

// CountRefs adds to an edit of version v how the bytes change to which tables refer, given the tables that it adds and
// removes. It logs a removed table whose references cannot be read, or cannot be what was counted.
func (t *Cache) CountRefs(v *version.Version, e *manifest.Edit, logger *slog.Logger) error {
	sums := refChanges(slices.Clone(e.Values)) // what a collection has moved
	for _, a := range e.Added {
		if a.Level == version.ValuesLevel {
			sums = append(sums, version.ValueDelta{ID: a.File.Num, File: a.File.Num})
		}
	}
	if len(sums)+len(v.Values) == 0 {
		return nil
	}
	added := map[uint64]bool{}
	for _, a := range e.Added {
		added[a.File.Num] = true
	}
	moved := map[uint64]bool{}
	for _, d := range e.Deleted {
		f := v.TableNumbered(d.Num)
		switch {
		case d.Level == version.ValuesLevel || f == nil:
		case added[d.Num]:
			moved[d.Num] = true
		default:
			refs, err := t.Refs(f)
			if err == nil {
				err = t.counted(v, f, refs)
			}
			switch {
			case err == nil:
				sums.add(refs, -1)
			case base.IsUnreadable(err):
				logger.Warn("a damaged table is removed; the values that it refers to stay until Repair", "table", f.Name(), "err", err)
			default:
				return err
			}
		}
	}
	for _, a := range e.Added {
		if a.Level == version.ValuesLevel || moved[a.File.Num] {
			continue
		}
		refs, err := t.Refs(a.File)
		if err != nil {
			return errors.Wrap(err, "sievedb: reading what a new table refers to")
		}
		sums.add(refs, 1)
	}
	e.Values = sums.list()
	return nil
}

// counted returns an error unless the MANIFEST counts what a table says that it refers to.
func (t *Cache) counted(v *version.Version, f *version.FileMeta, refs []base.RefSum) error {
	for _, ref := range refs {
		if live := v.LiveBytes(ref.ID); live < ref.Bytes {
			return t.inTable(base.Corruptf("block of references", -1,
				"it refers to %d bytes of the values of ID %d, of which the MANIFEST counts %d", ref.Bytes, ref.ID, live), f)
		}
	}
	return nil
}

// refChanges are the changes of an edit.
type refChanges []version.ValueDelta

func (c *refChanges) add(refs []base.RefSum, sign int64) {
	for _, r := range refs {
		*c = append(*c, version.ValueDelta{ID: r.ID, Live: sign * int64(r.Bytes)})
	}
}

// list returns one change for each ID that changes.
func (c refChanges) list() (deltas []version.ValueDelta) {
	slices.SortStableFunc(c, func(a, b version.ValueDelta) int { return cmp.Compare(a.ID, b.ID) })
	for len(c) > 0 {
		sum, n := c[0], 1
		for ; n < len(c) && c[n].ID == sum.ID; n++ {
			sum.Live, sum.File = sum.Live+c[n].Live, max(sum.File, c[n].File)
		}
		if c = c[n:]; sum.File > 0 || sum.Live != 0 {
			deltas = append(deltas, sum)
		}
	}
	return deltas
}

// ForValues returns a Writer of value tables with the options of t, of which the only one has these IDs if ids is not
// nil.
func (t *Writer) ForValues(ids []uint64) *Writer {
	o := t.options
	o.Separate, o.Filter, o.Table.Filter, o.Table.RangeFilters, o.Table.Values = 0, nil, nil, nil, true
	o.Table.IDs, o.Kind, o.Table.Compression = ids, base.FileValues, t.options.ValueCompression
	// No compaction looks at what value tables have. A writer with other filters is of no use for tables of levels.
	o.Table.Expiry, o.Table.ExpiryKeys, o.Spares = nil, 0, NewSpareWriters(1, 1<<20)
	return NewWriter(o)
}

// separates reports whether an entry's value goes to a value table.
func (t *Writer) separates(ikey, value []byte) bool {
	if from := t.options.Separate; from == 0 || len(value) < from {
		return false
	}
	if _, kind := base.SplitTrailer(base.Trailer(ikey)); kind != base.KindSet {
		return false
	}
	return t.options.Stays == nil || !t.options.Stays(base.UserKey(ikey))
}

// Separates reports whether large values go to value tables.
func (t *Writer) Separates() bool { return t.options.Separate > 0 }

// separate writes the value of an entry to a value table. It returns the entry that refers to it, in memory of t.
func (t *Writer) separate(ikey, value []byte) (refKey, ref []byte, err error) {
	if t.values == nil {
		t.values = &separated{Writer: *t.ForValues(nil)}
	}
	s := t.values
	if s.Open() && s.Size() >= version.ValueTableSize {
		if err := s.EndTable(); err != nil {
			return nil, nil, err
		}
	}
	seq, _ := base.SplitTrailer(base.Trailer(ikey))
	if err := s.Add(ikey, value); err != nil {
		return nil, nil, err
	}
	s.key = base.AppendInternalKey(s.key[:0], base.UserKey(ikey), seq, base.KindRef)
	s.ref = base.ValueRef{ID: s.num, Seq: seq, Len: uint64(len(value))}.Append(s.ref[:0])
	return s.key, s.ref, nil
}

// separated is a Writer of value tables.
type separated struct {
	Writer
	key, ref []byte
}

// AddTo adds the finished tables to an edit, as ones of level, and the value tables. It returns all of them.
func (t *Writer) AddTo(e *manifest.Edit, level int) []*version.FileMeta {
	files := t.Files
	for _, f := range files {
		e.Added = append(e.Added, version.LevelFile{Level: level, File: f})
	}
	if t.values == nil {
		return files
	}
	for _, f := range t.values.Files {
		e.Added = append(e.Added, version.LevelFile{Level: version.ValuesLevel, File: f})
	}
	return append(files[:len(files):len(files)], t.values.Files...)
}
