package backup_test

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/backup"
	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/test/backuptest"
	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/vfs"
)

// copyOf returns the same database at another place, as a copied directory or an image is.
func (l *timeline) copyOf(mem *vfs.Mem) *timeline {
	c := *l
	c.fs, c.model, c.states = mem.Kill(), maps.Clone(l.model), maps.Clone(l.states)
	c.open()
	return &c
}

// Two copies of a database, which have the same numbers for different changes, never mix: the first one that
// archives continues the stream, and the other one begins a stream of its own.
func TestCopiesOfADatabaseHaveStreamsOfTheirOwn(t *testing.T) {
	mem := vfs.NewMem()
	l := newTimeline(t, mem, backuptest.NewMem())
	l.put("key", "common")
	l.archive()
	l.put("key", "common too")
	l.archive()
	l.load([]string{"loaded"}, "common")
	c := l.copyOf(mem)
	c.load([]string{"loaded"}, "copied") // what l has not archived yet differs
	l.put("key", "original")
	c.put("key", "copy")

	require.Nil(t, l.archive().Backup)
	info := c.archive()
	require.NotNil(t, info.Backup, "the copy has other changes")
	l.put("other", "original")
	c.put("other", "copy")
	l.create()
	c.create()
	require.Nil(t, c.archive().Backup)
	last := l.archive().Last

	windows := l.windows()
	require.Len(t, windows, 2)
	got := result.Of(l.tryAt(windows[0].Backup, backup.Point{Sequence: last}))(t)
	require.Equal(t, l.model, got)
	require.Equal(t, c.model, c.at(backup.Point{Sequence: c.d.Metrics().LastSequence}), "the newest stream")
	verifyClean(t, l.repo)

	// An older image of the directory that has what was archived meanwhile, and more, with the same values.
	require.NoError(t, l.d.Close())
	l.open()
	require.Nil(t, l.archive().Backup)
}

// A database that was restored, or written by an opening that keeps no changes, begins a new stream; its numbers may be
// those of the old one.
func TestAnotherHistoryBeginsANewStream(t *testing.T) {
	mem := vfs.NewMem()
	l := newTimeline(t, mem, backuptest.NewMem())
	l.put("key", "first")
	first := l.archive()
	l.put("key", "second")
	old := l.archive().Last
	require.NoError(t, l.d.Close())

	again := l.again(first.Last)
	again.put("key", "another second")
	require.NotNil(t, again.archive().Backup)
	again.put("key", "another third")
	again.archive()
	require.Equal(t, map[string]string{"key": "another third"}, l.at(backup.Point{Sequence: again.d.Metrics().LastSequence}))
	got := result.Of(l.tryAt(first.Backup.ID, backup.Point{Sequence: old}))(t)
	require.Equal(t, map[string]string{"key": "second"}, got)

	o := l.options(mem)
	o.KeepRecord, o.Changes.Bytes = true, -1
	d := open(t, "db", o)
	loader := result.Of(d.NewLoader())(t)
	require.NoError(t, loader.Put([]byte("key"), []byte("unseen")))
	require.NoError(t, loader.Commit())
	require.NoError(t, d.Close())
	l.open()
	require.NotNil(t, l.archive().Backup)
	require.Len(t, l.windows(), 3)
	verifyClean(t, l.repo)
}

// Prune keeps the segments after the oldest kept backup, with their tables, and removes the others.
func TestPruneKeepsTheSegmentsAfterTheOldestBackup(t *testing.T) {
	storage := backuptest.NewMem()
	l := newArchivedTimeline(t, vfs.NewMem(), storage)
	l.load([]string{"loaded"}, "before")
	l.archive()
	kept := l.create()
	l.load([]string{"loaded"}, "after")
	l.ingest([]string{"a", "b"}, "after")
	l.archive()
	require.NoError(t, l.d.Compact(background, nil, nil)) // so no backup has these tables
	newest := l.create()
	l.put("key", "last")
	last := l.archive().Last
	segments := len(storage.Names("segments/"))

	dry := result.Of(l.repo.Prune(background, backup.Policy{KeepLast: 2, DryRun: true}))(t)
	report := keepLast(t, l.repo, 2)
	require.Equal(t, 1, report.Segments)
	require.Equal(t, dry, report)
	require.Len(t, storage.Names("segments/"), segments-1)
	l.requireAll(kept.Sequence, last)
	verifyClean(t, l.repo)

	keepLast(t, l.repo, 1)
	l.requireAll(newest.Sequence, last)
	require.Len(t, storage.Names("segments/"), 1)
	require.ErrorIs(t, result.Err(l.tryAt("", backup.Point{Sequence: newest.Sequence - 1})), fs.ErrNotExist)

	// Without a backup the stream ends, and Archive begins another one.
	require.NoError(t, storage.Delete(background, "backups/"+newest.ID))
	keepLast(t, l.repo, 1)
	require.Empty(t, storage.Names("segments/"))
	require.Empty(t, storage.Names("streams/"))
	require.Empty(t, storage.Names("objects/"))
	require.NotNil(t, l.archive().Backup)
	require.Equal(t, l.model, l.at(backup.Point{Sequence: last}))
}

