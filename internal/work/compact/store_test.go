package compact

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/expiry"
	"github.com/sievedb/sievedb/internal/disk/filterplan"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/disk/pick"
	"github.com/sievedb/sievedb/internal/disk/tables"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/sstable"
	"github.com/sievedb/sievedb/vfs"
)

// testStore is what a Scheduler needs of a store: tables, a MANIFEST and readers, all in the hands of the test. It has
// no memtables and no log; put writes a table.
type testStore struct {
	*Scheduler
	t      testing.TB
	dir    tables.Directory
	set    *manifest.Set
	cache  *tables.Cache
	expiry *expiry.Policy

	mu        sync.Mutex
	last      uint64   // the sequence number of the last entry
	readers   []uint64 // sequence numbers of snapshots
	times     []uint64 // at which they were opened
	infos     []Info   // of compactions that have ended
	outcomes  []error
	ended     chan struct{} // receives after each outcome
	failed    error         // of Fail and of panics
	applyErr  error         // that Apply returns, if it is not nil
	onBegin   func(Info)
	onOutcome func(error)
}

// storeOptions are what newTestStore sets, for a test to change.
type storeOptions struct {
	Options
	fs vfs.FS
}

// newTestStore returns a store whose tables are so small that some hundred entries fill several.
//
//race:apart
func newTestStore(t testing.TB, change func(o *storeOptions)) *testStore {
	t.Helper()
	st := &testStore{t: t, ended: make(chan struct{}, 1000)}
	policy := filter.NewBloomPolicy(10)
	o := storeOptions{fs: vfs.NewMem(), Options: Options{
		Cmp: base.Bytewise, ReadPolicies: []filter.Policy{policy}, MaxValue: 1 << 20,
		FilterCalls: func(work func() error) error { return work() },
		Begin:       st.begin, End: st.end, Guard: st.guard, Fail: st.fail, Ended: st.noteEnded,
		Logger: slog.New(slog.DiscardHandler),
		Tuning: Tuning{
			MaxConcurrent: 1, L0Trigger: 4, L0SlowdownTrigger: 12, MaxLevelBase: 32 << 10, TableSize: 4 << 10,
			Table: sstable.WriterOptions{Comparer: base.Bytewise, Filter: policy, BlockSize: 512},
		},
	}}
	if change != nil {
		change(&o)
	}
	require.NoError(t, o.fs.MkdirAll("db"))
	st.dir = tables.Directory{FS: o.fs, Path: "db", Logger: o.Logger}
	st.cache = tables.NewCache(tables.CacheOptions{
		FS: o.fs, Dir: "db", MaxOpen: 1000,
		Reader: sstable.ReaderOptions{Comparer: o.Cmp, Policies: o.ReadPolicies},
	})
	obsolete := tables.NewObsolete(st.dir, st.cache, func(uint64) {})
	st.set = manifest.New(manifest.SetOptions{
		FS: o.fs, Dir: "db", Cmp: o.Cmp, MaxManifestSize: 1 << 20, Obsolete: obsolete.Add, NewHandle: tables.NewHandle,
	})
	require.NoError(t, st.set.Begin(&manifest.Edit{}, nil))
	st.expiry = o.Expiry
	o.Dir, o.Cache, o.Obsolete, o.NewFileNum = st.dir, st.cache, obsolete, st.set.NewFileNum
	o.Plan = filterplan.New(filterplan.Options{Filter: policy}, nil)
	spares := tables.NewSpareWriters(4, 1<<20)
	o.NewWriter = func(int, filterplan.Bits) *tables.Writer {
		return tables.NewWriter(tables.WriterOptions{
			Dir: st.dir, Kind: base.FileTable, NewFileNum: st.set.NewFileNum, Table: o.Tuning.Table, Spares: spares,
		})
	}
	st.Scheduler = New(o.Options, st)
	t.Cleanup(func() {
		st.Close()
		st.Wait()
		st.cache.Close()
		_ = st.set.Close()
	})
	return st
}

func (st *testStore) begin(i Info) {
	if st.onBegin != nil {
		st.onBegin(i)
	}
}

func (st *testStore) end(i Info) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.infos = append(st.infos, i)
}

