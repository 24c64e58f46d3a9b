package backup

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
)

// Fault is an object that is damaged, missing or unreadable.
type Fault struct {
	Object string
	// Backups are the IDs of the backups that need the object, the oldest first. They cannot be restored.
	Backups []string
	// Segments are the log segments that need the object, or the damaged segment itself. Points in them or after them
	// cannot be restored from earlier backups. A damaged object of a stream has no Backups and no Segments, because
	// only Archive needs it.
	Segments []string
	Err      error
}

// String describes the fault in a line.
func (f Fault) String() string {
	text := fmt.Sprintf("%s: %v", f.Object, f.Err)
	if users := append(slices.Clone(f.Backups), f.Segments...); len(users) > 0 {
		text += "; needed by " + strings.Join(users, ", ")
	}
	return text
}

// VerifyReport is what Verify found.
type VerifyReport struct {
	Backups, Objects int // that were read
	Segments         int
	Bytes            int64 // of the objects and segments
	Faults           []Fault
}

// Verify reads all backups and every byte that they need, and compares sizes and checksums. The faults
// are in the report, sorted by object; the error is about reading the repository itself, or that of ctx.
// An object that several backups need is read once. Backups may be created and pruned meanwhile.
func (r *Repository) Verify(ctx context.Context) (VerifyReport, error) {
	var report VerifyReport
	if ctx == nil {
		return report, errors.New("sievedb: backup: Verify needs a context")
	}
	if err := r.check(ctx); err != nil {
		return report, err
	}
	ids, err := r.ids(ctx, backupPrefix)
	if err != nil {
		return report, err
	}
	files, users := map[string]*file{}, map[string][]string{}
	read := r.readManifests(ctx, ids, &report)
	for _, m := range read {
		report.noteFiles(m, files, users)
	}
	tables, segments, err := r.verifySegments(ctx, byStream(read), &report)
	if err != nil {
		return report, err
	}
	for name, f := range tables {
		if files[name] == nil {
			files[name] = f
		}
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		n, err := r.verify(ctx, files[name])
		if ctx.Err() != nil {
			return report, ctx.Err()
		}
		report.Objects++
		report.Bytes += n
		if err == nil {
			continue
		}
		needed, lerr := r.remaining(ctx, users[name])
		if lerr != nil {
			return report, lerr
		}
		there, serr := r.existing(ctx, segments[name])
		if serr != nil {
			return report, serr
		}
		if len(needed)+len(there) > 0 {
			report.Faults = append(report.Faults, Fault{Object: name, Backups: needed, Segments: there, Err: err})
		}
	}
	slices.SortStableFunc(report.Faults, func(a, b Fault) int { return cmp.Compare(a.Object, b.Object) })
	return report, ctx.Err()
}

// readManifests returns the manifests of the backups that are still there. A damaged one is a fault.
func (r *Repository) readManifests(ctx context.Context, ids []string, report *VerifyReport) (read []*manifest) {
	for _, id := range ids {
		m, err := r.manifest(ctx, id)
		if gone := errors.Is(err, fs.ErrNotExist); err != nil && ctx.Err() == nil && !gone {
			report.Faults = append(report.Faults, Fault{Object: backupPrefix + id, Backups: []string{id}, Err: err})
		}
		if err == nil {
			read = append(read, m)
		}
	}
	report.Backups += len(read)
	return read
}

// noteFiles adds the files of a backup to files, by object, and the backup to the users of each. Two backups that
// differ about the size of a file are a fault.
func (v *VerifyReport) noteFiles(m *manifest, files map[string]*file, users map[string][]string) {
	for i := range m.files {
		f := &m.files[i]
		if own := users[f.object()]; len(own) > 0 && own[len(own)-1] == m.ID {
			continue // two of its files are the same
		}
		if old := files[f.object()]; old != nil && old.size != f.size {
			err := base.Corruptf("backup manifest", -1, "two backups differ about the size of %s", f.object())
			v.Faults = append(v.Faults, Fault{Object: backupPrefix + m.ID, Backups: []string{m.ID}, Err: err})
		}
		files[f.object()] = f
		users[f.object()] = append(users[f.object()], m.ID)
	}
}

// verify reads an object.
func (r *Repository) verify(ctx context.Context, f *file) (n int64, err error) {
	o, err := r.storage.Open(ctx, f.object())
	if err != nil {
		return 0, err
	}
	defer o.Close()
	c := newCheckedReader(atMost(o, f.size), f)
	_, err = io.CopyBuffer(io.Discard, struct{ io.Reader }{withContext{ctx, c}}, make([]byte, copyChunk))
	return c.n, err
}

// remaining returns the backups that have not been removed in the meantime.
func (r *Repository) remaining(ctx context.Context, ids []string) ([]string, error) {
	now, err := r.ids(ctx, backupPrefix)
	return slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return !slices.Contains(now, id) }), err
}
