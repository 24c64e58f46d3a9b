package backup

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/base/expiry"
	"github.com/sievedb/sievedb/internal/base/keyspace"
	"github.com/sievedb/sievedb/vfs"
)

// Restored is what RestoreAt did.
type Restored struct {
	// Backup is the backup from which it began.
	Backup Info
	// Sequence is the number of the last change that was applied, or that of the backup.
	Sequence uint64
	// Segments were read, and Changes applied.
	Segments, Changes int
}

// RestoreAt is Restore with the changes that Archive stored after the backup, up to a point. A change is applied as a
// whole or not at all. A time means what was known to have been written by then: with KeepArchiving to the second,
// otherwise as the calls of Archive and Create were. If the repository does not reach the point, the error matches
// fs.ErrNotExist and says which points can be restored; Windows returns them.
//
// The best backup is found unless its ID is given. If the database has several histories, as after a restore, the
// newest one that has the point is restored; the ID of a backup chooses another one. It is needed if a newer one may
// have the point but is damaged there, or if the newest one began more than a day after now. Sequence numbers in the
// restored database are not those of the original. A database with another comparer than the default one needs
// RestoreOptions.Comparer.
//
// The changes are applied in the directory with the suffix ".restore", in which no engine finds a database before all
// is complete. Otherwise all is as Restore says.
func (r *Repository) RestoreAt(ctx context.Context, id string, p Point, dest string, o *RestoreOptions) (Restored, error) {
	if p.Time.IsZero() == (p.Sequence == 0) {
		return Restored{}, errors.New("sievedb: backup: RestoreAt needs a time or a sequence number, and not both")
	}
	if id != "" && !validID(id) {
		return Restored{}, errors.Newf("sievedb: backup: %q is not the ID of a backup; List returns them", id)
	}
	s, err := r.newRestoring(ctx, dest, o)
	if err != nil {
		return Restored{}, err
	}
	found, err := r.plan(ctx, id, s.o.Database, p)
	if err != nil {
		return Restored{}, err
	}
	s.m = found.base
	s.replay = &replay{route: found, done: Restored{Backup: s.m.Info, Sequence: s.m.Sequence}}
	if err = s.checkComparer(); err == nil {
		err = s.run()
	}
	if err != nil {
		return Restored{}, s.failed(err)
	}
	return s.replay.done, nil
}

// checkComparer refuses to apply changes in another order.
func (s *restoring) checkComparer() error {
	name := db.BytewiseComparer.Name
	if s.o.Comparer != nil {
		name = s.o.Comparer.Name
	}
	if name != s.m.Comparer {
		return errors.Newf("the database has the comparer %q, and RestoreOptions.Comparer is %q", s.m.Comparer, name)
	}
	return nil
}

// replay applies changes to a restored backup.
type replay struct {
	*route
	done   Restored
	number int // of the last file in replayTables
}

// replayTables is a directory for tables that are about to be ingested.
const replayTables = "tables"

// isOfReplay reports whether an interrupted replay leaves a file of that name.
func isOfReplay(name string) bool {
	kind, _, ok := base.ParseFileName(name)
	return name == hiddenCurrent || name == replayTables || ok && kind == base.FileTemp
}

func (s *restoring) tablesDir() string { return filepath.Join(s.temp, replayTables) }

// removeTables removes the directory of tables.
func (s *restoring) removeTables() error {
	names, err := s.fs.List(s.tablesDir())
	for _, name := range names {
		if err == nil {
			err = s.fs.Remove(filepath.Join(s.tablesDir(), name))
		}
	}
	if err == nil {
		err = s.fs.Remove(s.tablesDir())
	}
	return err
}

// applyChanges opens the copied backup, with CURRENT under another name, applies the changes, and then gives
// CURRENT its name, when all else is durable. Values keep their envelopes, since the database is opened with
// Options.Expiry.Raw.
func (s *restoring) applyChanges(current file) error {
	current.name = hiddenCurrent
	err := s.copy(&current)
	if err == nil {
		err = vfs.MkdirAllSynced(s.fs, s.tablesDir())
	}
	if err != nil {
		return err
	}
	recorded, err := db.RecordedOptions(s.temp, &db.Options{FS: hidden{s.fs}, Comparer: s.o.Comparer})
	if err != nil {
		return err
	}
	o := recorded.Options // so that tables become what its owner asked for; KeepRecord is set
	o.ErrorIfMissing, o.Expiry.Raw, o.Limits.DiskReserve = true, true, 0
	o.Changes = db.ChangeRetention{Bytes: -1} // its history begins later
	d, err := db.Open(s.temp, &o)
	if err != nil {
		return err
	}
	var prefixes [][]byte
	if err = s.applySegments(d); err == nil {
		err = d.SyncLog()
	}
	if err == nil {
		prefixes, err = s.enveloped(d)
	}
	err = errors.CombineErrors(err, d.Close())
	if err == nil && len(prefixes) > 0 {
		err = s.recordPrefixes(prefixes)
	}
	if err == nil {
		err = s.removeTables()
	}
	if err == nil {
		err = s.fs.SyncDir(s.temp)
	}
	if err == nil {
		err = s.fs.Rename(filepath.Join(s.temp, hiddenCurrent), filepath.Join(s.temp, base.CurrentName))
	}
	if err == nil {
		err = s.fs.SyncDir(s.temp)
	}
	return err
}

