package backup_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/backup"
	"github.com/sievedb/sievedb/internal/test/backuptest"
	"github.com/sievedb/sievedb/vfs"
)

// paused is a call that stops before an operation.
type paused struct {
	t       *testing.T
	resume  chan struct{}
	reached chan struct{}
	result  chan error
}

// pauseAt starts a call and returns when it is about to do the nth operation of that kind whose name
// begins with prefix.
func pauseAt(t *testing.T, s backup.Storage, kind backuptest.OpKind, prefix string, nth int,
	call func(r *backup.Repository) error,
) *paused {
	p := &paused{t, make(chan struct{}), make(chan struct{}), make(chan error, 1)}
	go func() {
		p.result <- call(backup.Open(beforeNth(s, kind, prefix, nth, func() error {
			close(p.reached)
			<-p.resume
			return nil
		})))
	}()
	select {
	case <-p.reached:
	case err := <-p.result:
		require.FailNow(t, "the call ended before the operation", "%v", err)
	}
	return p
}

// finish lets the call run to its end.
func (p *paused) finish() {
	p.t.Helper()
	close(p.resume)
	require.NoError(p.t, <-p.result)
}

func prune(keep int) func(r *backup.Repository) error {
	return func(r *backup.Repository) error {
		return second(r.Prune(background, backup.Policy{KeepLast: keep}))
	}
}

// A backup uses an object that was condemned after it began. A slow Prune still has the list when that
// backup is pruned and another one begins. If the list had been removed because the first backup
// needs the object, the second one would use the object, and the slow Prune would delete it.
func TestCondemnedObjectsAreNotPardoned(t *testing.T) {
	storage := backuptest.NewMem()
	repo := backup.Open(storage)
	d, other := open(t, "db", smallOptions(vfs.NewMem())), open(t, "db", smallOptions(vfs.NewMem()))
	fill(t, d, 0, 300, "value")
	require.NoError(t, d.Compact(background, nil, nil))
	put(t, other, "k", "v")
	again := func(r *backup.Repository) error { return second(r.Create(background, d, nil)) }

	create(t, repo, d, nil)
	create(t, repo, other, nil)
	first := pauseAt(t, storage, backuptest.OpCreate, "backups/", 1, again)
	report := keepLast(t, repo, 1)
	require.Positive(t, report.Waiting, "the running backup may use the objects")
	first.finish()
	verifyClean(t, repo)

	slow := pauseAt(t, storage, backuptest.OpList, "backups/", 3, prune(9))
	require.NoError(t, prune(9)(repo))
	create(t, repo, other, nil)
	remover := pauseAt(t, storage, backuptest.OpList, "running/", 1, prune(1)) // it has removed the first backup
	last := pauseAt(t, storage, backuptest.OpCreate, "backups/", 1, again)
	slow.finish()
	last.finish()
	verifyClean(t, repo)
	remover.finish()
	verifyClean(t, repo)
	requireTidy(t, repo, storage)
}
