package order

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/disk/wal"
	"github.com/sievedb/sievedb/internal/test/damage"
)

// checkEditLocked checks rule 1.
func (c *FS) checkEditLocked(manifestName string, edit *manifest.Edit) {
	if edit == nil {
		return
	}
	d := c.dirLocked(filepath.Dir(manifestName))
	for _, a := range edit.Added {
		if fault := d.fault(a.File.Name()); fault != "" {
			c.violatedLocked(1, "an edit in %s adds %s, %s", manifestName, a.File.Name(), fault)
		}
	}
}

// fault says why a file may be missing or incomplete after a power cut. It returns an empty string if it may not.
func (d *dir) fault(name string) string {
	switch now, durable := d.get(name); {
	case now == nil:
		return "which does not exist"
	case now.reserved && now.synced == now.written:
		return "but reserved zeros may follow its bytes"
	case !now.whole():
		return fmt.Sprintf("but only %d of its %d bytes are synced", now.synced, now.written)
	case durable != now:
		return "whose name is not durable"
	}
	return ""
}

// checkLogSyncLocked checks rule 2.
func (c *FS) checkLogSyncLocked(log *file) {
	dirPath := filepath.Dir(log.name)
	if unfinished(dirPath) {
		return
	}
	d := c.dirLocked(dirPath)
	if now, durable := d.get(filepath.Base(log.name)); now != log {
		return // the log was removed, so no write waits for it
	} else if durable != log {
		c.violatedLocked(2, "%s is synced before its name is durable", log.name)
	}
	_, num, _ := base.ParseFileName(filepath.Base(log.name))
	for name, older := range d.entries {
		kind, n, ok := base.ParseFileName(name)
		if !ok || older == nil || older == found || kind != base.FileLog || n >= num {
			continue
		}
		if older.written == older.synced && !older.reserved {
			continue
		}
		states, _ := c.inForceLocked(dirPath)
		if slices.ContainsFunc(states, func(s *state) bool { return s.needsLog(n) }) {
			c.violatedLocked(2, "%s is synced while %s, an older log, has %d bytes that are not, or zeros behind them: %v",
				log.name, older.name, older.written-older.synced, older.reserved)
		}
	}
}

// checkCurrentLocked checks rule 3.
func (c *FS) checkCurrentLocked(d *dir, from string, tmp *file) {
	if tmp == nil || tmp == found {
		return
	}
	if !tmp.whole() {
		c.violatedLocked(3, "%s becomes CURRENT with unsynced bytes", from)
		return
	}
	name := strings.TrimSuffix(string(tmp.data), "\n")
	if fault := d.fault(name); fault != "" {
		c.violatedLocked(3, "CURRENT is changed to name %s, %s", name, fault)
	}
}

// checkClosedLocked checks rule 7. docs/format.md has the bytes of CLOSED.
func (c *FS) checkClosedLocked(d *dir, from string, tmp *file) {
	if tmp == nil || tmp == found {
		return
	}
	if !tmp.whole() || len(tmp.data) != 64 {
		c.violatedLocked(7, "%s becomes CLOSED with unsynced bytes, or incomplete", from)
		return
	}
	for at, kind := range map[int]base.FileKind{8: base.FileLog, 28: base.FileManifest} {
		name := base.FileName(kind, binary.LittleEndian.Uint64(tmp.data[at:]))
		fault := d.fault(name)
		if now, _ := d.get(name); now != nil && now.open {
			fault = "which is open for writing"
		}
		if fault != "" {
			c.violatedLocked(7, "CLOSED names %s, %s", name, fault)
		}
	}
}

// checkDirLocked checks rule 8.
func (c *FS) checkDirLocked(path string) {
	d := c.dirs[filepath.Clean(path)]
	if d == nil {
		return
	}
	for name := range d.entries {
		now, _ := d.get(name)
		switch fault := d.fault(name); {
		case now == nil:
		case now.open:
			c.violatedLocked(8, "%s is renamed while %s is open for writing", path, name)
		case fault != "":
			c.violatedLocked(8, "%s is renamed with %s, %s", path, name, fault)
		}
	}
}

// unfinished reports whether a directory is one of a checkpoint that is being made.
func unfinished(dir string) bool { return strings.HasSuffix(dir, ".checkpoint") }

// checkRemoveLocked checks rule 4.
func (c *FS) checkRemoveLocked(path string) {
	kind, num, ok := base.ParseFileName(filepath.Base(path))
	if !ok {
		return
	}
	dirPath := filepath.Dir(path)
	now, _ := c.dirLocked(dirPath).get(filepath.Base(path))
	if unfinished(dirPath) {
		return
	}
	if now == nil || now != found && now.written == 0 {
		return
	}
	states, replaced := c.inForceLocked(dirPath)
	if replaced && now == found && kind != base.FileTemp {
		c.violatedLocked(4, "%s is removed before the renaming of CURRENT is durable", path)
		return
	}
	for _, m := range states {
		needed := false
		switch kind {
		case base.FileTable, base.FileOldTable, base.FileValues:
			needed = m.tables[num]
		case base.FileLog:
			needed = m.needsLog(num)
		case base.FileManifest:
			needed = m.name == filepath.Base(path)
		}
		if needed {
			c.violatedLocked(4, "%s is removed while %s, which may be in force, needs it", path, m.name)
		}
	}
}

