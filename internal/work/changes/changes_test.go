package changes_test

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/internal/test/storetest"
	"github.com/sievedb/sievedb/vfs"
)

// replica is a copy of a database that only changes by its feed.
type replica struct {
	position uint64
	content  map[string]string
	kinds    map[db.ChangeKind]int
	// failed says that writes failed, so that some numbers are used by no change.
	failed bool
}

func newReplica() *replica {
	return &replica{content: map[string]string{}, kinds: map[db.ChangeKind]int{}}
}

func (r *replica) clone() *replica {
	return &replica{r.position, maps.Clone(r.content), map[db.ChangeKind]int{}, r.failed}
}

// follow applies the changes since the replica's position.
func (r *replica) follow(d *db.DB, o *db.ChangeOptions) error {
	for c, err := range d.Changes(context.Background(), r.position, o) {
		if err != nil {
			return err
		}
		if c.First <= r.position || c.First > r.position+1 && !r.failed || c.Last < c.First {
			return fmt.Errorf("a change with numbers %d to %d at position %d", c.First, c.Last, r.position)
		}
		if err := r.apply(c); err != nil {
			return err
		}
		r.position = c.Last
	}
	return nil
}

func (r *replica) apply(c db.Change) error {
	r.kinds[c.Kind]++
	for e, err := range c.Entries() {
		if err != nil {
			return err
		}
		switch e.Kind {
		case db.EntryPut:
			r.content[string(e.Key)] = string(e.Value)
		case db.EntryDelete:
			delete(r.content, string(e.Key))
		case db.EntryDeleteRange:
			maps.DeleteFunc(r.content, func(key, _ string) bool {
				return (e.Key == nil || key >= string(e.Key)) && (e.Value == nil || key < string(e.Value))
			})
		}
	}
	return nil
}

func requireFollows(t testing.TB, r *replica, d *db.DB, o *db.ChangeOptions) {
	t.Helper()
	require.NoError(t, r.follow(d, o))
	require.Equal(t, r.content, storetest.Contents(t, d))
}

func changesOptions(fsys vfs.FS) *db.Options {
	o := storetest.Options(fsys)
	o.Changes.Bytes = 1 << 40
	return o
}

// changer changes a database in every way there is.
type changer struct {
	fsys   vfs.FS
	rnd    *rand.Rand
	n      int
	tables int
	edits  bool // the last change may be made by an edit of the MANIFEST
}

func (c *changer) key() []byte { return fmt.Appendf(nil, "key%03d", c.rnd.IntN(600)) }
func (c *changer) value() []byte {
	c.n++
	return fmt.Appendf(nil, "%d %s", c.n, strings.Repeat("v", c.rnd.IntN(300)))
}

func (c *changer) durability() *db.WriteOptions {
	return []*db.WriteOptions{nil, db.NoSync, db.Buffered}[c.rnd.IntN(3)]
}

