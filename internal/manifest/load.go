package manifest

import (
	"io"
	"path/filepath"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/errors"
	"github.com/sievedb/sievedb/internal/wal"
	"github.com/sievedb/sievedb/util"
	"github.com/sievedb/sievedb/vfs"
)

// State is what Load found in the MANIFEST beside the version.
type State struct {
	ManifestName string
	LogNum       uint64 // logs below are not needed
	PrevLogNum   uint64 // one older log that is, from LevelDB's early days; 0: none
	LastSeq      uint64
	Tail         wal.Tail // what stood behind the last edit
	Size         int64    // of the MANIFEST in bytes, what stood behind the last edit included
	// BegunSum is the checksum of the first record, as Set.BegunSum has it: it tells
	// this MANIFEST from another one of the same number.
	BegunSum uint32

	// ByGoLevelDB says that no edit carries a previous log number. LevelDB and we
	// write one in each edit, goleveldb in none.
	ByGoLevelDB bool
	// Ours says that a Set or WriteFile began this MANIFEST: its first edit is a snapshot
	// with the comparer and all four numbers. LevelDB's and goleveldb's lack some. LevelDB
	// with reuse_logs may have appended to it.
	Ours bool
}

// Load reads CURRENT and the MANIFEST that it names. The error is a
// base.CorruptionError where they do not say what the format asks for.
func Load(o SetOptions) (*Set, State, error) {
	var st State
	name, err := readCurrent(o.FS, o.Dir)
	if err != nil {
		return nil, st, err
	}
	st.ManifestName = name
	path := filepath.Join(o.Dir, name)
	l := loading{levels: map[uint64]uint8{}}
	if st.Tail, err = l.read(o.FS, path, o.ReadLimit, l.takeNumbers()); err != nil {
		return nil, st, err
	}
	st.Size, st.BegunSum, st.Ours = l.size, l.begunSum, l.ours
	s := New(o)
	if err := l.check(&o); err != nil {
		return nil, st, base.InFile(err, path, -1)
	}
	if _, err = l.read(o.FS, path, o.ReadLimit, l.takeTables()); err != nil {
		return nil, st, err
	}
	if err := s.begin(&l, &st); err != nil {
		return nil, st, base.InFile(err, path, -1)
	}
	return s, st, nil
}

// loading is what is known of a MANIFEST while it is read. It is read twice: what an
// edit says of a table takes far more room decoded than it does in the file, and
// most tables are gone in the end. So the first reading finds those that stay.
type loading struct {
	sums     Edit // its numbers and comparer are those of the last edit that has them
	maxNum   uint64
	size     int64  // of the file
	edits    int    // read
	begunSum uint32 // of the first one
	ours     bool   // see State
	// levels are of each table that stays, a bit for each level where it is (a sound
	// MANIFEST has one); count is how many bits that are.
	levels map[uint64]uint8
	count  int
	tables map[place]*FileMeta
}

// place is a table on a level.
type place struct {
	level int
	num   uint64
}

// read calls take with each record of a MANIFEST. A record cut off at the end of
// the file is what a crash leaves while an edit is written; whether its loss
// hurts is the caller's to check, by looking for the files that the version
// names. Anything else that does not decode is corruption.
func (l *loading) read(fs vfs.FS, path string, limit int64, take func(record []byte) error) (wal.Tail, error) {
	f, err := fs.Open(path)
	if err != nil {
		if errors.Is(err, errNotExist) {
			return wal.Tail{}, base.Corruptf("CURRENT", 0, "it names %s, which does not exist; Repair can rebuild the MANIFEST from the tables", path)
		}
		return wal.Tail{}, err
	}
	defer f.Close()
	size, err := f.Size()
	if err == nil {
		err = CheckSize(path, size, limit)
	}
	if err != nil {
		return wal.Tail{}, err
	}
	l.size = size
	r := wal.NewReader(f, size, wal.ReaderOptions{AllowTornEnd: true})
	for {
		record, err := r.Next()
		if err == io.EOF {
			return r.Tail(), nil
		}
		if err != nil {
			return r.Tail(), base.InFile(err, path, -1)
		}
		if err := take(record); err != nil {
			return r.Tail(), base.InFile(err, path, r.Offset())
		}
	}
}

// takeNumbers is the first reading. In an edit, what it deletes comes before what it
// adds, whatever their order.
func (l *loading) takeNumbers() func(record []byte) error {
	var e Edit
	deletions := editVisitor{deleted: func(level int, num uint64) {
		if bits := l.levels[num]; bits&(1<<level) != 0 {
			l.count--
			if bits &^= 1 << level; bits == 0 {
				delete(l.levels, num)
			} else {
				l.levels[num] = bits
			}
		}
	}}
	additions := editVisitor{added: func(level int, num, _ uint64, _, _ []byte) {
		l.maxNum = max(l.maxNum, num)
		if bits := l.levels[num]; bits&(1<<level) == 0 {
			l.count++
			l.levels[num] = bits | 1<<level
		}
	}}
	return func(record []byte) error {
		e = Edit{}
		if err := decodeEdit(record, &e, &deletions); err != nil {
			return err
		}
		if l.edits++; l.edits == 1 {
			l.begunSum = util.CRC32C(record)
			l.ours = e.Comparer != "" && e.LogNum.Set && e.PrevLogNum.Set && e.NextFileNum.Set && e.LastSeq.Set
		}
		if e.Comparer != "" {
			l.sums.Comparer = e.Comparer
		}
		merge(&l.sums.LogNum, e.LogNum)
		merge(&l.sums.PrevLogNum, e.PrevLogNum)
		merge(&l.sums.NextFileNum, e.NextFileNum)
		merge(&l.sums.LastSeq, e.LastSeq)
		return decodeEdit(record, &e, &additions)
	}
}

