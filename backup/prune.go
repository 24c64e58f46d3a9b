package backup

import (
	"bytes"
	"cmp"
	"context"
	"io/fs"
	"slices"
	"strings"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
)

// PruneReport is what Prune did, or would do.
type PruneReport struct {
	Kept, Removed []Info // the oldest first
	// Objects and Bytes count the objects that were deleted.
	Objects int
	Bytes   int64
	// Segments counts the log segments that were deleted, since they end before the oldest backup of their
	// history that is kept.
	Segments int
	// Waiting counts objects that no backup needs and a later Prune will delete, because a backup was running.
	Waiting int
}

// Prune removes the backups that the policy does not keep, and then the objects that no backup needs. It
// never removes an object of a backup that is kept or being made. Objects that a running backup might
// use are deleted by a later Prune. Several calls, and calls of Create, may run at once. A
// backup of this machine whose process was killed has ended: its lock in the database's directory is free. Where
// that cannot be seen, as on another machine, a backup that was running for AbandonedAfter is taken for abandoned.
// On a full disk the space is freed in pieces. A backup that is dated more than a day
// after now is kept and does not count: one wrong clock would otherwise make all later backups the oldest.
//
// After an error or a crash some of the backups are removed completely and others not at all; the next call removes the
// rest. If the description of a backup is damaged, nothing is removed: which objects it needs is not known.
func (r *Repository) Prune(ctx context.Context, p Policy) (PruneReport, error) {
	if ctx == nil {
		return PruneReport{}, errors.New("sievedb: backup: Prune needs a context")
	}
	if err := p.check(); err != nil {
		return PruneReport{}, err
	}
	if err := r.check(ctx); err != nil {
		return PruneReport{}, err
	}
	u := pruning{Repository: r, ctx: ctx, known: map[string]*manifest{}, heads: map[string]*segmentHead{}, dryRun: p.DryRun}
	err := u.run(p)
	return u.report, errors.Wrap(err, "sievedb: backup: Prune")
}

// pruning is one call of Prune.
type pruning struct {
	*Repository
	ctx    context.Context
	dryRun bool
	known  map[string]*manifest    // by ID; manifests never change
	heads  map[string]*segmentHead // by name; segments never change
	sizes  map[string]int64        // of the objects
	report PruneReport
}

func (u *pruning) run(p Policy) error {
	all, err := u.manifests(u.ctx, u.known)
	if err != nil {
		return errors.Wrap(err, "nothing was removed; if you can do without a damaged backup, delete its object")
	}
	var infos, future []Info
	for _, m := range all {
		if u.isFuture(m.Time) {
			future = append(future, m.Info)
		} else {
			infos = append(infos, m.Info)
		}
	}
	u.report.Kept, u.report.Removed = p.divide(infos)
	u.report.Kept = append(u.report.Kept, future...)
	if p.DryRun {
		return u.estimate()
	}
	for _, i := range u.report.Removed {
		if err := u.storage.Delete(u.ctx, backupPrefix+i.ID); err != nil {
			return err
		}
	}
	if err := u.dropSegments(); err != nil {
		return err
	}
	if err := u.dropAbandoned(); err != nil {
		return err
	}
	return u.free()
}

// estimate counts the objects that only removed backups need, or none.
func (u *pruning) estimate() error {
	if err := u.listObjects(); err != nil {
		return err
	}
	needed := map[string]bool{}
	var kept []*manifest
	for _, i := range u.report.Kept {
		needs(u.known[i.ID], needed)
		kept = append(kept, u.known[i.ID])
	}
	segments, err := u.unneededSegments(kept)
	if err != nil {
		return err
	}
	u.report.Segments = len(segments)
	slices.Sort(segments)
	if err := u.neededBySegments(needed, segments); err != nil {
		return err
	}
	running, err := u.ids(u.ctx, runningPrefix)
	if err != nil {
		return err
	}
	dead, err := u.dropDead(u.ctx, true)
	if err != nil {
		return err
	}
	running = slices.DeleteFunc(running, func(id string) bool { return slices.Contains(dead, id) })
	for name, size := range u.sizes {
		if u.isUnneeded(name, needed, running) {
			u.report.Objects++
			u.report.Bytes += size
		}
	}
	return nil
}

