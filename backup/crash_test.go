package backup_test

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/backup"
	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/test/crashtest/recorder"
	"github.com/sievedb/sievedb/vfs"
)

// made is what a history has made: a backup, a restored directory, or the archive of the changes up to a number.
type made struct {
	id, dest string
	archived uint64
	want     map[string]string
	end      int // the operation after it was acknowledged
	pruned   int // the operation at which a Prune that removes it began; 0 for none
}

// history makes backups, archives, prunes and restores on a recording file system.
type history struct {
	*timeline
	recorded *recorder.FS
	made     []made
}

func newHistory(t *testing.T) *history {
	r := recorder.New(recorder.Image{})
	return &history{timeline: newTimeline(t, r, newDir(t, r, "repo")), recorded: r}
}

func (h *history) write(from, to int, value string) {
	var b db.Batch
	for i := from; i < to; i++ {
		b.Put(fmt.Appendf(nil, "key%06d", i), fmt.Appendf(nil, "%s%06d%090d", value, i, i))
	}
	require.NoError(h.t, h.d.Apply(&b, db.Sync))
	require.NoError(h.t, h.d.Delete(fmt.Appendf(nil, "key%06d", from), nil))
	h.model = contents(h.t, h.d)
}

func (h *history) add(m made) {
	m.want, m.end = maps.Clone(m.want), h.recorded.Len()
	h.made = append(h.made, m)
}

func (h *history) backup() string {
	id := h.create().ID
	h.add(made{id: id, want: h.model})
	return id
}

func (h *history) archive() uint64 {
	last := h.timeline.archive().Last
	h.add(made{archived: last, want: h.states[last]})
	return last
}

func (h *history) restore(id, dest string) {
	i := slices.IndexFunc(h.made, func(m made) bool { return m.id == id })
	restore(h.t, h.repo, id, dest, h.fs)
	h.add(made{dest: dest, want: h.made[i].want})
}

// prune keeps one backup. What was made before needs it only if that is among the last ones.
func (h *history) prune(last int) {
	for i := range h.made[:len(h.made)-last] {
		if h.made[i].dest == "" {
			h.made[i].pruned = h.recorded.Len()
		}
	}
	keepLast(h.t, h.repo, 1)
}

func recordBackups(t *testing.T) *history {
	h := newHistory(t)
	h.write(0, 150, "first")
	one := h.backup()
	h.write(100, 200, "second")
	h.backup()
	h.restore(one, "restored")
	h.write(150, 160, "third")
	last := h.backup()
	h.prune(1)
	h.backup()
	require.NoError(t, h.fs.MkdirAll("again")) // an empty directory
	require.NoError(t, h.fs.SyncDir("."))
	h.restore(last, "again")
	return h
}

func recordArchives(t *testing.T) *history {
	h := newHistory(t)
	h.put("key0", "value")
	h.archive()
	h.load([]string{"key1", "key2"}, "loaded")
	h.put("key3", "value")
	h.archive()
	h.reopen()
	h.deleteRange("key1", "key2", "key4", "own")
	h.ingest([]string{"key2", "key5", "key6"}, "ingested")
	require.NoError(t, h.d.Flush())
	last := h.archive()
	o := &backup.RestoreOptions{FS: h.fs}
	require.NoError(t, second(h.repo.RestoreAt(background, "", backup.Point{Sequence: last}, "restored", o)))
	h.add(made{dest: "restored", want: h.states[last]})
	h.backup()
	h.prune(3)
	h.delete("key2")
	h.archive()
	return h
}

// judge checks what a power cut left.
func (h *history) judge(mem *vfs.Mem, cut int, model recorder.Model) error {
	storage, err := backup.NewDir(mem, "repo")
	if err != nil {
		return err
	}
	repo := backup.Open(storage)
	all, err := repo.List(background)
	if err != nil && (!errors.Is(err, fs.ErrNotExist) || cut >= h.made[0].end) {
		return err
	}
	if err == nil {
		report, err := repo.Verify(background)
		if err != nil || len(report.Faults) > 0 {
			return errors.Join(err, fmt.Errorf("faults %v", report.Faults))
		}
	}
	for i, m := range h.made {
		err = nil
		switch there := func(i backup.Info) bool { return i.ID == m.id }; {
		case m.dest != "":
			err = judgeRestored(mem, m, cut)
		case m.end > cut || m.pruned > 0 && cut > m.pruned:
		case m.archived > 0:
			err = h.restoreArchived(repo, mem, m.archived, fmt.Sprint("at", i))
		case !slices.ContainsFunc(all, there):
			err = errors.New("a backup is not there")
		}
		if err != nil {
			return fmt.Errorf("%s%s: %w", m.id, m.dest, err)
		}
	}
	err = h.goOn(mem, repo)
	if model == recorder.M4 && errors.Is(err, db.ErrCorruption) { // garbage before good records looks like damage
		return nil
	}
	return err
}

