package changes_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/internal/test/storetest"
	"github.com/sievedb/sievedb/vfs"
)

// A loop's body may do what it likes: write, begin other loops, use an earlier change, close the database, or panic.
func TestTheBodyOfALoopOverChanges(t *testing.T) {
	d := storetest.Open(t, changesOptions(vfs.NewMem()))
	storetest.PutAll(t, d, "a", "1", "b", "2", "c", "3")
	require.NoError(t, d.SyncLog())
	var keys []string
	var earlier db.Change
	for c, err := range d.Changes(context.Background(), 0, nil) {
		require.NoError(t, err)
		keys = append(keys, changedKeys(t, c)...)
		require.Equal(t, []string{"a", "b", "c"}, keysOf(t, d, 0, nil)[:3])
		storetest.PutAll(t, d, "in the loop", "4")
		require.NoError(t, d.Flush())
		for range earlier.Entries() { // not valid any more: anything but a panic
			_ = earlier.Tables()
		}
		earlier = c
	}
	require.Equal(t, []string{"a", "b", "c"}, keys, "the loop ends at the last change of its beginning")
	for range d.Changes(context.Background(), 0, nil) {
		break
	}
	require.Panics(t, func() {
		for range d.Changes(context.Background(), 0, &db.ChangeOptions{Wait: true}) {
			panic("in the body")
		}
	})
	require.Empty(t, db.Change{}.Tables())
	for range (db.Change{}).Entries() {
		t.Fatal("an empty change has entries")
	}
	count := 0
	var err error
	for _, err = range d.Changes(context.Background(), 0, &db.ChangeOptions{Wait: true}) {
		if count++; count == 1 {
			require.NoError(t, d.Close())
		}
	}
	require.ErrorIs(t, err, db.ErrClosed)
	require.Equal(t, 2, count)
}

func TestPositionsOfCarelessUsers(t *testing.T) {
	d := storetest.Open(t, changesOptions(vfs.NewMem()))
	var b db.Batch
	for i := range 5 {
		b.Put(fixture.Key(i), nil)
	}
	require.NoError(t, d.Apply(&b, db.Sync))
	require.Len(t, keysOf(t, d, 3, nil), 5, "a position in the middle of a batch is followed by the whole batch")
	for _, since := range []uint64{6, 1 << 56, math.MaxUint64} {
		require.ErrorIs(t, fixture.FirstError(d.Changes(context.Background(), since, nil)), db.ErrChangesAhead)
		require.ErrorIs(t, d.WaitForChange(context.Background(), since), db.ErrChangesAhead)
		require.ErrorIs(t, d.SetCursor("c", since), db.ErrChangesAhead)
	}
	require.Error(t, d.SetCursor("", 0))
	require.Error(t, d.SetCursor(strings.Repeat("x", 1001), 0))
	require.ErrorContains(t, fixture.FirstError(storetest.Open(t, storetest.Options(vfs.NewMem())).Changes(context.Background(), 0, nil)), "set Options.Changes")
}

// Prefixes and times to live, from the log and from tables.
func TestChangesUnderAPrefixWithTimesToLive(t *testing.T) {
	fsys := vfs.NewMem()
	o := changesOptions(fsys)
	o.Expiry.Prefixes = [][]byte{[]byte("t/")}
	var now atomic.Int64
	now.Store(1e9)
	o.Expiry.Clock = func() time.Time { return time.Unix(now.Load(), 0) }
	d := storetest.Open(t, o)
	require.NoError(t, d.Put([]byte("t/ever"), []byte("v"), db.Sync))
	require.NoError(t, d.PutTTL([]byte("t/short"), []byte("v"), time.Minute, db.Sync))
	require.NoError(t, d.Put([]byte("other"), []byte("v"), db.Sync))
	l := storetest.NewLoader(t, d)
	require.NoError(t, l.PutTTL([]byte("t/loaded"), []byte("v"), time.Minute))
	require.NoError(t, l.Commit())
	require.NoError(t, d.Flush())
	prefix := &db.ChangeOptions{Prefix: []byte("t/")}
	ttls := map[string]time.Duration{}
	for c, err := range d.Changes(context.Background(), 0, prefix) {
		require.NoError(t, err)
		for e, err := range c.Entries() {
			require.NoError(t, err)
			require.Equal(t, "v", string(e.Value))
			ttls[string(e.Key)] = e.TTL
		}
	}
	require.Equal(t, map[string]time.Duration{"t/ever": 0, "t/short": time.Minute, "t/loaded": time.Minute}, ttls)
	now.Add(120)
	require.Equal(t, []string{"t/ever", "-t/short", "-t/loaded"}, keysOf(t, d, 0, prefix))
	require.Equal(t, []string{"t/ever", "-t/short", "other", "-t/loaded"}, keysOf(t, d, 0, nil))
}