func (st *testStore) noteEnded(err error) {
	st.mu.Lock()
	st.outcomes = append(st.outcomes, err)
	st.mu.Unlock()
	st.ended <- struct{}{}
	if st.onOutcome != nil {
		st.onOutcome(err)
	}
}

// guard is like that of a store, except that the end of the goroutine ends no edits.
func (st *testStore) guard(during string, f func() error) error {
	err := base.Catch(st.o.Cmp, during, f)
	var p *base.PanicError
	if errors.As(err, &p) && p.Value != nil {
		st.fail(err)
	}
	return err
}

func (st *testStore) fail(err error) {
	st.mu.Lock()
	st.failed = err
	st.mu.Unlock()
	st.Stop(err)
}

func (st *testStore) RefVersion() *version.Version { return st.set.RefCurrent() }

func (st *testStore) OldestSnapshot() uint64 { return st.Snapshots()[0] }

func (st *testStore) Snapshots() []uint64 {
	st.mu.Lock()
	defer st.mu.Unlock()
	all := append(slices.Clone(st.readers), st.last)
	slices.Sort(all)
	return slices.Compact(all)
}

func (st *testStore) Apply(edit *manifest.Edit, written []*version.FileMeta) error {
	st.mu.Lock()
	err := st.applyErr
	st.mu.Unlock()
	if err == nil {
		err = st.set.Apply(edit, nil)
	}
	if err != nil {
		for _, f := range written {
			st.dir.Remove(st.dir.File(base.FileTable, f.Num))
		}
	}
	return err
}

func (st *testStore) BeginFilter(bool) (from uint64, end func()) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if n := len(st.readers); n > 0 {
		from = slices.Max(st.readers) + 1
	}
	return from, func() {}
}

func (st *testStore) OldestTime() uint64 {
	st.mu.Lock()
	defer st.mu.Unlock()
	if len(st.times) > 0 {
		return slices.Min(st.times)
	}
	return st.expiry.Seen()
}

// read opens a snapshot of the present moment.
func (st *testStore) read() (closeIt func()) {
	now := st.expiry.Now()
	st.mu.Lock()
	defer st.mu.Unlock()
	at := st.last
	st.readers, st.times = append(st.readers, at), append(st.times, now)
	return sync.OnceFunc(func() {
		st.mu.Lock()
		defer st.mu.Unlock()
		i := slices.Index(st.readers, at)
		st.readers, st.times = slices.Delete(st.readers, i, i+1), slices.Delete(st.times, i, i+1)
	})
}

// entry is one version of a key. Without a sequence number it gets the next one.
type entry struct {
	key   string
	seq   uint64
	kind  base.Kind
	value string
}

func set(key, value string) entry { return entry{key: key, kind: base.KindSet, value: value} }
func del(key string) entry        { return entry{key: key, kind: base.KindDelete} }

// put writes one table with the entries to a level.
func (st *testStore) put(level int, entries ...entry) *version.FileMeta {
	st.t.Helper()
	st.mu.Lock()
	for i := range entries {
		if entries[i].seq == 0 {
			st.last++
			entries[i].seq = st.last
		}
		st.last = max(st.last, entries[i].seq)
	}
	st.mu.Unlock()
	return st.putNumbered(level, entries...)
}

// putNumbered is put for entries that keep the number 0.
func (st *testStore) putNumbered(level int, entries ...entry) *version.FileMeta {
	st.t.Helper()
	keys := make(map[string]entry, len(entries))
	order := make([][]byte, len(entries))
	for i, e := range entries {
		order[i] = base.AppendInternalKey(nil, []byte(e.key), e.seq, e.kind)
		keys[string(order[i])] = e
	}
	slices.SortFunc(order, func(a, b []byte) int { return base.CompareInternal(st.o.Cmp, a, b) })
	w := st.o.NewWriter(level, 0)
	for _, ikey := range order {
		require.NoError(st.t, w.Add(ikey, []byte(keys[string(ikey)].value)))
	}
	files := result.Of(w.Finish())(st.t)
	require.Len(st.t, files, 1)
	edit := &manifest.Edit{Added: []version.LevelFile{{Level: level, File: files[0]}}}
	require.NoError(st.t, st.set.Apply(edit, nil))
	return files[0]
}

// flush is put for level 0, as the flush of a memtable does it.
func (st *testStore) flush(entries ...entry) {
	st.t.Helper()
	st.BeginFlush()
	st.put(0, entries...)
	st.EndFlush()
	st.Schedule()
}

