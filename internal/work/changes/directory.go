package changes

import (
	"cmp"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"sync"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/batch"
	"github.com/sievedb/sievedb/internal/disk/wal"
	"github.com/sievedb/sievedb/vfs"
)

// Directory finds the segments in a directory that another process may be writing to: SieveDB with or
// without an Archive, LevelDB or goleveldb. It writes nothing. It is safe for concurrent use.
type Directory struct {
	fs  vfs.FS
	dir string
	// findLogs returns the file system that shows the logs in the directory of the database.
	findLogs func() (vfs.FS, error)

	mu    sync.Mutex
	first map[uint64]uint64 // the first number of each log
	// kept has the segments that the last listing found in the archive, in order, except pending ones. These files no
	// longer change. Without kept, each step of a reader would list the directory and read the files of all loads
	// again.
	kept  []*segment
	stale bool // a file of kept has been moved or removed
	hints
}

// NewDirectory returns the Directory of a database. findLogs returns the file system that shows the logs, which another
// process may move to another directory; nil means fsys.
func NewDirectory(fsys vfs.FS, dir string, findLogs func() (vfs.FS, error)) *Directory {
	if findLogs == nil {
		findLogs = func() (vfs.FS, error) { return fsys, nil }
	}
	return &Directory{fs: fsys, dir: dir, findLogs: findLogs, first: map[uint64]uint64{}}
}

// Oldest returns the oldest position from which changes can be read. last is the number of the last change. It lists
// the directory until two listings agree: then they have missed nothing (see find).
func (d *Directory) Oldest(last uint64) (uint64, error) {
	const attempts = 10
	oldest, err := d.oldest(last)
	lowest := oldest
	for range attempts {
		before := oldest
		if err == nil {
			oldest, err = d.oldest(last)
		}
		if err != nil || oldest == before {
			return oldest, err
		}
		lowest = min(lowest, oldest)
	}
	return lowest, nil
}

// oldest returns what one listing says.
func (d *Directory) oldest(last uint64) (uint64, error) {
	segments, err := d.segments(last)
	if err != nil || len(segments) == 0 {
		return last, err
	}
	if end := segments[len(segments)-1].last; end < last {
		return last, nil // no segment reaches the last change, so no earlier one can be read
	}
	// A reader cannot pass a gap, so only positions after the last gap count.
	for i := len(segments) - 1; i > 0; i-- {
		if segments[i-1].last+1 != segments[i].first {
			return segments[i].first - 1, nil
		}
	}
	return segments[0].first - 1, nil
}

// find implements Source.
//
// A listing can miss a segment that the writer renames at the same time. It may have the old name, under which the file
// cannot be opened any more. It may also have neither name, because a directory is not read at one moment. So a segment
// counts as missing only if a second listing does not have it either. Two are enough: all changes up to limit were
// there before the first listing, and a segment is renamed only once.
func (d *Directory) find(position, limit uint64) (*segment, error) {
	if s := d.listed(position); s != nil {
		return s, nil
	}
	s, err := d.look(position, limit)
	if err == nil && (s.last > position || position >= limit) || err != nil && !errors.Is(err, ErrGone) {
		return s, err
	}
	return d.look(position, limit)
}

// look returns what one listing says about a position.
func (d *Directory) look(position, limit uint64) (*segment, error) {
	segments, err := d.segments(limit)
	if err != nil {
		return nil, err
	}
	if len(segments) == 0 {
		return &segment{last: position}, nil // see atEnd
	}
	return findIn(segments, position)
}

// atEnd implements Source. A change up to limit is visible, so it was in a log or a table before. If no file has it, it
// has been removed.
func (d *Directory) atEnd(position, limit uint64) error {
	return &GoneError{position, limit, "no log has them: " + whyGone}
}

// listed returns the segment with the change after position if the last listing found it in the archive.
func (d *Directory) listed(position uint64) *segment {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.stale {
		return nil
	}
	found, err := findIn(d.kept, position)
	if err != nil || found.last <= position {
		return nil
	}
	return found
}

// settle implements Source. The next listing shows where a file is.
func (d *Directory) settle() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stale = true
}

