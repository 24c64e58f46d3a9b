package backup_test

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/backup"
	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/vfs"
)

var (
	chainRounds = flag.Int("chain.rounds", 50, "backups of the tests of chains")
	chainSeed   = flag.Uint64("chain.seed", 0, "their seed; 0: choose one")
)

// entry is a value of a model, with the time at which it expires; 0 if it does not.
type entry struct {
	value string
	until time.Duration
}

// chain is a database, its model, and a repository in a directory, over crashes of both.
type chain struct {
	t     *testing.T
	rnd   *rand.Rand
	hours atomic.Int64  // since the beginning, by the clock of the database
	disk  *vfs.Mem      // of the database
	skew  time.Duration // of the clock of the repository
	dir   string
	d     *db.DB
	model map[string]entry

	place *vfs.Mem // of the repository
	kept  map[string]map[string]entry
	ids   []string // of kept, the oldest first
}

const expiring = "ttl/"

func (c *chain) options(fsys vfs.FS) *db.Options {
	o := smallOptions(fsys)
	o.Expiry = db.ExpiryOptions{Prefixes: [][]byte{[]byte(expiring)}, Clock: func() time.Time { return c.time() }}
	return o
}

func (c *chain) now() time.Duration { return time.Duration(c.hours.Load()) * time.Hour }

func (c *chain) time() time.Time { return time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC).Add(c.now()) }

func (c *chain) open() {
	o := c.options(c.disk)
	if c.rnd.IntN(3) == 0 {
		o.LogDir = c.dir + " logs"
	}
	c.d = open(c.t, c.dir, o)
	c.same(c.model, contents(c.t, c.d), "the database")
}

// same compares a model with what a database contains.
func (c *chain) same(model map[string]entry, got map[string]string, what string) {
	c.t.Helper()
	want := c.visible(model)
	if maps.Equal(want, got) {
		return
	}
	for key, value := range want {
		if other, ok := got[key]; !ok || other != value {
			require.FailNow(c.t, what, "%s is %.20q, %v; want %.20q", key, other, ok, value)
		}
		delete(got, key)
	}
	require.Empty(c.t, slices.Collect(maps.Keys(got)), "%s: keys that came back", what)
}

// visible returns what of a model has not expired.
func (c *chain) visible(model map[string]entry) map[string]string {
	shown := map[string]string{}
	for key, e := range model {
		if e.until == 0 || e.until > c.now() {
			shown[key] = e.value
		}
	}
	return shown
}

func (c *chain) key() string { return fmt.Sprintf("key%04d", c.rnd.IntN(600)) }

func (c *chain) value() string { return fmt.Sprintf("%x%080d", c.rnd.Uint64(), c.rnd.IntN(9)) }

// sorted returns new entries by ascending keys.
func (c *chain) sorted() (keys []string, entries map[string]string) {
	entries = map[string]string{}
	for range 1 + c.rnd.IntN(30) {
		entries[c.key()] = c.value()
	}
	return slices.Sorted(maps.Keys(entries)), entries
}

func (c *chain) add(entries map[string]string) {
	for key, value := range entries {
		c.model[key] = entry{value: value}
	}
}

