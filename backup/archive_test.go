package backup_test

import (
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/backup"
	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/test/backuptest"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/vfs"
)

// timeline is a database that is archived, and what it contained after each change.
type timeline struct {
	t      testing.TB
	fs     vfs.FS
	dir    string
	repo   *backup.Repository
	d      *db.DB
	model  map[string]string
	states map[uint64]map[string]string // by sequence number
	now    time.Time                    // of the expiry
	files  int                          // that were ingested
}

func newTimeline(t testing.TB, fsys vfs.FS, storage backup.Storage) *timeline {
	l := &timeline{
		t: t, fs: fsys, dir: "db", repo: backup.Open(storage), model: map[string]string{},
		states: map[uint64]map[string]string{}, now: time.Unix(1_800_000_000, 0),
	}
	l.open()
	return l
}

// newArchivedTimeline returns a timeline with a value of "key", whose stream has begun.
func newArchivedTimeline(t testing.TB, fsys vfs.FS, storage backup.Storage) *timeline {
	l := newTimeline(t, fsys, storage)
	l.put("key", "value")
	l.archive()
	return l
}

// options are those of the database. Little is kept without a cursor.
func (l *timeline) options(fsys vfs.FS) *db.Options {
	o := smallOptions(fsys)
	o.Changes = db.ChangeRetention{Bytes: 1}
	o.Expiry = db.ExpiryOptions{Prefixes: [][]byte{[]byte("ttl")}, Clock: func() time.Time { return l.now }}
	return o
}

func (l *timeline) open() { l.d = open(l.t, l.dir, l.options(l.fs)) }

func (l *timeline) reopen() {
	require.NoError(l.t, l.d.Close())
	l.open()
}

// note records the present state.
func (l *timeline) note() { l.states[l.d.Metrics().LastSequence] = maps.Clone(l.model) }

func (l *timeline) put(key, value string) {
	require.NoError(l.t, l.d.Put([]byte(key), []byte(value), db.NoSync))
	l.model[key] = value
	l.note()
}

func (l *timeline) delete(key string) {
	require.NoError(l.t, l.d.Delete([]byte(key), db.NoSync))
	delete(l.model, key)
	l.note()
}

// deleteRange deletes a range, with other writes in the same batch.
func (l *timeline) deleteRange(start, limit, key, value string) {
	var b db.Batch
	b.DeleteRange([]byte(start), []byte(limit))
	b.Put([]byte(key), []byte(value))
	require.NoError(l.t, l.d.Apply(&b, db.NoSync))
	maps.DeleteFunc(l.model, func(k, _ string) bool { return k >= start && k < limit })
	l.model[key] = value
	l.note()
}

func (l *timeline) load(keys []string, value string) {
	loader, err := l.d.NewLoader()
	require.NoError(l.t, err)
	for _, k := range keys {
		require.NoError(l.t, loader.Put([]byte(k), []byte(value)))
		l.model[k] = value
	}
	require.NoError(l.t, loader.Commit())
	l.note()
}

// ingest adds a table with values for some keys and a deletion of the last one.
func (l *timeline) ingest(keys []string, value string) {
	l.files++
	last := keys[len(keys)-1]
	delete(l.model, last)
	var entries []fixture.Entry
	for _, k := range keys[:len(keys)-1] {
		l.model[k] = value
		entries = append(entries, fixture.Put(k, 1, value))
	}
	ingest(l.t, l.d, fmt.Sprintf("made%d.ldb", l.files), append(entries, fixture.Del(last, 1))...)
	l.note()
}

// step does something at random.
func (l *timeline) step(rnd *rand.Rand) {
	key := func() string { return fmt.Sprintf("key%03d", rnd.IntN(200)) }
	value := fmt.Sprintf("%x%090d", rnd.Uint64(), 0)
	some := map[string]bool{}
	for range 5 {
		some[key()] = true
	}
	keys := slices.Sorted(maps.Keys(some))
	switch rnd.IntN(14) {
	case 0:
		l.deleteRange(keys[0], keys[len(keys)-1], key(), value)
	case 1:
		l.load(keys, value)
	case 2:
		l.ingest(keys, value)
	case 3:
		k := "ttl" + key()
		require.NoError(l.t, l.d.PutTTL([]byte(k), []byte(value), time.Hour, db.NoSync))
		l.model[k] = value
		l.note()
	case 4:
		l.put("ttl"+key(), value)
	case 5, 6:
		l.delete(key())
	case 7:
		require.NoError(l.t, l.d.Flush())
	case 8:
		l.reopen()
	default:
		var b db.Batch
		for range 1 + rnd.IntN(20) {
			k := key()
			b.Put([]byte(k), []byte(value))
			l.model[k] = value
		}
		require.NoError(l.t, l.d.Apply(&b, db.NoSync))
		l.note()
	}
}

func (l *timeline) archive() backup.ArchiveInfo {
	l.t.Helper()
	info, err := l.repo.Archive(background, l.d, nil)
	require.NoError(l.t, err)
	return info
}

