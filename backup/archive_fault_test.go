package backup_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/backup"
	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/test/backuptest"
	"github.com/sievedb/sievedb/internal/test/crashtest/recorder"
	"github.com/sievedb/sievedb/vfs"
)

// archived is a closed database of which a part is archived.
type archived struct {
	*timeline
	storage *backuptest.Mem
	mem     *vfs.Mem
	last    uint64 // of the changes that are archived
}

// newArchived returns a database with changes of all kinds after the last segment, or with no stream yet.
func newArchived(t *testing.T, begun bool) *archived {
	a := &archived{storage: backuptest.NewMem(), mem: vfs.NewMem()}
	a.timeline = newTimeline(t, a.mem, a.storage)
	a.put("key0", "value")
	if begun {
		a.archive()
		a.load([]string{"key1", "key2"}, "first")
		a.last = a.archive().Last
	}
	a.put("key1", "changed")
	a.load([]string{"key3", "key4"}, "loaded")
	a.ingest([]string{"key2", "key5", "key6"}, "ingested")
	a.deleteRange("key3", "key4", "key7", "own")
	a.delete("key1")
	require.NoError(t, a.d.Close())
	return a
}

func (a *archived) clone() *archived {
	c := &archived{storage: backuptest.NewMem(), mem: a.mem.Kill(), last: a.last}
	for name, content := range a.storage.Objects() {
		c.storage.Replace(name, content)
	}
	line := *a.timeline
	line.fs, line.repo = c.mem, backup.Open(c.storage)
	c.timeline = &line
	return c
}

// run archives with a file system and a storage that may fail.
func (a *archived) run(fsys vfs.FS, r *backup.Repository) error {
	d, err := db.Open("db", a.options(fsys))
	if err != nil {
		return err
	}
	_, err = r.Archive(background, d, nil)
	return errors.Join(err, d.Close())
}

// requireSound checks what is there after a failure, and that archiving continues.
func (a *archived) requireSound(what string) {
	a.t.Helper()
	if len(a.storage.Names("FORMAT")) > 0 {
		verifyClean(a.t, a.repo)
	}
	if a.last > 0 {
		require.Equal(a.t, a.states[a.last], a.at(backup.Point{Sequence: a.last}), what)
	}
	require.NoError(a.t, a.run(a.mem, a.repo), what)
	windows := a.windows()
	require.NotEmpty(a.t, windows)
	w := windows[len(windows)-1]
	end := slices.Max(slices.Collect(maps.Keys(a.states)))
	require.Equal(a.t, end, w.Last)
	require.Equal(a.t, a.states[end], a.at(backup.Point{Sequence: end}), what)
	verifyClean(a.t, a.repo)
	a.repo.SetNow(func() time.Time { return time.Now().Add(2 * backup.AbandonedAfter) })
	keepLast(a.t, a.repo, 1)
	require.Empty(a.t, a.storage.Names("running/"))
	require.Len(a.t, a.storage.Names("streams/"), 1, what)
	require.Equal(a.t, a.states[end], a.at(backup.Point{Sequence: end}), what)
}

// After an error at any operation of the storage during Archive, the repository is valid, what was archived can be
// restored, and Archive continues.
func TestAnErrorOfTheStorageAtEveryOperationOfArchive(t *testing.T) {
	for _, begun := range []bool{false, true} {
		original := newArchived(t, begun)
		for at := range operations(7) {
			f := &faults{at: at, sticky: at%2 == 0, late: at%3 == 0, err: errors.New("no answer")}
			a := original.clone()
			skipped := false
			err := a.run(a.mem, backup.Open(f.storage(a.storage, func(op backuptest.Op) {
				// A table is stored again if the backup that may have it cannot be read.
				skipped = !f.sticky && op.Kind == backuptest.OpOpen && strings.HasPrefix(op.Name, "backups/")
			})))
			if f.n <= at {
				require.NoError(t, err)
				require.Greater(t, at, int64(10))
				break
			}
			what := fmt.Sprintf("begun %v, operation %d, sticky %v, late %v", begun, at, f.sticky, f.late)
			if !skipped && (!f.late || f.sticky) { // else Archive may find out that it was done
				require.ErrorIs(t, err, f.err, what)
			}
			a.requireSound(what)
		}
	}
}

// The same for the file system of the database.
func TestAnErrorAtEveryFileOperationOfArchive(t *testing.T) {
	original := newArchived(t, true)
	for at := int64(0); ; at += 1 + at%3 {
		if testing.Short() && at%9 != 0 {
			continue
		}
		f := &faults{at: at, sticky: at%2 == 0, err: syscall.EIO}
		a := original.clone()
		_ = a.run(f.fs(a.mem), a.repo)
		if f.n <= at {
			break
		}
		a.requireSound(fmt.Sprintf("operation %d, sticky %v", at, f.sticky))
	}
}

