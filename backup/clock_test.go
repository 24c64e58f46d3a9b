package backup_test

import (
	"io/fs"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/backup"
	"github.com/sievedb/sievedb/internal/test/backuptest"
	"github.com/sievedb/sievedb/vfs"
)

// at sets the clock of a repository.
func at(repo *backup.Repository, d time.Duration) {
	repo.SetNow(func() time.Time { return time.Now().Add(d) })
}

// After the clock was set back, the next backup was the older one: Prune removed it, and Restore chose the other one.
func TestABackupIsNewerThanThoseBeforeIt(t *testing.T) {
	_, repo, d := newRepo(t)
	for i, hours := range []int{0, 20, 3, 3, 22, 1} {
		at(repo, time.Duration(hours)*time.Hour)
		put(t, d, "key", string(rune('a'+i)))
		create(t, repo, d, nil)
		require.Equal(t, string(rune('a'+i)), restored(t, repo, "")["key"])
		report := keepLast(t, repo, 2)
		require.Equal(t, string(rune('a'+i)), restored(t, repo, report.Kept[len(report.Kept)-1].ID)["key"])
	}
}

// A backup that was made while a clock was years ahead would stay the newest one, and each later one would be pruned.
func TestABackupOfTheFutureDoesNotCount(t *testing.T) {
	storage, repo, d := newRepo(t)
	at(repo, 40*365*24*time.Hour)
	future := create(t, repo, d, nil)
	storage.Replace("running/"+future.ID, []byte("it died")) // and one that died
	repo.SetNow(time.Now)
	put(t, d, "key", "later")
	info := create(t, repo, d, nil)
	require.Less(t, info.ID, future.ID)
	_, err := repo.Restore(background, "", "x", &backup.RestoreOptions{FS: vfs.NewMem()})
	require.ErrorContains(t, err, future.ID+", the newest backup, is dated after now; compare the clocks")
	report := keepLast(t, repo, 1)
	require.Equal(t, []backup.Info{info, future}, report.Kept)
	require.Empty(t, storage.Names("running/"))
	require.Equal(t, "later", restored(t, repo, info.ID)["key"])
}

// A segment was stored while the clock was years ahead. A time after the clock was right again was restored as the
// state before that segment.
func TestAClockThatWasAheadHidesNoLaterTimes(t *testing.T) {
	l := newTimeline(t, vfs.NewMem(), backuptest.NewMem())
	begin := time.Now().UTC().Add(-time.Hour)
	const ahead = 10 * 365 * 24 * time.Hour
	for i, after := range []time.Duration{0, time.Minute, ahead, 3 * time.Minute, ahead, 5 * time.Minute} {
		l.repo.SetNow(func() time.Time { return begin.Add(after) })
		l.put("key", string(rune('0'+i)))
		l.archive()
	}
	l.repo.SetNow(time.Now)
	for minute, want := range []string{"0", "1", "1", "3", "3", "5"} {
		require.Equal(t, want, l.at(backup.Point{Time: begin.Add(time.Duration(minute) * time.Minute)})["key"], minute)
	}
	_, err := l.tryAt("", backup.Point{Time: begin.Add(6 * time.Minute)})
	require.ErrorIs(t, err, fs.ErrNotExist)
	l.repo.SetNow(func() time.Time { return time.Unix(0, 0) }) // the clock of the machine that restores
	require.Equal(t, "1", l.at(backup.Point{Time: begin.Add(time.Minute)})["key"])
}