// A copy begins with a checkpoint and continues with the changes after its number.
func TestACheckpointIsTheBeginningOfACopy(t *testing.T) {
	fsys := vfs.NewMem()
	d := storetest.Open(t, changesOptions(fsys))
	storetest.Fill(t, d, 0, 300)
	require.NoError(t, d.Flush()) // otherwise the copy may have all logs, and so the whole history
	require.NoError(t, d.SetCursor("copy", 0))
	info := result.Of(d.Checkpoint(context.Background(), "copy", nil))(t)
	storetest.Fill(t, d, 200, 500)
	require.NoError(t, d.DeleteRange(context.Background(), fixture.Key(100), fixture.Key(150), nil))
	require.NoError(t, d.SyncLog())

	require.Error(t, result.Err(fsys.Stat("copy/changes")), "a checkpoint has no history")
	copied := result.Of(db.Open("copy", changesOptions(fsys)))(t)
	defer copied.Close()
	require.ErrorIs(t, fixture.FirstError(copied.Changes(context.Background(), 0, nil)), db.ErrChangesGone)
	require.Empty(t, result.Of(copied.Cursors())(t))
	r := newReplica()
	r.position, r.content = info.Seq, storetest.Contents(t, copied)
	requireFollows(t, r, d, nil)
}

// A reader of unsynced changes is ahead of what a power cut leaves.
func TestAPowerCutLeavesAReaderAhead(t *testing.T) {
	mem := vfs.NewMem()
	d := storetest.Open(t, changesOptions(mem))
	require.NoError(t, d.Put([]byte("a"), nil, db.Sync))
	require.NoError(t, d.Put([]byte("b"), nil, db.NoSync))
	require.NoError(t, d.Put([]byte("c"), nil, db.Buffered))
	require.Equal(t, []string{"a"}, keysOf(t, d, 0, nil))
	require.Equal(t, []string{"a", "b", "c"}, keysOf(t, d, 0, &db.ChangeOptions{Unsynced: true}))
	oldest, last, err := d.ChangePositions()
	require.NoError(t, err)
	require.Equal(t, [2]uint64{0, 1}, [2]uint64{oldest, last})
	crashed := storetest.Open(t, changesOptions(mem.Crash()))
	require.ErrorIs(t, fixture.FirstError(crashed.Changes(context.Background(), 3, nil)), db.ErrChangesAhead)
	require.Equal(t, []string{"a"}, keysOf(t, crashed, 0, nil))
	require.Empty(t, keysOf(t, d, 3, nil), "a position that is visible but not durable is not ahead")
}

// keepingNone returns options for an opening that keeps no changes, whatever the database has recorded.
func keepingNone(mem *vfs.Mem) *db.Options {
	o := storetest.Options(mem)
	o.KeepRecord, o.Changes.Bytes = true, -1
	return o
}

