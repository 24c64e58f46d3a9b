package repair

import (
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/internal/disk/wal"
)

// manifestFindings is the information in the MANIFESTs, even in damaged ones.
type manifestFindings struct {
	// inForce means that CURRENT names the MANIFEST that the repair uses.
	inForce bool
	// intact means that Open would use CURRENT and MANIFEST unchanged, and drop nothing.
	intact bool
	// mark is a CLOSED that applies to the present directory, or nil. lostEnd means that CLOSED
	// records edits that the MANIFEST in force has lost.
	mark    *manifest.CloseMark
	lostEnd bool
	// version has the tables in use according to the MANIFEST name. It is nil, and name is
	// empty, if no MANIFEST could be read completely.
	name    string
	version *version.Version
	ours    bool // SieveDB began it
	// dead has the tables that a readable edit removed from the version.
	dead map[uint64]bool
	// added has the tables that a readable edit added and none removed. Those of a version are
	// among them, and of a MANIFEST that is not complete they are what is known.
	added         map[uint64]version.LevelFile
	comparerKnown bool // a MANIFEST of SieveDB names the comparer of the repair
	// newer is a MANIFEST that is newer than the one that CURRENT names; see supersededBy.
	newer *manifestLog
	// Logs below logNum are not needed, except for prevLogNum.
	logNum, prevLogNum uint64
	nextNum            uint64 // above every file number read
	lastSeq            uint64
	recorded           manifest.Recorded // see manifestLog.recorded

	lines map[string]*File // of the report
}

// aheadOfClock is how much the recorded time of a store may be ahead of the clock.
const aheadOfClock = 24 * time.Hour

// needsLog reports whether log num may have entries that no table has.
func (m *manifestFindings) needsLog(num uint64) bool {
	return num >= m.logNum || num == m.prevLogNum && num > 0
}

// readManifests determines the tables in use. If CURRENT and its MANIFEST are intact, it uses them.
// Otherwise it uses the newest MANIFEST with edits if it can be read completely. An older MANIFEST
// names tables that are gone or, worse, still await their removal.
func (r *Repairer) readManifests() error {
	m := &r.manifest
	m.dead, m.added = map[uint64]bool{}, map[uint64]version.LevelFile{}
	m.lines = map[string]*File{}
	_, state, loadErr := manifest.Load(manifest.SetOptions{FS: r.fs, Dir: r.dir, Cmp: r.cmp, ReadLimit: r.opts.ManifestReadLimit, LogsMarked: r.opts.LogsMarked})
	switch {
	case loadErr == nil:
		m.inForce, m.intact, m.recorded = true, state.Tail.Dropped == 0, state.Recorded
		if !m.intact {
			r.report.ManifestProblem = fmt.Sprintf("the last edit of %s is cut off, %d bytes: %s",
				state.ManifestName, state.Tail.Dropped, state.Tail.Reason)
		} else if ahead := r.timeAhead(state.Recorded); ahead > aheadOfClock {
			m.intact = false // the new MANIFEST does not have it; see keptRecord
			r.report.ManifestProblem = fmt.Sprintf("the time of the store is %v ahead of the clock", ahead.Round(time.Second))
		}
		if err := r.compareCloseMark(state); err != nil {
			return err
		}
	case errors.Is(loadErr, base.ErrCorruption):
		r.report.ManifestProblem = loadErr.Error()
	case errors.Is(loadErr, fs.ErrNotExist):
		r.report.ManifestProblem = "CURRENT is missing"
	default: // including a comparer that differs
		return loadErr
	}
	return r.chooseManifest(state)
}

// chooseManifest reads the MANIFESTs and chooses the one to use. In order:
//
//   - the one that CURRENT names, if CURRENT is readable and the rule of supersededBy does not apply;
//   - the newest one, if it can be read completely;
//   - an older one instead, if the newest has a single edit, which names files that do not exist:
//     it was perhaps never in force.
func (r *Repairer) chooseManifest(state manifest.State) error {
	m := &r.manifest
	logs, err := r.candidates(state)
	if err != nil {
		return err
	}
	if m.inForce && (len(logs) == 0 || logs[0].name != state.ManifestName) {
		return nil // it does not have the name that Open looks for
	}
	if m.inForce {
		m.newer = r.supersededBy(logs[0], logs[1:])
		if m.newer != nil && (m.newer.wasInForce() || !r.whole(logs[0])) {
			r.useNewer()
			return nil
		}
		logs = logs[:1]
	}
	if len(logs) > 0 {
		m.recorded = logs[len(logs)-1].recorded
	}
	var begun []*manifestLog
	for _, l := range logs {
		if l.begun() {
			clear(m.added) // a MANIFEST begins with all tables in use
			begun = append(begun, l)
		}
		m.learn(l.edits)
	}
	if len(begun) == 0 || begun[len(begun)-1].damaged {
		return nil
	}
	newest := begun[len(begun)-1]
	if !m.inForce && len(newest.edits) == 1 && !r.whole(newest) {
		for _, older := range slices.Backward(begun[:len(begun)-1]) {
			if r.whole(older) {
				m.forget()
				m.learn(older.edits)
				newest = older
				break
			}
		}
	}
	m.use(newest)
	return nil
}

