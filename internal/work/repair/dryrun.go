package repair

import (
	"bytes"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/version"
)

// foretell sets the fates that construct and moveAway would set, for the report of a dry run. It writes
// no runs. Their key ranges decide: those of logs and damaged tables are taken as one run of each file.
func (r *Repairer) foretell(p *plan) error {
	if err := r.foretellTables(p); err != nil {
		return err
	}
	r.useValues(p, func(t *foundTable) bool { return t.line.Fate == kept })
	return nil
}

func (r *Repairer) foretellTables(p *plan) error {
	if !r.manifest.inForce {
		for _, f := range r.ofKind(base.FileCurrent) {
			p.lines = append(p.lines, &File{Name: f.name, Fate: rewritten, Level: -1, Bytes: uint64(f.Size)})
		}
	}
	if len(p.placed) > 0 {
		rewrite(p.unplaced)
		return nil
	}
	for _, t := range p.damaged {
		if t.entries > 0 {
			p.unplaced = append(p.unplaced, boundsRun(t.smallest, t.largest))
		}
	}
	for _, l := range r.logs {
		if !l.needed {
			continue
		}
		u, err := r.logRun(l)
		if err != nil {
			return err
		}
		if u != nil {
			p.unplaced = append(p.unplaced, u)
		}
	}
	for _, group := range r.groups(p.unplaced) {
		if len(group) == 1 && r.adoptable(p, group[0]) {
			p.adopt(group[0], version.NumLevels-1)
			continue
		}
		rewrite(group)
	}
	return nil
}

// rewrite sets the fate of tables that a repair merges.
func rewrite(runs []*run) {
	for _, u := range runs {
		if u.table != nil {
			u.table.line.Fate = rewritten
		}
	}
}

// boundsRun returns a run without a file, from and to internal keys.
func boundsRun(smallest, largest []byte) *run {
	return &run{meta: version.NewFileMeta(0, 0, smallest, largest)}
}

// logRun returns a run with the key range of a log, nil if the log has no entries.
func (r *Repairer) logRun(l *foundLog) (*run, error) {
	var first, last []byte
	err := r.readLog(l, func(_ uint64, _ base.Kind, key, _ []byte) error {
		if first == nil || r.cmp.Compare(key, first) < 0 {
			first = notNil(bytes.Clone(key))
		}
		if last == nil || r.cmp.Compare(key, last) > 0 {
			last = notNil(bytes.Clone(key))
		}
		return nil
	})
	if err != nil || first == nil {
		return nil, err
	}
	return boundsRun(base.AppendInternalKey(nil, first, base.MaxSeq, base.KindSet), base.AppendInternalKey(nil, last, 0, base.KindDelete)), nil
}
