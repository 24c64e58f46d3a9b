package backup_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/backup"
	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/test/backuptest"
	"github.com/sievedb/sievedb/internal/test/damage"
	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/vfs"
)

// faults fails operation at, and with sticky all later ones. late fails it after it was done.
type faults struct {
	n, at        int64
	sticky, late bool
	err          error
}

func (f *faults) next() bool {
	n := atomic.AddInt64(&f.n, 1) - 1
	return n == f.at || f.sticky && n > f.at
}

// operations yields the operations at which a call is to fail, without an end. In short runs it yields one in stride.
func operations(stride int64) iter.Seq[int64] {
	if !testing.Short() {
		stride = 1
	}
	return func(yield func(int64) bool) {
		for at := int64(0); yield(at); at += stride {
		}
	}
}

// fs returns a file system whose operations fail so.
func (f *faults) fs(fsys vfs.FS) vfs.FS {
	return wrap.NewFaulty(fsys, func(wrap.Op) *wrap.Fault {
		if f.next() {
			return &wrap.Fault{Err: f.err}
		}
		return nil
	})
}

// storage returns a storage whose operations fail so. noted is called with those, if it is not nil.
func (f *faults) storage(s backup.Storage, noted func(backuptest.Op)) backup.Storage {
	hook := func(op backuptest.Op) error {
		if !f.next() {
			return nil
		}
		if noted != nil {
			noted(op)
		}
		return f.err
	}
	if f.late {
		return &backuptest.Hooked{Storage: s, After: hook}
	}
	return &backuptest.Hooked{Storage: s, Before: hook}
}

// place is a repository with two backups of a database, which is closed and has changed since. With a stream, changes
// after these are archived.
type place struct {
	*timeline
	storage *backuptest.Mem
	mem     *vfs.Mem
	ids     []string
	second  uint64 // of the changes in the second backup
	last    uint64 // of the changes that are archived; 0: there is no stream
}

func newPlace(t *testing.T, streamed bool) *place {
	stop := damage.Watch(t.Name())
	t.Cleanup(func() { stop() })
	p := &place{storage: backuptest.NewMem(), mem: vfs.NewMem()}
	p.timeline = newTimeline(t, p.mem, p.storage)
	p.fill(0, 150, "value")
	require.NoError(t, p.d.Compact(background, nil, nil))
	if streamed {
		p.ids = append(p.ids, p.archive().Backup.ID)
	} else {
		p.ids = append(p.ids, p.create().ID)
	}
	resume, err := p.d.PauseCompactions(background) // the backups share the tables
	require.NoError(t, err)
	defer resume()
	p.fill(150, 250, "value")
	second := p.create()
	p.ids, p.second = append(p.ids, second.ID), second.Sequence
	p.load([]string{"archived1", "archived2"}, "first")
	if streamed {
		p.last = p.archive().Last
	}
	p.fill(0, 50, "changed")
	p.load([]string{"loaded1", "loaded2"}, "loaded")
	p.ingest([]string{"archived2", "ingested1", "ingested2"}, "ingested")
	p.deleteRange("loaded1", "loaded2", "own", "own")
	p.delete("key000100")
	require.NoError(t, p.d.Close())
	return p
}

// fill writes the keys with these numbers.
func (l *timeline) fill(from, to int, value string) {
	fill(l.t, l.d, from, to, value)
	l.model = contents(l.t, l.d)
	l.note()
}

// clone returns an independent copy.
func (p *place) clone(t *testing.T) *place {
	c, line := *p, *p.timeline
	c.storage, c.mem = backuptest.NewMem(), p.mem.Kill()
	for name, content := range p.storage.Objects() {
		c.storage.Replace(name, content)
	}
	line.t, line.fs, line.repo = t, c.mem, backup.Open(c.storage)
	c.timeline = &line
	return &c
}

// A call can fail. It uses the file system for the store or the restored directory.
type call struct {
	name     string
	streamed bool // of the place
	do       func(p *place, r *backup.Repository, fsys vfs.FS) error
}

var calls = []call{
	{"Create", false, func(p *place, r *backup.Repository, fsys vfs.FS) error {
		d, err := db.Open("db", &db.Options{FS: fsys, ReadOnly: true})
		if err != nil {
			return err
		}
		_, err = r.Create(background, d, nil)
		_ = d.Close()
		return err
	}},
	{"Restore", false, func(p *place, r *backup.Repository, fsys vfs.FS) error {
		return second(r.Restore(background, p.ids[1], "restored", &backup.RestoreOptions{FS: fsys}))
	}},
	{"Prune", false, func(p *place, r *backup.Repository, fsys vfs.FS) error { return prune(1)(r) }},
	{"Verify", false, func(p *place, r *backup.Repository, fsys vfs.FS) error {
		report, err := r.Verify(background)
		if len(report.Faults) > 0 {
			err = report.Faults[0].Err
		}
		return err
	}},
	{"List", false, func(p *place, r *backup.Repository, fsys vfs.FS) error { return second(r.List(background)) }},
	{"the first Archive", false, archiveClosed},
	{"Archive", true, archiveClosed},
	{"RestoreAt", true, func(p *place, r *backup.Repository, fsys vfs.FS) error {
		o := &backup.RestoreOptions{FS: fsys}
		return second(r.RestoreAt(background, "", backup.Point{Sequence: p.last}, "restored", o))
	}},
}