// write changes the database once, in one of the ways to do so.
func (c *chain) write() {
	t := c.t
	switch k := c.key(); c.rnd.IntN(60) {
	case 0:
		limit := k + "~"
		k = k[:len(k)-2]
		require.NoError(t, c.d.DeleteRange(background, []byte(k), []byte(limit), nil))
		maps.DeleteFunc(c.model, func(key string, _ entry) bool { return key >= k && key < limit })
	case 1:
		keys, entries := c.sorted()
		l, err := c.d.NewLoader()
		require.NoError(t, err)
		for _, key := range keys {
			require.NoError(t, l.Put([]byte(key), []byte(entries[key])))
		}
		require.NoError(t, l.Commit())
		c.add(entries)
	case 2:
		keys, entries := c.sorted()
		var table []fixture.Entry
		for _, key := range keys {
			table = append(table, fixture.Put(key, 0, entries[key]))
		}
		ingest(t, c.d, "incoming", table...)
		c.add(entries)
	case 3, 4:
		_, entries := c.sorted()
		gone := c.key()
		abort := errors.New("no")
		err := c.d.Update(func(tx *db.Transaction) error {
			for key, value := range entries {
				if err := tx.Put([]byte(key), []byte(value)); err != nil {
					return err
				}
			}
			if c.rnd.IntN(3) == 0 {
				return abort
			}
			return tx.Delete([]byte(gone))
		})
		if !errors.Is(err, abort) {
			require.NoError(t, err)
			c.add(entries)
			delete(c.model, gone)
		}
	case 5, 6, 7, 8:
		key, e := expiring+k, entry{c.value(), c.now() + time.Duration(1+c.rnd.IntN(72))*time.Hour}
		require.NoError(t, c.d.PutTTL([]byte(key), []byte(e.value), e.until-c.now(), db.NoSync))
		c.model[key] = e
	case 9, 10, 11, 12, 13, 14, 15, 16:
		require.NoError(t, c.d.Delete([]byte(k), db.NoSync))
		delete(c.model, k)
	default:
		c.model[k] = entry{value: c.value()}
		put(t, c.d, k, c.model[k].value)
	}
}

// disturb does to the database what may happen between two backups.
func (c *chain) disturb() {
	t := c.t
	switch c.rnd.IntN(12) {
	case 0:
		require.NoError(t, c.d.Flush())
		return
	case 1:
		require.NoError(t, c.d.Compact(background, nil, nil))
		return
	case 2: // the process is killed
		c.disk = c.disk.Kill()
	case 3: // the power fails
		require.NoError(t, c.d.SyncLog())
		c.disk = c.disk.Crash()
	case 4:
		require.NoError(t, c.d.Close())
		require.NoError(t, db.Repair(c.dir, c.options(c.disk)))
	case 5, 6: // an older backup replaces it; its numbers are then used again
		if len(c.ids) == 0 {
			return
		}
		require.NoError(t, c.d.Close())
		require.NoError(t, db.Destroy(c.dir, c.options(c.disk)))
		if c.rnd.IntN(2) == 0 {
			c.dir += "'"
		}
		id := c.ids[c.rnd.IntN(len(c.ids))]
		restore(t, c.repo(0), id, c.dir, c.disk)
		c.model = maps.Clone(c.kept[id])
	case 7: // it is made from nothing under the same name
		require.NoError(t, c.d.Close())
		require.NoError(t, db.Destroy(c.dir, c.options(c.disk)))
		c.model = map[string]entry{}
	default:
		return
	}
	c.open()
}

// repo returns the repository. Its process dies at the given operation; 0: it does not.
func (c *chain) repo(dies int) *backup.Repository {
	fsys := vfs.FS(c.place)
	if dies > 0 {
		fsys = wrap.NewFaulty(c.place, wrap.FailFrom(uint64(dies-1), errDead))
	}
	r := backup.Open(newDir(c.t, fsys, "repo"))
	r.SetNow(func() time.Time { return c.time().Add(c.skew) })
	return r
}

// fail chooses where the next call dies.
func (c *chain) fail() int {
	if c.rnd.IntN(3) > 0 {
		return 0
	}
	return 1 + c.rnd.IntN(250)
}

// backup makes a backup. One that fails may be there nevertheless, complete.
func (c *chain) backup() {
	source := c.d
	if c.rnd.IntN(4) == 0 && runtime.GOOS != "windows" {
		follower, err := db.OpenFollower(c.dir, c.options(c.disk))
		require.NoError(c.t, err)
		source = follower
	}
	info, err := c.repo(c.fail()).Create(background, source, &backup.CreateOptions{Flush: c.rnd.IntN(4) == 0})
	if err == nil {
		require.Equal(c.t, source.Metrics().LastSequence, info.Sequence)
	} else {
		require.ErrorIs(c.t, err, errDead)
		c.cut()
	}
	if source != c.d {
		require.NoError(c.t, source.Close())
	}
	now := c.list()
	for _, id := range now {
		if c.kept[id] == nil {
			c.ids, c.kept[id] = append(c.ids, id), maps.Clone(c.model)
		}
	}
	require.Equal(c.t, c.ids, now)
	if err == nil {
		c.same(c.model, c.restored(c.ids[len(c.ids)-1]), "the newest backup")
	}
}