// enveloped returns the prefixes under which values expire according to the segments, and which the backup has not
// recorded. A segment may begin before one of them was added. So those under which a value has no envelope are left
// out: they were added after the target.
func (s *restoring) enveloped(d *db.DB) ([][]byte, error) {
	var noted [][]byte
	for _, h := range s.replay.segments {
		noted = append(noted, h.prefixes...)
	}
	_, added := expiry.Join(d.ExpiryPrefixes(), noted)
	var enveloped [][]byte
	for _, prefix := range added {
		plain, err := s.hasPlain(d, prefix)
		if err != nil {
			return nil, err
		}
		if !plain {
			enveloped = append(enveloped, prefix)
		}
	}
	return enveloped, nil
}

// hasPlain reports whether a value under a prefix has no envelope.
func (s *restoring) hasPlain(d *db.DB, prefix []byte) (plain bool, err error) {
	o := &db.IterOptions{NoFillCache: true}
	if s.m.Comparer == db.BytewiseComparer.Name { // in another order the keys may be anywhere
		o.LowerBound, o.UpperBound = prefix, keyspace.After(prefix)
	}
	it, err := d.NewIterator(o)
	if err != nil {
		return false, err
	}
	for ok := it.First(); ok && !plain && err == nil; ok = it.Next() {
		_, sealed := expiry.Decode(it.Value())
		plain = !sealed && bytes.HasPrefix(it.Key(), prefix)
		err = s.ctx.Err()
	}
	return plain, errors.CombineErrors(err, errors.CombineErrors(it.Err(), it.Close()))
}

// recordPrefixes makes the database record expiry prefixes, in addition to those of the backup. Its clock stands still,
// so that the time of the database does not depend on when it is restored.
func (s *restoring) recordPrefixes(prefixes [][]byte) error {
	d, err := db.Open(s.temp, &db.Options{
		FS: hidden{s.fs}, Comparer: s.o.Comparer, ErrorIfMissing: true, KeepRecord: true, Changes: db.ChangeRetention{Bytes: -1},
		Expiry: db.ExpiryOptions{Prefixes: prefixes, Clock: func() time.Time { return time.UnixMilli(0) }},
	})
	if err != nil {
		return err
	}
	return errors.CombineErrors(d.SyncLog(), d.Close())
}

// applySegments applies the changes up to the target. The segments must form a chain.
func (s *restoring) applySegments(d *db.DB) error {
	for i, h := range s.replay.segments {
		if i > 0 {
			before := s.replay.segments[i-1]
			if h.previous != before.sum || h.after != before.last {
				return base.InFile(base.Corruptf("segment", -1, "it does not continue the segment before"), h.name(), -1)
			}
		}
		got, err := s.segment(s.ctx, h.stream, h.number)
		if err != nil {
			return err
		}
		if got.sum != h.sum {
			return base.InFile(base.Corruptf("segment", -1, "it changed while it was read"), h.name(), -1)
		}
		if err := s.applySegment(d, got); err != nil {
			return base.InFile(err, h.name(), -1)
		}
		s.replay.done.Segments++
	}
	return nil
}

func (s *restoring) applySegment(d *db.DB, from *segment) error {
	if err := from.validate(); err != nil {
		return err
	}
	r := from.reader()
	for {
		c, ok, err := r.next()
		switch {
		case !ok:
			return err
		case c.last <= s.m.Sequence:
			continue
		case c.first <= s.m.Sequence:
			return base.Corruptf("segment", -1, "a change has the numbers %d to %d, and the backup ends within it, at %d",
				c.first, c.last, s.m.Sequence)
		case c.last > s.replay.target:
			return nil
		}
		if err = s.ctx.Err(); err == nil {
			err = s.apply(d, &c, from.tables)
		}
		if err != nil {
			return err
		}
		s.replay.done.Sequence = c.last
		s.replay.done.Changes++
	}
}

// maxRanges is how many ranges are deleted with one batch: a batch needs more memory for them than a segment. No
// one sees the database in between.
const maxRanges = 1000

func (s *restoring) apply(d *db.DB, c *change, tables []file) error {
	if len(c.tables) > 0 {
		return s.ingest(d, c, tables)
	}
	var all, own db.Batch
	for r := range c.deleted() {
		if all.Len() == maxRanges {
			if err := errors.CombineErrors(s.ctx.Err(), d.Apply(&all, db.NoSync)); err != nil {
				return err
			}
			all.Reset()
		}
		all.DeleteRange(r.Start, r.Limit)
	}
	if len(c.record) > 0 {
		if err := own.UnmarshalBinary(c.record); err != nil {
			return err
		}
	}
	if c.ranges == 0 {
		return d.Apply(&own, db.NoSync)
	}
	all.Append(&own)
	return d.Apply(&all, db.NoSync)
}

// ingest adds the tables of a load or an ingest.
func (s *restoring) ingest(d *db.DB, c *change, tables []file) error {
	var paths []string
	for _, t := range c.tables {
		f := tables[t]
		s.replay.number++
		f.name = filepath.Join(replayTables, fmt.Sprintf("%06d.ldb", s.replay.number))
		if err := s.copy(&f); err != nil {
			return err
		}
		paths = append(paths, filepath.Join(s.temp, f.name))
	}
	if _, err := d.Ingest(s.ctx, paths, nil); err != nil {
		return err
	}
	for _, path := range paths {
		if err := s.fs.Remove(path); err != nil {
			return err
		}
	}
	return nil
}