func archiveClosed(p *place, r *backup.Repository, fsys vfs.FS) error {
	d, err := db.Open("db", p.options(fsys))
	if err != nil {
		return err
	}
	return errors.Join(second(r.Archive(background, d, nil)), d.Close())
}

// eachCall runs a test with each call, and the place for it.
func eachCall(t *testing.T, test func(t *testing.T, c call, original *place)) {
	originals := map[bool]*place{false: newPlace(t, false), true: newPlace(t, true)}
	for _, c := range calls {
		t.Run(c.name, func(t *testing.T) { test(t, c, originals[c.streamed]) })
	}
}

func (c *call) archives() bool { return strings.HasSuffix(c.name, "Archive") }
func (c *call) restores() bool { return strings.HasPrefix(c.name, "Restore") }

// inDirectory returns what the restored directory is to contain.
func (p *place) inDirectory(c *call) map[string]string {
	return p.states[map[string]uint64{"Restore": p.second, "RestoreAt": p.last}[c.name]]
}

// requireSound checks a place after a failure, and that the same call then succeeds.
func (p *place) requireSound(c *call, what string) {
	t := p.t
	t.Helper()
	verifyClean(t, p.repo)
	all := list(t, p.repo)
	require.NotEmpty(t, all)
	for _, i := range all {
		if i.ID != p.ids[0] && i.ID != p.ids[1] { // the failed call has made it nevertheless
			require.Equal(t, p.model, restored(t, p.repo, i.ID), what)
		}
	}
	p.requireArchived(p.last, what)
	if got, err := read(p.mem, "restored.restore"); err == nil {
		require.Equal(t, p.inDirectory(c), got, "%s: restored.restore", what)
	}
	if _, there := p.mem.Stat("restored"); there == nil {
		got, err := read(p.mem, "restored")
		require.NoError(t, err, what)
		require.Equal(t, p.inDirectory(c), got, what)
		require.NoError(t, db.Destroy("restored", &db.Options{FS: p.mem}))
	}
	require.NoError(t, c.do(p, p.repo, p.mem), what)
	if c.restores() {
		got, err := read(p.mem, "restored")
		require.NoError(t, err, what)
		require.Equal(t, p.inDirectory(c), got, what)
		names := result.Of(p.mem.List("restored"))(t)
		require.Contains(t, names, "CURRENT")
		require.NotContains(t, names, "tables")
	}
	if !c.archives() && !c.streamed {
		requireTidy(t, p.repo, p.storage)
		return
	}
	if c.archives() {
		p.last = slices.Max(slices.Collect(maps.Keys(p.states)))
		windows := p.windows()
		require.Equal(t, p.last, windows[len(windows)-1].Last, what)
	}
	p.requireArchived(p.last, what)
	verifyClean(t, p.repo)
	at(p.repo, 2*backup.AbandonedAfter)
	keepLast(t, p.repo, 1)
	require.Empty(t, p.storage.Names("running/"))
	require.Len(t, p.storage.Names("streams/"), 1, what)
	p.requireArchived(p.last, what)
}

// requireArchived restores the state after a change, if there is one.
func (p *place) requireArchived(n uint64, what string) {
	if n > 0 {
		require.Equal(p.t, p.states[n], p.at(backup.Point{Sequence: n}), what)
	}
}

// After an error at any operation of the storage, the repository is valid and the call can be repeated.
func TestAnErrorAtEveryOperationOfAStorage(t *testing.T) {
	eachCall(t, func(t *testing.T, c call, original *place) {
		for at := range operations(7) {
			f := &faults{at: at, sticky: at%2 == 0, late: at%3 == 0, err: errors.New("no answer")}
			p := original.clone(t)
			skipped := false
			err := c.do(p, backup.Open(f.storage(p.storage, func(op backuptest.Op) {
				// Archive stores a table again if the backup that may have it cannot be read.
				skipped = c.archives() && !f.sticky && op.Kind == backuptest.OpOpen && strings.HasPrefix(op.Name, "backups/")
			})), p.mem)
			if f.n <= at {
				require.NoError(t, err)
				return
			}
			what := fmt.Sprintf("operation %d, sticky %v, late %v", at, f.sticky, f.late)
			foundOut := c.name == "Create" || c.archives() && f.late && !f.sticky // it was done
			if !skipped && !foundOut {
				require.ErrorIs(t, err, f.err, what)
			}
			p.requireSound(&c, what)
		}
	})
}