func (l *timeline) create() backup.Info { return create(l.t, l.repo, l.d, nil) }

// at restores a point and returns what is there then.
func (l *timeline) at(p backup.Point) map[string]string {
	l.t.Helper()
	got, err := l.tryAt("", p)
	require.NoError(l.t, err)
	return got
}

func (l *timeline) tryAt(id string, p backup.Point) (map[string]string, error) {
	mem := vfs.NewMem()
	if _, err := l.repo.RestoreAt(background, id, p, "restored", &backup.RestoreOptions{FS: mem}); err != nil {
		return nil, err
	}
	o := l.options(mem.Crash())
	o.ErrorIfMissing = true
	d := open(l.t, "restored", o)
	report, err := d.Check(background)
	require.NoError(l.t, err)
	require.Empty(l.t, report.Faults)
	got := contents(l.t, d)
	require.NoError(l.t, d.Close())
	return got, nil
}

// again restores the state after a change to another directory, and returns a timeline that continues from it.
func (l *timeline) again(n uint64) *timeline {
	l.t.Helper()
	_, err := l.repo.RestoreAt(background, "", backup.Point{Sequence: n}, "again", &backup.RestoreOptions{FS: l.fs})
	require.NoError(l.t, err)
	c := *l
	c.dir, c.model = "again", maps.Clone(l.states[n])
	c.open()
	return &c
}

// requireAll restores each state from a number on, up to last, and one between each two.
func (l *timeline) requireAll(first, last uint64) {
	l.t.Helper()
	numbers := slices.Sorted(maps.Keys(l.states))
	for i, n := range numbers {
		if n < first || n > last {
			continue
		}
		require.Equal(l.t, l.states[n], l.at(backup.Point{Sequence: n}), "sequence number %d", n)
		if i+1 < len(numbers) && numbers[i+1] <= last && numbers[i+1] > n+1 && i%4 == 0 {
			require.Equal(l.t, l.states[n], l.at(backup.Point{Sequence: numbers[i+1] - 1}), "before %d", numbers[i+1])
		}
	}
}

func (l *timeline) windows() []backup.Window {
	l.t.Helper()
	all, err := l.repo.Windows(background)
	require.NoError(l.t, err)
	return all
}

// Every state after a change can be restored, from the first backup to the last segment, whatever was
// written, loaded, ingested, deleted, opened again, backed up and pruned in between.
func TestEveryStateOfAHistoryCanBeRestored(t *testing.T) {
	seed := *chainSeed
	if seed == 0 {
		seed = rand.Uint64() >> 1
	}
	t.Logf("-chain.seed=%d", seed)
	rnd := rand.New(rand.NewPCG(seed, 7))
	l := newTimeline(t, vfs.NewMem(), backuptest.NewMem())
	steps := 60
	if testing.Short() {
		steps = 25
	}
	first := uint64(0)
	for i := range steps {
		l.step(rnd)
		switch rnd.IntN(8) {
		case 0, 1, 2:
			if info := l.archive(); info.Backup != nil {
				require.Zero(t, first, "the history continues")
				first = info.Backup.Sequence
			}
		case 3:
			l.create()
		case 4:
			if i > steps/2 {
				keepLast(t, l.repo, 1)
			}
		}
	}
	last := l.archive().Last
	l.note()
	windows := l.windows()
	require.Len(t, windows, 1)
	require.Equal(t, last, windows[0].Last)
	l.requireAll(windows[0].First, last)
	verifyClean(t, l.repo)

	// Values still expire, since they have their envelopes.
	l.now = l.now.Add(2 * time.Hour)
	require.Equal(t, contents(t, l.d), l.at(backup.Point{Sequence: last}))
	_, err := l.tryAt("", backup.Point{Sequence: last + 1})
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorContains(t, err, windows[0].String())
}

// Badger's issue 521, for changes: a key that was deleted stays deleted in each later state, also if its
// deletion was compacted away in the backup or in the database.
func TestADeletedKeyDoesNotComeBackAtAnyPoint(t *testing.T) {
	l := newTimeline(t, vfs.NewMem(), backuptest.NewMem())
	l.put("key", "first")
	l.put("other", "value")
	l.archive()
	deleted := l.d.Metrics().LastSequence + 1
	l.delete("key")
	require.NoError(t, l.d.Compact(background, nil, nil))
	l.archive()
	l.put("other", "changed")
	l.deleteRange("other", "othes", "third", "value")
	require.NoError(t, l.d.Compact(background, nil, nil))
	l.create()
	l.put("fourth", "value")
	last := l.archive().Last
	l.requireAll(deleted-1, last)
	require.Contains(t, l.at(backup.Point{Sequence: deleted - 1}), "key")
	require.NotContains(t, l.at(backup.Point{Sequence: deleted}), "key")
	require.NotContains(t, l.at(backup.Point{Sequence: last}), "key")
}
