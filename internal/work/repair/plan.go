package repair

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/disk/tables"
	"github.com/sievedb/sievedb/internal/disk/version"
)

// plan says what the repair does with every file.
type plan struct {
	healthy bool
	// live has the tables that the MANIFEST names and describes correctly, with their levels.
	// complete means that it names no others.
	live     map[*foundTable]int
	complete bool
	newest   uint64          // the greatest sequence number in live tables
	named    map[uint64]bool // the numbers that the MANIFEST names
	// conflicting are live tables that contradict each other; see Repairer.conflicting.
	conflicting map[*foundTable]bool
	// gaps are where tables in use are missing or damaged, and fillers what may have their entries.
	gaps    keyRanges
	fillers fillers
	// placed are intact tables that stay, with their levels.
	placed []version.LevelFile
	// unplaced are sorted runs that must be merged, or get a level.
	unplaced []*run
	// damaged are tables whose entries are to be salvaged.
	damaged []*foundTable
	lone    []*foundTable // value tables whose entries are used
	made    []*run        // placed runs that the repair wrote
	lines   []*File       // of the report
	moves   []*File       // files to move to lost/
}

// plan decides what the repair does with every file.
func (r *Repairer) plan(p *plan) error {
	p.healthy = p.healthy && r.manifest.intact
	if err := r.placeLive(p); err != nil {
		return err
	}
	r.planValues(p)
	if err := r.findFillers(p); err != nil {
		return err
	}
	r.findLog(p)
	if err := r.checkClosed(p); err != nil {
		return err
	}
	r.planTables(p)
	r.checkValues(p)
	for _, l := range r.logs {
		p.lines = append(p.lines, l.line)
		p.moves = append(p.moves, l.line)
		p.healthy = p.healthy && (!l.needed || l.clean)
		if l.fill {
			r.report.MayResurrect = true
			l.line.Fate, l.line.Reason = rewritten, "according to the MANIFEST, tables have its entries, but some are missing or damaged: it fills their key ranges"
		}
	}
	for _, f := range r.ofKind(base.FileManifest, base.FileTemp, base.FileClosed) {
		line := r.manifest.lines[f.name]
		if line == nil {
			line = &File{Name: f.name, Fate: unused, Level: -1, Bytes: uint64(f.Size), Reason: "a leftover temporary file"}
			if f.Kind == base.FileClosed {
				line.Reason = "it describes a log that is no longer in use"
			}
		}
		p.lines = append(p.lines, line)
		p.moves = append(p.moves, line)
	}
	return nil
}

// findLog looks for the log that the MANIFEST names. Its absence is a loss, which Open reports as
// well (see checkLog in package replay); a repair leaves an empty one.
func (r *Repairer) findLog(p *plan) {
	num := r.manifest.logNum
	if r.manifest.version == nil || num == 0 || r.hasLog(num) {
		return
	}
	p.healthy = false
	p.lines = append(p.lines, &File{Name: base.FileName(base.FileLog, num), Fate: missing, Level: -1,
		Reason: "the MANIFEST names it; entries that only it contained are lost, " +
			"unless tables that the MANIFEST does not name have them"})
}

func (r *Repairer) hasLog(num uint64) bool {
	return slices.ContainsFunc(r.logs, func(l *foundLog) bool { return l.Num == num })
}

// checkClosed compares the logs with the mark of the last Close, as Open does.
func (r *Repairer) checkClosed(p *plan) error {
	mark := r.manifest.mark
	if mark == nil {
		return nil
	}
	if mark.LogFailed() {
		if _, lost := r.missesUpTo(mark.LastSeq); lost {
			p.healthy = false
		}
		return nil
	}
	files := r.dirFiles()
	if err := mark.Missing(r.dir, files); err != nil {
		p.healthy = false
		r.missesUpTo(mark.LastSeq)
		if mark.Log.Num != r.manifest.logNum { // otherwise findLog has reported it
			p.lines = append(p.lines, &File{Name: base.FileName(base.FileLog, mark.Log.Num), Fate: missing, Level: -1,
				Bytes:  mark.Log.Size,
				Reason: "it existed when the database was closed; entries that only it contained are lost"})
		}
		return nil
	}
	for _, l := range r.logs {
		if l.Num == mark.Log.Num && l.clean {
			if err := r.compareClosed(mark, l); err != nil {
				return err
			}
		}
		if l.Num != mark.Log.Num || !l.clean {
			continue
		}
		if missing, ok := r.missesUpTo(mark.LastSeq); ok {
			l.clean = false
			l.line.Damage = fmt.Sprintf("operations %d to %d are missing: the database was closed with them, but no log has them",
				missing.first, missing.last)
		}
	}
	return nil
}

