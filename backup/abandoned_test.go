package backup_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/backup"
	"github.com/sievedb/sievedb/internal/test/backuptest"
	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/vfs"
)

// A backup takes so long that Prune has removed the segments after its state: it joins no stream, so none are missing.
func TestASlowBackupJoinsNoStream(t *testing.T) {
	storage := backuptest.NewMem()
	l := newArchivedTimeline(t, vfs.NewMem(), storage)
	s := once(t, storage, backuptest.OpCreate, "objects/", func() error {
		for range 2 {
			l.put("key", "changed")
			l.put("key", "again")
			l.archive()
			l.create()
		}
		return prune(1)(l.repo)
	})
	l.put("other", "value")
	info := create(t, backup.Open(s), l.d, nil)
	require.Empty(t, info.Stream)
	verifyClean(t, l.repo)
	require.Len(t, l.windows(), 1)
	require.Equal(t, l.states[info.Sequence], restored(t, l.repo, info.ID))
}

// A Prune whose clock is wrong takes a writer for abandoned and deletes its tables just before the segment is made.
// Nothing continues after that segment.
func TestASegmentOfAnAbandonedWriter(t *testing.T) {
	storage := backuptest.NewMem()
	l := newArchivedTimeline(t, vfs.NewMem(), storage)
	l.load([]string{"loaded"}, "value")
	wrong := backup.Open(storage)
	wrong.SetNow(func() time.Time { return time.Now().Add(2 * backup.AbandonedAfter) })
	s := once(t, storage, backuptest.OpCreate, "segments/", func() error { return prune(1)(wrong) })
	info := result.Of(backup.Open(s).Archive(background, l.d, nil))(t)
	require.NotNil(t, info.Backup, "another stream")
	l.put("key", "after")
	require.Nil(t, l.archive().Backup)
	l.requireAll(info.Backup.Sequence, l.d.Metrics().LastSequence)
	oneFault(t, l.repo, "the segment has no tables")
}

// A stream that began while the clock was wrong by years and was pruned does not keep changes of the database.
func TestTheCursorOfAFutureStreamIsDropped(t *testing.T) {
	storage := backuptest.NewMem()
	l := newTimeline(t, vfs.NewMem(), storage)
	l.put("key", "value")
	l.repo.SetNow(func() time.Time { return time.Now().AddDate(10, 0, 0) })
	stream := l.archive().Stream
	l.repo.SetNow(time.Now)
	require.NoError(t, storage.Delete(background, "streams/"+stream))
	require.NotNil(t, l.archive().Backup)
	cursors := result.Of(l.d.Cursors())(t)
	require.Len(t, cursors, 1)
}
