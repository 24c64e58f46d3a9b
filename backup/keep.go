package backup

import (
	"context"
	"io/fs"
	"maps"
	"slices"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
)

// dropSegments removes the streams without a backup, and then the segments that no kept backup needs. The backups are
// read again in between: until the stream is removed, a backup can join it, and then needs its segments.
func (u *pruning) dropSegments() error {
	if err := u.dropStreams(); err != nil {
		return err
	}
	segments, err := u.unneededSegments(nil)
	if err != nil {
		return err
	}
	u.report.Segments = len(segments)
	for _, name := range segments {
		if err := u.storage.Delete(u.ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// dropStreams removes the objects of streams that have no backup. They are listed before the backups are read: a
// stream has a backup before it has an object.
func (u *pruning) dropStreams() error {
	ids, err := u.ids(u.ctx, streamPrefix)
	if err != nil {
		return err
	}
	all, err := u.manifests(u.ctx, u.known)
	if err != nil {
		return err
	}
	bases := byStream(all)
	for _, id := range ids {
		if len(bases[id]) > 0 {
			continue
		}
		if err := u.storage.Delete(u.ctx, streamPrefix+id); err != nil {
			return err
		}
	}
	return nil
}

// unneededSegments returns the names of segments that no kept backup needs; in a dry run, kept are the backups that
// would remain. The segments are listed before the backups are read: a stream has a backup before it has a segment.
func (u *pruning) unneededSegments(kept []*manifest) (segments []string, err error) {
	of, err := u.segmentsByStream(u.ctx)
	if err != nil {
		return nil, err
	}
	if !u.dryRun {
		if kept, err = u.manifests(u.ctx, u.known); err != nil {
			return nil, err
		}
	}
	bases := byStream(kept)
	for _, id := range slices.Sorted(maps.Keys(of)) {
		numbers := of[id]
		if len(bases[id]) > 0 {
			if numbers, err = u.ended(id, numbers, bases[id][0].Sequence); err != nil {
				return nil, err
			}
		}
		for _, n := range numbers {
			segments = append(segments, segmentName(id, n))
		}
	}
	return segments, nil
}

// ended returns which segments of a stream end up to the oldest kept backup. The newest segment with changes stays, and
// those after it: a program that continues the stream compares these changes with its own.
func (u *pruning) ended(id string, numbers []uint64, oldest uint64) (ended []uint64, err error) {
	compared := 0
	for _, n := range numbers {
		h, err := u.head(id, n)
		if errors.Is(err, fs.ErrNotExist) { // another Prune has removed it
			continue
		}
		if err != nil {
			return nil, err
		}
		if h.last > oldest {
			return ended, nil
		}
		if h.changes > 0 {
			compared = len(ended)
		}
		ended = append(ended, n)
	}
	return ended[:compared], nil
}

// segmentsByStream returns the numbers of all segments, ascending.
func (r *Repository) segmentsByStream(ctx context.Context) (map[string][]uint64, error) {
	of := map[string][]uint64{}
	for o, err := range r.storage.List(ctx, segmentPrefix) {
		if err != nil {
			return nil, errors.Wrap(err, "listing the segments")
		}
		if stream, n, ok := parseSegment(o.Name); ok {
			of[stream] = append(of[stream], n)
		}
	}
	for _, numbers := range of {
		slices.Sort(numbers)
	}
	return of, nil
}

// head returns the head of a segment, which is read once. The error matches fs.ErrNotExist if the segment has been
// removed.
func (u *pruning) head(stream string, n uint64) (h *segmentHead, err error) {
	name := segmentName(stream, n)
	if h = u.heads[name]; h != nil {
		return h, nil
	}
	h, err = u.segmentHead(u.ctx, stream, n)
	if err == nil {
		u.heads[name] = h
	}
	return h, err
}

// neededBySegments adds the tables of all segments but those of unneeded. A damaged segment is an error: which
// tables it needs is not known.
func (u *pruning) neededBySegments(to map[string]bool, unneeded []string) error {
	of, err := u.segmentsByStream(u.ctx)
	if err != nil {
		return err
	}
	for stream, numbers := range of {
		for _, n := range numbers {
			if _, found := slices.BinarySearch(unneeded, segmentName(stream, n)); found {
				continue
			}
			h, err := u.head(stream, n)
			if errors.Is(err, fs.ErrNotExist) { // another Prune has removed it
				continue
			}
			if err != nil {
				return errors.Wrap(err, "no object was removed; if you can do without a damaged segment, delete it and those after it")
			}
			for i := range h.tables {
				to[h.tables[i].object()] = true
			}
		}
	}
	return nil
}

// verifySegments reads all segments of streams that have a backup. It returns the tables that they need, and the
// segments that need each. A segment that does not continue the one before is a fault, and so are missing ones at the
// end.
func (r *Repository) verifySegments(ctx context.Context, backups map[string][]*manifest, report *VerifyReport) (files map[string]*file, users map[string][]string, err error) {
	files, users = map[string]*file{}, map[string][]string{}
	streams, err := r.verifyStreams(ctx, report)
	if err != nil {
		return nil, nil, err
	}
	of, err := r.segmentsByStream(ctx)
	if err != nil {
		return nil, nil, err
	}
	for id, s := range streams {
		if len(of[id]) == 0 {
			if err := r.verifyEnd(ctx, backups[id], s.after, report); err != nil {
				return nil, nil, err
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(of)) {
		if len(backups[id]) == 0 {
			continue // Prune will remove it
		}
		var before *segmentHead
		oldest := backups[id][0]
		for i, n := range of[id] {
			s, err := r.verifySegment(ctx, id, n, before)
			if ctx.Err() != nil {
				return nil, nil, ctx.Err()
			}
			if s == nil && err == nil { // pruned meanwhile
				before = nil
				continue
			}
			if err == nil && i == 0 && s.after > oldest.Sequence {
				if _, gone := r.manifest(ctx, oldest.ID); gone == nil { // else both were pruned meanwhile
					err = errors.NotExist("the segments before %d are missing", n)
				}
			}
			report.Segments++
			if err != nil {
				report.Faults = append(report.Faults, Fault{Object: segmentName(id, n), Segments: []string{segmentName(id, n)}, Err: err})
				before = nil
				continue
			}
			report.Bytes += s.size
			for i := range s.tables {
				f := &s.tables[i]
				files[f.object()] = f
				users[f.object()] = append(users[f.object()], s.name())
			}
			before = s.segmentHead
		}
		if before != nil {
			if err := r.verifyEnd(ctx, backups[id], before.last, report); err != nil {
				return nil, nil, err
			}
		}
	}
	return files, users, nil
}

// verifySegment reads a segment, which must continue the one before, if that is known. It returns nil if the segment
// has been removed.
func (r *Repository) verifySegment(ctx context.Context, stream string, n uint64, before *segmentHead) (*segment, error) {
	s, err := r.segment(ctx, stream, n)
	if err == nil {
		err = s.validate()
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return s, s.continues(before)
}

// verifyStreams reads the objects of all streams and returns them by ID.
func (r *Repository) verifyStreams(ctx context.Context, report *VerifyReport) (map[string]*stream, error) {
	ids, err := r.ids(ctx, streamPrefix)
	if err != nil {
		return nil, err
	}
	streams := map[string]*stream{}
	for _, id := range ids {
		s, err := r.stream(ctx, id)
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case errors.Is(err, fs.ErrNotExist): // pruned meanwhile
		case err != nil:
			err = errors.Wrap(err, "Archive cannot continue it; delete the object, and Archive begins another stream")
			report.Faults = append(report.Faults, Fault{Object: streamPrefix + id, Err: err})
		default:
			streams[id] = s
		}
	}
	return streams, nil
}

// verifyEnd reports a fault if the segments of a stream end before its newest backup does: a backup joins a stream
// after its changes are in segments.
func (r *Repository) verifyEnd(ctx context.Context, backups []*manifest, end uint64, report *VerifyReport) error {
	if len(backups) == 0 || backups[len(backups)-1].Sequence <= end {
		return nil
	}
	newest := backups[len(backups)-1]
	there, err := r.remaining(ctx, []string{newest.ID})
	if len(there) > 0 {
		report.Faults = append(report.Faults, Fault{Object: segmentPrefix + newest.Stream + "/", Err: errors.NotExist(
			"the segments with the changes from %d to %d, which backup %s has, are missing", end+1, newest.Sequence, newest.ID)})
	}
	return err
}

// continues returns an error if the segment does not continue the one before, as far as that is known.
func (h *segmentHead) continues(before *segmentHead) error {
	if before == nil {
		return nil
	}
	if h.number != before.number+1 {
		return errors.NotExist("the segments %d to %d are missing", before.number+1, h.number-1)
	}
	if h.previous != before.sum || h.after != before.last {
		return base.Corruptf("segment", -1, "it does not continue segment %d: it begins after %d, and that ends with %d",
			before.number, h.after, before.last)
	}
	return nil
}

// existing returns those of the segments that were not removed meanwhile.
func (r *Repository) existing(ctx context.Context, segments []string) ([]string, error) {
	var there []string
	for _, name := range segments {
		o, err := r.storage.Open(ctx, name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		there = append(there, name)
		if err := o.Close(); err != nil {
			return nil, err
		}
	}
	return there, nil
}
