package compact

import (
	"context"
	"path/filepath"
	"slices"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/disk/pick"
	"github.com/sievedb/sievedb/internal/disk/tables"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/sstable"
)

// A collection copies the values of value tables that still live to one new value table, which takes over the IDs of
// the old ones, as they are stored if they are compressed as that table is. So no reference changes, nothing is written
// to the levels, and no deleted key can return. Whether a value lives is asked of the tables of the collection's
// version, with a search for each. A compaction that runs meanwhile copies only references that its inputs have, so
// nothing that is dead now can become live, and readers of older versions have the old value tables. The
// bytes that are found must be those that the MANIFEST counts: otherwise nothing is removed.

// collection is the state of one.
type collection struct {
	s    *Scheduler
	ctx  context.Context
	c    *pick.Compaction
	out  *tables.Writer
	done *progress

	ids    []uint64 // in ascending order
	bytes  map[uint64]*idBytes
	search sstable.Lookup // for references
	ref    []byte         // found last
	value  sstable.Lookup // for values
	work   int            // since it looked whether it must stop
}

// idBytes are the bytes of the values of an ID, as they are counted and as they are found.
type idBytes struct {
	file           *version.FileMeta
	counted, found uint64
}

// collect runs c, a compaction of value tables.
func (s *Scheduler) collect(ctx context.Context, c *pick.Compaction, info *Info) (err error) {
	j := &collection{s: s, ctx: ctx, c: c, bytes: map[uint64]*idBytes{}, done: s.progressOf(c)}
	defer j.search.Release()
	defer j.value.Release()
	for _, t := range c.Version.Values {
		if slices.Contains(c.Inputs, t.File) {
			j.bytes[t.ID] = &idBytes{file: t.File, counted: t.Live}
			j.ids = append(j.ids, t.ID)
		}
	}
	j.out = s.o.NewWriter(version.NumLevels-1, 0).ForValues(j.ids)
	finished := false
	defer func() { // also after a panic
		if !finished {
			j.out.Abandon()
		}
	}()
	if err = j.copy(); err == nil {
		err = j.compareCounts()
	}
	if err == nil {
		_, err = j.out.Finish()
	}
	if err != nil {
		return err
	}
	finished = true
	edit := &manifest.Edit{}
	written := j.out.AddTo(edit, version.ValuesLevel)
	for _, id := range j.ids {
		edit.Values = append(edit.Values, version.ValueDelta{ID: id, File: written[0].Num})
	}
	info.BytesRead, info.BytesWritten, info.OutputTables = j.done.read.Load(), written[0].Size, 1
	if err := s.host.Apply(edit, written); err != nil {
		return err
	}
	s.totals.compactions.Add(1)
	s.totals.bytesRead.Add(info.BytesRead)
	s.totals.bytesWritten.Add(info.BytesWritten)
	return nil
}

// copy copies what lives.
func (j *collection) copy() error {
	it := new(tables.MergingIter)
	defer it.Close()
	for _, f := range j.c.Inputs {
		it.Add(tables.NewLevelIter(j.s.o.Cache, j.s.o.Cmp, []*version.FileMeta{f}, sstable.IterOptions{NoFillCache: true, KeysOnly: true}))
	}
	it.Init(j.s.o.Cmp)
	twin := false
	for ok := it.First(); ok; ok = it.Next() {
		if !twin {
			if err := j.entry(it.Key()); err != nil {
				return err
			}
		}
		twin = it.TwinFollows()
	}
	return it.Err()
}

