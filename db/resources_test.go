package db_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/vfs"
)

// smallResources are sized for stores with testOptions.
func smallResources(t testing.TB, stores int) *db.Resources {
	r, err := db.NewResources(db.ResourcesOptions{
		MaxStores: stores, CacheSize: int64(stores) * 32 << 10, MaxOpenFiles: 10 * stores,
		MemtableSize: int64(stores) * 64 << 10, MaxConcurrent: 2,
	})
	require.NoError(t, err)
	return r
}

// sharing returns testOptions for a store that has a part of r. It can have memtables larger than r reserves for it.
func sharing(r *db.Resources, fs vfs.FS) *db.Options {
	o := testOptions(fs)
	o.Resources, o.Memtables.Size = r, 64<<10
	return o
}

// requireWithin checks that the stores of r use no more than it allows.
func requireWithin(t testing.TB, r *db.Resources) {
	t.Helper()
	m := r.Metrics()
	if m.Memtables.Used > m.Memtables.Limit || m.OpenFiles.Used > m.OpenFiles.Limit || m.Stores > m.MaxStores {
		t.Errorf("the stores use %+v", *m)
	}
}

// requireUnused checks that nothing of r is in use once all stores are closed.
func requireUnused(t testing.TB, r *db.Resources) {
	t.Helper()
	m := r.Metrics()
	require.Zero(t, m.Stores+m.Cache.Stores+m.OpenFiles.Stores)
	require.Zero(t, m.Cache.Used+m.OpenFiles.Used+m.Memtables.Used+int64(m.Compactions.Used+m.Compactions.Waiting), "%+v", *m)
}

func TestInvalidResourcesAreRefused(t *testing.T) {
	for field, o := range map[string]db.ResourcesOptions{
		"MaxStores": {MaxStores: -1}, "CacheSize": {CacheSize: 1<<50 + 1}, "MaxOpenFiles": {MaxOpenFiles: 639},
		"MemtableSize": {MemtableSize: 64<<16 - 1}, "MaxConcurrent": {MaxConcurrent: 65},
	} {
		r, err := db.NewResources(o)
		require.ErrorContains(t, err, "sievedb: ResourcesOptions."+field+" is ")
		require.ErrorContains(t, err, "; it must be from ")
		require.Nil(t, r)
	}
	for _, r := range []*db.Resources{nil, {}} {
		require.Zero(t, *r.Metrics())
	}
	o := testOptions(vfs.NewMem())
	o.Resources = new(db.Resources)
	_, err := db.Open("db", o)
	require.EqualError(t, err, "sievedb: Options.Resources is a zero Resources; make one with NewResources")
}

func TestDefaultsOfResources(t *testing.T) {
	r, err := db.NewResources(db.ResourcesOptions{})
	require.NoError(t, err)
	m, full := r.Metrics(), (&db.Options{Resources: r}).WithDefaults()
	require.Equal(t, 64, m.MaxStores)
	require.EqualValues(t, 256<<20, m.Memtables.Limit)
	require.EqualValues(t, 256<<20, m.Cache.Limit)
	require.EqualValues(t, m.Cache.Limit, full.Cache.Size)
	require.GreaterOrEqual(t, m.OpenFiles.Limit, int64(1000))
	require.EqualValues(t, m.OpenFiles.Limit, full.Cache.MaxOpenFiles)
	require.GreaterOrEqual(t, m.Compactions.Limit, 2)
	require.Equal(t, m.Compactions.Limit, full.Compaction.MaxConcurrent)
	require.True(t, full.Cache.ChargeTables)
	many, err := db.NewResources(db.ResourcesOptions{MaxStores: 5000, MemtableSize: 1 << 30, CacheSize: -1})
	require.NoError(t, err)
	require.EqualValues(t, 50_000, many.Metrics().OpenFiles.Limit)
	require.Zero(t, many.Metrics().Cache.Limit)
}

func TestAFailedOpenReturnsItsPart(t *testing.T) {
	r := smallResources(t, 1)
	o := sharing(r, vfs.NewMem())
	o.ErrorIfMissing = true
	_, err := db.Open("db", o)
	require.Error(t, err)
	requireUnused(t, r)
	o.ErrorIfMissing = false
	d := openTest(t, o)
	fill(t, d, 0, 10)
	o.FS = vfs.NewMem()
	_, err = db.Open("other", o)
	require.ErrorContains(t, err, "1 stores are open with these Resources")
	require.NoError(t, d.Close())
	requireUnused(t, r)
	o.FS = wrap.NewFaulty(vfs.NewMem(), func(op wrap.Op) *wrap.Fault {
		if kind, _, ok := base.ParseFileName(filepath.Base(op.Name)); ok && kind == base.FileManifest {
			return &wrap.Fault{}
		}
		return nil
	})
	_, err = db.Open("db", o)
	require.ErrorIs(t, err, wrap.ErrInjected)
	requireUnused(t, r)
}