func (r *Repairer) compareClosed(mark *manifest.CloseMark, l *foundLog) error {
	file, err := r.fs.Open(r.path(l.name))
	if err != nil {
		return err
	}
	defer file.Close()
	err = mark.Check(file, mark.Clip(manifest.DirFile{Num: l.Num, Size: l.Size}))
	if errors.Is(err, base.ErrCorruption) {
		l.clean, l.line.Damage = false, base.InFile(err, r.path(l.name), -1).Error()
		return nil
	}
	return err
}

// findLive begins a plan: it compares the directory with the MANIFEST.
func (r *Repairer) findLive() *plan {
	known := r.manifest.version != nil
	p := &plan{live: map[*foundTable]int{}, named: map[uint64]bool{}, healthy: known, complete: known}
	if !known {
		return p
	}
	byNum := map[uint64][]*foundTable{}
	for _, t := range r.tables {
		byNum[t.Num] = append(byNum[t.Num], t)
	}
	r.manifest.version.Files(func(level int, f *version.FileMeta) {
		p.named[f.Num] = true
		for _, t := range byNum[f.Num] {
			// Another table under this name could be intact too, so the bounds must match.
			if t.intact() && t.canonical() && bytes.Equal(t.smallest, f.Smallest) && bytes.Equal(t.largest, f.Largest) {
				p.live[t], p.newest = level, max(p.newest, t.maxSeq)
				p.healthy = p.healthy && uint64(t.Size) == f.Size
				return
			}
		}
		p.complete, p.healthy = false, false
		if byNum[f.Num] == nil {
			p.lines = append(p.lines, &File{Name: f.Name(), Fate: missing, Level: -1, Bytes: f.Size,
				Reason: fmt.Sprintf("the MANIFEST names it on level %d with %d bytes", level, f.Size)})
		}
	})
	if !p.complete && !r.manifest.inForce {
		// A crash or failure may have left this MANIFEST before it came into force. Its log
		// number must not be used then, because that could lose writes.
		r.manifest.logNum = 0
	}
	return p
}

// placeLive leaves live tables on their levels, except on a level 0 in the wrong order, which would
// return old versions. A repair by LevelDB leaves such a level 0.
func (r *Repairer) placeLive(p *plan) error {
	var level0 []*foundTable
	for t, level := range p.live {
		if level == 0 {
			level0 = append(level0, t)
		}
	}
	slices.SortFunc(level0, func(a, b *foundTable) int { return cmp.Compare(b.Num, a.Num) })
	agrees, err := r.inSequence(level0)
	if err != nil {
		return err
	}
	if p.conflicting, err = r.conflicting(p.live); err != nil {
		return err
	}
	for t, level := range p.live {
		if (level > 0 || agrees) && !p.conflicting[t] {
			t.line.Level = level
			p.placed = append(p.placed, version.LevelFile{Level: level, File: t.meta()})
		}
	}
	return nil
}

// inSequence reports whether the tables of level 0, newest file first, are in the order of sequence
// numbers: if several tables have a key, the first one must have the newest version. The ranges of
// sequence numbers prove that for tables made by flushes; otherwise the keys are compared.
func (r *Repairer) inSequence(level0 []*foundTable) (bool, error) {
	rising := true
	for i := 1; i < len(level0); i++ {
		rising = rising && level0[i-1].minSeq > level0[i].maxSeq
	}
	if rising || len(level0) > r.maxFanIn {
		return rising, nil
	}
	children := make([]base.Iterator, len(level0))
	rank := map[base.Iterator]int{}
	for i, t := range level0 {
		children[i] = r.newChainIter([]*run{r.tableRun(t)})
		rank[children[i]] = i
	}
	it := tables.NewMergingIter(r.cmp, children)
	agrees := true
	var key []byte
	last := 0
	for ok := it.First(); ok && agrees; ok = it.Next() {
		user, at := base.UserKey(it.Key()), rank[it.Current()]
		if key != nil && r.cmp.Compare(key, user) == 0 {
			agrees = at >= last
		}
		key, last = append(key[:0], user...), at
	}
	return agrees, it.Close()
}