// An opening that keeps no changes, and one that salvages, end the history, unless nothing was written.
func TestOpeningsThatEndTheHistory(t *testing.T) {
	for name, c := range map[string]struct {
		between func(*testing.T, *vfs.Mem)
		gone    bool
	}{
		"nothing written": {func(t *testing.T, mem *vfs.Mem) {
			d := storetest.MustOpen(t, keepingNone(mem))
			require.NoError(t, d.Compact(context.Background(), nil, nil))
			require.NoError(t, d.Close())
		}, false},
		"written": {func(t *testing.T, mem *vfs.Mem) {
			d := storetest.MustOpen(t, keepingNone(mem))
			storetest.PutAll(t, d, "x", "1")
			require.NoError(t, d.Flush())
			storetest.PutAll(t, d, "y", "1")
			require.NoError(t, d.Close())
		}, true},
		"written, in one log": {func(t *testing.T, mem *vfs.Mem) { // its log continues where the history ends
			d := storetest.MustOpen(t, keepingNone(mem))
			storetest.PutAll(t, d, "x", "1")
			require.NoError(t, d.Close())
		}, false},
		"repaired": {func(t *testing.T, mem *vfs.Mem) {
			removeAll(t, mem, "db", func(name string) bool { return strings.HasPrefix(name, "MANIFEST") })
			require.NoError(t, db.Repair("db", storetest.Options(mem)))
		}, true},
		"repaired, without need": {func(t *testing.T, mem *vfs.Mem) { require.NoError(t, db.Repair("db", storetest.Options(mem))) }, false},
		"directory removed":      {func(t *testing.T, mem *vfs.Mem) { removeAll(t, mem, "db/changes", func(string) bool { return true }) }, true},
		"logs removed": {func(t *testing.T, mem *vfs.Mem) {
			removeAll(t, mem, "db/changes", func(name string) bool { return strings.HasSuffix(name, ".log") })
		}, true},
		"cursors damaged": {func(t *testing.T, mem *vfs.Mem) {
			fixture.WriteFile(t, mem, "db/changes/CURSORS", nil)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			mem := vfs.NewMem()
			d := storetest.MustOpen(t, changesOptions(mem))
			storetest.Fill(t, d, 0, 300)
			require.NoError(t, d.SetCursor("c", 0))
			require.NoError(t, d.Flush())
			require.NoError(t, d.Close())
			c.between(t, mem)
			d = storetest.Open(t, changesOptions(mem))
			r := newReplica()
			err := r.follow(d, nil)
			if c.gone {
				var gone *db.ChangesGoneError
				require.ErrorAs(t, err, &gone)
				require.Equal(t, uint64(0), gone.Since)
				require.NoError(t, fixture.FirstError(d.Changes(context.Background(), gone.Oldest, nil)))
				require.ErrorIs(t, d.SetCursor("c", 0), db.ErrChangesGone)
			} else {
				require.NoError(t, err)
				requireFollows(t, r, d, nil)
			}
			require.NoError(t, d.Close())
			require.NoError(t, db.Destroy("db", storetest.Options(mem)))
			require.Error(t, result.Err(mem.Stat("db/changes")))
		})
	}
}

func removeAll(t *testing.T, mem *vfs.Mem, dir string, which func(string) bool) {
	t.Helper()
	names := result.Of(mem.List(dir))(t)
	for _, name := range names {
		if which(name) {
			require.NoError(t, mem.Remove(filepath.Join(dir, name)))
		}
	}
}

// Many readers of each kind follow while everything happens at once, until the database is closed. What each of
// them got leads to the same content.
func TestManyReadersAtOnce(t *testing.T) {
	o := changesOptions(vfs.NewMem())
	o.Changes.Bytes = 40 << 10
	d := storetest.MustOpen(t, o)
	require.NoError(t, d.SetCursor("all", 0))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var readers, writers sync.WaitGroup
	copies := make([]*replica, 6)
	errs := make([]error, len(copies))
	var ended atomic.Int64
	for i := range copies {
		copies[i] = newReplica()
		readers.Go(func() { errs[i] = copies[i].follow(d, &db.ChangeOptions{Wait: i%3 < 2, Unsynced: i%2 == 0}) })
	}
	for i := range 2 { // that are slow, or begin anywhere
		readers.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(i), 1))
			for ctx.Err() == nil {
				_, last, err := d.ChangePositions()
				if err != nil {
					return
				}
				for c, err := range d.Changes(ctx, rnd.Uint64N(last+1), &db.ChangeOptions{Prefix: []byte("key1")}) {
					if err == nil {
						_ = changedKeys(t, c)
					}
					ended.Add(1)
				}
				name := fmt.Sprint("cursor", rnd.IntN(3))
				_ = d.SetCursor(name, last-rnd.Uint64N(last/2+1))
				_ = d.DropCursor(fmt.Sprint("cursor", rnd.IntN(3)))
				_, _ = d.Cursors()
				_ = d.WaitForChange(ctx, rnd.Uint64N(last+1))
			}
		})
	}
	for i := range 3 {
		c := &changer{fsys: o.FS, rnd: rand.New(rand.NewPCG(uint64(i), 2)), tables: 1000 * i}
		writers.Go(func() {
			for range 150 {
				c.change(t, d)
			}
		})
	}
	writers.Wait()
	require.NoError(t, d.SyncLog())
	want := storetest.Contents(t, d)
	last := d.Metrics().LastSequence
	all := newReplica()
	requireFollows(t, all, d, nil)
	cancel()
	require.NoError(t, d.Close())
	readers.Wait()
	for i, r := range copies {
		if i%3 == 2 {
			require.NoError(t, errs[i])
			continue
		}
		require.ErrorIs(t, errs[i], db.ErrClosed)
		if r.position == last {
			require.Equal(t, want, r.content)
		}
	}
	require.Positive(t, ended.Load())
}

func TestMain(m *testing.M) { os.Exit(fixture.Run(m)) }
