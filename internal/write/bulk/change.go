package bulk

import (
	"cmp"
	"slices"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/internal/read/lookup"
	"github.com/sievedb/sievedb/internal/work/changes"
	"github.com/sievedb/sievedb/internal/write/txn"
)

// change is what the leader installs.
type change struct {
	kind     changes.Kind
	event    changes.Event  // for readers of changes
	edit     *manifest.Edit // with the last sequence number and what it deletes; install adds the tables
	untraced txn.Change     // what transactions cannot find by sequence numbers

	// name gives the tables that the change adds their final names. After an error none is left. Nil: there are none.
	name func() ([]*version.FileMeta, error)
	// above says how many of the tables, the last ones, lie above the others and go to level 0.
	above int
	// written are the tables, once they have their names.
	written []*version.FileMeta
}

// install names the tables of a change, and makes it visible and durable, or nothing of it. Only the leader calls it,
// under a Hold of the compactions.
//
// Snapshots get the number and the version at one moment, other readers the number first: a lookup loads the
// version first, so with the new one, which may lack tables, it never has an old number, which would hide the
// tombstones, or show an old entry of a key. What has no trace is noted when the edit is certain, and before it is
// visible; see Transaction.Commit of db.
func (c *Coordinator) install(l Leader, ch *change) error {
	seq := ch.edit.LastSeq.Value
	if err := c.name(ch); err != nil {
		return err
	}
	pending, err := c.record(ch, seq)
	if err != nil {
		c.remove(ch.written, base.FileTable)
		return err
	}
	err = c.Apply(ch.edit, ch.written, func(s *lookup.State) {
		c.Untraced.Add(seq, ch.untraced, c.Snapshots.Oldest(&c.Current.VisibleSeq))
		c.Snapshots.Show(c.Current, s, seq)
	})
	uncertain := manifest.IsUncertain(err)
	if err == nil {
		pending.Commit()
	} else {
		pending.Abandon(uncertain, seq)
	}
	if err == nil || uncertain {
		l.Advance(seq, err == nil)
	}
	return err
}

// name names the tables of a change while no edit is written, and chooses their levels. A crash during an edit leaves
// its record cut off, and a repair then uses the tables of a load that the edit may have committed. So no change may be
// half-way through its names.
func (c *Coordinator) name(ch *change) error {
	if ch.name == nil {
		return nil
	}
	err := c.Set.Between(func() (err error) { ch.written, err = ch.name(); return err })
	if err != nil {
		return err
	}
	placed := len(ch.written) - ch.above
	ch.edit.Added = c.Compactor.Place(ch.written[:placed])
	for _, f := range ch.written[placed:] {
		ch.edit.Added = append(ch.edit.Added, version.LevelFile{Level: 0, File: f})
	}
	return nil
}

// record records, for readers of changes, a change that is about to be made. It returns nil if nobody wants that.
func (c *Coordinator) record(ch *change, seq uint64) (*changes.Pending, error) {
	archive := c.Changes()
	if archive == nil {
		return nil, nil
	}
	ch.event.Manifest = c.Set.ManifestNum()
	var added []string
	if ch.kind != changes.DeleteRange {
		for _, f := range c.inOrder(ch.written) {
			added = append(added, c.Dir.File(base.FileTable, f.Num))
		}
	}
	return archive.Begin(ch.kind, ch.event, seq, added)
}

// inOrder returns tables in the order of their keys. If some overlap, which those of one large transaction may, the
// order is that of their numbers: later ones have precedence.
func (c *Coordinator) inOrder(files []*version.FileMeta) []*version.FileMeta {
	first := func(f *version.FileMeta) []byte { return base.UserKey(f.Smallest) }
	files = slices.SortedFunc(slices.Values(files), func(a, b *version.FileMeta) int { return c.Cmp.Compare(first(a), first(b)) })
	for i := 1; i < len(files); i++ {
		if c.Cmp.Compare(base.UserKey(files[i-1].Largest), first(files[i])) >= 0 {
			slices.SortFunc(files, func(a, b *version.FileMeta) int { return cmp.Compare(a.Num, b.Num) })
			break
		}
	}
	return files
}