// Every part of each segment and stream is damaged in turn. Verify names it, RestoreAt refuses it, and Prune removes no
// object.
func TestDamagedSegmentsAreFound(t *testing.T) {
	storage := backuptest.NewMem()
	l := newArchivedTimeline(t, vfs.NewMem(), storage)
	for i := range 3 {
		l.load([]string{fmt.Sprint("loaded", i)}, strings.Repeat("value", i))
		l.deleteRange("key", "keyz", "own", "value")
		l.archive()
	}
	last := l.archive().Last
	names := storage.Names("segments/")
	require.Len(t, names, 3)
	for _, name := range names {
		content := storage.Objects()[name]
		for at := 0; at < len(content); at += 1 + len(content)/40 {
			flipped := append([]byte{}, content...)
			flipped[at] ^= 1 << (at % 8)
			for _, damage := range [][]byte{flipped, content[:at], append(append([]byte{}, content...), 'x')} {
				storage.Replace(name, damage)
				fault := oneFault(t, l.repo, "%s at %d: %q", name, at, damage)
				require.Equal(t, name, fault.Object)
				require.Contains(t, fault.String(), name)
				require.Error(t, result.Err(l.tryAt("", backup.Point{Sequence: last})))
			}
		}
		storage.Replace(name, content[:len(content)/3])
		objects := len(storage.Names("objects/"))
		require.Error(t, result.Err(l.repo.Prune(background, backup.Policy{KeepLast: 1})))
		require.Len(t, storage.Names("objects/"), objects)
		storage.Replace(name, content)
	}
	// One that is missing.
	content := storage.Objects()[names[1]]
	require.NoError(t, storage.Delete(background, names[1]))
	oneFault(t, l.repo)
	require.ErrorIs(t, result.Err(l.tryAt("", backup.Point{Sequence: last})), fs.ErrNotExist)
	storage.Replace(names[1], content)
	// Two that were exchanged.
	storage.Replace(names[0], content)
	require.ErrorIs(t, result.Err(l.tryAt("", backup.Point{Sequence: last})), db.ErrCorruption)
}

// A time is restored as it was known: to the second while KeepArchiving runs.
func TestATimeIsRestored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newTimeline(t, vfs.NewMem(), backuptest.NewMem())
		ctx, cancel := context.WithCancel(background)
		ended := make(chan error)
		go func() { ended <- l.repo.KeepArchiving(ctx, l.d, &backup.ArchiveOptions{Every: 5 * time.Second}) }()
		synctest.Wait()
		states := map[time.Time]string{}
		var times []time.Time
		for i := range 20 {
			<-time.After(1700 * time.Millisecond)
			require.NoError(t, l.d.Put([]byte("key"), fmt.Append(nil, i), db.Sync))
			states[time.Now()] = fmt.Sprint(i)
			times = append(times, time.Now())
		}
		<-time.After(6 * time.Second)
		synctest.Wait()
		windows := l.windows()
		require.Len(t, windows, 1)
		require.False(t, windows[0].To.Before(times[len(times)-1]), "no more than Every is not archived")
		for i, at := range times[:len(times)-1] {
			require.Equal(t, states[at], l.at(backup.Point{Time: at})["key"])
			require.Equal(t, states[at], l.at(backup.Point{Time: times[i+1].Add(-time.Millisecond)})["key"])
		}
		for _, at := range []time.Time{windows[0].From.Add(-1), windows[0].To.Add(1)} {
			_, err := l.tryAt("", backup.Point{Time: at})
			require.ErrorIs(t, err, fs.ErrNotExist)
			require.ErrorContains(t, err, "what can be is stream")
		}
		// Without changes, there is a mark from time to time.
		<-time.After(time.Hour)
		synctest.Wait()
		require.Less(t, time.Since(l.windows()[0].To), 11*time.Minute)
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
		require.NoError(t, l.d.Close())
	})
}