// planTables decides about the tables that are not placed yet.
//
// A table that the MANIFEST does not name is left out if the MANIFEST names all needed tables: such a table awaits its
// removal, or was being written. It is used if its entries are newer than those of all live tables and the end of the
// MANIFEST or a part of a log may be lost. It is also used if a live table is missing or damaged, because it may have
// the same entries, or if the MANIFEST does not know it; see unknown. A part of an uncommitted load is always left out.
func (r *Repairer) planTables(p *plan) {
	placed := map[uint64]bool{}
	for _, f := range p.placed {
		placed[f.File.Num] = true
	}
	lostLoad := r.lostLoad(p)
	for _, t := range r.tables {
		p.lines = append(p.lines, t.line)
		_, live := p.live[t]
		switch {
		case live && placed[t.Num]:
		case live && p.conflicting[t]:
			r.use(p, t, "it and another table have different values for the same key and sequence number")
		case live:
			r.use(p, t, "level 0 was not in the order of sequence numbers")
		case t.fill:
			r.planFiller(p, t,
				"other tables replaced it, but some of them are missing or damaged: it fills their key ranges")
		case t.dead:
			p.leaveOut(t, "not in use: according to the MANIFEST, other tables replaced it")
		case lostLoad[t]:
			r.use(p, t, "it was on no level, and the last edit of the MANIFEST is cut off")
		case t.entries > 0 && r.unknown(p, t):
			r.report.MayResurrect = true
			r.use(p, t, "the MANIFEST does not name it, and nothing says that other tables replaced it")
		case p.complete && (t.Num < r.manifest.logNum || t.maxSeq <= p.newest && !t.seqsLost):
			p.leaveOut(t, "not in use: the MANIFEST does not name it, and the tables that it names all exist and have later entries")
		case p.complete && r.knowsAll():
			p.healthy = false // move it to lost/ before the next Open removes it
			p.leaveOut(t, "not in use: it was written for an edit that the MANIFEST does not have, and the logs have the latest entries")
		case r.ofOpenLoad(t):
			p.healthy = false // move it to lost/ before the next Open removes it
			p.leaveOut(t, "part of a load that was not committed according to the MANIFEST")
		case t.entries == 0:
			p.healthy = false
			p.leaveOut(t, "none of its entries can be read")
		case !p.complete && r.wasReplaced(p, t):
			p.leaveOut(t, "not in use: the MANIFEST, which is newer, does not name it, and no table in its key range is missing")
		default:
			r.report.MayResurrect = r.report.MayResurrect || !p.named[t.Num] && r.missesEdits(p)
			t.recall = r.manifest.version != nil && !p.named[t.Num] && t.minSeq == 0 && t.maxSeq > 0 && !t.seqsLost
			r.use(p, t, "it was on no level")
		}
	}
}

// ofOpenLoad reports whether a table that the MANIFEST does not name belongs to a load whose Commit
// was interrupted while it renamed the tables, perhaps not all of them. All entries of a load have the
// same sequence number, far above all others; the edit that commits the load records it. The distance
// distinguishes a table of one loaded entry from one of a flush. An ingest uses a 16th of that of a load.
func (r *Repairer) ofOpenLoad(t *foundTable) bool {
	if !r.endsWhole() || t.minSeq != t.maxSeq || t.maxSeq <= r.manifest.lastSeq {
		return false
	}
	if slices.ContainsFunc(r.missingOps, func(o opRange) bool { return t.maxSeq <= o.last }) {
		return false // a later log shows that it was committed
	}
	return t.entries > 1 || t.maxSeq-r.manifest.lastSeq > base.LoadAhead>>5
}

// endsWhole reports whether the MANIFEST has all edits that were ever in force. It may have lost its end
// if the log that it names is missing, or CLOSED records more edits. See lostLoad about an edit that is cut off.
func (r *Repairer) endsWhole() bool {
	m := &r.manifest
	return m.version != nil && !m.lostEnd && r.hasLog(m.logNum)
}

// knowsAll reports whether tables that the MANIFEST does not name have nothing that is not elsewhere: a
// crash interrupted the flush of a log that is still there, or an ingest or a load, perhaps before all of
// its tables had their names. The tables of an ingest have any sequence numbers, so they do not show it.
func (r *Repairer) knowsAll() bool {
	return r.endsWhole() && len(r.missingOps) == 0 && !slices.ContainsFunc(r.logs, func(l *foundLog) bool { return l.needed && !l.clean })
}

