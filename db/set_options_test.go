package db_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/filter/rangefilter"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/limit/throttle"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/report"
	"github.com/sievedb/sievedb/vfs"
)

// randomTuning returns o with random values of all options that can be changed.
func randomTuning(o db.Options, rnd *rand.Rand) db.Options {
	o.Compaction = db.CompactionOptions{
		MaxConcurrent: 1 + rnd.IntN(4), L0Trigger: 1 + rnd.IntN(5), L0Slowdown: 6 + rnd.IntN(3), L0Stop: 10 + rnd.IntN(5),
		MaxLevelBase: 4<<10 + rnd.Int64N(64<<10),
	}
	o.Memtables = db.MemtableOptions{Size: 4<<10 + rnd.IntN(32<<10), MaxWaiting: 1 + rnd.IntN(4)}
	o.Tables = db.TableOptions{
		Size: 4<<10 + rnd.Int64N(16<<10), BlockSize: 64 + rnd.IntN(4<<10), RestartInterval: 1 + rnd.IntN(20),
		Compression: db.Compression(rnd.IntN(4)),
	}
	o.Cache.Size = []int64{-1, 1, 4 << 10, 256 << 10, 8 << 20}[rnd.IntN(5)]
	o.Cache.MaxOpenFiles = 10 + rnd.IntN(50)
	return o
}

// tune changes options of a store with change.
func tune(t testing.TB, d *db.DB, change func(*db.Options)) {
	t.Helper()
	o := d.Options()
	change(&o)
	require.NoError(t, d.SetOptions(&o))
}

// The bug: what Open was passed, and what Options returned, shared slices with the options in force.
func TestOptionsShareNothingWithTheStore(t *testing.T) {
	o := testOptions(vfs.NewMem())
	change := func(o *db.Options) {
		o.Tables.LevelCompression[0] = 99
		o.Filters.RangePolicies[0] = nil
		o.Expiry.Prefixes[0][0] = 'z'
		o.Expiry.Prefixes[1] = nil
		o.Expiry.Namespaces[0] = "other"
	}
	o.Tables.LevelCompression = []db.Compression{db.NoCompression}
	o.Filters.RangePolicies = []rangefilter.Policy{rangefilter.NewPrefix(rangefilter.FixedPrefix(4), 10)}
	o.Expiry.Prefixes, o.Expiry.Namespaces = [][]byte{[]byte("a"), []byte("b")}, []string{"sessions"}
	d := openTest(t, o)
	was := d.Options()
	change(o)
	require.Equal(t, was, d.Options())
	got := d.Options()
	change(&got)
	require.Equal(t, was, d.Options())
	next := d.Options()
	require.NoError(t, d.SetOptions(&next))
	change(&next)
	require.Equal(t, was, d.Options())
	require.ErrorContains(t, d.SetOptions(nil), "cannot be changed", "the defaults have another file system")
	require.Zero(t, (*db.DB)(nil).Options())
	require.False(t, (*db.DB)(nil).IsFollower())
}

// A default is not changed by its own value, and an empty list not by nil.
func TestExplicitDefaultsAreNoChange(t *testing.T) {
	d := openDir(t, t.TempDir(), nil)
	defer d.Close()
	require.NoError(t, d.SetOptions(&db.Options{
		FS: vfs.OS, FileMode: 0o600, Comparer: db.BytewiseComparer, Filters: db.FilterOptions{Policy: db.DefaultFilter},
		Limits: db.LimitOptions{ManifestSize: db.DefaultMaxManifestSize}, Expiry: db.ExpiryOptions{Prefixes: [][]byte{}},
	}))
	require.NoError(t, d.SetOptions(nil))
}

func TestTheCacheIsResizedAtOnce(t *testing.T) {
	o := testOptions(vfs.NewMem())
	o.Cache.Size = -1
	o.Tables.Size = 4 << 10
	d := openTest(t, o)
	fill(t, d, 0, 2000)
	settle(t, d)
	read := func() report.CacheMetrics {
		for i := range 2000 {
			requireValue(t, d, testKey(i), testValue(i))
		}
		return d.Metrics().Cache
	}
	require.Zero(t, read().Bytes)
	tune(t, d, func(o *db.Options) { o.Cache.Size = 1 << 20 })
	require.EqualValues(t, 1<<20, d.Metrics().Cache.Capacity)
	require.Greater(t, read().Bytes, int64(200<<10), "blocks are kept")
	tune(t, d, func(o *db.Options) { o.Cache.Size = 64 << 10 })
	require.LessOrEqual(t, d.Metrics().Cache.Bytes, int64(64<<10), "what does not fit was evicted")
	require.Positive(t, read().Bytes)
	tune(t, d, func(o *db.Options) { o.Cache.Size = -1 })
	require.Zero(t, read().Bytes)

	require.Greater(t, d.Metrics().Tables.Open, 10)
	tune(t, d, func(o *db.Options) { o.Cache.MaxOpenFiles = 10 })
	require.LessOrEqual(t, d.Metrics().Tables.Open, 10)
	read()
	require.LessOrEqual(t, d.Metrics().Tables.Open, 10)
}

