package backup_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/backup"
	"github.com/sievedb/sievedb/internal/test/backuptest"
	"github.com/sievedb/sievedb/vfs"
)

// A copy of the database from before the newest changes makes others with the same numbers. Prune keeps what shows
// that, even if nothing has changed since and a backup has all changes.
func TestACopyOfAnIdleDatabaseDoesNotContinueItsStream(t *testing.T) {
	storage, mem := backuptest.NewMem(), vfs.NewMem()
	l := newTimeline(t, mem, storage)
	l.put("key", "first")
	l.archive()
	l.put("key", "second")
	l.archive()
	c := l.copyOf(mem)
	c.put("copy", "third")
	l.put("original", "third")
	number := l.archive().Last
	l.repo.SetNow(func() time.Time { return time.Now().Add(time.Hour) })
	l.archive() // a segment without changes
	l.create()
	names := storage.Names("segments/")
	keepLast(t, l.repo, 1)
	require.Equal(t, names[1:], storage.Names("segments/"), "the newest one with changes stays")
	original, other := l.copyOf(mem), c.copyOf(c.fs.(*vfs.Mem))
	require.NoError(t, l.d.Close())
	l.open()
	require.Nil(t, l.archive().Backup, "it continues")

	c.put("copy", "fourth")
	require.NotNil(t, c.archive().Backup, "the copy does not")
	require.Equal(t, c.model, c.at(backup.Point{Sequence: number + 1}))
	require.NoError(t, c.d.Close())

	// Nothing is left to compare with.
	require.NoError(t, storage.Delete(background, names[1]))
	require.NotNil(t, other.archive().Backup)
	require.NotNil(t, original.archive().Backup)
}

// A backup joins a stream whose other backups Prune is just removing. What is archived after it can be restored.
func TestABackupJoinsAStreamDuringPrune(t *testing.T) {
	storage := backuptest.NewMem()
	l := newArchivedTimeline(t, vfs.NewMem(), storage)
	l.put("key", "second")
	l.archive()
	during, ready, commit := false, make(chan struct{}), make(chan struct{})
	joining := &backuptest.Hooked{Storage: storage, Before: func(op backuptest.Op) error {
		if op.Kind == backuptest.OpCreate && strings.HasPrefix(op.Name, "objects/") && !during {
			during = true
			l.put("key", "written during the backup")
		}
		if op.Kind == backuptest.OpCreate && strings.HasPrefix(op.Name, "backups/") {
			close(ready)
			<-commit
		}
		return nil
	}}
	ended := make(chan error, 1)
	var joined backup.Info
	go func() {
		var err error
		joined, err = backup.Open(joining).Create(background, l.d, nil)
		ended <- err
	}()
	<-ready
	s := &backuptest.Hooked{Storage: storage, Before: func(op backuptest.Op) error {
		if op.Kind == backuptest.OpDelete && strings.HasPrefix(op.Name, "streams/") {
			close(commit)
			require.NoError(t, <-ended)
			l.put("key", "after")
			require.Nil(t, l.archive().Backup)
		}
		return nil
	}}
	require.NoError(t, storage.Delete(background, storage.Names("backups/")[0]))
	keepLast(t, backup.Open(s), 1)
	require.NotEmpty(t, joined.Stream)
	l.requireAll(joined.Sequence, l.d.Metrics().LastSequence)
	verifyClean(t, l.repo)
	require.NotNil(t, l.archive().Backup, "the stream has ended")
}
