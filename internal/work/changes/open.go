package changes

import (
	"cmp"
	"io"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/batch"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/disk/wal"
	"github.com/sievedb/sievedb/vfs"
)

// Recovered is what the opening of a database has found.
type Recovered struct {
	LastSeq  uint64   // the last sequence number
	Logs     []uint64 // the numbers of the logs in the directory, ascending
	LogNum   uint64   // the number of the first log that was needed
	Manifest uint64   // the number of the MANIFEST that was in force
	Salvaged bool     // something damaged was skipped
}

// NewRecovered returns what an opening has found. Its arguments are the files of the directory, the state of the
// MANIFEST, the last sequence number, and whether something damaged was skipped.
func NewRecovered(files manifest.DirFiles, state manifest.State, lastSeq uint64, salvaged bool) Recovered {
	r := Recovered{LastSeq: lastSeq, Salvaged: salvaged, LogNum: state.LogNum}
	for _, f := range files.All {
		if f.Kind == base.FileLog {
			r.Logs = append(r.Logs, f.Num)
		}
	}
	slices.Sort(r.Logs)
	if kind, num, ok := base.ParseFileName(state.ManifestName); ok && kind == base.FileManifest {
		r.Manifest = num
	}
	return r
}

// Plan is what Start does.
type Plan struct {
	keep   []*segment // the chain up to LastSeq; logs that have not been moved yet are live
	remove []*segment // the oldest first
	notes  []*segment // of RecordFailed
	names  []string   // of the subdirectory
	last   uint64
}

