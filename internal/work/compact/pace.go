package compact

import (
	"context"
	"time"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/tables"
	"github.com/sievedb/sievedb/sstable"
)

// Tuning.MaxBytesPerSecond limits what merges and filter upgrades read and write together. It does
// not hold while level 0 has so many tables, or value tables so much garbage, that writers are slowed:
// to slow what they wait for would slow them more.

// paceStep is after how many bytes of entries a merge looks at what it has read and written.
const paceStep = 64 << 10

// longestPause is the time after which a paced goroutine looks whether the limit still holds.
const longestPause = 100 * time.Millisecond

// pacer keeps a piece of a merge within the limit.
type pacer struct {
	s       *Scheduler
	ctx     context.Context
	read    sstable.IterStats // of all runs
	out     *tables.Writer
	job     *mergeJob
	entries uint64 // bytes of entries since the last step
	turn    base.Turn
	// taken and given are the bytes read and written until the last step.
	taken, given uint64
	began        time.Time // of the work after the last rest
}

// restAfter is the work after which an unhurried merge rests for as long, unless level 0 needs its slot.
const restAfter = 20 * time.Millisecond

// rest lets others have half of the time that the merge takes.
func (p *pacer) rest() {
	worked := time.Since(p.began)
	if worked < restAfter {
		return
	}
	if !p.s.level0Has(p.s.tuning.Load().L0Trigger) && p.ctx.Err() == nil {
		p.s.pause(min(worked, longestPause))
	}
	p.began = time.Now()
}

// passed is called after each entry of so many bytes.
func (p *pacer) passed(bytes int) {
	p.turn.Worked(bytes)
	if p.entries += uint64(bytes); p.entries >= paceStep {
		p.step()
	}
}

// step takes what was read and written since the last step.
func (p *pacer) step() {
	p.entries = 0
	taken, given := p.read.BytesRead, max(p.out.Written(), p.given) // an estimate of the open table may shrink
	read, written := taken-p.taken, given-p.given
	p.taken, p.given = taken, given
	done := p.job.done
	done.read.Add(read)
	p.job.logGrowth(done.written.Add(written))
	if read+written > 0 {
		p.s.pace(p.ctx, read+written)
	}
	if p.job.c.Unhurried {
		p.rest()
	}
}

// A merge writes what its tables say, however little they have: a kilobyte can stand for many megabytes. A merge that
// has written both growthFactor times the size of its inputs and growthFree bytes says so in the log, once. Honest
// tables shrink to a thirtieth only if they are nearly empty of information.
const (
	growthFactor = 32
	growthFree   = 64 << 20
)

// logGrowth logs that the merge has written far more bytes than its inputs have, if that is so.
func (j *mergeJob) logGrowth(written uint64) {
	if written < growthFree || written/growthFactor < j.c.InputBytes()+j.home.Load() || j.grown.Swap(true) {
		return
	}
	j.s.o.Logger.Warn("a compaction writes far more than its tables have", "from", j.c.Level, "to", j.c.OutputLevel,
		"tables", tableNames(j.c), "input", j.c.InputBytes(), "written", written)
}

// pace waits until n more bytes are within the limit, the limit changes, ctx is done, or the Scheduler closes.
func (s *Scheduler) pace(ctx context.Context, n uint64) {
	t := s.tuning.Load()
	if t.MaxBytesPerSecond == 0 || s.slowsWriters(t) {
		return
	}
	wait := s.rate.Take(n, t.MaxBytesPerSecond, time.Now())
	for wait > 0 && ctx.Err() == nil {
		step := min(wait, longestPause)
		if !s.pause(step) {
			return
		}
		if now := s.tuning.Load(); now.MaxBytesPerSecond != t.MaxBytesPerSecond || s.slowsWriters(now) {
			s.rate.Forgive()
			return
		}
		wait -= step
	}
}

// level0Has reports whether level 0 has so many tables.
func (s *Scheduler) level0Has(tables int) bool {
	v := s.host.RefVersion()
	defer v.Unref()
	return len(v.Levels[0].Files) >= tables
}

// slowsWriters reports whether writers are slowed until compactions have done more.
func (s *Scheduler) slowsWriters(t *Tuning) bool {
	v := s.host.RefVersion()
	defer v.Unref()
	return len(v.Levels[0].Files) >= t.L0SlowdownTrigger || s.GarbageLoad(v) > 0
}
