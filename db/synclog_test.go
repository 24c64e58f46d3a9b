package db_test

import (
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/vfs"
)

func isLog(path string) bool {
	kind, _, ok := base.ParseFileName(filepath.Base(path))
	return ok && kind == base.FileLog
}

// logSyncs counts the syncs of logs of a file system.
type logSyncs struct {
	vfs.FS
	n atomic.Int64
}

func (l *logSyncs) CreateLog(name string) (vfs.File, error) { return vfs.CreateLog(l.FS, name) }

func newLogSyncs(fsys vfs.FS) *logSyncs {
	counting := wrap.NewCounting(fsys)
	l := &logSyncs{FS: counting}
	counting.Observe(func(op wrap.Op) {
		if op.Kind == wrap.OpSync && isLog(op.Name) {
			l.n.Add(1)
		}
	})
	return l
}

// emptied returns a batch that was filled and reset.
func emptied() *db.Batch {
	var b db.Batch
	b.Put([]byte("key"), nil)
	b.Reset()
	return &b
}

// waysToSync are calls that sync the log without writing to it, and a Delete for comparison.
var waysToSync = map[string]func(*db.DB) error{
	"SyncLog":                              (*db.DB).SyncLog,
	"Apply of an empty batch":              func(d *db.DB) error { return d.Apply(new(db.Batch), db.Sync) },
	"Apply of a batch that is empty again": func(d *db.DB) error { return d.Apply(emptied(), nil) },
	"Delete of another key":                func(d *db.DB) error { return d.Delete([]byte("another"), db.Sync) },
}

// The bug: an empty batch applied with Sync returned immediately, so a power cut removed the writes
// before it, which LevelDB would have synced.
func TestWritesBeforeSyncLogSurviveAPowerCut(t *testing.T) {
	for way, syncLog := range waysToSync {
		for kind, wo := range map[string]func(int) *db.WriteOptions{
			"NoSync":   func(int) *db.WriteOptions { return db.NoSync },
			"Buffered": func(int) *db.WriteOptions { return db.Buffered },
			"both":     func(i int) *db.WriteOptions { return []*db.WriteOptions{db.NoSync, db.Buffered}[i%2] },
		} {
			for _, n := range []int{1, 50, 1000} { // the last one fills several memtables
				t.Run(way+", "+kind, func(t *testing.T) {
					mem := vfs.NewMem()
					d := openTest(t, testOptions(mem))
					for i := range n {
						require.NoError(t, d.Put(testKey(i), testValue(i), wo(i)))
					}
					lost := mem.Crash()
					require.NoError(t, syncLog(d))
					kept := mem.Crash()
					require.NoError(t, d.Put(testKey(n), testValue(n), db.NoSync))

					d = openTest(t, testOptions(lost))
					has, err := d.Has(testKey(n - 1))
					require.NoError(t, err)
					require.False(t, has, "the test needs a power cut that loses unsynced writes")
					d = openTest(t, testOptions(kept))
					for i := range n {
						requireValue(t, d, testKey(i), testValue(i))
					}
				})
			}
		}
	}
}

func TestSyncLogCostsAtMostOneFsync(t *testing.T) {
	fsys := newLogSyncs(vfs.NewMem())
	d := openTest(t, testOptions(fsys))
	costs := func(want int64, what string, do func() error) {
		t.Helper()
		before, metric := fsys.n.Load(), d.Metrics().Writes.LogSyncs
		require.NoError(t, do(), what)
		require.Equal(t, want, fsys.n.Load()-before, what)
		require.EqualValues(t, want, d.Metrics().Writes.LogSyncs-metric, what)
	}
	put := func(wo *db.WriteOptions) func() error {
		return func() error { return d.Put(testKey(1), testValue(1), wo) }
	}
	costs(0, "nothing was written", d.SyncLog)
	for _, wo := range []*db.WriteOptions{db.NoSync, db.Buffered} {
		costs(0, "a write", put(wo))
		costs(0, "another", put(wo))
		writes := d.Metrics().Writes.Batches
		costs(1, "both are synced", d.SyncLog)
		require.Equal(t, writes, d.Metrics().Writes.Batches, "SyncLog is no write")
		costs(0, "both were synced", d.SyncLog)
	}
	costs(1, "a synced write", put(db.Sync))
	costs(0, "it was synced", d.SyncLog)
	costs(0, "a write", put(db.NoSync))
	costs(0, "an empty batch without Sync", func() error { return d.Apply(new(db.Batch), db.NoSync) })
	costs(0, "an empty batch, Buffered", func() error { return d.Apply(new(db.Batch), db.Buffered) })
	costs(1, "an empty batch with Sync", func() error { return d.Apply(new(db.Batch), nil) })
	costs(0, "a write", put(db.NoSync))
	costs(1, "a flush syncs the log that it ends", d.Flush)
	costs(0, "the log is new", d.SyncLog)
}

