package manifest

import (
	"io"
	"math"
	"math/bits"
	"path/filepath"
	"strings"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/internal/disk/wal"
	"github.com/sievedb/sievedb/util"
	"github.com/sievedb/sievedb/vfs"
)

// State is the content of the MANIFEST in addition to the version.
type State struct {
	ManifestName string
	LogNum       uint64 // logs with lower numbers are not needed
	PrevLogNum   uint64 // an older log that is needed, from early versions of LevelDB; 0 if none
	LastSeq      uint64
	Recorded     Recorded
	Tail         wal.Tail // the end of the file after the last edit
	Size         int64    // of the MANIFEST in bytes, including the bytes after the last edit
	// FirstRecordSum is the checksum of the first record, as returned by Set.FirstRecordSum. It
	// distinguishes this MANIFEST from another one with the same number.
	FirstRecordSum uint32

	// LogsElsewhere means that the logs were in another directory when this MANIFEST was begun.
	LogsElsewhere bool
	// ByGoLevelDB means that no edit has a previous log number. LevelDB and this package write
	// one in each edit, goleveldb in none.
	ByGoLevelDB bool
	// Ours means that a Set or WriteFile started this MANIFEST: its first edit is a snapshot with the comparer and all
	// four numbers. Those of LevelDB and goleveldb lack some. LevelDB with reuse_logs may have appended edits.
	Ours bool
}

// Load reads CURRENT and the MANIFEST that it names. The error is a base.CorruptionError if they do
// not have the right format.
func Load(o SetOptions) (*Set, State, error) {
	s := New(o)
	l, st, err := load(&o)
	if err != nil {
		return nil, st, err
	}
	if err := s.begin(l, &st); err != nil {
		return nil, st, base.InFile(err, filepath.Join(o.Dir, st.ManifestName), -1)
	}
	return s, st, nil
}

// load reads CURRENT and the MANIFEST that it names.
func load(o *SetOptions) (*loading, State, error) {
	var st State
	name, err := readCurrent(o.FS, o.Dir)
	if err != nil {
		return nil, st, err
	}
	st.ManifestName = name
	path := filepath.Join(o.Dir, name)
	l := &loading{live: map[uint64]liveTable{}}
	if st.Tail, err = l.read(o.FS, path, o.ReadLimit, l.collectNumbers()); err != nil {
		return nil, st, err
	}
	st.Size, st.FirstRecordSum, st.Ours = l.size, l.firstRecordSum, l.ours
	if err := l.check(o); err != nil {
		return nil, st, base.InFile(err, path, -1)
	}
	if _, err = l.read(o.FS, path, o.ReadLimit, l.collectTables()); err != nil {
		return nil, st, err
	}
	st.LogNum, st.PrevLogNum, st.LastSeq = l.sums.LogNum.Value, l.sums.PrevLogNum.Value, l.sums.LastSeq.Value
	st.Recorded, st.ByGoLevelDB = l.recorded, !l.sums.PrevLogNum.Set
	st.LogsElsewhere = strings.HasPrefix(l.sums.Comparer, base.LogDirPrefix)
	return l, st, nil
}

// loading is the state of reading a MANIFEST. It is read twice: the decoded description of a table
// uses far more memory than its bytes in the file, and most tables are removed by later edits. So
// the first pass finds the tables that remain.
type loading struct {
	sums           Edit // the numbers and comparer of the last edits that have them
	maxNum         uint64
	recorded       Recorded
	size           int64  // of the file
	edits          int    // the number of edits read
	firstRecordSum uint32 // the checksum of the first record
	ours           bool   // see State
	// live has the remaining tables by number; count is the number of their places.
	live   map[uint64]liveTable
	count  int
	values valueSums
	// tables are those that the second pass has found, in the order of the file, which is usually that of their keys.
	tables []version.LevelFile
}

// liveTable is a table that no edit read so far removes.
type liveTable struct {
	levels uint8  // a bit for each level that has it: one bit in the end, unless the MANIFEST is damaged
	index  uint32 // in loading.tables plus 1, once the second pass has found it
}

