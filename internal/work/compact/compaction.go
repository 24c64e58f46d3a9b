package compact

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/disk/pick"
	"github.com/sievedb/sievedb/internal/disk/version"
)

// compactionReadAhead is the size of a compaction's reads, in bytes: large enough that the
// disk's latency hardly matters.
const compactionReadAhead = 256 << 10

// compact runs c and installs its result. It returns a panic as an error, so that c is
// released properly. If ctx is done before the result is installed, it returns the error of ctx.
func (s *Scheduler) compact(ctx context.Context, c *pick.Compaction) (err error) {
	returned := false
	defer func() {
		if !returned { // runtime.Goexit ends the goroutine, including this function's callers
			s.done(c, ErrStopped) // the callers' deferred end follows
		}
	}()
	err = s.o.Guard("a compaction", func() error { return s.compactAndReport(ctx, c) })
	returned = true
	return err
}

func (s *Scheduler) compactAndReport(ctx context.Context, c *pick.Compaction) error {
	info := Info{
		Reason: c.Reason, InputLevel: c.Level, OutputLevel: c.OutputLevel,
		InputTables: len(c.Inputs) + len(c.Overlaps), TrivialMove: c.TrivialMove(),
	}
	s.o.Begin(info)
	start := time.Now()
	err := base.NoSpace(s.runCompaction(ctx, c, &info))
	info.Duration, info.Err = time.Since(start), err
	s.o.End(info)
	if err == nil {
		s.o.Logger.Info("compacted", "from", c.Level, "to", c.OutputLevel, "inputs", info.InputTables,
			"outputs", info.OutputTables, "read", info.BytesRead, "written", info.BytesWritten,
			"moved", info.TrivialMove, "pieces", info.Subcompactions, "took", info.Duration)
	}
	return err
}

func (s *Scheduler) runCompaction(ctx context.Context, c *pick.Compaction, info *Info) error {
	if c.Level == version.ValuesLevel {
		return s.collect(ctx, c, info)
	}
	edit := &manifest.Edit{}
	for _, f := range c.Inputs {
		edit.Deleted = append(edit.Deleted, version.DeletedFile{Level: c.Level, Num: f.Num})
	}
	for _, f := range c.Overlaps {
		edit.Deleted = append(edit.Deleted, version.DeletedFile{Level: c.OutputLevel, Num: f.Num})
	}
	if c.Drop {
		if err := s.host.Apply(edit, nil); err != nil {
			return err
		}
		s.totals.tablesExpired.Add(uint64(len(c.Inputs)))
		return nil
	}
	if info.TrivialMove {
		f := c.Inputs[0]
		edit.Added = []version.LevelFile{{Level: c.OutputLevel, File: f}}
		info.OutputTables = 1
		if err := s.host.Apply(edit, nil); err != nil {
			return err
		}
		s.totals.trivialMoves.Add(1)
		return nil
	}
	job := s.newMergeJob(ctx, c)
	defer job.end() // after Apply
	files, pieces, err := job.mergeTables(edit)
	if err != nil {
		if err == base.ErrClosed || err == ctx.Err() {
			return err
		}
		return errors.Wrapf(inInputs(err, c), "sievedb: compacting level %d into level %d", c.Level, c.OutputLevel)
	}
	for _, f := range files {
		info.BytesWritten += f.Size
	}
	info.BytesRead, info.OutputTables, info.Subcompactions = c.InputBytes()+job.far.Load(), len(files), pieces
	info.ValuesDropped, info.ValuesExpired = job.filter.dropped.Load(), job.filter.expired.Load()
	if err := s.host.Apply(edit, files); err != nil {
		return err
	}
	s.totals.compactions.Add(1)
	s.totals.subcompactions.Add(uint64(pieces))
	s.totals.bytesRead.Add(info.BytesRead)
	s.totals.bytesWritten.Add(info.BytesWritten)
	s.totals.valuesDropped.Add(info.ValuesDropped)
	s.totals.valuesExpired.Add(info.ValuesExpired)
	return nil
}

// tableNames returns the names of the tables that are merged.
func tableNames(c *pick.Compaction) string {
	var names []string
	for _, f := range c.AllInputs() {
		names = append(names, f.Name())
	}
	return strings.Join(names, ", ")
}

// ManualStep bounds the inputs of one step of a manual compaction, in bytes, so that its
// temporary disk space is small compared with the database.
const ManualStep = 64 << 20

