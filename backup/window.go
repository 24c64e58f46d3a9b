package backup

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
)

// Window is a part of the history of a database to whose states RestoreAt can restore: after each change with a
// number from First to Last.
type Window struct {
	Database string
	// Stream is the ID of the history. Numbers of different streams have nothing to do with each other.
	Stream string
	// Backup is the ID of the first backup, Backups the number of all in the window.
	Backup  string
	Backups int
	// First and Last are sequence numbers. From and To are the first and the last time for which the repository knows
	// the sequence number, by the clock of the machine that had the database open.
	First, Last uint64
	From, To    time.Time
	Segments    int
}

// String describes the window in a line.
func (w Window) String() string {
	return fmt.Sprintf("stream %s, database %q: from sequence number %d (%s) to %d (%s)", w.Stream, w.Database,
		w.First, w.From.Format(time.RFC3339Nano), w.Last, w.To.Format(time.RFC3339Nano))
}

// Windows returns the windows of the repository, the oldest stream first. If the descriptions of some backups are
// damaged, it returns what the others have, and an error.
func (r *Repository) Windows(ctx context.Context) ([]Window, error) {
	if ctx == nil {
		return nil, errors.New("sievedb: backup: Windows needs a context")
	}
	if err := r.check(ctx); err != nil {
		return nil, err
	}
	all, damaged := r.manifests(ctx, map[string]*manifest{})
	windows, err := r.windows(ctx, all)
	return windows, errors.CombineErrors(damaged, err)
}

func (r *Repository) windows(ctx context.Context, all []*manifest) (windows []Window, err error) {
	of := byStream(all)
	for _, id := range slices.Sorted(maps.Keys(of)) {
		numbers, err := r.numbers(ctx, id)
		if err != nil {
			return nil, err
		}
		left := of[id]
		for _, run := range runs(numbers) {
			w, rest, err := r.window(ctx, id, run, left)
			if errors.Is(err, fs.ErrNotExist) { // pruned meanwhile
				continue
			}
			if err != nil {
				return nil, err
			}
			left = rest
			if w.Backups > 0 {
				windows = append(windows, w)
			}
		}
		for _, m := range left { // no segment continues them
			windows = append(windows, windowOf(m))
		}
	}
	return windows, nil
}

// byStream returns the backups of each stream, sorted by their sequence numbers.
func byStream(all []*manifest) map[string][]*manifest {
	of := map[string][]*manifest{}
	for _, m := range all {
		if m.Stream != "" {
			of[m.Stream] = append(of[m.Stream], m)
		}
	}
	for _, backups := range of {
		slices.SortStableFunc(backups, func(a, b *manifest) int { return cmp.Compare(a.Sequence, b.Sequence) })
	}
	return of
}

// runs divides sorted numbers where some are missing.
func runs(numbers []uint64) (all [][]uint64) {
	for i, n := range numbers {
		if i == 0 || n != numbers[i-1]+1 {
			all = append(all, nil)
		}
		all[len(all)-1] = append(all[len(all)-1], n)
	}
	return all
}

func windowOf(m *manifest) Window {
	return Window{
		Database: m.Database, Stream: m.Stream, Backup: m.ID, Backups: 1,
		First: m.Sequence, Last: m.Sequence, From: m.Noted, To: m.Noted,
	}
}

// window returns the window of a run of segments, and the backups that are not in it.
func (r *Repository) window(ctx context.Context, id string, run []uint64, backups []*manifest) (w Window, rest []*manifest, err error) {
	first, err := r.segmentHead(ctx, id, run[0])
	for errors.Is(err, fs.ErrNotExist) && len(run) > 1 { // pruned meanwhile
		run = run[1:]
		first, err = r.segmentHead(ctx, id, run[0])
	}
	if err != nil {
		return w, backups, err
	}
	last, err := r.segmentHead(ctx, id, run[len(run)-1])
	if err != nil {
		return w, backups, err
	}
	for _, m := range backups {
		switch {
		case m.Sequence < first.after || m.Sequence > last.last:
			rest = append(rest, m)
		case w.Backups == 0:
			w = windowOf(m)
		default:
			w.Backups++
		}
	}
	end := last.marks[len(last.marks)-1].at
	w.Last = last.last
	if end.After(w.To) {
		w.To = end
	}
	w.Segments = len(run)
	return w, rest, nil
}

// Point is a state of a database that RestoreAt restores: the one after the last change up to a sequence number, or up
// to a time. One of the two must be given.
type Point struct {
	Sequence uint64
	Time     time.Time
}

func (p Point) String() string {
	if p.Time.IsZero() {
		return fmt.Sprintf("sequence number %d", p.Sequence)
	}
	return p.Time.Format(time.RFC3339Nano)
}

// route is how to get to a point: a backup, and the segments after it up to a sequence number.
type route struct {
	base     *manifest
	segments []*segmentHead
	target   uint64
}

// errGap says that a history has points before and after the wanted one, but not the wanted one.
var errGap = errors.Sentinel("sievedb: backup: segments are missing between two points of a history")