// An idle store keeps a large memtable only until a busy one needs the memory.
func TestAnIdleStoreGivesUpItsMemtable(t *testing.T) {
	r := smallResources(t, 8) // 16 KiB for each small memtable, 256 KiB in common
	putWhile := func(d *db.DB, more func() bool) {
		for i := 0; more(); i++ {
			require.Less(t, i, 500_000, "%+v", *r.Metrics())
			require.NoError(t, d.Put(testKey(i%1000), testValue(i), db.NoSync))
			requireWithin(t, r)
		}
	}
	var idle []*db.DB
	for range 4 {
		d := openTest(t, sharing(r, vfs.NewMem()))
		putWhile(d, func() bool { return d.State().Mem.Grant.Small() })
		settle(t, d)
		putWhile(d, func() bool { return d.State().Mem.Grant.Small() })
		idle = append(idle, d)
	}
	require.Greater(t, r.Metrics().Memtables.Used, int64(192<<10), "of 256 KiB")
	busy := openTest(t, sharing(r, vfs.NewMem()))
	putWhile(busy, func() bool { return busy.State().Mem.Capacity() < 60<<10 })
	require.Positive(t, r.Metrics().Memtables.EarlyFlushes)
	require.True(t, slices.ContainsFunc(idle, func(d *db.DB) bool { return d.State().Mem.Grant.Small() }))
}

// merging counts the merges of several stores.
type merging struct{ now, most, all atomic.Int64 }

func (m *merging) listener() *db.EventListener {
	return &db.EventListener{
		CompactionBegin: func(i db.CompactionInfo) {
			if i.TrivialMove {
				return
			}
			n := m.now.Add(1)
			for most := m.most.Load(); n > most && !m.most.CompareAndSwap(most, n); {
				most = m.most.Load()
			}
			m.all.Add(1)
		},
		CompactionEnd: func(i db.CompactionInfo) {
			if !i.TrivialMove {
				m.now.Add(-1)
			}
		},
	}
}

// Stores that write, read, flush, compact, upgrade filters and are opened again at the same time, as fast as they can,
// stay within each bound and lose nothing. There are more of them than may be open.
func TestBusyStoresStayWithinEachBound(t *testing.T) {
	r := smallResources(t, 4)
	var m merging
	var users sync.WaitGroup
	for i := range uint64(6) {
		o := sharing(r, vfs.NewMem())
		o.EventListener, o.Cache.OpenAhead = m.listener(), i%2 == 0
		users.Go(func() {
			if err := useShared(o, i); err != nil {
				t.Errorf("store %d: %v", i, err)
			}
		})
	}
	done := make(chan struct{})
	go func() { users.Wait(); close(done) }()
	for running := true; running; {
		m := r.Metrics() // single large writes are allowed in addition
		if m.Memtables.Used-m.Memtables.Overdrawn > m.Memtables.Limit || m.OpenFiles.Used > m.OpenFiles.Limit || m.Stores > m.MaxStores {
			t.Errorf("the stores use %+v", *m)
		}
		running = !closed(done)
		runtime.Gosched()
	}
	require.LessOrEqual(t, m.most.Load(), int64(2))
	require.Positive(t, m.all.Load())
	require.Zero(t, m.now.Load())
	requireUnused(t, r)
}

// openShared opens a store when a part of the resources is free.
func openShared(o *db.Options) (*db.DB, error) {
	for {
		d, err := db.Open("db", o)
		if err == nil || !strings.Contains(err.Error(), "MaxStores") {
			return d, err
		}
		runtime.Gosched()
	}
}