func merge(into *OptionalNum, n OptionalNum) {
	if n.Set {
		*into = n
	}
}

// takeTables is the second reading. The last edit that adds a table describes it.
func (l *loading) takeTables() func(record []byte) error {
	var e Edit
	l.tables = make(map[place]*FileMeta, l.count)
	additions := editVisitor{added: func(level int, num, size uint64, smallest, largest []byte) {
		if l.levels[num]&(1<<level) != 0 {
			l.tables[place{level, num}] = newFileMetaCopy(num, size, smallest, largest)
		}
	}}
	return func(record []byte) error { return decodeEdit(record, &e, &additions) }
}

// check holds what the first reading found against the options and the format.
func (l *loading) check(o *SetOptions) error {
	for _, need := range []struct {
		num  OptionalNum
		what string
	}{{l.sums.NextFileNum, "next file number"}, {l.sums.LogNum, "log number"}, {l.sums.LastSeq, "last sequence"}} {
		if !need.num.Set {
			return base.Corruptf("MANIFEST", -1, "no edit carries the %s", need.what)
		}
	}
	if name := l.sums.Comparer; name != "" && name != o.Cmp.Name {
		return errors.Newf("the database was created with comparer %q, but it is opened with comparer %q: "+
			"pass a Comparer of that name in Options.Comparer", name, o.Cmp.Name)
	}
	if most := max(l.sums.NextFileNum.Value, l.maxNum); most > base.MaxFileNum {
		// Handing out numbers from there would end in edits that nobody can read.
		return base.Corruptf("MANIFEST", -1, "file numbers go up to %d, want at most %d", most, base.MaxFileNum)
	}
	if o.MaxTables > 0 && l.count > o.MaxTables {
		return base.Corruptf("version", -1, "it names %d tables, many more than the directory holds; Repair can rebuild the MANIFEST from the tables", l.count)
	}
	return nil
}

// begin makes what was loaded the set's current version.
func (s *Set) begin(l *loading, st *State) error {
	if len(l.tables) != l.count {
		return base.Corruptf("MANIFEST", -1, "%d tables were found in it, then %d: it changed while it was read", l.count, len(l.tables))
	}
	added := make([]LevelFile, 0, len(l.tables))
	for p, f := range l.tables {
		added = append(added, LevelFile{Level: p.level, File: f})
	}
	v, err := s.current.Load().Apply(&Edit{Added: added})
	if err != nil {
		return err
	}
	next := l.sums.NextFileNum.Value
	if l.maxNum >= next {
		// Harmless for us, since the numbers of all files count, and seen where a
		// crash followed an edit; handing out a number twice would not be.
		next = l.maxNum + 1
	}
	s.current.Store(v)
	s.nextFileNum.Store(next)
	s.logNum, s.lastSeq = l.sums.LogNum.Value, l.sums.LastSeq.Value
	st.LogNum, st.PrevLogNum, st.LastSeq = s.logNum, l.sums.PrevLogNum.Value, s.lastSeq
	st.ByGoLevelDB = !l.sums.PrevLogNum.Set
	return nil
}

// CheckSize refuses a MANIFEST of size bytes that is above limit, 0 for none, before
// a byte of it is read. It is no corruption: the file may be sound.
func CheckSize(path string, size, limit int64) error {
	if limit <= 0 || size <= limit {
		return nil
	}
	return errors.Newf("sievedb: %s is %d bytes long, and Options.Limits.ManifestRead allows %d: raise it if the file is to be trusted", path, size, limit)
}

// HasSeveralEdits reports whether a MANIFEST of size bytes holds more than one edit that
// can be read.
func HasSeveralEdits(fsys vfs.FS, path string, size int64) (bool, error) {
	n := 0
	err := readEdits(fsys, path, size, func([]byte) error {
		if n++; n > 1 {
			return io.EOF
		}
		return nil
	})
	return n > 1, err
}

// TakenOutOfUse returns those of the given table numbers that an edit of a MANIFEST of size
// bytes took out of use, and none after it put into use again.
func TakenOutOfUse(fsys vfs.FS, path string, size int64, nums map[uint64]bool) (map[uint64]bool, error) {
	dead := map[uint64]bool{}
	var e Edit
	deletions := editVisitor{deleted: func(_ int, num uint64) {
		if nums[num] {
			dead[num] = true
		}
	}}
	additions := editVisitor{added: func(_ int, num, _ uint64, _, _ []byte) { delete(dead, num) }}
	err := readEdits(fsys, path, size, func(record []byte) error {
		if err := decodeEdit(record, &e, &deletions); err != nil {
			return err
		}
		return decodeEdit(record, &e, &additions)
	})
	return dead, err
}

// readEdits calls fn with each record of a MANIFEST until one does not decode or fn fails,
// of which it says nothing. The error is that of a read.
func readEdits(fsys vfs.FS, path string, size int64, fn func(record []byte) error) error {
	f, err := fsys.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	r := wal.NewReader(f, size, wal.ReaderOptions{AllowTornEnd: true})
	for {
		record, err := r.Next()
		switch {
		case err == io.EOF || errors.Is(err, base.ErrCorruption):
			return nil
		case err != nil:
			return err
		}
		if fn(record) != nil {
			return nil
		}
	}
}