// needs adds the objects of a backup.
func needs(m *manifest, to map[string]bool) {
	for i := range m.files {
		to[m.files[i].object()] = true
	}
}

// isUnneeded reports whether no backup needs an object. That of a running backup will be needed.
func (u *pruning) isUnneeded(name string, needed map[string]bool, running []string) bool {
	_, by, ok := parseObject(name)
	return ok && !needed[name] && !slices.Contains(running, by)
}

func (u *pruning) listObjects() error {
	u.sizes = map[string]int64{}
	for o, err := range u.storage.List(u.ctx, objectPrefix) {
		if err != nil {
			return errors.Wrap(err, "listing the objects")
		}
		u.sizes[o.Name] = o.Size
	}
	return nil
}

// dropAbandoned removes the announcements of abandoned backups, and temporary objects as old as these.
func (u *pruning) dropAbandoned() error {
	if _, err := u.dropDead(u.ctx, false); err != nil {
		return err
	}
	ids, err := u.ids(u.ctx, runningPrefix)
	if err != nil {
		return err
	}
	var left []string
	for _, id := range ids {
		if u.isOld(id) {
			left = append(left, runningPrefix+id)
		}
	}
	for o, err := range u.storage.List(u.ctx, tempPrefix) {
		if err != nil {
			return err
		}
		if id := lastID(o.Name); id != "" && u.isOld(id) {
			left = append(left, o.Name)
		}
	}
	for _, name := range left {
		if err := u.storage.Delete(u.ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// isOld reports whether an ID cannot be that of a running backup: it is too old, or as much in the future.
func (u *pruning) isOld(id string) bool {
	t, _ := timeOf(id)
	return u.now().Sub(t).Abs() > AbandonedAfter
}

// lastID returns the last ID in a name.
func lastID(name string) string {
	all := idPattern.FindAllString(name, -1)
	if len(all) == 0 {
		return ""
	}
	return all[len(all)-1]
}

// condemnedList is a list of objects that will be deleted. An object on it is never needed by a backup
// that began after the list was written.
type condemnedList struct {
	id    string
	names []string
}

// readCondemned returns all lists of condemned objects.
func (r *Repository) readCondemned(ctx context.Context) (all []condemnedList, err error) {
	ids, err := r.ids(ctx, condemnedPrefix)
	for _, id := range ids {
		if err != nil {
			return nil, err
		}
		var names []string
		names, err = r.readLines(ctx, condemnedPrefix+id, "object", func(line string) bool {
			_, _, ok := parseObject(line)
			return ok
		})
		switch {
		case errors.Is(err, fs.ErrNotExist): // all of its objects were deleted
			err = nil
			continue
		case err != nil:
			return nil, err
		}
		all = append(all, condemnedList{id, names})
	}
	return all, err
}

// readLines reads a list of valid lines, after which is "end".
func (r *Repository) readLines(ctx context.Context, name, what string, valid func(string) bool) (lines []string, err error) {
	text, err := r.read(ctx, name, maxManifest)
	if err != nil {
		return nil, err
	}
	body, ok := bytes.CutSuffix(text, []byte("end\n"))
	if !ok {
		return nil, base.InFile(base.Corruptf("list", -1, "its last line is not \"end\""), name, -1)
	}
	for line := range bytes.Lines(body) {
		line, ended := bytes.CutSuffix(line, []byte("\n"))
		if !ended || len(line) > maxLine || !valid(string(line)) {
			err := base.Corruptf("list", -1, "%q is not the name of an %s", line[:min(len(line), maxLine)], what)
			return nil, base.InFile(err, name, -1)
		}
		lines = append(lines, string(line))
	}
	return lines, nil
}

// maxLine is larger than every line of a list, in bytes.
const maxLine = 200

func listText(lines []string) []byte {
	return []byte(strings.Join(append(slices.Clone(lines), "end\n"), "\n"))
}

// condemn writes a list of the objects that no backup needs and that are on no list yet. The running backups are listed
// after the objects, and the backups after that: each object is then by a running backup, by one that has ended and can
// be read, or by one that failed. limit is how many objects the list may have, the largest ones; 0 means all.
func (u *pruning) condemn(limit int) error {
	lists, err := u.readCondemned(u.ctx)
	if err == nil {
		err = u.listObjects()
	}
	if err != nil {
		return err
	}
	running, err := u.ids(u.ctx, runningPrefix)
	if err != nil {
		return err
	}
	needed, err := u.neededNow()
	if err != nil {
		return err
	}
	for _, l := range lists {
		for _, name := range l.names {
			needed[name] = true // not on a second list
		}
	}
	var names []string
	for name := range u.sizes {
		if u.isUnneeded(name, needed, running) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	if limit > 0 && len(names) > limit {
		slices.SortFunc(names, func(a, b string) int { return cmp.Compare(u.sizes[b], u.sizes[a]) })
		names = names[:limit]
	}
	slices.Sort(names)
	return u.create(u.ctx, condemnedPrefix+newID(u.now()), listText(names))
}

// neededNow returns the objects of all backups and segments that are there now.
func (u *pruning) neededNow() (map[string]bool, error) {
	all, err := u.manifests(u.ctx, u.known)
	needed := map[string]bool{}
	for _, m := range all {
		needs(m, needed)
	}
	if err == nil {
		err = u.neededBySegments(needed, nil)
	}
	return needed, err
}

// deleteCondemned deletes the condemned objects that cannot be needed any more.
func (u *pruning) deleteCondemned() error {
	lists, err := u.readCondemned(u.ctx)
	for _, l := range lists {
		if err == nil {
			err = u.deleteList(l)
		}
	}
	if err != nil {
		return err
	}
	return u.dropWaits()
}

// deleteList deletes the objects of a list, once the backups that may not have seen the list have
// ended. The order of the steps matters: waits/ID is written after condemned/ID, the running
// backups are listed after waits/ID, and the backups are read after that.
func (u *pruning) deleteList(l condemnedList) error {
	waits, err := u.waitsOf(l.id)
	if err != nil {
		return err
	}
	running, err := u.ids(u.ctx, runningPrefix)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(waits, func(id string) bool { return slices.Contains(running, id) }) {
		u.report.Waiting += len(l.names)
		return nil
	}
	needed, err := u.neededNow()
	if err != nil {
		return err
	}
	left := 0
	for _, name := range l.names {
		if needed[name] { // by a backup that did not see the list; the name stays condemned
			left++
			continue
		}
		if err := u.storage.Delete(u.ctx, name); err != nil {
			return err
		}
		if size, ok := u.sizes[name]; ok { // else another Prune has deleted it
			u.report.Objects++
			u.report.Bytes += size
			delete(u.sizes, name)
		}
	}
	if left > 0 {
		return nil
	}
	return u.storage.Delete(u.ctx, condemnedPrefix+l.id)
}

// waitsOf returns the IDs of the backups that ran when the list had been written. Any later time
// will do, so a list whose Prune ended in between gets them now.
func (u *pruning) waitsOf(id string) ([]string, error) {
	waits, err := u.readLines(u.ctx, waitsPrefix+id, "ID", validID)
	if !errors.Is(err, fs.ErrNotExist) {
		return waits, err
	}
	running, err := u.ids(u.ctx, runningPrefix)
	if err != nil {
		return nil, err
	}
	err = u.create(u.ctx, waitsPrefix+id, listText(running))
	if errors.Is(err, fs.ErrExist) { // another Prune was faster; this list will do as well
		err = nil
	}
	return running, err
}

// dropWaits removes lists of running backups whose condemned objects were all deleted. The lists of
// objects are listed last: waits/ID is never there before condemned/ID.
func (u *pruning) dropWaits() error {
	waits, err := u.ids(u.ctx, waitsPrefix)
	if err != nil {
		return err
	}
	condemned, err := u.ids(u.ctx, condemnedPrefix)
	if err != nil {
		return err
	}
	for _, id := range waits {
		if slices.Contains(condemned, id) {
			continue
		}
		if err := u.storage.Delete(u.ctx, waitsPrefix+id); err != nil {
			return err
		}
	}
	return nil
}