// Examine compares the archive with what was recovered. It changes nothing.
func (a *Archive) Examine(r Recovered) (*Plan, error) {
	names, err := a.o.FS.List(a.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	p := &Plan{names: names, last: r.LastSeq}
	var found []*segment
	restart := r.Salvaged
	for _, name := range names {
		s, ok := parseName(name)
		if !ok {
			continue
		}
		s.path = filepath.Join(a.dir, name)
		if s.kind == Batch && s.pending {
			p.notes = append(p.notes, s)
			continue
		}
		counts, unsure, err := a.examine(s, r)
		if err != nil {
			return nil, err
		}
		restart = restart || unsure
		if counts {
			found = append(found, s)
		} else {
			p.remove = append(p.remove, s)
		}
	}
	logs, err := a.scanLogs(p, r)
	counted := slices.DeleteFunc(slices.Clone(found), func(s *segment) bool { return s.pending && s.covered(found, logs) })
	p.keep = chain(append(counted, before(counted, logs)...))
	if errors.Is(err, base.ErrNewer) {
		return nil, err
	}
	if err == nil {
		err = p.addLogs(logs)
	}
	if err != nil {
		a.o.Logger.Warn("a log cannot be kept for DB.Changes, and the history restarts", "err", err)
		restart = true
	}
	if end := p.end(); restart || end != nil && *end != r.LastSeq {
		p.keep = nil
	}
	for _, s := range found {
		if !slices.Contains(p.keep, s) {
			p.remove = append(p.remove, s)
		}
	}
	slices.SortFunc(p.remove, func(a, b *segment) int { return cmp.Compare(a.first, b.first) })
	return p, nil
}

// end returns a pointer to the last number of the chain, or nil if the chain is empty.
func (p *Plan) end() *uint64 {
	if len(p.keep) == 0 {
		return nil
	}
	return &p.keep[len(p.keep)-1].last
}

// examine reads what the name of a segment does not have. counts is false if the change was not made, or the file
// cannot be read. unsure is true if the change may have been made. The only errors are those of files that a newer
// version of SieveDB wrote: these must not be removed.
func (a *Archive) examine(s *segment, r Recovered) (counts, unsure bool, newer error) {
	info, err := a.o.FS.Lstat(s.path)
	if err != nil || !info.Mode().IsRegular() {
		return false, false, nil
	}
	s.size, s.at = uint64(info.Size()), info.ModTime()
	if s.kind == Batch {
		return !s.pending, false, nil
	}
	e, err := readEvent(a.o.FS, s.path)
	if errors.Is(err, base.ErrNewer) {
		return false, false, err
	}
	if err != nil {
		a.o.Logger.Warn("a change that was kept for DB.Changes cannot be read", "err", err)
		return false, s.pending && r.LastSeq >= s.last, nil
	}
	whole := true
	for _, name := range e.Tables {
		path := filepath.Join(a.dir, name)
		info, err := a.o.FS.Stat(path)
		whole = whole && err == nil
		if err == nil {
			s.size += uint64(info.Size())
		}
		s.tables = append(s.tables, path)
	}
	switch {
	case !s.pending:
		return whole, false, nil
	case r.LastSeq < s.last:
		return false, false, nil
	}
	counts = whole && e.Manifest == r.Manifest
	return counts, !counts, nil
}

// covered reports whether another segment has a number of a pending change. If so, the change was not made.
func (s *segment) covered(found, logs []*segment) bool {
	other := func(k *segment) bool { return k != s && k.overlaps(s) }
	return slices.ContainsFunc(found, other) || slices.ContainsFunc(logs, other)
}

// before returns the logs that have a later segment after them. They were about to be moved to the archive.
func before(segments, logs []*segment) (found []*segment) {
	for _, s := range logs {
		follows := func(k *segment) bool { return s.last < k.first }
		if slices.ContainsFunc(segments, follows) && !slices.ContainsFunc(segments, s.overlaps) {
			found = append(found, s)
		}
	}
	return found
}

// scanLogs returns the logs in the directory of the database that have a record.
func (a *Archive) scanLogs(p *Plan, r Recovered) (logs []*segment, err error) {
	for _, num := range r.Logs {
		s := &segment{live: num, path: filepath.Join(a.o.Dir, base.FileName(base.FileLog, num))}
		if err := s.scan(a.o.FS); err != nil {
			return nil, err
		}
		if s.last == 0 {
			continue
		}
		if num < r.LogNum { // its memtable is in a table; records of failed writes are not
			if err := a.applyNote(p, s, r.Manifest); err != nil {
				return nil, err
			}
		}
		logs = append(logs, s)
	}
	return logs, nil
}

// applyNote sets the last numbers of a log to those of its note (RecordFailed).
func (a *Archive) applyNote(p *Plan, s *segment, manifest uint64) error {
	for _, n := range p.notes {
		if n.first != s.first || s.last < n.logged || s.last > n.last {
			continue
		}
		e, err := readEvent(a.o.FS, n.path)
		if err != nil {
			return err
		}
		if e.Manifest != manifest {
			return errors.Newf("%s may end with a write that failed", s.path)
		}
		s.logged, s.last = n.logged, n.last
	}
	return nil
}

// addLogs adds the logs in the directory of the database to the chain.
func (p *Plan) addLogs(logs []*segment) error {
	for _, s := range logs {
		end := p.end()
		switch {
		case end != nil && (s.last < p.keep[0].first || p.has(s)):
		case end != nil && s.first <= *end:
			return errors.Newf("%s has the numbers %d to %d, but the kept segments reach to %d", s.path, s.first, s.last, *end)
		case end != nil && s.first > *end+1:
			p.keep = []*segment{s}
		default:
			p.keep = append(p.keep, s)
		}
	}
	return nil
}

// has reports whether a log is in the archive already, because a crash interrupted its move.
func (p *Plan) has(s *segment) bool {
	return slices.ContainsFunc(p.keep, func(k *segment) bool {
		return k.kind == Batch && k.first == s.first && k.logged <= s.last && s.last <= k.last
	})
}

// scan reads the numbers of a log. Without records, last is 0.
func (s *segment) scan(fsys vfs.FS) error {
	f, err := fsys.Open(s.path)
	if err != nil {
		return err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return err
	}
	s.size = uint64(size)
	log := wal.NewReader(f, size, wal.ReaderOptions{Last: true})
	for {
		record, err := log.Next()
		if err == io.EOF {
			s.logged = s.last
			return nil
		}
		if err != nil {
			return base.InFile(err, s.path, -1)
		}
		if before, ok := batch.ReadPreamble(log, record); ok {
			s.first = before + 1
			continue
		}
		b, err := batch.NewReader(record)
		switch {
		case err != nil:
			return base.InFile(err, s.path, log.Offset())
		case b.Count == 0:
			continue
		case s.last > 0 && b.Seq != s.last+1:
			return errors.Newf("%s has a record with number %d after number %d", s.path, b.Seq, s.last)
		case s.first == 0:
			s.first = b.Seq
		}
		if s.last == 0 && b.Seq < s.first {
			return errors.Newf("%s begins with number %d, but its preamble says %d", s.path, b.Seq, s.first)
		}
		s.last = b.Seq + uint64(b.Count) - 1
	}
}

// Start carries out the plan. It is called once the MANIFEST of this opening is in force. The history continues in the
// log with number num. If Start fails, nothing is kept until the database is opened again, and each reader gets the
// error.
func (a *Archive) Start(p *Plan, num uint64) error {
	err := a.start(p)
	if err != nil {
		p.keep = nil
		a.broken = errors.Wrap(base.NoSpace(err), "sievedb: no changes are kept since the database was opened, because its subdirectory changes cannot be written")
	}
	a.segments = p.keep
	a.beginLocked(p.last+1, num)
	if err == nil {
		a.removeStray(p.names)
		a.trim()
	}
	return a.broken
}

func (a *Archive) start(p *Plan) error {
	if err := vfs.MkdirPlain(a.o.FS, a.dir); err != nil {
		return err
	}
	if err := a.o.FS.SyncDir(a.o.Dir); err != nil {
		return err
	}
	for _, s := range slices.Backward(p.remove) { // the newest first, so that what a crash leaves is not part of a chain
		if err := a.remove(s); err != nil {
			return err
		}
	}
	for _, s := range p.keep {
		switch {
		case s.live > 0:
			if err := a.moveIn(s); err != nil {
				return err
			}
			s.live = 0
		case s.pending:
			s.pending = false
			path := filepath.Join(a.dir, s.name())
			if err := a.o.FS.Rename(s.path, path); err != nil {
				return err
			}
			s.path = path
		}
	}
	if err := a.o.FS.SyncDir(a.dir); err != nil {
		return err
	}
	for _, s := range p.notes { // their logs have their names now
		if err := a.remove(s); err != nil {
			return err
		}
	}
	return nil
}