// entry copies the value under an internal key of a value table, if it lives.
func (j *collection) entry(ikey []byte) error {
	if j.work += len(ikey) + entryWork; j.work >= lookWork {
		j.work = 0
		if j.s.state.isClosed() {
			return base.ErrClosed
		}
		if err := j.ctx.Err(); err != nil {
			return err
		}
	}
	user := base.UserKey(ikey)
	seq, kind := base.SplitTrailer(base.Trailer(ikey))
	if kind != base.KindSet {
		return j.ofInput(ikey, base.Corruptf("value table", -1, "it has an entry of kind %d, which is no value", kind))
	}
	ref, ok, err := j.find(user, seq)
	if err != nil {
		return j.ofInput(ikey, err)
	}
	if !ok {
		return nil
	}
	id := j.bytes[ref.ID]
	if id == nil || ref.Seq != seq {
		return nil // another value of the key, or a copy of this one elsewhere
	}
	if err := j.move(ikey, user, ref); err != nil {
		return err
	}
	id.found += ref.Len
	j.work += int(ref.Len)
	j.done.read.Add(ref.Len)
	j.done.written.Store(j.out.Written())
	j.s.pace(j.ctx, 2*ref.Len)
	return nil
}

// move copies the value of ref, as it is stored if that is possible.
func (j *collection) move(ikey, user []byte, ref base.ValueRef) error {
	stored, value, err := j.s.o.Cache.StoredValue(j.c.Version, &j.value, user, ref, j.out)
	switch {
	case err != nil:
		return err
	case stored != nil:
		return j.out.AddStored(ikey, stored, ref.Len)
	case value == nil:
		j.value.NoFillCache = true
		if value, err = j.s.o.Cache.Value(j.c.Version, &j.value, user, j.ref); err != nil {
			return err
		}
	}
	return j.out.Add(ikey, value)
}

// ofInput returns err as that of the input that has the value under ikey: whether it is in use cannot be found out,
// which says nothing about the other inputs.
func (j *collection) ofInput(ikey []byte, err error) error {
	if !base.IsUnreadable(err) {
		return err
	}
	seq, _ := base.SplitTrailer(base.Trailer(ikey))
	j.search.KeyOnly = true
	defer func() { j.search.KeyOnly = false }()
	var input *version.FileMeta
	for _, f := range j.c.Inputs {
		j.search.Init(base.UserKey(ikey), seq)
		res, ferr := j.s.o.Cache.GetHeld(f, &j.search)
		if ferr != nil || !res.Found {
			continue
		}
		if res.Trailer == base.Trailer(ikey) {
			input = f
			break
		}
		if found, _ := base.SplitTrailer(res.Trailer); found == seq { // a wrong entry may hide behind a right one
			input = f
		}
	}
	if input == nil {
		return err
	}
	said := base.Corruptf("value table", -1, "whether its values are in use cannot be found out: %v", err)
	return base.InFile(said, filepath.Join(j.s.o.Dir.Path, input.Name()), -1)
}

// find returns the reference of user key that readers as of seq see in the tables.
func (j *collection) find(user []byte, seq uint64) (ref base.ValueRef, ok bool, err error) {
	v := j.c.Version
	ordered, newest := v.Level0InOrder(), uint64(0)
	j.search.NoFillCache = true
	j.search.Init(user, seq)
	for level, table := range v.MayHold(user) {
		if ok && (ordered || level > 0) {
			break
		}
		res, err := j.s.o.Cache.GetHeld(table, &j.search)
		if err != nil {
			return ref, false, err
		}
		if res.Found && (!ok || res.Trailer > newest) {
			ok, newest, j.ref = true, res.Trailer, append(j.ref[:0], res.Value...)
		}
	}
	if _, kind := base.SplitTrailer(newest); !ok || kind != base.KindRef {
		return ref, false, nil
	}
	ref, err = base.DecodeValueRef(j.ref)
	return ref, err == nil, err
}

// compareCounts returns an error if other bytes live than the MANIFEST says.
func (j *collection) compareCounts() error {
	for _, id := range j.ids {
		if b := j.bytes[id]; b.found != b.counted {
			err := base.Corruptf("value table", -1, "tables refer to %d bytes of its values of ID %d; the MANIFEST counts %d: "+
				"it stays as it is; Repair counts again", b.found, id, b.counted)
			return base.InFile(err, filepath.Join(j.s.o.Dir.Path, b.file.Name()), -1)
		}
	}
	return nil
}