// prune removes backups. A call that fails may have removed some of them.
func (c *chain) prune() {
	keep := 3 + c.rnd.IntN(6)
	report, err := c.repo(c.fail()).Prune(background, backup.Policy{KeepLast: keep})
	now := c.list()
	if err != nil {
		require.ErrorIs(c.t, err, errDead)
		c.cut()
		now = c.list()
		require.GreaterOrEqual(c.t, len(now), min(keep, len(c.ids)))
	} else {
		require.Len(c.t, now, len(report.Kept))
	}
	last := c.ids[max(0, len(c.ids)-keep):]
	require.Equal(c.t, last, now[max(0, len(now)-keep):])
	c.ids = now
}

// cut ends the machine of the repository as a kill or a power cut does.
func (c *chain) cut() {
	if c.rnd.IntN(2) == 0 {
		c.place = c.place.Kill()
	} else {
		c.place = c.place.Crash()
	}
}

func (c *chain) list() (ids []string) {
	all := list(c.t, c.repo(0))
	for _, i := range all {
		ids = append(ids, i.ID)
	}
	return ids
}

func (c *chain) restored(id string) map[string]string {
	mem := vfs.NewMem()
	restore(c.t, c.repo(0), id, "restored", mem)
	o := c.options(mem.Crash())
	o.ErrorIfMissing = true
	d := open(c.t, "restored", o)
	got := contents(c.t, d)
	require.NoError(c.t, d.Close())
	return got
}

// Chains of backups over every way to write, crashes of the database and of the repository at any operation, repairs,
// restores over the database, and wrong clocks: each backup that is kept restores to exactly the state of its moment.
func TestChainsOfBackupsSurviveCrashes(t *testing.T) {
	seed, rounds := *chainSeed, *chainRounds
	if seed == 0 {
		seed = rand.Uint64() >> 1
	}
	if testing.Short() {
		rounds = min(rounds, 15)
	}
	t.Logf("-chain.seed=%d -chain.rounds=%d", seed, rounds)
	c := &chain{
		t: t, rnd: rand.New(rand.NewPCG(seed, 4)), disk: vfs.NewMem(), dir: "db", model: map[string]entry{},
		place: vfs.NewMem(), kept: map[string]map[string]entry{},
	}
	c.open()
	create(t, c.repo(0), c.d, nil) // the repository begins
	c.ids = c.list()
	c.kept[c.ids[0]] = map[string]entry{}
	for range rounds {
		for range c.rnd.IntN(250) {
			c.write()
		}
		c.hours.Add(int64(c.rnd.IntN(72)))
		c.skew = time.Duration(c.rnd.IntN(20)) * time.Hour
		c.disturb()
		c.backup()
		if c.rnd.IntN(4) == 0 {
			c.prune()
			verifyClean(t, c.repo(0))
		}
	}
	for _, id := range c.ids {
		c.same(c.kept[id], c.restored(id), id)
	}
	verifyClean(t, c.repo(0))

	// All that died are abandoned one day, and leave nothing.
	c.hours.Add(10 * int64(backup.AbandonedAfter/time.Hour))
	for range 2 {
		create(t, c.repo(0), c.d, nil)
		keepLast(t, c.repo(0), 1)
	}
	report := verifyClean(t, c.repo(0))
	require.Equal(t, 1, report.Backups)
	require.Len(t, files(t, c.place, "repo/objects"), report.Objects)
	for _, dir := range []string{"repo/tmp", "repo/running", "repo/condemned", "repo/waits"} {
		if _, err := c.place.Stat(dir); err == nil {
			require.Empty(t, files(t, c.place, dir))
		}
	}
}