func TestNewTablesHaveTheNewOptions(t *testing.T) {
	o := testOptions(vfs.NewMem())
	o.Tables.Compression = db.NoCompression
	d := openTest(t, o)
	fill(t, d, 0, 4000)
	require.NoError(t, d.Compact(t.Context(), nil, nil))
	before := d.Metrics().Total()
	readAll := func() {
		for i := range 4000 {
			requireValue(t, d, testKey(i), testValue(i))
		}
	}
	readAll()
	indexBytes := d.Metrics().Tables.IndexBytes
	tune(t, d, func(o *db.Options) {
		o.Tables = db.TableOptions{Size: 64 << 10, BlockSize: 16 << 10, RestartInterval: 3}
	})
	require.NoError(t, d.Compact(t.Context(), nil, nil))
	after := d.Metrics().Total()
	require.Less(t, after.Tables, before.Tables/3, "tables are larger")
	require.Less(t, after.Bytes, before.Bytes*2/3, "blocks are compressed")
	readAll()
	require.Less(t, d.Metrics().Tables.IndexBytes, indexBytes/8, "blocks are larger")
}

// levelBytes returns the sizes of level 0 after a flush, and of the last level after a compaction, of
// a store with the same content each time.
func levelBytes(t *testing.T, o db.TableOptions) (flushed, compacted uint64) {
	options := testOptions(vfs.NewMem())
	options.Tables, options.Memtables.Size = o, 8<<20 // one flush
	options.Compaction.L0Trigger = 2
	d := openTest(t, options)
	for range 2 {
		flushed = d.Metrics().Levels[0].Bytes
		for i := range 500 {
			require.NoError(t, d.Put(testKey(i), bytes.Repeat(testValue(i), 100), db.NoSync))
		}
		require.NoError(t, d.Flush())
	}
	settle(t, d)
	require.EqualValues(t, 1, d.Metrics().Compactions.Count)
	for i := range 500 {
		requireValue(t, d, testKey(i), bytes.Repeat(testValue(i), 100))
	}
	last := slices.IndexFunc(d.Metrics().Levels[:], func(l report.LevelMetrics) bool { return l.Tables > 0 })
	require.Positive(t, last)
	return flushed, d.Metrics().Levels[last].Bytes
}

// Each level has the compression that the options say for it, as a store that has it everywhere.
func TestLevelsHaveTheirCompression(t *testing.T) {
	plain, plainLast := levelBytes(t, db.TableOptions{Compression: db.NoCompression})
	snappy, snappyLast := levelBytes(t, db.TableOptions{})
	_, zstdLast := levelBytes(t, db.TableOptions{Compression: db.ZstdCompression})
	require.Greater(t, plain, 2*snappy)
	require.Greater(t, snappyLast, zstdLast+zstdLast/10)
	for _, c := range []struct {
		o                  db.TableOptions
		flushed, compacted uint64
	}{
		{db.TableOptions{LevelCompression: []db.Compression{db.NoCompression}}, plain, snappyLast},
		{db.TableOptions{Compression: db.NoCompression, LevelCompression: []db.Compression{db.SnappyCompression}}, snappy, plainLast},
		{db.TableOptions{LevelCompression: []db.Compression{db.NoCompression, db.ZstdCompression, db.ZstdCompression, db.ZstdCompression,
			db.ZstdCompression, db.ZstdCompression, db.ZstdCompression}}, plain, zstdLast},
		{db.TableOptions{Compression: db.ZstdCompression, LevelCompression: []db.Compression{db.NoCompression, 0, 0, 0, 0, 0, 0}}, plain, zstdLast},
	} {
		flushed, compacted := levelBytes(t, c.o)
		require.InEpsilon(t, c.flushed, flushed, 0.02, "%+v", c.o) // merges cut tables at other keys
		require.InEpsilon(t, c.compacted, compacted, 0.02, "%+v", c.o)
	}
}

// The active memtable and the one that may be ready keep their sizes; later ones have the new one.
func TestLaterMemtablesHaveTheNewSize(t *testing.T) {
	d := openTest(t, testOptions(vfs.NewMem()))
	was := d.State().Mem.Capacity()
	tune(t, d, func(o *db.Options) { o.Memtables.Size = 128 << 10 })
	require.Equal(t, was, d.State().Mem.Capacity())
	for range 2 {
		require.NoError(t, d.Put(testKey(1), testValue(1), db.NoSync))
		require.NoError(t, d.Flush())
	}
	require.Greater(t, d.State().Mem.Capacity(), 4*was)
	require.EqualValues(t, 3*128<<10, d.Metrics().Memtables.Limit)
}