func testKey(i int) string { return fmt.Sprintf("key%06d", i) }

// numbered returns entries of the keys [from, to), with values of 100 bytes.
func numbered(from, to int) (all []entry) {
	for i := from; i < to; i++ {
		all = append(all, set(testKey(i), fmt.Sprintf("value%06d%089d", i, i)))
	}
	return all
}

// content returns all entries of a level as "key@sequence=value" or "key@sequence deleted", in order.
func (st *testStore) content(level int) []string {
	st.t.Helper()
	v := st.RefVersion()
	defer v.Unref()
	return st.contentOf(v.Levels[level].Files)
}

func (st *testStore) contentOf(files []*version.FileMeta) (all []string) {
	st.t.Helper()
	for _, f := range files {
		r := result.Of(st.cache.Ref(f))(st.t)
		it := result.Of(r.NewIter(sstable.IterOptions{}))(st.t)
		for ok := it.First(); ok; ok = it.Next() {
			seq, kind := base.SplitTrailer(base.Trailer(it.Key()))
			text := fmt.Sprintf("%s@%d=%s", base.UserKey(it.Key()), seq, it.Value())
			if kind == base.KindDelete {
				text = fmt.Sprintf("%s@%d deleted", base.UserKey(it.Key()), seq)
			}
			all = append(all, text)
		}
		require.NoError(st.t, it.Close())
		r.Unref()
	}
	return all
}

// files returns the tables of a level.
func (st *testStore) files(level int) []*version.FileMeta {
	v := st.RefVersion()
	defer v.Unref()
	return v.Levels[level].Files
}

// settled waits until what, which is called with the Scheduler's lock held, returns true.
func (st *testStore) settled(what func() bool) {
	for done := false; !done; runtime.Gosched() {
		st.Scheduler.mu.Lock()
		done = what()
		st.Scheduler.mu.Unlock()
	}
}

// idle waits until no compaction runs and none is due.
func (st *testStore) idle() {
	st.Schedule()
	st.settled(func() bool { return len(st.work.running) == 0 && st.work.automatic == 0 })
}

// claimFiles claims the compaction of tables of a level into another one.
func (st *testStore) claimFiles(level, output int) *pick.Compaction {
	st.t.Helper()
	c, err := st.claim(context.Background(), func(v *version.Version, o pick.Options) (*pick.Compaction, bool) {
		return pick.From(v).OfFiles(level, output, v.Levels[level].Files, ManualStep, o)
	})
	require.NoError(st.t, err)
	require.NotNil(st.t, c)
	return c
}

// mergePiece merges the entries of c's inputs with user keys in [lower, upper), nil for no bound. The caller abandons
// the tables.
func (st *testStore) mergePiece(c *pick.Compaction, lower, upper []byte) (*tables.Writer, error) {
	j := &mergeJob{s: st.Scheduler, ctx: context.Background(), c: c, done: new(progress)}
	defer j.end()
	j.begin()
	p := mergePiece{lower: lower, upper: upper}
	err := j.mergeFiltered(&p)
	return p.out, err
}

// merged merges c whole, and returns the entries that are left.
func (st *testStore) merged(c *pick.Compaction) []string {
	st.t.Helper()
	out := result.Of(st.mergePiece(c, nil, nil))(st.t)
	defer out.Abandon()
	return st.contentOf(out.Files)
}

// strayTables returns the names of tables that no version has.
func (st *testStore) strayTables() (stray []string) {
	st.t.Helper()
	st.o.Obsolete.Remove()
	v := st.RefVersion()
	defer v.Unref()
	live := map[string]bool{}
	v.Files(func(_ int, f *version.FileMeta) { live[f.Name()] = true })
	for _, name := range fixture.Names(st.t, st.dir.FS, base.FileTable) {
		if !live[name] {
			stray = append(stray, name)
		}
	}
	return stray
}

// damage changes a byte in the first data block of a table that nothing has opened yet.
func (st *testStore) damage(f *version.FileMeta) {
	st.t.Helper()
	path := st.dir.File(base.FileTable, f.Num)
	data := fixture.ReadFile(st.t, st.dir.FS, path)
	data[20] ^= 1
	fixture.WriteFile(st.t, st.dir.FS, path, data)
}