// useShared writes keys, each with one value, and gets them.
func useShared(o *db.Options, seed uint64) error {
	rounds := 3000
	if testing.Short() {
		rounds = 500
	}
	rnd := rand.New(rand.NewPCG(seed, 3))
	put := map[int]bool{}
	d, err := openShared(o)
	for n := 0; n < rounds && err == nil; n++ {
		switch rnd.IntN(200) {
		case 0:
			err = d.Flush()
		case 1:
			err = d.Compact(background, nil, nil)
		case 2:
			_, err = d.UpgradeFilters(background, nil, nil)
		case 3:
			if err = d.Close(); err == nil {
				d, err = openShared(o)
			}
		case 4:
			err, put[0] = d.Put(testKey(0), make([]byte, 50_000), db.NoSync), true
		default:
			key := 1 + rnd.IntN(500)
			err, put[key] = d.Put(testKey(key), testValue(key), db.NoSync), true
		}
		if err != nil {
			return err
		}
		key := 1 + rnd.IntN(500)
		value, err := d.Get(testKey(key))
		if put[key] && string(value) != string(testValue(key)) || !put[key] && err != db.ErrNotFound {
			return fmt.Errorf("Get of key %d returns %d bytes and %w", key, len(value), err)
		}
	}
	if err != nil {
		return err
	}
	found := 0
	entries, failed := d.All(nil)
	for range entries {
		found++
	}
	if found != len(put) {
		err = fmt.Errorf("an iterator shows %d keys; want %d", found, len(put))
	}
	return errors.Join(err, failed(), d.Close())
}

// whenever has a store do something at the operations that at chooses, given how many there were before.
func whenever(at func(op wrap.Op, before int64) bool, do func(end chan struct{}) error) func(o *db.Options) func() {
	return func(o *db.Options) func() {
		var ops atomic.Int64
		end := make(chan struct{})
		o.FS = wrap.NewFaulty(o.FS, func(op wrap.Op) *wrap.Fault {
			if at(op, ops.Add(1)-1) {
				if err := do(end); err != nil {
					return &wrap.Fault{Err: err}
				}
			}
			return nil
		})
		return func() { close(end) }
	}
}

func fails(chan struct{}) error { return wrap.ErrInjected }

func hangs(end chan struct{}) error { <-end; return nil }

func panics(end chan struct{}) error {
	if !closed(end) {
		panic(fixture.Boom)
	}
	return nil
}

// closesWhatItRead returns the choice of the operations that close a table which was opened for reading.
func closesWhatItRead() func(op wrap.Op, before int64) bool {
	var read sync.Map
	return func(op wrap.Op, _ int64) bool {
		if op.Kind == wrap.OpOpen {
			read.Store(op.Name, true)
		}
		_, ok := read.Load(op.Name)
		return ok && op.Kind == wrap.OpClose && isTable(op.Name)
	}
}

// disturbances are what may happen to one of several stores. Each changes the options of the store, and returns
// a function that ends the disturbance.
var disturbances = map[string]func(o *db.Options) (end func()){
	"its disk fails":                             whenever(func(_ wrap.Op, before int64) bool { return before >= 200 }, fails),
	"its tables cannot be written":               whenever(func(op wrap.Op, _ int64) bool { return isTable(op.Name) }, fails),
	"its tables cannot be read":                  whenever(func(op wrap.Op, _ int64) bool { return isTable(op.Name) && op.Kind == wrap.OpRead }, fails),
	"its file system panics when a table closes": whenever(closesWhatItRead(), panics),
	"its file system hangs when a table closes":  whenever(closesWhatItRead(), hangs),
	"its file system hangs":                      whenever(func(_ wrap.Op, before int64) bool { return before >= 300 }, hangs),
	"its comparer panics": func(o *db.Options) func() {
		b := &fixture.Bomb{}
		b.At.Store(3000)
		o.Comparer = b.Comparer()
		return func() { b.At.Store(0) }
	},
	"its compaction filter hangs": func(o *db.Options) func() {
		end := make(chan struct{})
		o.Compaction.Filter = func(_, value []byte) ([]byte, bool) { <-end; return value, true }
		return func() { close(end) }
	},
	"it is opened and closed": nil,
}

// disturb writes to a store and reads from it until stop is closed, whatever happens to it.
func disturb(o *db.Options, again bool, stop chan struct{}) (last *db.DB) {
	d, _ := db.Open("db", o)
	for i := 0; d != nil && !closed(stop); i++ {
		_ = base.Catch(base.Bytewise, "a test", func() error {
			_ = d.Put(testKey(i*7919%3000), testValue(i), db.NoSync)
			_, _ = d.Get(testKey(i % 3000))
			return nil
		})
		if again && i%500 == 499 {
			_ = d.Close()
			d, _ = db.Open("db", o)
		}
	}
	return d
}