// keepPutting puts one key after another and counts them, until stop is set or a Put fails.
func keepPutting(d *db.DB, written *atomic.Int64, stop *atomic.Bool) {
	for i := 0; !stop.Load() && d.Put(testKey(i), testValue(i), db.NoSync) == nil; i++ {
		written.Add(1)
	}
}

// A writer that waits because level 0 is full, or because too many memtables wait, continues if the limit is raised.
func TestRaisedLimitsWakeWriters(t *testing.T) {
	for reason, raise := range map[string]func(*db.Options){
		throttle.StopLevel0:    func(o *db.Options) { o.Compaction.L0Stop = 100 },
		throttle.StopMemtables: func(o *db.Options) { o.Memtables.MaxWaiting = 60 },
	} {
		t.Run(reason, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var blocked atomic.Bool // flushes and compactions cannot create tables
				open := make(chan struct{})
				o := testOptions(wrap.NewFaulty(vfs.NewMem(), func(op wrap.Op) *wrap.Fault {
					if op.Kind == wrap.OpCreate && filepath.Ext(op.Name) == ".ldb" && blocked.Load() {
						<-open
					}
					return nil
				}))
				o.Compaction.L0Trigger, o.Compaction.L0Slowdown, o.Compaction.L0Stop = 2, 3, 4
				d := openTest(t, o)
				if reason == throttle.StopLevel0 {
					defer d.Scheduler().Hold()()
				} else {
					blocked.Store(true)
				}
				var written atomic.Int64
				var stop atomic.Bool
				go keepPutting(d, &written, &stop)
				time.Sleep(time.Hour)
				synctest.Wait()
				require.Equal(t, reason, d.Metrics().Stalls.CurrentReason)
				was := written.Load()
				tune(t, d, raise)
				synctest.Wait()
				stop.Store(true)
				require.Greater(t, written.Load(), was)
				blocked.Store(false)
				close(open)
				time.Sleep(time.Hour)
			})
		})
	}
}

// More slots are used as soon as they are granted.
func TestARaisedConcurrencyStartsCompactions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := fixture.NewGate()
		o := testOptions(g.FS())
		d := openTest(t, o)
		fill(t, d, 0, 3000)
		require.NoError(t, d.Compact(t.Context(), nil, nil))
		resume := mustPause(t, d)
		g.Closed.Store(true)
		ends := make(chan error, 2)
		for i := range 2 { // of disjoint ranges
			go func() { ends <- d.Scheduler().Compact(t.Context(), testKey(1500*i), testKey(1500*i+1000)) }()
		}
		synctest.Wait()
		require.Equal(t, 1, d.Scheduler().Status().Slots)
		tune(t, d, func(o *db.Options) { o.Compaction.MaxConcurrent = 2 })
		synctest.Wait()
		require.Equal(t, 2, d.Scheduler().Status().Slots)
		tune(t, d, func(o *db.Options) { o.Compaction.MaxConcurrent = 1 })
		require.Equal(t, 2, d.Scheduler().Status().Slots, "what runs continues")
		close(g.Open)
		require.NoError(t, <-ends)
		require.NoError(t, <-ends)
		resume()
	})
}

// Options change while every other method runs, and nothing is lost.
func TestOptionsChangeDuringAllOtherCalls(t *testing.T) {
	const writers, keys = 3, 300
	rounds := 400
	if raceEnabled || testing.Short() {
		rounds = 60
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	d := openTest(t, testOptions(vfs.NewMem()))
	var group sync.WaitGroup
	var done atomic.Bool
	for w := range writers {
		group.Go(func() {
			rnd := rand.New(rand.NewPCG(seed, uint64(w)))
			for i := 0; !done.Load(); i++ {
				k := w*keys + i%keys
				if err := d.Put(testKey(k), fmt.Appendf(nil, "%d", i), []*db.WriteOptions{db.NoSync, db.Buffered, db.Sync}[rnd.IntN(3)]); err != nil {
					t.Error(err)
					return
				}
				if got, err := d.Get(testKey(k)); err != nil || string(got) != fmt.Sprint(i) {
					t.Errorf("key %d is %q, %v; want %d", k, got, err, i)
					return
				}
			}
		})
	}
	group.Go(func() {
		for !done.Load() {
			it, err := d.NewIterator(nil)
			if err != nil {
				t.Error(err)
				return
			}
			for range it.All() {
			}
			if err := it.Close(); err != nil {
				t.Error(err)
			}
			d.Metrics()
			_ = d.Options()
		}
	})
	rnd := rand.New(rand.NewPCG(seed, 99))
	for i := range rounds {
		tune(t, d, func(o *db.Options) { *o = randomTuning(*o, rnd) })
		if i%10 == 0 {
			require.NoError(t, d.Compact(t.Context(), nil, testKey(rnd.IntN(writers*keys))))
		}
	}
	done.Store(true)
	group.Wait()
	requireNoFaults(t, d)
}
