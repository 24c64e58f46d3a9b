package backup_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/backup"
	"github.com/sievedb/sievedb/internal/test/backuptest"
	"github.com/sievedb/sievedb/vfs"
)

// Another Prune removes segments while the first one, RestoreAt, Windows and Archive read them.
func TestSegmentsArePrunedWhileTheyAreRead(t *testing.T) {
	for name, call := range map[string]func(l *timeline, r *backup.Repository){
		"Prune": func(l *timeline, r *backup.Repository) {
			keepLast(l.t, r, 1)
		},
		"RestoreAt": func(l *timeline, r *backup.Repository) {
			o := &backup.RestoreOptions{FS: vfs.NewMem()}
			p := backup.Point{Sequence: l.d.Metrics().LastSequence}
			require.NoError(l.t, second(r.RestoreAt(background, "", p, "restored", o)))
		},
		"Windows": func(l *timeline, r *backup.Repository) {
			windows, err := r.Windows(background)
			require.NoError(l.t, err)
			last := l.d.Metrics().LastSequence
			require.True(l.t, slices.ContainsFunc(windows, func(w backup.Window) bool { return w.First < last && w.Last == last }))
		},
		"Archive": func(l *timeline, r *backup.Repository) {
			info, err := r.Archive(background, l.d, nil)
			require.NoError(l.t, err)
			require.Nil(l.t, info.Backup)
		},
	} {
		t.Run(name, func(t *testing.T) {
			storage := backuptest.NewMem()
			l := newArchivedTimeline(t, vfs.NewMem(), storage)
			for i := range 8 {
				l.put("key", fmt.Sprint(i))
				l.archive()
			}
			l.create()
			l.put("key", "last")
			l.archive()
			call(l, backup.Open(once(t, storage, backuptest.OpOpen, "segments/", func() error { return prune(1)(l.repo) })))
			verifyClean(t, l.repo)
		})
	}
}

// Backups that cannot be read, wrong clocks and missing segments do not make RestoreAt take an older history, in which
// the same number is another state.
func TestRestoreAtDoesNotTakeAnOlderHistory(t *testing.T) {
	mem, storage := vfs.NewMem(), backuptest.NewMem()
	l := newTimeline(t, mem, storage)
	l.put("key", "first")
	first := l.archive()
	for _, value := range []string{"second", "third", "fourth", "fifth"} {
		l.put("key", value)
		l.archive()
	}
	require.NoError(t, l.d.Close())
	again := l.again(1)
	again.put("key", "another second")
	info := again.archive()
	again.put("key", "another third")
	again.archive()
	again.put("key", "another fourth")
	again.archive()
	value := func(id string, n uint64) string {
		got, err := l.tryAt(id, backup.Point{Sequence: n})
		if err != nil {
			return err.Error()
		}
		return got["key"]
	}
	require.Equal(t, "another third", value("", 3))
	require.Equal(t, "fifth", value("", 5), "only the older history has it")

	damage := func(name string) func() {
		content := storage.Objects()[name]
		storage.Replace(name, content[:len(content)-1])
		return func() { storage.Replace(name, content) }
	}
	mend := damage("backups/" + info.Backup.ID)
	require.Contains(t, value("", 3), "give the ID of the backup")
	require.Contains(t, value("", 5), "give the ID of the backup")
	require.Equal(t, "third", value(first.Backup.ID, 3))
	mendStream := damage("streams/" + info.Stream)
	require.Contains(t, value("", 1), "give the ID of the backup")
	mendStream()
	require.Equal(t, "first", value("", 1), "before the newer history")
	mend()

	segments := storage.Names("segments/" + info.Stream)
	content := storage.Objects()[segments[0]]
	storage.Replace(segments[0], nil)
	require.Contains(t, value("", 3), "what can be is stream")
	storage.Replace(segments[0], content)
	newest := create(t, l.repo, again.d, nil)
	require.Equal(t, info.Stream, newest.Stream)
	storage.Replace(segments[1], nil) // the last one
	require.Equal(t, "another third", value("", 3))
	require.Equal(t, "another fourth", value("", newest.Sequence))
	storage.Replace(segments[0], nil)
	require.Contains(t, value("", 3), "what can be is stream")
	require.NoError(t, storage.Delete(background, "backups/"+newest.ID))
	require.NoError(t, again.d.Close())

	// The clock was wrong when the older history began.
	other := newTimeline(t, vfs.NewMem(), backuptest.NewMem())
	other.repo.SetNow(func() time.Time { return time.Now().AddDate(10, 0, 0) })
	other.put("key", "first")
	future := other.archive().Backup
	other.repo.SetNow(time.Now)
	require.Equal(t, other.model, other.at(backup.Point{Sequence: 1}), "there is no other history")
	require.NoError(t, other.repo.StopArchiving(background, other.d))
	other.archive()
	_, err := other.tryAt("", backup.Point{Sequence: 1})
	require.ErrorContains(t, err, "is dated after now")
	require.NoError(t, second(other.tryAt(future.ID, backup.Point{Sequence: 1})))
}

// A later time never means an earlier state, also if it is that of a backup during which there were writes.
func TestALaterTimeIsNoEarlierState(t *testing.T) {
	storage := backuptest.NewMem()
	l := newTimeline(t, vfs.NewMem(), storage)
	l.put("key", "0")
	l.archive()
	s := once(t, storage, backuptest.OpCreate, "objects/", func() error {
		l.put("key", "1")
		return nil
	})
	l.put("other", "0")
	info := create(t, backup.Open(s), l.d, nil)
	require.Less(t, info.Sequence, l.d.Metrics().LastSequence)
	got := l.at(backup.Point{Time: info.Noted})
	require.Equal(t, l.model, got, "the segment before the backup has it")
	l.put("key", "2")
	l.archive()
	require.Equal(t, got, l.at(backup.Point{Time: info.Noted}))
	require.Equal(t, got, l.at(backup.Point{Time: info.Noted.Add(1)}))
}
