package compact

import (
	"context"
	"slices"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/expiry"
	"github.com/sievedb/sievedb/internal/disk/pick"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/sstable"
)

// mostHome is how many bytes of values a merge moves back to their keys before it leaves the others where they are.
// What a merge replaces stays on the disk until it ends, and a table of a few megabytes can refer to gigabytes.
const mostHome = 4 * ManualStep

// mergeValues is the memory of a merger for entries that refer to their values.
type mergeValues struct {
	lookup sstable.Lookup // has the value that was read last
	ikey   []byte
}

// valueOf returns the value to which an entry refers, until the next call. It counts as work: an entry of a few bytes
// can refer to megabytes.
func (m *merger) valueOf(user, ref []byte) ([]byte, error) {
	m.values.lookup.NoFillCache = true
	value, err := m.s.o.Cache.Value(m.c.Version, &m.values.lookup, user, ref)
	m.work += len(value)
	m.far += len(value)
	return value, err
}

// considerAny is consider for a value, or a reference to one, which stays a reference if the value stays as it is.
func (m *merger) considerAny(kind base.Kind, user, value []byte, seq uint64) (base.Kind, []byte, error) {
	if kind != base.KindRef {
		return m.consider(user, value, seq)
	}
	if !m.s.o.Expiry.Under(user) && m.job.retention.judge(seq, expiry.Never) == valueStays {
		return kind, value, nil
	}
	before, err := m.valueOf(user, value)
	switch {
	case base.IsUnreadable(err): // nobody can say what becomes of it
		m.job.leave(err)
		return kind, value, nil
	case err != nil:
		return 0, nil, err
	}
	now, after, err := m.consider(user, before, seq)
	if err == nil && now == base.KindSet && len(before) == len(after) && (len(before) == 0 || &before[0] == &after[0]) {
		return kind, value, nil
	}
	return now, after, err
}

// home prepares an entry that is kept, which was of kind before: a value in a value table goes to its key unless values
// are separated. A key of another kind than before is in memory of m. A tombstone stays as it is.
func (m *merger) home(e *considered, before base.Kind, ikey, value []byte) ([]byte, []byte, error) {
	if e.kind == base.KindDelete {
		return ikey, value, nil
	}
	user := base.UserKey(ikey)
	if e.kind == base.KindRef && !m.out.Separates() && m.job.home.Load() < mostHome {
		found, err := m.valueOf(user, value)
		switch {
		case base.IsUnreadable(err):
			m.job.leave(err)
			return ikey, value, nil
		case err != nil:
			return nil, nil, err
		}
		value = found
		m.job.home.Add(uint64(len(value)))
		e.kind = base.KindSet
	}
	if e.kind != before {
		m.values.ikey = base.AppendInternalKey(m.values.ikey[:0], user, e.seq, e.kind)
		ikey = m.values.ikey
	}
	return ikey, value, nil
}

// leave notes that a value cannot be read, so that its reference stays. The other entries of the tables are sound.
func (j *mergeJob) leave(err error) {
	j.s.mu.Lock()
	defer j.s.mu.Unlock()
	if j.left == nil {
		j.left = err
		j.s.o.Logger.Warn("a value that cannot be read stays apart from its key", "err", err)
	}
}

// bringHome puts the values to which tables of the deepest level within [start, limit) refer to their keys, where one
// merge of the tables could not. It ends, because with separated values switched off nothing refers to further ones,
// with an error at one that cannot be read.
func (s *Scheduler) bringHome(ctx context.Context, start, limit []byte) error {
	for !s.o.NewWriter(version.NumLevels-1, 0).Separates() {
		f, level := s.referring(start, limit)
		if f == nil {
			return nil
		}
		c, err := s.claim(ctx, func(v *version.Version, o pick.Options) (*pick.Compaction, bool) {
			if !slices.Contains(v.Levels[level].Files, f) { // it was merged or moved meanwhile
				return nil, false
			}
			return pick.From(v).OfFiles(level, level, []*version.FileMeta{f}, 1, o)
		})
		if err == nil && c != nil {
			err = s.compactClaimed(ctx, c)
		}
		if err == nil && c != nil {
			err = c.Left
		}
		if err != nil {
			return err
		}
		start = base.UserKey(f.Smallest) // the rest of its values is behind
	}
	return nil
}

// referring returns the first table of the deepest level within [start, limit) that refers to values, or nil.
func (s *Scheduler) referring(start, limit []byte) (f *version.FileMeta, level int) {
	v := s.host.RefVersion()
	defer v.Unref()
	if len(v.Values) == 0 {
		return nil, 0
	}
	for level = version.NumLevels - 1; level > 0; level-- {
		files := v.Within(level, start, limit)
		if i := slices.IndexFunc(files, s.o.Cache.HasRefs); i >= 0 {
			return files[i], level
		}
		if len(files) > 0 {
			break
		}
	}
	return nil, 0
}