// After an error at any operation of the file system of a store or a restored directory, there is the
// same, and no file remains that the next call does not remove.
func TestAnErrorAtEveryFileOperation(t *testing.T) {
	eachCall(t, func(t *testing.T, c call, original *place) {
		if c.name != "Create" && !c.restores() && !c.archives() {
			return // it has no such file system
		}
		for at := range operations(9) {
			f := &faults{at: at, sticky: at%2 == 0, err: syscall.EIO}
			if at%3 == 0 {
				f.err = syscall.ENOSPC
			}
			p := original.clone(t)
			err := c.do(p, p.repo, f.fs(p.mem))
			if f.n <= at {
				require.NoError(t, err)
				return
			}
			what := fmt.Sprintf("operation %d, sticky %v", at, f.sticky)
			if err != nil {
				require.ErrorIs(t, err, f.err, what)
				require.Equal(t, f.err == syscall.ENOSPC, errors.Is(err, db.ErrNoSpace), "%s: %v", what, err)
			}
			if _, absent := p.mem.Stat("restored"); c.restores() && absent != nil {
				require.Error(t, err, what)
			}
			p.requireSound(&c, what)
			names := result.Of(p.mem.List("."))(t)
			require.Subset(t, []string{"db", "made1.ldb", "restored"}, names, what)
		}
	})
}

// A restore that is cancelled, like one that fails, leaves no directory.
func TestCallsEndWithTheirContext(t *testing.T) {
	p := newPlace(t, false)
	ctx, cancel := context.WithCancel(background)
	cancel()
	r := backup.Open(p.storage)
	d := open(t, "db", &db.Options{FS: p.mem, ReadOnly: true})
	for _, err := range []error{
		second(r.Create(ctx, d, nil)),
		second(r.Restore(ctx, "", "restored", &backup.RestoreOptions{FS: p.mem})),
		second(r.Prune(ctx, backup.Policy{KeepLast: 1})),
		second(r.Verify(ctx)),
		second(r.List(ctx)),
	} {
		require.ErrorIs(t, err, context.Canceled)
	}
	require.ErrorIs(t, result.Err(p.mem.Stat("restored")), fs.ErrNotExist)
	require.Empty(t, p.storage.Names("running/"))
	require.Len(t, p.storage.Names("backups/"), 2)
}

func second[T any](_ T, err error) error { return err }

// Every object is damaged in turn. Verify names it with the backups that need it, and Restore refuses these.
func TestEveryDamagedObjectIsFound(t *testing.T) {
	p := newPlace(t, false)
	r := backup.Open(p.storage)
	all := list(t, r)
	both, skip := 0, 0
	for name, content := range p.storage.Objects() {
		if skip++; testing.Short() && skip%4 != 0 && !bytes.Contains(content, []byte("key000000")) {
			continue
		}
		if !strings.HasPrefix(name, "objects/") && !strings.HasPrefix(name, "backups/") {
			continue
		}
		flipped := append([]byte{}, content...)
		if len(flipped) > 0 {
			flipped[len(flipped)/2] ^= 1
		} else {
			flipped = []byte("x")
		}
		for what, damage := range map[string][]byte{
			"a bit": flipped, "longer": append(append([]byte{}, content...), 0), "missing": nil, "shorter": content[:len(content)/2],
		} {
			if string(damage) == string(content) || damage == nil && strings.HasPrefix(name, "backups/") {
				continue
			}
			p.storage.Replace(name, damage)
			fault := oneFault(t, r, "%s: %s", name, what)
			require.Equal(t, name, fault.Object)
			require.Contains(t, fault.String(), name+": ")
			both += len(fault.Backups) - 1
			for _, i := range all {
				_, err := r.Restore(background, i.ID, "restored", &backup.RestoreOptions{FS: p.mem})
				if strings.Contains(fmt.Sprint(fault.Backups), i.ID) {
					require.True(t, errors.Is(err, db.ErrCorruption) || errors.Is(err, fs.ErrNotExist), "%s: %v", what, err)
					_, there := p.mem.Stat("restored")
					require.ErrorIs(t, there, fs.ErrNotExist)
				} else {
					require.NoError(t, err)
					require.NoError(t, db.Destroy("restored", &db.Options{FS: p.mem}))
				}
			}
			p.storage.Replace(name, content)
		}
	}
	require.Positive(t, both, "objects that both backups need")
	verifyClean(t, r)
}

// Prune does not guess what a damaged backup needs.
func TestPruneKeepsEverythingIfABackupIsDamaged(t *testing.T) {
	p := newPlace(t, false)
	r := backup.Open(p.storage)
	before := p.storage.Objects()
	name := "backups/" + p.ids[0]
	p.storage.Replace(name, before[name][:100])
	_, err := r.Prune(background, backup.Policy{KeepLast: 1})
	require.ErrorIs(t, err, db.ErrCorruption)
	require.ErrorContains(t, err, "nothing was removed")
	require.ErrorContains(t, err, name)
	require.Len(t, p.storage.Objects(), len(before))
	require.ErrorIs(t, result.Err(r.List(background)), db.ErrCorruption)

	// A new backup can be made, and the others restored.
	d := open(t, "db", &db.Options{FS: p.mem, ReadOnly: true})
	require.Equal(t, p.model, restored(t, r, create(t, r, d, nil).ID))
	require.NoError(t, p.storage.Delete(background, name))
	keepLast(t, r, 1)
	verifyClean(t, r)
}