// state is the result of the synced edits of a MANIFEST.
type state struct {
	name            string
	tables          map[uint64]bool
	logNum, prevLog uint64
}

func (s *state) needsLog(num uint64) bool { return num >= s.logNum || num == s.prevLog && num > 0 }

func newState() *state { return &state{tables: map[uint64]bool{}} }

func (s *state) apply(e *manifest.Edit) {
	if e.LogNum.Set {
		s.logNum = e.LogNum.Value
	}
	if e.PrevLogNum.Set {
		s.prevLog = e.PrevLogNum.Value
	}
	for _, f := range e.Deleted {
		delete(s.tables, f.Num)
	}
	for _, f := range e.Added {
		s.tables[f.File.Num] = true
	}
}

// inForceLocked returns the states of the MANIFESTs that a power cut may put in force. replaced
// reports that the MANIFEST which CURRENT named when the directory was found may be in force too,
// because the renaming of CURRENT is not durable yet. Its state is not known.
func (c *FS) inForceLocked(dirPath string) (states []*state, replaced bool) {
	d := c.dirLocked(dirPath)
	now, durable := d.get(base.CurrentName)
	if now == found {
		if s := c.readState(dirPath); s != nil {
			states = append(states, s)
		}
		return states, false
	}
	for _, current := range []*file{now, durable} {
		if current == nil || current == found {
			continue
		}
		name := strings.TrimSuffix(string(current.data), "\n")
		if m, _ := d.get(name); m != nil && m != found && (len(states) == 0 || states[0].name != name) {
			s := m.edits.durable()
			s.name = name
			states = append(states, s)
		}
	}
	return states, durable == found
}

// readState reads CURRENT and its MANIFEST, which have not changed since the directory was found. It
// returns nil if one of them cannot be read, because then no file is needed.
func (c *FS) readState(dirPath string) *state {
	current, err := damage.ReadFile(c.fs, filepath.Join(dirPath, base.CurrentName))
	if err != nil {
		return nil
	}
	name := strings.TrimSuffix(string(current), "\n")
	if kind, _, ok := base.ParseFileName(name); !ok || kind != base.FileManifest {
		return nil
	}
	data, err := damage.ReadFile(c.fs, filepath.Join(dirPath, name))
	if err != nil {
		return nil
	}
	s := newState()
	s.name = name
	r := wal.NewReader(strings.NewReader(string(data)), int64(len(data)), wal.ReaderOptions{AllowTornEnd: true})
	for {
		record, err := r.Next()
		if err != nil {
			return s
		}
		if e, err := manifest.DecodeEdit(record); err == nil {
			s.apply(e)
		}
	}
}

// editLog decodes the edits of a MANIFEST as they are written. Its state has only the synced edits.
type editLog struct {
	pending []pendingEdit
	applied *state
	begun   []byte // the bytes of an incomplete edit
}

type pendingEdit struct {
	end  int64 // offset in the file at which its record ends
	edit *manifest.Edit
}

// add adds the bytes of one Write, which end at offset end. It returns the edit that they complete, or
// nil if they complete none: a long edit is written in several Writes.
func (l *editLog) add(p []byte, end int64) *manifest.Edit {
	if len(l.begun) > 0 {
		p = append(l.begun, p...)
	}
	edit := decodeAppend(p, end-int64(len(p)))
	if edit == nil {
		l.begun = bytes.Clone(p)
		return nil
	}
	l.begun = nil
	l.pending = append(l.pending, pendingEdit{end, edit})
	return edit
}

func (l *editLog) synced(covered int64) {
	if l.applied == nil {
		l.applied = newState()
	}
	for len(l.pending) > 0 && l.pending[0].end <= covered {
		l.applied.apply(l.pending[0].edit)
		l.pending = l.pending[1:]
	}
}

func (l *editLog) durable() *state {
	if l.applied == nil {
		l.applied = newState()
	}
	s := *l.applied
	return &s
}

const logBlockSize = 32 << 10

// decodeAppend decodes the record of p, which was appended at offset. A record of zeros fills the
// block up to there, because the format depends on the position in a block.
func decodeAppend(p []byte, offset int64) *manifest.Edit {
	log := newFiller(int(offset % logBlockSize))
	skip := len(log) > 0
	log = append(log, p...)
	r := wal.NewReader(strings.NewReader(string(log)), int64(len(log)), wal.ReaderOptions{})
	if skip {
		if _, err := r.Next(); err != nil {
			return nil
		}
	}
	record, err := r.Next()
	if err != nil {
		return nil
	}
	edit, err := manifest.DecodeEdit(record)
	if err != nil {
		return nil
	}
	return edit
}