// plan finds a path to a point. If the ID is not empty, the path begins with that backup. If a part of the newest
// history is missing or cannot be read, plan does not use an older one, where the same number means another state.
func (r *Repository) plan(ctx context.Context, id, database string, p Point) (*route, error) {
	all, damaged := r.manifests(ctx, map[string]*manifest{})
	if id == "" {
		var names []string
		for _, m := range all {
			names = append(names, m.Database)
		}
		if database == "" && damaged != nil && !base.IsUnreadable(damaged) {
			return nil, damaged // the storage failed, so there may be other databases
		}
		var err error
		if database, err = onlyDatabase(database, names); err != nil {
			return nil, err
		}
	}
	wanted := slices.DeleteFunc(slices.Clone(all), func(m *manifest) bool {
		return id != "" && m.ID != id || id == "" && m.Database != database
	})
	of := byStream(wanted)
	for _, stream := range slices.Backward(slices.Sorted(maps.Keys(of))) { // the newest history first
		found, err := r.planIn(ctx, stream, of[stream], p)
		if errors.Is(err, errGap) {
			return nil, errors.CombineErrors(r.unreachable(ctx, all, p), errors.CombineErrors(damaged, err))
		}
		if err == nil && found != nil && id == "" {
			err = r.isNewest(ctx, stream, database, p, len(of) > 1, damaged)
		}
		if found != nil || err != nil {
			return found, err
		}
	}
	return nil, errors.CombineErrors(r.unreachable(ctx, all, p), damaged)
}

// isNewest returns an error unless a history is known to be the newest one of a database that has the point.
// others says that the database has further ones, and damaged is why some backups could not be read.
func (r *Repository) isNewest(ctx context.Context, stream, database string, p Point, others bool, damaged error) error {
	if began, _ := timeOf(stream); others && r.isFuture(began) {
		return errors.Newf("sievedb: backup: the history that began at %s is dated after now; compare the clocks, "+
			"and give the ID of the backup to begin from", stream)
	}
	if damaged == nil {
		return nil
	}
	ids, err := r.ids(ctx, streamPrefix)
	if err != nil {
		return err
	}
	for _, id := range ids {
		if id <= stream {
			continue
		}
		s, err := r.stream(ctx, id)
		began, _ := timeOf(id)
		switch {
		case errors.Is(err, fs.ErrNotExist): // pruned meanwhile
			continue
		case err == nil && (s.database != database || p.Time.IsZero() && s.after > p.Sequence ||
			!p.Time.IsZero() && began.After(p.Time)):
			continue
		}
		return errors.Wrapf(errors.CombineErrors(damaged, err), "sievedb: backup: the history that began at %s may have "+
			"the point, and its backups cannot be read; give the ID of the backup to begin from", id)
	}
	return nil
}

// unreachable returns an error that says which points can be restored.
func (r *Repository) unreachable(ctx context.Context, all []*manifest, p Point) error {
	windows, err := r.windows(ctx, all)
	if err != nil {
		return err
	}
	lines := []string{}
	for _, w := range windows {
		lines = append(lines, w.String())
	}
	if len(lines) == 0 {
		lines = []string{"none, since no backup has segments; see Archive"}
	}
	return errors.NotExist("sievedb: backup: %v cannot be restored; what can be is %s", p, strings.Join(lines, "; "))
}

// lastBefore returns the newest backup that is not after a point, or nil, and whether there is one after it.
func lastBefore(backups []*manifest, p Point) (last *manifest, later bool) {
	for _, m := range backups {
		if p.Time.IsZero() && m.Sequence <= p.Sequence || !p.Time.IsZero() && !m.Noted.After(p.Time) {
			last = m
		} else {
			later = true
		}
	}
	return last, later
}

// planIn finds a path in a stream, or returns nil if the stream does not have the point.
func (r *Repository) planIn(ctx context.Context, stream string, backups []*manifest, p Point) (*route, error) {
	from, later := lastBefore(backups, p)
	if from == nil {
		return nil, nil
	}
	found := &route{base: from, target: from.Sequence}
	exact := found.base.Noted.Equal(p.Time)
	if p.Time.IsZero() {
		if exact = found.base.Sequence == p.Sequence; exact {
			return found, nil
		}
	}
	numbers, err := r.numbers(ctx, stream)
	if err != nil {
		return nil, err
	}
	numbers, err = r.after(ctx, stream, numbers, found.base.Sequence)
	if err != nil {
		return nil, err
	}
	missing := false
	for i, n := range numbers {
		h, err := r.segmentHead(ctx, stream, n)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		if missing = err != nil || i > 0 && n != numbers[i-1]+1 || i == 0 && h.after > found.base.Sequence; missing {
			break
		}
		found.segments = append(found.segments, h)
		if r.advance(found, h, p) {
			return found.trimmed(), nil
		}
	}
	switch {
	case exact: // the backup is the point
		return found.trimmed(), nil
	case missing || later:
		return nil, errGap
	}
	return nil, nil
}

// trimmed returns the route without the segments after the target.
func (f *route) trimmed() *route {
	for n := len(f.segments); n > 0 && f.segments[n-1].after >= f.target; n-- {
		f.segments = f.segments[:n-1]
	}
	return f
}

// after returns the numbers of the segments that have changes after a sequence number.
func (r *Repository) after(ctx context.Context, stream string, numbers []uint64, seq uint64) ([]uint64, error) {
	var failed error
	i := sort.Search(len(numbers), func(i int) bool {
		h, err := r.segmentHead(ctx, stream, numbers[i])
		switch {
		case errors.Is(err, fs.ErrNotExist): // pruned meanwhile, since a kept backup begins after it
			return false
		case err != nil:
			failed = err
			return false
		}
		return h.last >= seq
	})
	return numbers[i:], failed
}

// advance sets the target to the last change of a segment that is not after the point. It reports whether the point is
// in the segment. Times in the future are ignored: the clock was ahead for a while, and later times are right again.
func (r *Repository) advance(f *route, h *segmentHead, p Point) (reached bool) {
	if p.Time.IsZero() {
		f.target = p.Sequence
		return h.last >= p.Sequence
	}
	for _, m := range h.marks {
		if r.isFuture(m.at) && !r.isFuture(p.Time) {
			continue
		}
		if m.at.After(p.Time) {
			return true
		}
		f.target = max(f.target, m.seq)
		reached = m.at.Equal(p.Time)
	}
	return reached
}