// candidates returns the MANIFESTs that may be used, ascending, and gives each a line in the report. Older ones than
// the one that CURRENT names are not read. A MANIFEST of another comparer is an error if it is the one to use.
func (r *Repairer) candidates(state manifest.State) (logs []*manifestLog, err error) {
	m := &r.manifest
	_, current, _ := base.ParseFileName(state.ManifestName)
	var recorded manifest.Recorded
	for _, f := range r.ofKind(base.FileManifest) {
		line := &File{Name: f.name, Fate: unused, Level: -1, Bytes: uint64(f.Size), Reason: "superseded"}
		m.lines[f.name] = line
		if m.inForce && f.Num < current || !f.canonical() {
			continue
		}
		log, err := r.readManifest(f, line)
		if err != nil {
			return nil, err
		}
		if log.otherComparer != nil && (!m.inForce || f.Num == current) {
			return nil, log.otherComparer
		}
		if log.otherComparer == nil {
			for _, e := range log.edits {
				recorded.Apply(e)
			}
			log.recorded = recorded
			logs = append(logs, log)
		}
	}
	return logs, nil
}

// supersededBy returns the newest MANIFEST whose files all exist, or nil, among those with greater numbers than the one
// that CURRENT names. It is used if an edit after the first shows that it was in force: then CURRENT is older, as after
// a partial restore. It is also used if the one that CURRENT names lacks files, or operations; see Repairer.examine.
//
// The RecoverFile of goleveldb begins a MANIFEST with a smaller number than ours, and leaves ours.
func (r *Repairer) supersededBy(current *manifestLog, newer []*manifestLog) *manifestLog {
	for _, l := range slices.Backward(newer) {
		if (current.ours() || !l.ours()) && r.whole(l) {
			return l
		}
	}
	return nil
}

// useNewer uses the MANIFEST that supersededBy has found instead of the one that CURRENT names.
func (r *Repairer) useNewer() {
	m := &r.manifest
	r.report.ManifestProblem = fmt.Sprintf("CURRENT names an older MANIFEST than %s, whose files all exist", m.newer.name)
	m.inForce, m.intact, m.mark, m.lostEnd = false, false, nil, false
	m.forget()
	m.learn(m.newer.edits)
	m.use(m.newer)
	m.recorded = m.newer.recorded
	m.newer = nil
}

// whole reports whether the tables and the log that a MANIFEST names all exist, the tables with their sizes.
func (r *Repairer) whole(l *manifestLog) bool {
	if l.damaged || !l.begun() || l.version == nil {
		return false
	}
	type table struct{ num, size uint64 }
	tables, logs := map[table]bool{}, map[uint64]bool{}
	for _, f := range r.files {
		switch f.Kind {
		case base.FileTable, base.FileOldTable, base.FileValues:
			tables[table{f.Num, uint64(f.Size)}] = true
		case base.FileLog:
			logs[f.Num] = true
		}
	}
	found := true
	l.version.AllFiles(func(_ int, f *version.FileMeta) { found = found && tables[table{f.Num, f.Size}] })
	logNum := uint64(0)
	for _, e := range l.edits {
		if e.LogNum.Set {
			logNum = e.LogNum.Value
		}
	}
	return found && (logNum == 0 || logs[logNum])
}

// compareCloseMark compares a readable MANIFEST with the mark of the last Close.
func (r *Repairer) compareCloseMark(state manifest.State) error {
	m := &r.manifest
	mark, _, err := manifest.FindCloseMark(r.fs, r.dir, r.opts.Logger, r.dirFiles(), state)
	var fault *base.CorruptionError
	if !errors.As(err, &fault) {
		m.mark = mark
		return err
	}
	r.report.ManifestProblem = err.Error()
	m.intact = false
	if filepath.Base(fault.File) == base.CurrentName {
		m.inForce = false // the newest MANIFEST is
	} else {
		m.lostEnd = true
	}
	return nil
}

// dirFiles returns the files as Open lists them.
func (r *Repairer) dirFiles() (files []manifest.DirFile) {
	for _, f := range r.files {
		files = append(files, f.DirFile)
	}
	return files
}

// manifestLog is one MANIFEST.
type manifestLog struct {
	name          string
	edits         []*manifest.Edit
	version       *version.Version // nil if the edits contradict each other
	damaged       bool             // records are missing before the end
	otherComparer error            // it belongs to a database with another comparer
	// recorded is what the newest edit that records anything does, of this MANIFEST or an older one: one by
	// goleveldb's RecoverFile records nothing, although the values still have their envelopes.
	recorded manifest.Recorded
}

// ours reports whether SieveDB began the MANIFEST, as manifest.State.Ours.
func (l *manifestLog) ours() bool {
	return len(l.edits) > 0 && isOurs(l.edits[0])
}

func isOurs(e *manifest.Edit) bool {
	return e.Comparer != "" && e.LogNum.Set && e.PrevLogNum.Set && e.NextFileNum.Set && e.LastSeq.Set
}