// segments returns the segments that exist now. It lists the logs before the archive, so that a log which is moved at
// the same time may be in both lists, but never in neither. All changes up to limit have been made.
func (d *Directory) segments(limit uint64) ([]*segment, error) {
	live, err := d.logs()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(d.dir, base.ChangesDir)
	names, err := d.fs.List(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var kept []*segment
	for _, name := range names {
		s, ok := parseName(name)
		if !ok {
			continue
		}
		s.path = filepath.Join(dir, name)
		if s.kind != Batch {
			s.tables, err = d.tablesOf(s)
			if errors.Is(err, fs.ErrNotExist) || errors.Is(err, base.ErrCorruption) {
				continue // renamed or removed since (see find), or damaged: then there is a gap
			}
			if err != nil {
				return nil, err // for example, too many files are open: the segment is not gone
			}
		}
		kept = append(kept, s)
	}
	slices.SortFunc(kept, func(a, b *segment) int { return cmp.Compare(a.first, b.first) })
	d.mu.Lock()
	d.kept = slices.DeleteFunc(slices.Clone(kept), func(s *segment) bool { return s.pending })
	d.stale = false
	d.mu.Unlock()
	return joined(kept, live, limit), nil
}

// tablesOf returns the paths of the tables of a change with a file of its own.
func (d *Directory) tablesOf(s *segment) (tables []string, err error) {
	d.mu.Lock()
	known, err := findIn(d.kept, s.first-1)
	d.mu.Unlock()
	if err == nil && known.path == s.path {
		return known.tables, nil
	}
	e, err := readEvent(d.fs, s.path)
	if err != nil {
		return nil, err
	}
	for _, t := range e.Tables {
		tables = append(tables, filepath.Join(filepath.Dir(s.path), t))
	}
	return tables, nil
}

// joined returns the kept segments and the logs after them. A pending change has been made if a log begins after it, or
// if everything up to its number is there. It has not been made if another segment has one of its numbers.
func joined(kept, live []*segment, limit uint64) []*segment {
	all := slices.Clone(kept)
	for _, s := range live {
		if i := slices.IndexFunc(kept, func(k *segment) bool { return k.first == s.first && !k.pending }); i < 0 {
			all = append(all, s)
		}
	}
	slices.SortStableFunc(all, func(a, b *segment) int { return cmp.Compare(a.first, b.first) })
	all = slices.DeleteFunc(all, func(s *segment) bool {
		if !s.pending {
			return false
		}
		made := s.kind != Batch && (s.last <= limit || slices.ContainsFunc(all, func(next *segment) bool { return next.first == s.last+1 }))
		return !made || slices.ContainsFunc(all, func(k *segment) bool { return k != s && s.first <= k.first && k.first <= s.last })
	})
	for i := range len(all) - 1 {
		if s := all[i]; s.last == unknown {
			s.last = all[i+1].first - 1
			s.logged = loggedOf(s, kept)
		}
	}
	return all
}

// loggedOf returns the last number in a log that counts. Records after the number of a note of RecordFailed do not.
func loggedOf(s *segment, kept []*segment) uint64 {
	for _, n := range kept {
		if n.kind == Batch && n.pending && n.first == s.first && n.last == s.last {
			return n.logged
		}
	}
	return s.logged
}

// logs returns the logs in the directory of the database that have a record, in their order.
func (d *Directory) logs() ([]*segment, error) {
	fsys, err := d.findLogs()
	if err != nil {
		return nil, err
	}
	names, err := fsys.List(d.dir)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	var logs []*segment
	known := map[uint64]uint64{}
	for _, name := range names {
		kind, num, ok := base.ParseFileName(name)
		if !ok || kind != base.FileLog {
			continue
		}
		path := filepath.Join(d.dir, name)
		first, ok := d.first[num]
		if !ok {
			if first, err = firstNumber(fsys, path); errors.Is(err, fs.ErrNotExist) || err == nil && first == 0 {
				continue
			} else if err != nil {
				return nil, err
			}
		}
		known[num] = first
		logs = append(logs, &segment{first: first, logged: unknown, last: unknown, path: path, live: num, fs: fsys})
	}
	d.first = known
	return logs, nil
}

// firstNumber returns the sequence number of the first record of a log, or 0 if the log has no record yet.
func firstNumber(fsys vfs.FS, path string) (uint64, error) {
	f, err := fsys.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return 0, err
	}
	log := wal.NewReader(f, size, wal.ReaderOptions{Last: true, Live: true})
	for {
		record, err := log.Next()
		if err == io.EOF {
			return 0, nil
		}
		if err != nil {
			return 0, base.InFile(err, path, -1)
		}
		if before, ok := batch.ReadPreamble(log, record); ok {
			return before + 1, nil
		}
		b, err := batch.NewReader(record)
		if err != nil {
			return 0, base.InFile(err, path, log.Offset())
		}
		if b.Count > 0 {
			return b.Seq, nil
		}
	}
}