// read calls take for each record of a MANIFEST. A record that is truncated by the end of the file
// is the result of a crash while an edit was written. Callers must check whether its loss matters
// by looking for the files of the version. Any other record that does not decode is corruption.
func (l *loading) read(fs vfs.FS, path string, limit int64, take func(record []byte) error) (wal.Tail, error) {
	f, err := fs.Open(path)
	if err != nil {
		if errors.Is(err, errNotExist) {
			return wal.Tail{}, base.Corruptf("CURRENT", 0,
				"it names %s, which does not exist; Repair can rebuild the MANIFEST from the tables", path)
		}
		return wal.Tail{}, err
	}
	defer f.Close()
	if l.size == 0 { // the second pass reads as much as the first: the file may grow meanwhile
		if l.size, err = f.Size(); err == nil {
			err = CheckSize(path, l.size, limit)
		}
	}
	if err != nil {
		return wal.Tail{}, err
	}
	r := wal.NewReader(f, l.size, wal.ReaderOptions{AllowTornEnd: true})
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

// collectNumbers returns the function for the first pass. The deletions of an edit are applied before
// its additions, whatever their order.
func (l *loading) collectNumbers() func(record []byte) error {
	var e Edit
	deletions := editVisitor{pointer: func(level int, key []byte) {
		_ = l.recorded.apply(level, key) // decodeEdit has checked it
	}, deleted: func(level int, num uint64) {
		if t := l.live[num]; t.levels&(1<<level) != 0 {
			l.count--
			if t.levels &^= 1 << level; t.levels == 0 {
				delete(l.live, num)
			} else {
				l.live[num] = t
			}
		}
	}}
	additions := editVisitor{added: func(level int, f *addedFile) {
		l.maxNum = max(l.maxNum, f.num)
		if t := l.live[f.num]; t.levels&(1<<level) == 0 {
			l.count++
			t.levels |= 1 << level
			l.live[f.num] = t
		}
	}, values: l.values.add}
	return func(record []byte) error {
		e = Edit{}
		if err := decodeEdit(record, &e, &deletions); err != nil {
			return err
		}
		if l.edits++; l.edits == 1 {
			l.firstRecordSum = util.CRC32C(record)
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

// ComparerName returns the name of the comparer from what a MANIFEST records, without its marks. It returns an error
// if the logs are elsewhere, and marked is false: there is no mark that says where.
func ComparerName(recorded string, marked bool) (string, error) {
	if strings.HasPrefix(recorded, base.LogDirPrefix) && !marked {
		return "", errors.New("the logs of the database are in another directory, but the file LOGDIR, which says where, is missing: " +
			"copy LOGS from that directory, name the copy LOGDIR, and pass Options.LogDir; if the logs are lost as well, " +
			"repair the database with its own directory as Options.LogDir")
	}
	return base.PlainComparerName(recorded), nil
}

func merge(into *OptionalNum, n OptionalNum) {
	if n.Set {
		*into = n
	}
}

// collectTables returns the function for the second pass. The last edit that adds a table describes it.
func (l *loading) collectTables() func(record []byte) error {
	var e Edit
	l.tables = make([]version.LevelFile, 0, l.count)
	additions := editVisitor{added: func(level int, added *addedFile) {
		t := l.live[added.num]
		if t.levels != 1<<level {
			return
		}
		f := added.meta()
		if t.index > 0 {
			l.tables[t.index-1].File = f
			return
		}
		l.tables = append(l.tables, version.LevelFile{Level: level, File: f})
		t.index = uint32(len(l.tables))
		l.live[f.Num] = t
	}}
	return func(record []byte) error { return decodeEdit(record, &e, &additions) }
}

// check compares the results of the first pass with the options and the format.
func (l *loading) check(o *SetOptions) error {
	for _, need := range []struct {
		num  OptionalNum
		what string
	}{{l.sums.NextFileNum, "next file number"}, {l.sums.LogNum, "log number"}, {l.sums.LastSeq, "last sequence"}} {
		if !need.num.Set {
			return base.Corruptf("MANIFEST", -1, "no edit has the %s", need.what)
		}
	}
	name, err := ComparerName(l.sums.Comparer, o.LogsMarked)
	if err != nil {
		return err
	}
	if name != "" && name != o.Cmp.Name {
		return errors.Newf("the database was created with comparer %q, but it is opened with comparer %q: "+
			"set Options.Comparer to a comparer of that name", name, o.Cmp.Name)
	}
	if most := max(l.sums.NextFileNum.Value, l.maxNum); most > base.MaxFileNum {
		// New numbers from there on would lead to edits that cannot be read.
		return base.Corruptf("MANIFEST", -1, "file numbers go up to %d, at most %d is supported", most, base.MaxFileNum)
	}
	if o.MaxTables > 0 && l.count > o.MaxTables {
		return base.Corruptf("version", -1, "it names %d tables, many more than the directory has; "+
			"Repair can rebuild the MANIFEST from the tables", l.count)
	}
	return l.checkPlaces()
}

// checkPlaces returns an error if a table is on several levels.
func (l *loading) checkPlaces() error {
	if len(l.live) == l.count {
		return nil
	}
	least := uint64(math.MaxUint64)
	for num, t := range l.live {
		if t.levels&(t.levels-1) != 0 {
			least = min(least, num)
		}
	}
	levels := l.live[least].levels
	first := bits.TrailingZeros8(levels)
	return version.OnTwoLevels(least, first, bits.TrailingZeros8(levels&(levels-1)))
}

// begin makes the loaded version the current version of the set.
func (s *Set) begin(l *loading, st *State) error {
	v, err := l.version(s.current.Load())
	if err != nil {
		return err
	}
	s.current.Store(v)
	s.nextFileNum.Store(l.nextFileNum())
	s.logNum, s.lastSeq, s.recorded = st.LogNum, st.LastSeq, st.Recorded
	return nil
}

// version returns the loaded version. empty has no tables.
func (l *loading) version(empty *version.Version) (*version.Version, error) {
	if len(l.tables) != l.count {
		return nil, base.Corruptf("MANIFEST", -1,
			"the first pass found %d tables, the second %d: the file changed while it was read", l.count, len(l.tables))
	}
	return empty.Fresh(l.tables, l.values.list())
}

// nextFileNum returns the next unused number. After a crash that followed an edit, the MANIFEST may name a file above
// the recorded one. That is harmless, because the numbers of all files count; assigning a number twice would not be.
func (l *loading) nextFileNum() uint64 { return max(l.sums.NextFileNum.Value, l.maxNum+1) }

// CheckSize returns an error if size, of a MANIFEST of which no byte has been read, is above limit; a
// limit of 0 means none. The error is not a corruption, because the file may be intact.
func CheckSize(path string, size, limit int64) error {
	if limit <= 0 || size <= limit {
		return nil
	}
	return errors.Newf(
		"sievedb: %s has %d bytes, but Options.Limits.ManifestRead allows %d; raise it if you trust the file",
		path, size, limit)
}

// HasSeveralEdits reports whether a MANIFEST of size bytes has more than one readable edit.
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

// RemovedTables returns which of the given tables were removed by an edit of a MANIFEST of size bytes
// and not added again by a later one.
func RemovedTables(fsys vfs.FS, path string, size int64, nums map[uint64]bool) (map[uint64]bool, error) {
	dead := map[uint64]bool{}
	var e Edit
	deletions := editVisitor{deleted: func(_ int, num uint64) {
		if nums[num] {
			dead[num] = true
		}
	}}
	additions := editVisitor{added: func(_ int, f *addedFile) { delete(dead, f.num) }}
	err := readEdits(fsys, path, size, func(record []byte) error {
		if err := decodeEdit(record, &e, &deletions); err != nil {
			return err
		}
		return decodeEdit(record, &e, &additions)
	})
	return dead, err
}

// readEdits calls fn for each record of a MANIFEST until one does not decode or fn returns an error,
// which it ignores. It returns only read errors.
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
		case err == io.EOF || base.IsUnreadable(err):
			return nil
		case err != nil:
			return err
		}
		if fn(record) != nil {
			return nil
		}
	}
}