// wasInForce reports whether the MANIFEST has more edits than a program writes before CURRENT names it:
// one by SieveDB, two by LevelDB.
func (l *manifestLog) wasInForce() bool {
	if l.ours() {
		return len(l.edits) > 1
	}
	return len(l.edits) > 2
}

// begun reports whether the MANIFEST has the numbers that a usable one needs. CURRENT never named one
// without them: a crash happened while it was being created.
func (l *manifestLog) begun() bool {
	if l.damaged {
		return true
	}
	var logNum, nextNum, lastSeq bool
	for _, e := range l.edits {
		logNum = logNum || e.LogNum.Set
		nextNum = nextNum || e.NextFileNum.Set
		lastSeq = lastSeq || e.LastSeq.Set
	}
	return logNum && nextNum && lastSeq
}

// readManifest reads every readable edit of a MANIFEST.
func (r *Repairer) readManifest(f dirFile, line *File) (*manifestLog, error) {
	l, err := r.readEdits(f, line)
	if err != nil || l.otherComparer != nil || l.damaged {
		return l, err
	}
	var changes []version.Change
	for _, e := range l.edits {
		changes = append(changes, e.Change())
	}
	if l.version, err = version.New(r.cmp, new(version.Owner)).Apply(changes...); err != nil {
		line.Damage = base.InFile(err, f.name, -1).Error()
	}
	return l, nil
}

func (r *Repairer) readEdits(f dirFile, line *File) (*manifestLog, error) {
	path := r.path(f.name)
	if err := manifest.CheckSize(path, f.Size, r.opts.ManifestReadLimit); err != nil {
		return nil, err
	}
	file, err := r.fs.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	l := &manifestLog{name: f.name}
	damage := func(err error, bytes int64) {
		l.damaged = true
		line.BytesLost += uint64(bytes)
		line.BlocksLost++
		if line.Damage == "" {
			line.Damage = base.InFile(err, path, -1).Error()
		}
	}
	log := wal.NewReader(file, f.Size, wal.ReaderOptions{AllowTornEnd: true})
	for {
		record, err := log.Next()
		switch {
		case err == io.EOF:
			line.BytesLost += uint64(log.Tail().Dropped)
			return l, nil
		case errors.Is(err, base.ErrCorruption):
			tail := log.Tail()
			if log.Skip() {
				damage(err, tail.Resume-tail.Offset)
				continue
			}
			damage(err, tail.Dropped)
			return l, nil
		case err != nil:
			return nil, base.InFile(err, path, -1)
		}
		e, err := manifest.DecodeEdit(record)
		if errors.Is(err, base.ErrNewer) {
			return nil, base.InFile(err, path, log.Offset())
		}
		if err != nil {
			damage(err, int64(len(record)))
			continue
		}
		switch name, err := manifest.ComparerName(e.Comparer, r.opts.LogsMarked); {
		case err != nil:
			return nil, errors.Wrap(err, path)
		case name != "" && name != r.cmp.Name:
			l.otherComparer = errors.Newf("%s: the database was created with comparer %q, but Repair was called with comparer %q: "+
				"pass a Comparer named %[2]q in Options.Comparer", path, name, r.cmp.Name)
			return l, nil
		}
		r.manifest.comparerKnown = r.manifest.comparerKnown || isOurs(e)
		r.report.LogsElsewhere = r.report.LogsElsewhere || strings.HasPrefix(e.Comparer, base.LogDirPrefix)
		line.Blocks++
		l.edits = append(l.edits, e)
	}
}

// learn records the information of edits, which may be incomplete.
func (m *manifestFindings) learn(edits []*manifest.Edit) {
	number := func(n uint64) {
		if n < maxNum {
			m.nextNum = max(m.nextNum, n+1)
		}
	}
	for _, e := range edits {
		for _, d := range e.Deleted {
			m.dead[d.Num] = true
			delete(m.added, d.Num)
		}
		for _, a := range e.Added { // a table that moves is deleted and added
			delete(m.dead, a.File.Num)
			m.added[a.File.Num] = a
			number(a.File.Num)
		}
		if e.LogNum.Set && e.LogNum.Value < maxNum {
			m.logNum = max(m.logNum, e.LogNum.Value)
		}
		if e.PrevLogNum.Set {
			m.prevLogNum = e.PrevLogNum.Value
		}
		if e.NextFileNum.Set && e.NextFileNum.Value > 0 {
			number(e.NextFileNum.Value - 1)
		}
		if e.LastSeq.Set {
			m.lastSeq = max(m.lastSeq, e.LastSeq.Value)
		}
	}
}

// forget drops what learn has recorded about files, but not the numbers that are in use.
func (m *manifestFindings) forget() {
	clear(m.dead)
	clear(m.added)
	m.logNum, m.prevLogNum = 0, 0
}

// use makes the version of a complete MANIFEST the one to keep.
func (m *manifestFindings) use(l *manifestLog) {
	if l.version != nil {
		m.name, m.version, m.ours = l.name, l.version, l.ours()
	}
}