// Whatever happens to one store, the others read and write what they did.
func TestOneStoreDoesNotDisturbOthers(t *testing.T) {
	for name, disturbance := range disturbances {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := smallResources(t, 3)
			o, end := sharing(r, vfs.NewMem()), func() {}
			o.FS = vfs.NewMem() // the operations of a store that fails are in no order
			if disturbance != nil {
				end = disturbance(o)
			}
			stop, disturbed := make(chan struct{}), make(chan *db.DB, 1)
			go func() { disturbed <- disturb(o, disturbance == nil, stop) }()
			var wg sync.WaitGroup
			for range 2 {
				o := sharing(r, vfs.NewMem())
				o.Compaction.L0Trigger, o.Compaction.L0Slowdown, o.Compaction.L0Stop = 2, 4, 5 // compactions must work
				d := openTest(t, o)
				wg.Go(func() { writeAndRead(t, d) })
				t.Cleanup(func() {
					settle(t, d)
					require.NoError(t, d.Metrics().BackgroundError)
					require.NoError(t, d.Close())
				})
			}
			wg.Wait()
			close(stop)
			end()
			if d := <-disturbed; d != nil {
				_ = base.Catch(base.Bytewise, "a test", d.Close)
			}
		})
	}
}

// writeAndRead uses a store that nothing happens to.
func writeAndRead(t *testing.T, d *db.DB) {
	writes := 4000
	if testing.Short() {
		writes = 900
	}
	for i := range writes {
		n := i * 7919 % 3000
		if err := d.Put(testKey(n), testValue(n), db.NoSync); err != nil {
			t.Error(err)
			return
		}
		if i%10 != 0 {
			continue
		}
		n = i / 2 * 7919 % 3000
		if got, err := d.Get(testKey(n)); err != nil || string(got) != string(testValue(n)) {
			t.Errorf("Get returns %d bytes, %v", len(got), err)
		}
	}
}

// A store that a program forgot keeps what it has. Iterators that were left open keep nothing.
func TestWhatIsLeftOpen(t *testing.T) {
	r := smallResources(t, 2)
	o := sharing(r, vfs.NewMem())
	forgotten := mustOpen(t, o)
	fill(t, forgotten, 0, 1000)
	d := openTest(t, sharing(r, vfs.NewMem()))
	fill(t, d, 0, 3000)
	settle(t, d)
	it, err := d.NewIterator(nil)
	require.NoError(t, err)
	require.True(t, it.First())
	require.ErrorContains(t, d.Close(), "iterator")
	require.Equal(t, 1, r.Metrics().Stores)
	require.NoError(t, forgotten.Close())
	requireUnused(t, r)
}

func TestSetOptionsWithSharedResources(t *testing.T) {
	r := smallResources(t, 2)
	d := openTest(t, sharing(r, vfs.NewMem()))
	fill(t, d, 0, 3000)
	settle(t, d)
	for i := range 3000 {
		requireValue(t, d, testKey(i), testValue(i))
	}
	require.Greater(t, r.Metrics().Cache.Used, int64(16<<10))
	o := d.Options()
	o.Cache.Size, o.Cache.MaxOpenFiles, o.Compaction.MaxConcurrent = 8<<10, 10, 1
	require.NoError(t, d.SetOptions(&o))
	require.LessOrEqual(t, d.TableCache().Blocks().Metrics().Size, int64(8<<10))
	require.LessOrEqual(t, r.Metrics().OpenFiles.Used, int64(10))
	o.Cache.Size = 1 << 30
	require.NoError(t, d.SetOptions(&o))
	require.Equal(t, r.Metrics().Cache.Limit, d.Metrics().Cache.Capacity, "no more than there is")
	o.Resources = smallResources(t, 2)
	require.ErrorContains(t, d.SetOptions(&o), "Options.Resources cannot be changed")
}

// The logs of a store that crashed need memory in addition only if nothing is free, and return it.
func TestRecoveryUsesSharedMemory(t *testing.T) {
	fs := vfs.NewMem()
	o := testOptions(fs)
	o.Memtables.Size = 1 << 20
	d := openTest(t, o)
	fill(t, d, 0, 5000)
	require.NoError(t, d.SyncLog())
	crashed := fs.Crash()
	r := smallResources(t, 2)
	recovered := openTest(t, sharing(r, crashed))
	for i := range 5000 {
		requireValue(t, recovered, testKey(i), testValue(i))
	}
	require.Zero(t, r.Metrics().Memtables.Overdrawn)
	requireWithin(t, r)
}