// Compact merges all tables that may hold keys in [start, limit), nil for no bound. It returns when that is done or ctx
// is; a merge that ctx ends changes nothing. Tuning.Filter is called for all values in the range that were written
// before, unless a snapshot sees them.
func (s *Scheduler) Compact(ctx context.Context, start, limit []byte) error {
	stop := context.AfterFunc(ctx, s.wake)
	defer stop()
	if err := s.waitForEarlierFilters(ctx); err != nil {
		return err
	}
	fresh := s.o.NewFileNum() // tables from this number on are written during or after this call
	for level := 0; level < version.NumLevels-1; level++ {
		if err := s.compactLevel(ctx, level, start, limit); err != nil {
			return err
		}
	}
	if err := s.rewriteLastLevel(ctx, start, limit, fresh); err != nil {
		return err
	}
	if start == nil && limit == nil && s.o.Plan.Underused() {
		if _, err := s.UpgradeFilters(ctx, nil, UpgradeOptions{}); err != nil {
			return err
		}
	}
	return s.bringHome(ctx, start, limit)
}

// compactLevel compacts level's tables within [start, limit) into a deeper level. It skips
// levels below level 0 if no deeper one has tables there. It ignores tables that are written
// meanwhile; otherwise it might not end before the writes do.
func (s *Scheduler) compactLevel(ctx context.Context, level int, start, limit []byte) error {
	from, since := start, s.o.NewFileNum()
	for {
		c, err := s.claim(ctx, func(v *version.Version, o pick.Options) (*pick.Compaction, bool) {
			files := v.Within(level, from, limit)
			if !slices.ContainsFunc(files, func(f *version.FileMeta) bool { return f.Origin() < since }) {
				return nil, false
			}
			below := false
			for l := level + 1; l < version.NumLevels; l++ {
				below = below || len(v.Within(l, start, limit)) > 0
			}
			out := level + 1
			if level == 0 {
				out = pick.From(v).Shape(o).BaseLevel
			} else if !below {
				return nil, false
			}
			return pick.From(v).OfFiles(level, out, files, ManualStep, o)
		})
		if err != nil || c == nil {
			return err
		}
		if level > 0 {
			from = base.UserKey(c.Inputs[len(c.Inputs)-1].Largest)
		}
		if err := s.compactClaimed(ctx, c); err != nil {
			return err
		}
	}
}

// rewriteLastLevel rewrites the tables of the deepest level within [start, limit) that this call has not written yet.
func (s *Scheduler) rewriteLastLevel(ctx context.Context, start, limit []byte, fresh uint64) error {
	for {
		c, err := s.claim(ctx, func(v *version.Version, o pick.Options) (*pick.Compaction, bool) {
			for level := version.NumLevels - 1; level > 0; level-- {
				files := v.Within(level, start, limit)
				if len(files) == 0 {
					continue
				}
				stale := firstRun(files, func(f *version.FileMeta) bool { return f.Origin() < fresh })
				if len(stale) == 0 {
					return nil, false
				}
				return pick.From(v).OfFiles(level, level, stale, ManualStep, o)
			}
			return nil, false
		})
		if err != nil || c == nil {
			return err
		}
		if err := s.compactClaimed(ctx, c); err != nil {
			return err
		}
	}
}

// firstRun returns the first consecutive files for which is returns true.
func firstRun(files []*version.FileMeta, is func(*version.FileMeta) bool) []*version.FileMeta {
	i := 0
	for i < len(files) && !is(files[i]) {
		i++
	}
	j := i
	for j < len(files) && is(files[j]) {
		j++
	}
	return files[i:j]
}

// ClearLevel0 prepares the load of files. If overlaps would keep at least L0Trigger of them in
// level 0, it compacts the tables of level 0 that overlap the load.
func (s *Scheduler) ClearLevel0(ctx context.Context, files []*version.FileMeta) error {
	start, limit := base.UserKey(files[0].Smallest), base.UserKey(files[len(files)-1].Largest)
	c, err := s.claim(ctx, func(v *version.Version, o pick.Options) (c *pick.Compaction, busy bool) {
		crowd := 0
		for _, p := range pick.From(v).Place(files, o) {
			if p.Level == 0 {
				crowd++
			}
		}
		if crowd < o.L0Trigger {
			return nil, false
		}
		return pick.From(v).OfFiles(0, pick.From(v).Shape(o).BaseLevel, v.Overlapping(0, start, limit), ManualStep, o)
	})
	if err != nil || c == nil {
		return err
	}
	return s.compactClaimed(ctx, c)
}

// inInputs adds the names of the inputs to an error about an entry, which does not know its table.
func inInputs(err error, c *pick.Compaction) error {
	var damage *base.CorruptionError
	if !errors.As(err, &damage) || damage.File != "" {
		return err
	}
	var names []string
	for _, f := range c.AllInputs() {
		names = append(names, f.Name())
	}
	return errors.Wrapf(err, "in %s", strings.Join(names, " or "))
}