// Wrong calls are refused with what to do.
func TestArchiveAndRestoreAtRefuseWrongCalls(t *testing.T) {
	mem := vfs.NewMem()
	l := newTimeline(t, mem, backuptest.NewMem())
	l.put("key", "value")
	reader := open(t, "other", smallOptions(vfs.NewMem()))
	var none context.Context
	for want, call := range map[string]func() error{
		"needs a context":     func() error { return second(l.repo.Archive(none, l.d, nil)) },
		"set Options.Changes": func() error { return second(l.repo.Archive(background, reader, nil)) },
		"Every is -1ns": func() error {
			return l.repo.KeepArchiving(background, l.d, &backup.ArchiveOptions{Every: -1})
		},
		"a time or a sequence number": func() error {
			return second(l.repo.RestoreAt(background, "", backup.Point{}, "x", nil))
		},
		"is not the ID": func() error {
			return second(l.repo.RestoreAt(background, "x", backup.Point{Sequence: 1}, "x", nil))
		},
		"there is no repository": func() error {
			return second(l.repo.RestoreAt(background, "", backup.Point{Sequence: 1}, "x", nil))
		},
	} {
		require.ErrorContains(t, call(), want)
	}
	require.NoError(t, l.repo.StopArchiving(background, l.d))
	l.create()
	require.ErrorContains(t, result.Err(l.tryAt("", backup.Point{Sequence: 1})), "no backup has segments")
	l.archive()
	cursors := result.Of(l.d.Cursors())(t)
	require.Len(t, cursors, 1)
	require.NoError(t, l.repo.StopArchiving(background, l.d))
	cursors = result.Of(l.d.Cursors())(t)
	require.Empty(t, cursors)
	require.NotNil(t, l.archive().Backup)

	reversed := db.Comparer{Name: "reversed", Compare: func(a, b []byte) int { return strings.Compare(string(b), string(a)) }}
	_, err := l.repo.RestoreAt(background, "", backup.Point{Sequence: 1}, "x", &backup.RestoreOptions{FS: mem, Comparer: &reversed})
	require.ErrorContains(t, err, `RestoreOptions.Comparer is "reversed"`)
	require.NoError(t, l.d.Close())
	require.ErrorIs(t, second(l.repo.Archive(background, l.d, nil)), db.ErrClosed)
	o := l.options(mem)
	o.ReadOnly = true
	require.ErrorIs(t, second(l.repo.Archive(background, open(t, "db", o), nil)), db.ErrReadOnly)
}

// While a database is written, several goroutines archive it, make backups and prune. All that was archived can be
// restored.
func TestArchiveCreateAndPruneAtTheSameTime(t *testing.T) {
	storage := backuptest.NewMem()
	l := newArchivedTimeline(t, vfs.NewMem(), storage)
	rounds := 30
	if testing.Short() {
		rounds = 10
	}
	var group sync.WaitGroup
	stop := make(chan struct{})
	run := func(f func() error) {
		group.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if err := f(); err != nil {
					t.Errorf("%+v", err)
					return
				}
			}
		})
	}
	for range 2 {
		run(func() error { return second(l.repo.Archive(background, l.d, nil)) })
	}
	run(func() error { return second(l.repo.Create(background, l.d, nil)) })
	run(func() error { return second(backup.Open(storage).Prune(background, backup.Policy{KeepLast: 3})) })
	for i := range rounds {
		l.put(fmt.Sprint("key", i), "value")
		l.load([]string{fmt.Sprint("loaded", i%5)}, fmt.Sprint(i))
	}
	close(stop)
	group.Wait()
	last := l.archive().Last
	verifyClean(t, l.repo)
	windows := l.windows()
	require.NotEmpty(t, windows)
	l.requireAll(max(windows[len(windows)-1].First, last-1<<20), last)
	require.Equal(t, l.model, l.at(backup.Point{Sequence: last}))
}

// The same with two machines that have copies of a database, where the operations come in random order and some
// machines die.
func TestArchivesAndPrunesInAnyOrder(t *testing.T) { inAnyOrder(t, 25, 4, runArchivers) }

func runArchivers(t *testing.T, rnd *rand.Rand) {
	storage := backuptest.NewMem()
	mem := vfs.NewMem()
	l := newArchivedTimeline(t, mem, storage)
	lines := []*timeline{l, l.copyOf(mem)}
	type archived struct {
		stream string
		last   uint64
	}
	results := make([]archived, len(lines))
	var runs []func(a *actor)
	for i, line := range lines {
		runs = append(runs, func(a *actor) {
			r := a.repository(storage)
			for n := range 4 {
				line.put(fmt.Sprint("key", n), fmt.Sprint("machine ", i))
				if n == 2 {
					line.load([]string{"loaded"}, fmt.Sprint("machine ", i))
				}
				if n == i {
					_, err := r.Create(background, line.d, nil)
					a.errorless(t, err)
				}
				info, err := r.Archive(background, line.d, nil)
				a.errorless(t, err)
				if err == nil {
					results[i] = archived{info.Stream, info.Last}
				}
			}
		})
	}
	prune := func(a *actor) {
		r := a.repository(storage)
		for range 3 {
			_, err := r.Prune(background, backup.Policy{KeepLast: 4})
			a.errorless(t, err)
		}
	}
	runs = append(runs, prune, prune)
	death := 0.0
	if rnd.IntN(2) == 0 {
		death = 0.02
	}
	interleave(rnd, death, runs...)
	verifyClean(t, l.repo)
	all := list(t, l.repo)
	for i, r := range results {
		for _, info := range all {
			if info.Stream == r.stream && r.stream != "" && info.Sequence <= r.last {
				got := result.Of(lines[i].tryAt(info.ID, backup.Point{Sequence: r.last}))(t)
				require.Equal(t, lines[i].states[r.last], got, "machine %d", i)
			}
		}
	}
	for _, line := range lines {
		last := line.archive().Last
		require.NoError(t, line.d.Close())
		require.Contains(t, line.states, last)
	}
	verifyClean(t, l.repo)
}