// restoreArchived restores the state after a change and compares the content.
func (h *history) restoreArchived(repo *backup.Repository, mem *vfs.Mem, n uint64, to string) error {
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

// isEmpty reports whether a directory is not there, or has no file other than LOCK.
func isEmpty(mem *vfs.Mem, dir string) bool {
	names, err := mem.List(dir)
	names = slices.DeleteFunc(names, func(name string) bool { return name == "LOCK" })
	return len(names) == 0 && (err == nil || errors.Is(err, fs.ErrNotExist))
}

// judgeRestored checks that a restored directory is complete, or empty or not there.
func judgeRestored(mem *vfs.Mem, m made, cut int) error {
	for _, dir := range []string{m.dest, m.dest + ".restore"} {
		if isEmpty(mem, dir) {
			if dir == m.dest && cut >= m.end {
				return errors.New("a restored directory is not there")
			}
			continue
		}
		got, err := read(mem, dir)
		switch {
		case err != nil && dir == m.dest:
			return err
		case err == nil && !maps.Equal(got, m.want):
			return fmt.Errorf("%s opens with %d keys, want %d or none", dir, len(got), len(m.want))
		}
	}
	return nil
}

// read returns the content of a database, which it does not change.
func read(fsys vfs.FS, dir string) (map[string]string, error) {
	d, err := db.Open(dir, &db.Options{FS: fsys, ErrorIfMissing: true, ReadOnly: true})
	if err != nil {
		return nil, err
	}
	got, err := entries(d)
	return got, errors.Join(err, d.Close())
}

// goOn archives if the history did. Otherwise it makes a backup after the power cut, restores it and prunes.
func (h *history) goOn(mem *vfs.Mem, repo *backup.Repository) error {
	d, err := db.Open("db", h.options(mem))
	if err != nil {
		return err
	}
	defer d.Close()
	if h.made[0].archived > 0 {
		info, err := repo.Archive(background, d, nil)
		if err != nil || info.Last == 0 {
			return err
		}
		return h.restoreArchived(repo, mem, info.Last, "afterwards")
	}
	info, err := repo.Create(background, d, nil)
	if err != nil {
		return err
	}
	for _, m := range h.made {
		if m.dest == "" || !isEmpty(mem, m.dest) {
			continue
		}
		if _, err := repo.Restore(background, info.ID, m.dest, &backup.RestoreOptions{FS: mem}); err != nil {
			return err
		}
		if _, err := read(mem, m.dest); err != nil {
			return err
		}
	}
	repo.SetNow(func() time.Time { return time.Now().Add(2 * backup.AbandonedAfter) })
	if _, err = repo.Prune(background, backup.Policy{KeepLast: 1}); err != nil {
		return err
	}
	report, err := repo.Verify(background)
	if err == nil && (len(report.Faults) > 0 || report.Backups != 1) {
		err = fmt.Errorf("%d backups, faults %v", report.Backups, report.Faults)
	}
	names, lerr := mem.List(".")
	for _, name := range names {
		if len(name) > len("db.") && name[:len("db.")] == "db." {
			err = errors.Join(err, fmt.Errorf("%s remains", name))
		}
	}
	temps, terr := mem.List("repo/tmp")
	if terr == nil && len(temps) > 0 {
		err = errors.Join(err, fmt.Errorf("%v remains", temps))
	}
	return errors.Join(err, lerr)
}

// The power fails at every operation of backups, archives, prunes and restores. The repository is valid, with all that
// was acknowledged; a restored directory is complete or not there; and everything continues.
func TestCrashAtEveryOperation(t *testing.T) {
	for _, c := range []struct {
		name   string
		record func(*testing.T) *history
		limit  int // of states
	}{{"backups", recordBackups, 180}, {"archives", recordArchives, 90}} {
		t.Run(c.name, func(t *testing.T) {
			h := c.record(t)
			require.NoError(t, h.d.Close())
			judgeStates(t, h.recorded.Trace(), c.limit, h.judge)
		})
	}
}

// judgeStates calls judge for about limit states, of all cuts of a trace under all models of what a power cut leaves.
func judgeStates(t *testing.T, trace *recorder.Trace, limit int, judge func(*vfs.Mem, int, recorder.Model) error) {
	t.Helper()
	if testing.Short() {
		limit = 15
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d, %d operations", seed, len(trace.Ops))
	stride := max(1, uint64(len(trace.Ops)*int(recorder.NumModels)/limit))
	c := trace.Cursor()
	n := uint64(0)
	for cut := 0; cut <= len(trace.Ops); cut++ {
		c.Seek(cut)
		for m := range recorder.NumModels {
			if n++; n%stride != seed%stride {
				continue
			}
			for s := range c.States(m, seed) {
				require.NoError(t, judge(s.Mem(), cut, m), "cut %d (%s), %v, %s", cut, trace.At(cut), m, s.Detail)
			}
		}
	}
}