// lostLoad returns the tables of a load which the edit that is cut off at the end of the MANIFEST may have committed. All
// entries of a load have one sequence number, which is further above the last one than those of an ingest or a deletion
// of ranges. If a crash interrupted these, Open drops their tables: only the edit says which tables a deletion removes,
// so its tombstones alone would be half of it, and the tables of an ingest have any numbers. Tables without later
// entries than those in use are of a compaction.
func (r *Repairer) lostLoad(p *plan) map[*foundTable]bool {
	m := &r.manifest
	_, num, ok := base.ParseFileName(m.name)
	if !ok || !p.complete || !r.lostEdit() {
		return nil
	}
	load, seq := map[*foundTable]bool{}, uint64(0)
	for _, t := range r.tables {
		above := t.minSeq - m.lastSeq
		switch {
		case p.named[t.Num] || t.dead || t.entries == 0 || t.Num <= max(num, m.logNum) || t.maxSeq <= p.newest && !t.seqsLost:
		case t.minSeq != t.maxSeq || seq != 0 && t.minSeq != seq:
			return nil
		case t.minSeq <= m.lastSeq || above <= base.LoadAhead>>1 || above > base.LoadAhead:
			return nil
		default:
			load[t], seq = true, t.minSeq
		}
	}
	return load
}

// missesEdits reports whether a table that the MANIFEST does not name may be half of a change, or replaced.
func (r *Repairer) missesEdits(p *plan) bool {
	return !p.complete || len(r.missingOps) > 0 || r.lostEdit()
}

// lostEdit reports whether the last edit of the MANIFEST is cut off.
func (r *Repairer) lostEdit() bool { return r.manifest.lines[r.manifest.name].BytesLost > 0 }

// unknown reports whether the MANIFEST, or the lack of one, says nothing about a table that it does not name. No
// crash leaves a table that is older than the log, with entries above the last number of the MANIFEST. And the
// MANIFEST of another program may be that of a repair, which left out what it could not read. Such a table was moved
// back from lost/, or copied from elsewhere.
func (r *Repairer) unknown(p *plan, t *foundTable) bool {
	m := &r.manifest
	switch _, num, _ := base.ParseFileName(m.name); {
	case t.dead || m.version == nil:
		return false // the table counts in any case
	case t.Num < m.logNum && t.maxSeq > max(p.newest, m.lastSeq):
		return true
	default:
		// LevelDB's repair needs no log any more.
		return !m.ours && (t.Kind == base.FileValues || t.Num < num || m.logNum == 0)
	}
}

// use makes the entries of a table part of the result.
func (r *Repairer) use(p *plan, t *foundTable, reason string) {
	p.healthy = false
	t.line.Reason = reason
	if t.intact() {
		p.unplaced = append(p.unplaced, r.tableRun(t))
		return
	}
	t.line.Fate, t.line.Reason = rewritten, "damaged"
	p.damaged = append(p.damaged, t)
	p.moves = append(p.moves, t.line)
}

func (p *plan) leaveOut(t *foundTable, reason string) {
	t.line.Fate, t.line.Reason = unused, reason
	p.moves = append(p.moves, t.line)
}

// untouched completes the report of a database that does not change.
func (p *plan) untouched(r *Repairer) {
	for _, l := range r.logs {
		if l.needed {
			l.line.Fate, l.line.Reason = kept, ""
		}
	}
	line := r.manifest.lines[r.manifest.name]
	line.Fate, line.Reason = kept, ""
}

// refuseUnread returns the error for a directory in which no file can be read. Moving all files to
// lost/ would not help, and would harm a program that can read them.
func (r *Repairer) refuseUnread(p *plan) error {
	files, bytes := 0, uint64(0)
	for _, line := range p.lines {
		if line.Blocks > 0 || line.Entries > 0 {
			return nil
		}
		switch kind, _, _ := base.ParseFileName(line.Name); kind {
		case base.FileTable, base.FileOldTable, base.FileValues, base.FileLog, base.FileManifest:
			if line.Fate != missing && line.Bytes > 0 {
				files++
				bytes += line.Bytes
			}
		}
	}
	if files == 0 {
		return nil
	}
	return base.InFile(base.Corruptf("database", -1, "none of its tables, logs and MANIFESTs can be read (%d files, %d bytes), "+
		"want at least one block, record or edit; nothing was moved; "+
		"restore a backup, or delete the files if they are not needed", files, bytes), r.dir, -1)
}