// sorted returns ascending keys, each once.
func (c *changer) sorted() (keys []string) {
	for range 1 + c.rnd.IntN(100) {
		keys = append(keys, string(c.key()))
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

func (c *changer) change(t testing.TB, d *db.DB) {
	kind := c.rnd.IntN(60)
	c.edits = kind >= 2 && kind <= 4
	switch kind {
	case 0:
		require.NoError(t, d.Flush())
	case 1:
		require.NoError(t, d.Compact(t.Context(), nil, nil))
	case 2: // tables are removed, or few keys are deleted like a batch
		from, to := c.key(), c.key()
		if bytes.Compare(from, to) > 0 {
			from, to = to, from
		}
		var b db.Batch
		b.Put(c.key(), c.value())
		b.DeleteRange(from, to)
		if c.rnd.IntN(4) == 0 {
			b.DeleteRange([]byte("key59"), nil)
		}
		b.Put(c.key(), c.value())
		b.Delete(c.key())
		require.NoError(t, d.Apply(&b, c.durability()))
	case 3:
		c.load(t, d)
	case 4:
		var paths []string
		for range 1 + c.rnd.IntN(3) {
			var entries []fixture.Entry
			for _, key := range c.sorted() {
				for seq := uint64(1 + c.rnd.IntN(2)); seq > 0; seq-- {
					entries = append(entries, fixture.Put(key, seq, string(c.value())))
				}
			}
			c.tables++
			path := fmt.Sprintf("in/%d", c.tables)
			require.NoError(t, c.fsys.MkdirAll("in"))
			fixture.WriteFile(t, c.fsys, path, fixture.Table(t, entries...))
			paths = append(paths, path)
		}
		require.NoError(t, result.Err(d.Ingest(t.Context(), paths, nil)))
	case 5:
		require.NoError(t, d.Put([]byte("large"), bytes.Repeat([]byte{byte(c.n)}, 1<<20), c.durability()))
	case 6, 7, 8:
		var b db.Batch
		for range c.rnd.IntN(50) {
			if c.rnd.IntN(4) == 0 {
				b.Delete(c.key())
			} else {
				b.Put(c.key(), c.value())
			}
		}
		require.NoError(t, d.Apply(&b, c.durability()))
	case 9, 10:
		require.NoError(t, d.Delete(c.key(), c.durability()))
	default:
		require.NoError(t, d.Put(c.key(), c.value(), c.durability()))
	}
}

// load commits a load, or a bulk transaction that writes its keys twice and in any order.
func (c *changer) load(t testing.TB, d *db.DB) {
	keys := c.sorted()
	var l interface {
		Put(key, value []byte) error
		Delete(key []byte) error
		Commit() error
	}
	var err error
	if c.rnd.IntN(2) == 0 {
		l, err = d.NewLoader()
	} else {
		l, err = d.NewBulkTransaction()
		keys = append(keys, keys...)
		c.rnd.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	}
	require.NoError(t, err)
	for _, key := range keys {
		if c.rnd.IntN(5) == 0 {
			require.NoError(t, l.Delete([]byte(key)))
		} else {
			require.NoError(t, l.Put([]byte(key), c.value()))
		}
	}
	if c.rnd.IntN(3) == 0 {
		require.NoError(t, d.Put(c.key(), c.value(), db.NoSync))
	}
	require.NoError(t, l.Commit())
}

// A copy that follows the feed is equal to the database at each moment, and so is one that begins at an earlier
// position: across flushes, loads, ingests, deleted ranges and reopenings.
func TestACopyThatFollowsTheFeedIsEqual(t *testing.T) {
	fsys := vfs.NewMem()
	c := &changer{fsys: fsys, rnd: rand.New(rand.NewPCG(18, 4))}
	r := newReplica()
	var earlier []*replica
	d := storetest.MustOpen(t, changesOptions(fsys))
	changes := 1500
	if testing.Short() {
		changes = 400 // each of the copies reads all that come after it
	}
	for i := range changes {
		c.change(t, d)
		if c.rnd.IntN(20) == 0 {
			requireFollows(t, r, d, &db.ChangeOptions{Unsynced: true})
			earlier = append(earlier, r.clone())
		}
		if c.rnd.IntN(300) == 0 || i == changes/2 {
			require.NoError(t, d.Close())
			d = storetest.MustOpen(t, changesOptions(fsys))
		}
	}
	require.NoError(t, d.SyncLog())
	for _, r := range append(earlier, newReplica()) {
		requireFollows(t, r, d, nil)
	}
	if !testing.Short() { // a short history may lack some
		for _, kind := range []db.ChangeKind{db.ChangeBatch, db.ChangeLoad, db.ChangeIngest, db.ChangeDeleteRange} {
			require.Positive(t, r.kinds[kind], kind)
		}
	}
	require.Zero(t, r.kinds[db.ChangeSkipped])
	oldest, last, err := d.ChangePositions()
	require.NoError(t, err)
	require.Zero(t, oldest)
	require.Equal(t, d.Metrics().LastSequence, last)
	require.NoError(t, d.Close())

	// The same from a database that is not open for writing.
	o := storetest.Options(fsys)
	o.ReadOnly = true
	d = storetest.Open(t, o)
	for _, r := range []*replica{newReplica(), earlier[len(earlier)/2]} {
		r.position, r.content = 0, map[string]string{}
		requireFollows(t, r, d, nil)
	}
}

// keysOf returns the keys and deletions that the feed yields from a position.
func keysOf(t testing.TB, d *db.DB, since uint64, o *db.ChangeOptions) (keys []string) {
	t.Helper()
	for c, err := range d.Changes(context.Background(), since, o) {
		require.NoError(t, err)
		keys = append(keys, changedKeys(t, c)...)
	}
	return keys
}

func changedKeys(t testing.TB, c db.Change) (keys []string) {
	t.Helper()
	for e, err := range c.Entries() {
		require.NoError(t, err)
		switch e.Kind {
		case db.EntryPut:
			keys = append(keys, string(e.Key))
		case db.EntryDelete:
			keys = append(keys, "-"+string(e.Key))
		case db.EntryDeleteRange:
			keys = append(keys, string(e.Key)+".."+string(e.Value))
		}
	}
	return keys
}

// The sync of a record fails because the disk is full: the record is in the log, but was not made. A reader that
// waits there, and one that comes later, do not get it.
func TestTheFeedHasNoWriteThatFailed(t *testing.T) {
	fsys := fixture.NewFailing()
	d := storetest.Open(t, changesOptions(fsys))
	require.NoError(t, d.Put([]byte("a"), nil, db.Sync))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var keys []string
	for c, err := range d.Changes(ctx, 0, &db.ChangeOptions{Wait: true}) {
		require.NoError(t, err)
		keys = append(keys, changedKeys(t, c)...)
		if len(keys) > 1 {
			break
		}
		fsys.Fail(wrap.OpSync, ".log", syscall.ENOSPC)
		require.ErrorIs(t, d.Put([]byte("failed"), nil, db.Sync), db.ErrNoSpace)
		fsys.Heal()
		require.NoError(t, d.Put([]byte("b"), nil, db.Sync))
	}
	require.Equal(t, []string{"a", "b"}, keys)
	require.Equal(t, keys, keysOf(t, d, 0, nil))
	require.NoError(t, d.Flush())
	require.Equal(t, keys, keysOf(t, d, 0, nil))
	require.NoError(t, d.Close())
	d = storetest.Open(t, changesOptions(fsys))
	require.Equal(t, keys, keysOf(t, d, 0, nil))
	require.ErrorIs(t, result.Err(d.Get([]byte("failed"))), db.ErrNotFound)
}

// The process is killed when the log with a record whose sync failed is not needed any more, but was not moved yet.
func TestAKillBeforeALogWithAFailedWriteIsKept(t *testing.T) {
	for _, logDir := range []string{"", "logs"} {
		fsys := fixture.NewFailing()
		o := changesOptions(fsys)
		o.LogDir = logDir
		d := storetest.Open(t, o)
		require.NoError(t, d.Put([]byte("a"), nil, db.Sync))
		fsys.Fail(wrap.OpSync, ".log", syscall.ENOSPC)
		require.ErrorIs(t, d.Put([]byte("failed"), nil, db.Sync), db.ErrNoSpace)
		fsys.On(func(op wrap.Op) *wrap.Fault { // the log cannot be moved
			if op.Kind == wrap.OpRename && strings.Contains(op.NewName, "changes/") {
				return &wrap.Fault{}
			}
			return nil
		})
		require.NoError(t, d.Put([]byte("b"), nil, db.Sync))
		require.Equal(t, []string{"a", "b"}, keysOf(t, d, 0, nil))
		killed := fsys.Mem.Kill()
		fsys.Heal()
		require.NoError(t, d.Close())
		o.FS = killed
		d = storetest.Open(t, o)
		require.Equal(t, fixture.Contents{"a": "", "b": ""}, storetest.Contents(t, d))
		require.Equal(t, []string{"a", "b"}, keysOf(t, d, 0, nil))
	}
}

// A load follows a write whose sync failed, in a log with nothing else.
func TestALoadAfterAWriteThatFailed(t *testing.T) {
	fsys := fixture.NewFailing()
	d := storetest.Open(t, changesOptions(fsys))
	require.NoError(t, d.Put([]byte("a"), nil, db.Sync))
	require.NoError(t, d.Flush())
	fsys.Fail(wrap.OpSync, ".log", syscall.ENOSPC)
	require.ErrorIs(t, d.Put([]byte("failed"), nil, db.Sync), db.ErrNoSpace)
	fsys.Heal()
	l := storetest.NewLoader(t, d)
	require.NoError(t, l.Put([]byte("loaded"), nil))
	require.NoError(t, l.Commit())
	killed := fsys.Mem.Kill()
	require.NoError(t, d.Close())
	o := changesOptions(killed)
	o.ReadOnly = true
	d = storetest.Open(t, o)
	require.Equal(t, []string{"a", "loaded"}, keysOf(t, d, 0, nil))
	require.NoError(t, d.Close())
	d = storetest.Open(t, changesOptions(killed))
	require.Equal(t, fixture.Contents{"a": "", "loaded": ""}, storetest.Contents(t, d))
	require.Equal(t, []string{"a", "loaded"}, keysOf(t, d, 0, nil))
}

// A write without a sync becomes durable without another write. Readers that wait are woken.
func TestASyncWakesReaders(t *testing.T) {
	for name, sync := range map[string]func(*db.DB) error{"SyncLog": (*db.DB).SyncLog, "Flush": (*db.DB).Flush} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := storetest.MustOpen(t, changesOptions(vfs.NewMem()))
				done := make(chan error, 1)
				go func() { done <- d.WaitForChange(t.Context(), 0) }()
				synctest.Wait()
				require.NoError(t, d.Put([]byte("a"), nil, db.NoSync))
				synctest.Wait()
				require.Empty(t, done)
				require.NoError(t, sync(d))
				synctest.Wait()
				require.Len(t, done, 1)
				require.NoError(t, <-done)
				require.NoError(t, d.Close())
			})
		})
	}
}

