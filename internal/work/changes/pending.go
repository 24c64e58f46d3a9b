package changes

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/vfs"
)

// Pending is a change that is about to be made by an edit of the MANIFEST.
type Pending struct {
	a *Archive
	s *segment
}

// Begin records durably that an edit of the MANIFEST is about to make a change. seq is the last sequence number of the
// change, tables are the paths of the tables with its entries. The caller allows no write until it has called Commit or
// Abandon. Begin returns nil if nothing is kept; Commit and Abandon accept that.
func (a *Archive) Begin(kind Kind, e Event, seq uint64, tables []string) (p *Pending, err error) {
	if a.broken != nil {
		return nil, nil
	}
	a.mu.Lock()
	first := a.active().first
	a.mu.Unlock()
	p = &Pending{a, &segment{kind: kind, first: first, logged: seq, last: seq, pending: true, at: a.o.Now()}}
	for _, t := range tables {
		size, err := a.link(t)
		if err != nil {
			return nil, errors.CombineErrors(recordingFailed(err), p.remove())
		}
		p.s.size += size
		p.s.tables = append(p.s.tables, filepath.Join(a.dir, tableName(t)))
		e.Tables = append(e.Tables, tableName(t))
	}
	p.s.path = filepath.Join(a.dir, p.s.name())
	if err = e.write(a.o.FS, p.s.path); err == nil {
		err = a.o.FS.SyncDir(a.dir)
	}
	if err != nil {
		return nil, errors.CombineErrors(recordingFailed(err), p.remove())
	}
	if info, err := a.o.FS.Stat(p.s.path); err == nil {
		p.s.size += uint64(info.Size())
	}
	return p, nil
}

func recordingFailed(err error) error {
	return errors.Wrap(err, "sievedb: recording a change for DB.Changes")
}

// tableName returns the name of the link to a table. The old suffix becomes the new one.
func tableName(path string) string {
	name := filepath.Base(path)
	return strings.TrimSuffix(name, filepath.Ext(name)) + ".ldb"
}

// link links a table to the archive, or copies it where the file system has no links.
func (a *Archive) link(path string) (size uint64, err error) {
	info, err := a.o.FS.Stat(path)
	if err != nil {
		return 0, err
	}
	to := filepath.Join(a.dir, tableName(path))
	if a.o.FS.Link(path, to) == nil {
		return uint64(info.Size()), nil
	}
	src, err := a.o.FS.Open(path)
	if err != nil {
		return 0, err
	}
	defer src.Close()
	return uint64(info.Size()), vfs.Copy(a.o.FS, src, info.Size(), to)
}

// remove removes the files.
func (p *Pending) remove() error {
	if p.s.path == "" {
		p.s.path = filepath.Join(p.a.dir, p.s.name())
	}
	return p.a.remove(p.s)
}

// Commit adds the change to the history: its edit is in force. The caller has not made it visible yet.
func (p *Pending) Commit() {
	if p == nil {
		return
	}
	a, s := p.a, p.s
	pendingPath := s.path
	s.pending = false
	path := filepath.Join(a.dir, s.name())
	err := a.o.FS.Rename(pendingPath, path)
	if err == nil {
		s.path = path
		err = a.o.FS.SyncDir(a.dir)
	}
	if err != nil { // the next opening sees that the change was made
		a.o.Logger.Warn("a change that was recorded for DB.Changes is still marked as pending", "err", err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	active := a.active()
	active.first = s.last + 1
	a.segments = slices.Insert(a.segments, len(a.segments)-1, s)
}

// Abandon ends a change that was not made. If unsure is set, it may have been made after all. Then the history begins
// again after seq.
func (p *Pending) Abandon(unsure bool, seq uint64) {
	if p == nil {
		return
	}
	if err := p.remove(); err != nil {
		p.a.o.Logger.Warn("cannot remove the record of a change that was not made; the next opening tries again", "err", err)
	}
	if unsure {
		p.a.restart(seq)
	}
}

// restart removes all segments except the active log, whose next record comes after seq.
func (a *Archive) restart(seq uint64) {
	a.moving.Lock()
	defer a.moving.Unlock()
	a.mu.Lock()
	old := a.segments[:len(a.segments)-1]
	a.segments = slices.Clone(a.segments[len(a.segments)-1:])
	a.segments[0].first = seq + 1
	a.mu.Unlock()
	for _, s := range slices.Backward(old) { // the newest first, so that what a crash leaves is not part of a chain
		if s.live > 0 {
			continue
		}
		if err := a.remove(s); err != nil {
			a.o.Logger.Warn("cannot remove an old segment of the change feed", "err", err)
		}
	}
}

// removeStray removes the tables in the archive that no segment uses.
func (a *Archive) removeStray(names []string) {
	used := map[string]bool{}
	for _, s := range a.segments {
		for _, t := range s.tables {
			used[filepath.Base(t)] = true
		}
	}
	for _, name := range names {
		kind, _, ok := base.ParseFileName(name)
		if stray := ok && kind == base.FileTable && !used[name] || isTemp(name); stray {
			if err := a.o.FS.Remove(filepath.Join(a.dir, name)); err != nil {
				a.o.Logger.Warn("cannot remove an unneeded file of the change feed", "err", err)
			}
		}
	}
}
