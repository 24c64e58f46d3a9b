package backup_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
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

// place is a repository of two backups, and a store to back up again.
type place struct {
	storage *backuptest.Mem
	mem     *vfs.Mem
	ids     []string
	want    map[string]string
}

func newPlace(t *testing.T) *place {
	stop := damage.Watch(t.Name())
	t.Cleanup(func() { stop() })
	p := &place{storage: backuptest.NewMem(), mem: vfs.NewMem()}
	d := open(t, "db", smallOptions(p.mem))
	repo := backup.Open(p.storage)
	fill(t, d, 0, 150, "value")
	require.NoError(t, d.Compact(background, nil, nil))
	p.ids = append(p.ids, create(t, repo, d, nil).ID)
	resume, err := d.PauseCompactions(background) // the backups share the tables
	require.NoError(t, err)
	defer resume()
	fill(t, d, 150, 250, "value")
	p.ids = append(p.ids, create(t, repo, d, nil).ID)
	fill(t, d, 0, 50, "changed")
	require.NoError(t, d.Delete([]byte("key000100"), nil))
	p.want = contents(t, d)
	require.NoError(t, d.Close())
	return p
}

// clone returns an independent copy.
func (p *place) clone() *place {
	c := *p
	c.storage, c.mem = backuptest.NewMem(), p.mem.Kill()
	for name, content := range p.storage.Objects() {
		c.storage.Replace(name, content)
	}
	return &c
}

// calls are what can fail. They use the file system for the store or the restored directory.
var calls = map[string]func(p *place, r *backup.Repository, fsys vfs.FS) error{
	"Create": func(p *place, r *backup.Repository, fsys vfs.FS) error {
		d, err := db.Open("db", &db.Options{FS: fsys, ReadOnly: true})
		if err != nil {
			return err
		}
		_, err = r.Create(background, d, nil)
		_ = d.Close()
		return err
	},
	"Restore": func(p *place, r *backup.Repository, fsys vfs.FS) error {
		_, err := r.Restore(background, p.ids[1], "restored", &backup.RestoreOptions{FS: fsys})
		return err
	},
	"Prune": func(p *place, r *backup.Repository, fsys vfs.FS) error {
		_, err := r.Prune(background, backup.Policy{KeepLast: 1})
		return err
	},
	"Verify": func(p *place, r *backup.Repository, fsys vfs.FS) error {
		report, err := r.Verify(background)
		if len(report.Faults) > 0 {
			err = report.Faults[0].Err
		}
		return err
	},
	"List": func(p *place, r *backup.Repository, fsys vfs.FS) error {
		_, err := r.List(background)
		return err
	},
}

// requireSound checks a place after a failure, and that the same call then succeeds.
func (p *place) requireSound(t *testing.T, name, what string) {
	t.Helper()
	repo := backup.Open(p.storage)
	verifyClean(t, repo)
	all := list(t, repo)
	require.NotEmpty(t, all)
	for _, i := range all {
		if i.ID != p.ids[0] && i.ID != p.ids[1] { // the failed call has made it nevertheless
			require.Equal(t, p.want, restored(t, repo, i.ID))
		}
	}
	if _, there := p.mem.Stat("restored"); there == nil {
		d := open(t, "restored", &db.Options{FS: p.mem, ErrorIfMissing: true})
		require.Len(t, contents(t, d), 250)
		require.NoError(t, d.Close())
		require.NoError(t, db.Destroy("restored", &db.Options{FS: p.mem}))
	}
	require.NoError(t, calls[name](p, repo, p.mem), what)
	requireTidy(t, repo, p.storage)
}

// After an error at any operation of the storage, the repository is valid and the call can be repeated.
func TestAnErrorAtEveryOperationOfAStorage(t *testing.T) {
	original := newPlace(t)
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			for at := range operations(11) {
				f := &faults{at: at, sticky: at%2 == 0, late: at%3 == 0, err: errors.New("no answer")}
				p := original.clone()
				err := call(p, backup.Open(f.storage(p.storage, nil)), p.mem)
				if f.n <= at {
					require.NoError(t, err)
					return
				}
				what := fmt.Sprintf("operation %d, sticky %v, late %v", at, f.sticky, f.late)
				if name != "Create" { // which may find out that it was done
					require.ErrorIs(t, err, f.err, what)
				}
				p.requireSound(t, name, what)
			}
		})
	}
}

// After an error at any operation of the file system of a store or a restored directory, there is the
// same, and no file remains that the next call does not remove.
func TestAnErrorAtEveryFileOperation(t *testing.T) {
	original := newPlace(t)
	for _, name := range []string{"Create", "Restore"} {
		t.Run(name, func(t *testing.T) {
			for at := range operations(17) {
				f := &faults{at: at, sticky: at%2 == 0, err: syscall.EIO}
				if at%3 == 0 {
					f.err = syscall.ENOSPC
				}
				p := original.clone()
				err := calls[name](p, backup.Open(p.storage), f.fs(p.mem))
				if f.n <= at {
					require.NoError(t, err)
					return
				}
				what := fmt.Sprintf("operation %d, sticky %v", at, f.sticky)
				if err != nil && !errors.Is(err, db.ErrClosed) {
					require.ErrorIs(t, err, f.err, what)
					require.Equal(t, f.err == syscall.ENOSPC, errors.Is(err, db.ErrNoSpace), "%s: %v", what, err)
				}
				p.requireSound(t, name, what)
				names, err := p.mem.List(".")
				require.NoError(t, err)
				require.Subset(t, []string{"db", "restored"}, names, what)
			}
		})
	}
}

// A restore that is cancelled, like one that fails, leaves no directory.
func TestCallsEndWithTheirContext(t *testing.T) {
	for name := range calls {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
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
			_, err := p.mem.Stat("restored")
			require.ErrorIs(t, err, fs.ErrNotExist)
			require.Empty(t, p.storage.Names("running/"))
			require.Len(t, p.storage.Names("backups/"), 2)
		})
		break
	}
}

func second[T any](_ T, err error) error { return err }

// Every object is damaged in turn. Verify names it with the backups that need it, and Restore refuses these.
func TestEveryDamagedObjectIsFound(t *testing.T) {
	p := newPlace(t)
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
	p := newPlace(t)
	r := backup.Open(p.storage)
	before := p.storage.Objects()
	name := "backups/" + p.ids[0]
	p.storage.Replace(name, before[name][:100])
	_, err := r.Prune(background, backup.Policy{KeepLast: 1})
	require.ErrorIs(t, err, db.ErrCorruption)
	require.ErrorContains(t, err, "nothing was removed")
	require.ErrorContains(t, err, name)
	require.Len(t, p.storage.Objects(), len(before))
	_, err = r.List(background)
	require.ErrorIs(t, err, db.ErrCorruption)

	// A new backup can be made, and the others restored.
	d := open(t, "db", &db.Options{FS: p.mem, ReadOnly: true})
	require.Equal(t, p.want, restored(t, r, create(t, r, d, nil).ID))
	require.NoError(t, p.storage.Delete(background, name))
	keepLast(t, r, 1)
	verifyClean(t, r)
}