// An error at any operation of RestoreAt leaves no directory that opens, and it can be called again.
func TestAnErrorAtEveryFileOperationOfRestoreAt(t *testing.T) {
	a := newArchived(t, true)
	require.NoError(t, a.run(a.mem, a.repo))
	end := slices.Max(slices.Collect(maps.Keys(a.states)))
	for at := int64(0); ; at += 1 + at%5 {
		if testing.Short() && at%9 != 0 {
			continue
		}
		mem := vfs.NewMem()
		f := &faults{at: at, sticky: at%2 == 0, err: syscall.EIO}
		o := &backup.RestoreOptions{FS: f.fs(mem)}
		_, err := a.repo.RestoreAt(background, "", backup.Point{Sequence: end}, "restored", o)
		if f.n <= at {
			require.NoError(t, err)
			break
		}
		what := fmt.Sprintf("operation %d, sticky %v", at, f.sticky)
		for _, dir := range []string{"restored", "restored.restore"} {
			got, readErr := read(mem, dir)
			if readErr == nil {
				require.Equal(t, a.states[end], got, "%s: %s", what, dir)
			}
		}
		if _, there := mem.Stat("restored"); there == nil {
			continue // it was complete
		}
		require.Error(t, err, what)
		names, _ := mem.List("restored.restore")
		what = fmt.Sprint(what, names, err)
		_, err = a.repo.RestoreAt(background, "", backup.Point{Sequence: end}, "restored", &backup.RestoreOptions{FS: mem})
		require.NoError(t, err, what)
		got, err := read(mem, "restored")
		require.NoError(t, err)
		require.Equal(t, a.states[end], got, what)
		names, err = mem.List("restored")
		require.NoError(t, err)
		require.Contains(t, names, "CURRENT")
		require.NotContains(t, names, "tables")
	}
}

// acked is a call that has returned.
type acked struct {
	end  int // the operation after it
	last uint64
}

// archives is a history of calls that archive a database and restore it, on a recording file system.
type archives struct {
	*timeline
	fs    *recorder.FS
	calls []acked
	dest  made
	// pruned is the operation from which on a Prune may have removed what only the first calls need.
	pruned int
}

func (h *archives) archive() {
	h.calls = append(h.calls, acked{last: h.timeline.archive().Last, end: h.fs.Len()})
}

func recordArchives(t *testing.T) *archives {
	r := recorder.New(recorder.Image{})
	h := &archives{timeline: newTimeline(t, r, newDir(t, r, "repo")), fs: r}
	h.put("key0", "value")
	h.archive()
	h.load([]string{"key1", "key2"}, "loaded")
	h.put("key3", "value")
	h.archive()
	h.reopen()
	h.deleteRange("key1", "key2", "key4", "own")
	h.ingest([]string{"key2", "key5", "key6"}, "ingested")
	require.NoError(t, h.d.Flush())
	h.archive()
	last := h.calls[2].last
	_, err := h.repo.RestoreAt(background, "", backup.Point{Sequence: last}, "restored", &backup.RestoreOptions{FS: r})
	require.NoError(t, err)
	h.dest = made{dest: "restored", want: maps.Clone(h.states[last]), end: r.Len()}
	h.create()
	h.pruned = r.Len()
	keepLast(t, h.repo, 1)
	h.delete("key2")
	h.archive()
	require.NoError(t, h.d.Close())
	return h
}

// judge checks what a power cut left.
func (h *archives) judge(mem *vfs.Mem, m recorder.Model, cut int) error {
	storage, err := backup.NewDir(mem, "repo")
	if err != nil {
		return err
	}
	repo := backup.Open(storage)
	if cut >= h.calls[0].end {
		report, err := repo.Verify(background)
		if err != nil || len(report.Faults) > 0 {
			return errors.Join(err, fmt.Errorf("faults %v", report.Faults))
		}
	}
	for i, c := range h.calls {
		if c.end > cut || i < 2 && cut > h.pruned {
			continue
		}
		if err := h.restore(repo, mem, c.last, fmt.Sprint("at", i)); err != nil {
			return err
		}
	}
	if err := judgeRestored(mem, h.dest, cut); err != nil {
		return err
	}
	d, err := db.Open("db", h.options(mem))
	if m == recorder.M4 && errors.Is(err, db.ErrCorruption) { // garbage before good records looks like damage
		return nil
	}
	if err != nil {
		return err
	}
	defer d.Close()
	info, err := repo.Archive(background, d, nil)
	if err != nil || info.Last == 0 {
		return err
	}
	return h.restore(repo, mem, info.Last, "afterwards")
}

// restore restores a number and compares the content.
func (h *archives) restore(repo *backup.Repository, mem *vfs.Mem, n uint64, to string) error {
	want, known := h.states[n]
	if !known {
		return fmt.Errorf("no change ended with number %d", n)
	}
	if _, err := repo.RestoreAt(background, "", backup.Point{Sequence: n}, to, &backup.RestoreOptions{FS: mem}); err != nil {
		return err
	}
	got, err := read(mem, to)
	if err == nil && !maps.Equal(got, want) {
		err = fmt.Errorf("%d keys at %d, want %d", len(got), n, len(want))
	}
	return err
}

// The power fails at every operation of Archive and RestoreAt. What was acknowledged can be restored, no directory
// opens that is not complete, and archiving continues.
func TestCrashAtEveryOperationOfArchiveAndRestoreAt(t *testing.T) {
	h := recordArchives(t)
	judgeStates(t, h.fs.Trace(), 90, func(s recorder.State, cut int, m recorder.Model) error { return h.judge(s.Mem(), m, cut) })
}