// A write without a sync becomes durable by the flush that ends a full disk, and no other write follows. A reader that
// waits got nothing until the next one.
func TestTheEndOfAFullDiskWakesReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := fixture.NewFailing()
		d := storetest.MustOpen(t, changesOptions(fsys))
		require.NoError(t, d.Put([]byte("a"), nil, db.NoSync))
		done := make(chan error, 1)
		go func() { done <- d.WaitForChange(t.Context(), 0) }()
		fsys.Fail(wrap.OpSync, ".log", syscall.ENOSPC)
		require.ErrorIs(t, d.SyncLog(), db.ErrNoSpace)
		synctest.Wait()
		require.Empty(t, done)
		fsys.Heal()
		require.NoError(t, d.SyncLog())
		synctest.Wait()
		require.Len(t, done, 1)
		require.NoError(t, <-done)
		require.NoError(t, d.Close())
	})
}

// Without the logs, a database that is not open for writing has a gap, not an end.
func TestAMissingPastIsNoEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := storetest.Options(vfs.NewMem())
		d := storetest.Open(t, o)
		require.NoError(t, d.Put([]byte("a"), nil, db.Sync))
		require.NoError(t, d.Flush())
		synctest.Wait() // until the log is removed, which Flush does not wait for
		ro := *o
		ro.ReadOnly = true
		require.ErrorIs(t, fixture.FirstError(storetest.MustFollow(t, &ro).Changes(context.Background(), 0, nil)), db.ErrChangesGone)
		require.NoError(t, d.Put([]byte("b"), nil, db.Sync))
		f := storetest.MustFollow(t, &ro)
		require.ErrorIs(t, fixture.FirstError(f.Changes(context.Background(), 0, nil)), db.ErrChangesGone)
		require.Equal(t, []string{"b"}, keysOf(t, f, 1, nil))
		l := storetest.NewLoader(t, d)
		require.NoError(t, l.Put([]byte("loaded"), nil))
		require.NoError(t, l.Commit())
		var gone *db.ChangesGoneError
		require.ErrorAs(t, fixture.FirstError(f.Changes(context.Background(), 2, nil)), &gone)
		last := f.Metrics().LastSequence
		require.Equal(t, last, gone.Oldest)
		require.Empty(t, keysOf(t, f, last, nil))
		require.NoError(t, d.Close())
		require.ErrorIs(t, fixture.FirstError(storetest.Open(t, &ro).Changes(context.Background(), 0, nil)), db.ErrChangesGone)
	})
}

// A follower of a database whose logs are elsewhere reads them there.
func TestAFollowerFindsTheLogsElsewhere(t *testing.T) {
	for _, keep := range []int64{0, 1 << 30} {
		o := storetest.Options(vfs.NewMem())
		o.LogDir, o.Changes.Bytes = "logs", keep
		d := storetest.Open(t, o)
		storetest.PutAll(t, d, "a", "1", "b", "2")
		f := storetest.MustFollow(t, o)
		require.Equal(t, []string{"a", "b"}, keysOf(t, f, 0, nil))
		require.NoError(t, d.Flush())
		storetest.PutAll(t, d, "c", "3")
		require.Equal(t, []string{"c"}, keysOf(t, f, 2, nil))
		if keep > 0 {
			require.Equal(t, []string{"a", "b", "c"}, keysOf(t, f, 0, nil))
		}
	}
}
