package repair

import (
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/errors"
	"github.com/sievedb/sievedb/internal/manifest"
	"github.com/sievedb/sievedb/internal/wal"
)

// manifestFindings is the information in the MANIFESTs, whatever their state.
type manifestFindings struct {
	// inForce: CURRENT names the MANIFEST that is believed.
	inForce bool
	// sound: Open would use CURRENT and MANIFEST unchanged, and drop nothing.
	sound bool
	// mark is a CLOSED that applies to the present directory, or nil. lostEnd: it vouches for
	// edits that the MANIFEST in force has lost.
	mark    *manifest.CloseMark
	lostEnd bool
	// version has the tables in use according to the MANIFEST name. It is nil, and name is
	// empty, if no MANIFEST could be read completely.
	name    string
	version *manifest.Version
	// dead has tables that a readable edit removed from the version.
	dead map[uint64]bool
	// Logs below logNum are not needed, except for prevLogNum.
	logNum, prevLogNum uint64
	nextNum            uint64 // above every file number read
	lastSeq            uint64

	lines map[string]*File // of the report
}

// needsLog reports whether log num may have entries that no table has.
func (m *manifestFindings) needsLog(num uint64) bool {
	return num >= m.logNum || num == m.prevLogNum && num > 0
}

// readManifests determines what is known about the tables. CURRENT decides if it and its MANIFEST
// are sound. Otherwise the newest MANIFEST with edits decides, if it can be read completely: an
// older one names tables that are gone, or worse, that wait for their removal.
func (r *Repairer) readManifests() error {
	m := &r.manifest
	m.dead = map[uint64]bool{}
	m.lines = map[string]*File{}
	_, state, loadErr := manifest.Load(manifest.SetOptions{FS: r.fs, Dir: r.dir, Cmp: r.cmp, ReadLimit: r.opts.ManifestReadLimit})
	switch {
	case loadErr == nil:
		m.inForce, m.sound = true, state.Tail.Dropped == 0
		if !m.sound {
			r.report.ManifestProblem = fmt.Sprintf("the last edit of %s was cut off, %d bytes: %s", state.ManifestName, state.Tail.Dropped, state.Tail.Reason)
		}
		if err := r.askCloseMark(state); err != nil {
			return err
		}
	case errors.Is(loadErr, base.ErrCorruption):
		r.report.ManifestProblem = loadErr.Error()
	case errors.Is(loadErr, fs.ErrNotExist):
		r.report.ManifestProblem = "CURRENT is missing"
	default: // including a comparer that differs
		return loadErr
	}
	var best *manifestLog
	for _, f := range r.ofKind(base.FileManifest) {
		line := &File{Name: f.name, Fate: unused, Level: -1, Bytes: uint64(f.Size), Reason: "superseded"}
		m.lines[f.name] = line
		if m.inForce && f.name != state.ManifestName || !f.canonical() {
			continue
		}
		log, err := r.readManifest(f, line)
		if err != nil {
			return err
		}
		m.learn(log.edits)
		if log.begun() {
			best = log
		}
	}
	if best != nil && !best.damaged {
		m.believe(best, r.cmp)
	}
	return nil
}

// askCloseMark compares a readable MANIFEST with the mark of the last Close.
func (r *Repairer) askCloseMark(state manifest.State) error {
	m := &r.manifest
	mark, _, err := manifest.FindCloseMark(r.fs, r.dir, r.opts.Logger, r.dirFiles(), state)
	var fault *base.CorruptionError
	if !errors.As(err, &fault) {
		m.mark = mark
		return err
	}
	r.report.ManifestProblem = err.Error()
	m.sound = false
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
	name    string
	edits   []*manifest.Edit
	damaged bool // records are missing before the end
}

// begun reports whether the MANIFEST was written far enough to be used. Nothing points to one that
// was not: a crash came while it was begun.
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

// readManifest reads every readable edit.
func (r *Repairer) readManifest(f dirFile, line *File) (*manifestLog, error) {
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
			more := log.Skip()
			if more {
				damage(err, tail.Resume-tail.Offset)
				continue
			}
			damage(err, tail.Dropped)
			return l, nil
		case err != nil:
			return nil, base.InFile(err, path, -1)
		}
		e, err := manifest.DecodeEdit(record)
		if err != nil {
			damage(err, int64(len(record)))
			continue
		}
		if e.Comparer != "" && e.Comparer != r.cmp.Name {
			return nil, errors.Newf("%s: the database was created with comparer %q, but it is repaired with comparer %q: "+
				"pass a Comparer of that name in Options.Comparer", path, e.Comparer, r.cmp.Name)
		}
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
		}
		for _, a := range e.Added { // a table that moves is deleted and added
			delete(m.dead, a.File.Num)
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

// believe makes the version that a complete MANIFEST describes the one to keep.
func (m *manifestFindings) believe(l *manifestLog, cmp *base.Comparer) {
	v, err := manifest.New(manifest.SetOptions{Cmp: cmp}).Current().Apply(l.edits...)
	if err != nil {
		m.lines[l.name].Damage = base.InFile(err, filepath.Base(l.name), -1).Error()
		return
	}
	m.name, m.version = l.name, v
}