// A leader commits calls of SyncLog together with the writes before and after them.
func TestSyncLogSharesTheFsyncOfAGroup(t *testing.T) {
	fsys := newLogSyncs(vfs.NewMem())
	d := openTest(t, testOptions(fsys))
	require.NoError(t, d.Put(testKey(100), testValue(100), db.NoSync))
	release := holdWriters(t, d)
	var group sync.WaitGroup
	for i := range 16 {
		group.Go(func() {
			var err error
			switch i % 4 {
			case 0:
				err = d.SyncLog()
			case 1:
				err = d.Put(testKey(i), testValue(i), db.Sync)
			case 2: // this call queues, because the test leads
				err = d.Put(testKey(i), testValue(i), db.NoSync)
			default:
				err = d.Apply(new(db.Batch), db.Sync)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	waitForWriters(t, d, 16)
	before, writes := fsys.n.Load(), d.Metrics().Writes.Batches
	release()
	group.Wait()
	require.EqualValues(t, 1, fsys.n.Load()-before, "sixteen calls, one fsync")
	require.EqualValues(t, 8, d.Metrics().Writes.Batches-writes)
	for i := range 16 {
		if i%4 == 1 || i%4 == 2 {
			requireValue(t, d, testKey(i), testValue(i))
		}
	}
}

// A write that needs a new memtable waits for the flush of older ones. SyncLog does not.
func TestSyncLogDoesNotWaitForAFlushThatAnotherWriteNeeds(t *testing.T) {
	broken := new(atomic.Bool)
	fsys := wrap.NewFaulty(vfs.NewMem(), func(op wrap.Op) *wrap.Fault {
		if broken.Load() && op.Kind == wrap.OpCreate && strings.HasSuffix(op.Name, ".ldb") {
			return &wrap.Fault{Err: syscall.EIO}
		}
		return nil
	})
	o := testOptions(fsys)
	o.Memtables.MaxWaiting = 1
	d := openTest(t, o)
	broken.Store(true)
	value := make([]byte, d.Opts().Memtables.Size/8)
	refused := func() (err error) {
		for i := 0; err == nil && i < 100; i++ {
			err = d.Put(testKey(i), value, db.NoSync)
		}
		return err
	}
	require.ErrorIs(t, refused(), syscall.EIO)

	release := holdWriters(t, d)
	var group sync.WaitGroup
	var write, empty error
	group.Go(func() { empty = d.SyncLog() })
	waitForWriters(t, d, 1)
	group.Go(func() { write = d.Put(testKey(1000), value, db.NoSync) })
	waitForWriters(t, d, 2)
	release()
	group.Wait()
	require.NoError(t, empty, "the log is intact")
	require.ErrorIs(t, write, syscall.EIO)
	broken.Store(false)
	require.NoError(t, d.Close())
}

// failingSyncs opens a store whose log cannot be synced while failing is set.
func failingSyncs(t *testing.T, mem *vfs.Mem, errno syscall.Errno) (d *db.DB, failing *atomic.Bool, syncs *logSyncs) {
	failing = new(atomic.Bool)
	syncs = newLogSyncs(wrap.NewFaulty(mem, func(op wrap.Op) *wrap.Fault {
		if failing.Load() && op.Kind == wrap.OpSync && isLog(op.Name) {
			return &wrap.Fault{Err: errno}
		}
		return nil
	}))
	return mustOpen(t, testOptions(syncs)), failing, syncs
}

// The bug: what finds nothing to write returned nil after writes had ended. Then the failed Put was back after
// reopening.
func TestNoCallThatWritesReturnsNilAfterWritesHaveEnded(t *testing.T) {
	for cause, fail := range map[string]func(d *db.DB) error{
		"SyncLog": (*db.DB).SyncLog,
		"Put":     func(d *db.DB) error { return d.Put(testKey(1), testValue(1), db.Sync) },
	} {
		t.Run(cause, func(t *testing.T) { requireWritesEnd(t, fail) })
	}
}

func requireWritesEnd(t *testing.T, fail func(d *db.DB) error) {
	d, failing, syncs := failingSyncs(t, vfs.NewMem(), syscall.EIO)
	require.NoError(t, d.Put(testKey(0), testValue(0), db.NoSync))
	loader, err := d.NewLoader()
	require.NoError(t, err)
	require.NoError(t, loader.Delete(testKey(3)))
	namespace, err := d.Namespace("n")
	require.NoError(t, err)
	failing.Store(true)
	require.ErrorIs(t, fail(d), syscall.EIO)
	failing.Store(false)
	before := syncs.n.Load()
	var ranges db.Batch
	ranges.DeleteRange(nil, nil)
	update := func(fn func(tx *db.Transaction) error) error {
		return d.Update(func(tx *db.Transaction) error { tx.SetWriteOptions(db.NoSync); return fn(tx) })
	}
	for name, call := range map[string]func() error{
		"SyncLog":                        d.SyncLog,
		"Put":                            func() error { return d.Put(testKey(2), nil, db.NoSync) },
		"Delete":                         func() error { return d.Delete(testKey(1), db.NoSync) },
		"Apply of an empty batch":        func() error { return d.Apply(new(db.Batch), db.NoSync) },
		"Apply of one, synced":           func() error { return d.Apply(new(db.Batch), db.Sync) },
		"Apply of a range":               func() error { return d.Apply(&ranges, db.Buffered) },
		"DeleteRange":                    func() error { return d.DeleteRange(t.Context(), nil, nil, db.NoSync) },
		"DeleteRange of an empty range":  func() error { return d.DeleteRange(t.Context(), testKey(1), testKey(1), db.NoSync) },
		"Drop":                           func() error { return namespace.Drop(t.Context()) },
		"a transaction's DeleteRange":    func() error { return update(func(tx *db.Transaction) error { return tx.DeleteRange(nil, nil) }) },
		"a transaction's Delete":         func() error { return update(func(tx *db.Transaction) error { return tx.Delete(testKey(1)) }) },
		"Modify":                         func() error { return d.Modify(testKey(1), func([]byte) ([]byte, error) { return nil, nil }, db.NoSync) },
		"the Commit of a load":           loader.Commit,
		"the beginning of a transaction": func() error { _, err := d.NewBulkTransaction(); return err },
	} {
		err := call()
		require.ErrorIs(t, err, db.ErrReadOnly, name)
		require.ErrorIs(t, err, syscall.EIO, name)
	}
	require.NoError(t, d.Update(func(tx *db.Transaction) error { _, err := tx.Has(testKey(1)); return err }), "it only reads")
	requireValue(t, d, testKey(0), testValue(0))
	_ = d.Close() // other tests check its result
	require.Equal(t, before, syncs.n.Load(), "a sync after a failed one would prove nothing")
}

func TestAFullDiskFailsSyncLogUntilThereIsSpace(t *testing.T) {
	mem := vfs.NewMem()
	d, failing, _ := failingSyncs(t, mem, syscall.ENOSPC)
	defer func() { require.NoError(t, d.Close()) }()
	require.NoError(t, d.Put(testKey(1), testValue(1), db.Buffered))
	failing.Store(true)
	require.ErrorIs(t, d.SyncLog(), db.ErrNoSpace)
	failing.Store(false)
	require.NoError(t, d.SyncLog())
	after := openTest(t, testOptions(mem.Crash()))
	requireValue(t, after, testKey(1), testValue(1))
	require.NoError(t, d.Put(testKey(2), testValue(2), db.NoSync))
}

// Several writers sync with SyncLog now and then. All writes before a SyncLog survive a power cut at any moment.
func TestConcurrentSyncLogsKeepEarlierWrites(t *testing.T) {
	const writers, n = 4, 400
	mem := vfs.NewMem()
	d := openTest(t, testOptions(mem))
	var synced [writers]atomic.Int64 // how many of its keys each writer knows to be durable
	var group sync.WaitGroup
	for w := range writers {
		group.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(w), 3))
			for i := range n {
				err := d.Put(testKey(writers*i+w), testValue(i), []*db.WriteOptions{db.NoSync, db.Buffered}[rnd.IntN(2)])
				if err == nil && rnd.IntN(5) == 0 {
					if err = d.SyncLog(); err == nil {
						synced[w].Store(int64(i + 1))
					}
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for range 20 {
		var before [writers]int64
		for w := range before {
			before[w] = synced[w].Load()
		}
		after := mustOpen(t, testOptions(mem.Crash()))
		for w, keys := range before {
			for i := range keys {
				requireValue(t, after, testKey(writers*int(i)+w), testValue(int(i)))
			}
		}
		require.NoError(t, after.Close())
	}
	group.Wait()
}
