package bulk

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/filterplan"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/disk/pick"
	"github.com/sievedb/sievedb/internal/disk/tables"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/read/lookup"
	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/internal/test/tabletest"
	"github.com/sievedb/sievedb/internal/work/changes"
	"github.com/sievedb/sievedb/internal/write/txn"
	"github.com/sievedb/sievedb/memtable"
	"github.com/sievedb/sievedb/sstable"
	"github.com/sievedb/sievedb/vfs"
)

// store is what a Coordinator needs, without a DB: a MANIFEST and tables in memory, a memtable without a log, and a
// leadership that is a lock. It records the calls.
type store struct {
	*Coordinator
	t         *testing.T
	fs        *vfs.Mem
	finder    lookup.Finder
	snapshots lookup.Snapshots
	recent    txn.Recent
	untraced  txn.Untraced
	closing   chan struct{}

	background sync.WaitGroup
	led        sync.Mutex
	lastSeq    uint64

	calls   []string
	fail    string                       // the call that fails
	panics  string                       // the call that panics
	during  func(call string)            // is called by each call; nil: nothing is
	fault   func(op wrap.Op) *wrap.Fault // of the operations of the Coordinator
	lost    func(op wrap.Op) *wrap.Fault // of the operations of the MANIFEST
	edits   []*manifest.Edit
	cleared int // how often level 0 was cleared
}

var errFailed = errors.New("this call fails")

// newStore returns an empty store, whose tables have about 1 KiB. Its directory is "dir".
func newStore(t *testing.T) *store {
	s := &store{t: t, fs: vfs.NewMem(), closing: make(chan struct{})}
	require.NoError(t, vfs.MkdirAllSynced(s.fs, "dir"))
	faulty := func(hook *func(op wrap.Op) *wrap.Fault) vfs.FS {
		return wrap.NewFaulty(s.fs, func(op wrap.Op) *wrap.Fault {
			if *hook == nil {
				return nil
			}
			return (*hook)(op)
		})
	}
	dir := tables.Directory{FS: faulty(&s.fault), Path: "dir", Logger: slog.New(slog.DiscardHandler)}
	set := manifest.New(manifest.SetOptions{
		FS: faulty(&s.lost), Dir: "dir", Cmp: base.Bytewise, NewHandle: tables.NewHandle, MaxManifestSize: 1 << 20,
		Obsolete: func(files []version.LevelFile) {
			for _, f := range files {
				dir.Remove(dir.File(base.FileTable, f.File.Num))
			}
		},
	})
	require.NoError(t, set.Begin(&manifest.Edit{}, nil))
	cache := tables.NewCache(tables.CacheOptions{
		FS: s.fs, Dir: "dir", MaxOpen: 1000, Reader: sstable.ReaderOptions{Comparer: base.Bytewise},
	})
	t.Cleanup(cache.Close)
	s.finder.Init(lookup.Options{Cache: cache, Closed: func() bool { return false }, Measured: func(time.Duration) {}})
	s.finder.State.Store(&lookup.State{Mem: emptyMemtable(), Version: set.Current()})
	spares := tables.NewSpareWriters(1, 1<<20)
	s.Coordinator = New(Options{
		Cmp: base.Bytewise, Dir: dir, Set: set, Cache: cache, Compactor: compactor{s}, Current: &s.finder.Current,
		Snapshots: &s.snapshots, Recent: &s.recent, Untraced: &s.untraced, Plan: filterplan.New(filterplan.Options{}, nil),
		Closing: s.closing,
		NewTables: func() tables.WriterOptions {
			return tables.WriterOptions{
				Dir: dir, Kind: base.FileTable, NewFileNum: set.NewFileNum,
				Table: sstable.WriterOptions{Comparer: base.Bytewise, BlockSize: 256}, Spares: spares,
			}
		},
		TableSize: func(uint64) uint64 { return 1 << 10 },
		Flush: func() error {
			if err := s.call("flush"); err != nil {
				return err
			}
			return s.flush()
		},
		Lead:         s.lead,
		IgnoreLevel0: func() func() { _ = s.call("ignore level 0"); return func() { _ = s.call("respect level 0") } },
		Apply:        s.apply,
		Changes:      func() *changes.Archive { return nil },
		WrittenSince: func(f *version.FileMeta, seq uint64) bool { return f.Seqs.Load().Largest > seq },
		InListener:   func() bool { return false },
		Background:   s.background.Go,
	})
	return s
}

func emptyMemtable() *lookup.Memtable {
	return &lookup.Memtable{Memtable: memtable.New(base.Bytewise, 1<<20)}
}

// call records a call, which may fail or panic.
func (s *store) call(name string) error {
	s.calls = append(s.calls, name)
	if s.during != nil {
		s.during(name)
	}
	switch name {
	case s.panics:
		panic("in " + name)
	case s.fail:
		return errFailed
	}
	return nil
}

func (s *store) lead(ctx context.Context, f func(Leader) error) error {
	if err := s.call("lead"); err != nil {
		return err
	}
	s.led.Lock()
	defer s.led.Unlock()
	return f(leader{s})
}

func (s *store) apply(edit *manifest.Edit, written []*version.FileMeta, also func(*lookup.State)) error {
	err := s.call("apply")
	if err == nil {
		err = s.set(edit, also)
	}
	if err != nil && !manifest.IsUncertain(err) {
		s.remove(written, base.FileTable)
	}
	return err
}

func (s *store) set(edit *manifest.Edit, also func(*lookup.State)) error {
	return s.Set.Apply(edit, func(v *version.Version) {
		next := *s.finder.State.Load()
		next.Version = v
		if also != nil {
			also(&next)
		}
		s.finder.State.Store(&next)
		s.edits = append(s.edits, edit)
	})
}

// leader is a Leader of the store.
type leader struct{ s *store }

func (l leader) LastSeq() uint64 { return l.s.lastSeq }

func (l leader) Flush() error {
	if err := l.s.call("flush the rest"); err != nil {
		return err
	}
	return l.s.flush()
}

func (l leader) Advance(seq uint64, certain bool) {
	_ = l.s.call(fmt.Sprint("advance ", certain))
	l.s.lastSeq = seq
	l.s.recent.Forget(seq)
	l.s.finder.VisibleSeq.Store(seq)
}

// compactor is a Compactor that compacts nothing.
type compactor struct{ s *store }

func (c compactor) ClearLevel0(context.Context, []*version.FileMeta) error {
	c.s.cleared++
	return c.s.call("clear level 0")
}

func (c compactor) Hold() func() {
	_ = c.s.call("hold")
	return func() { _ = c.s.call("release") }
}

func (c compactor) Place(files []*version.FileMeta) []version.LevelFile {
	_ = c.s.call("place")
	return pick.From(c.s.Set.Current()).Place(files, pick.Options{L0Trigger: 4, MaxLevelBase: 1 << 20, TableSize: 1 << 20})
}

func (c compactor) Reserve(
	pick func(*version.Version) []*version.FileMeta,
) (v *version.Version, files []*version.FileMeta, release func(), err error) {
	v = c.s.Set.RefCurrent()
	files = pick(v)
	for _, f := range files {
		f.Compacting = true
	}
	return v, files, func() {
		for _, f := range files {
			f.Compacting = false
		}
	}, nil
}

func (c compactor) Schedule() { _ = c.s.call("schedule") }

// put writes values of keys with these numbers, all of them value.
func (s *store) put(value string, numbers ...int) {
	s.led.Lock()
	defer s.led.Unlock()
	for _, n := range numbers {
		s.lastSeq++
		key := tabletest.Key(n)
		require.True(s.t, s.finder.State.Load().Mem.Add(s.lastSeq, base.KindSet, key, []byte(value)))
		if s.recent.Watched() {
			s.recent.AddKey(s.finder.VisibleSeq.Load(), key)
		}
		s.finder.VisibleSeq.Store(s.lastSeq)
	}
}

// flush writes the memtable to a table of level 0.
func (s *store) flush() error {
	mem := s.finder.State.Load().Mem
	if mem.Len() == 0 {
		return nil
	}
	out := tables.NewWriter(s.NewTables())
	for ikey, value := range mem.All() {
		if err := out.Add(ikey, value); err != nil {
			return err
		}
	}
	files, err := out.Finish()
	if err != nil {
		return err
	}
	edit := &manifest.Edit{LastSeq: manifest.Num(s.lastSeq), Added: []version.LevelFile{{Level: 0, File: files[0]}}}
	return s.set(edit, func(state *lookup.State) { state.Mem = emptyMemtable() })
}

// requireValue requires the value of key n at a moment, or now if that is nil; "" for none.
func (s *store) requireValue(n int, at *lookup.At, want string) {
	s.t.Helper()
	var l sstable.Lookup
	defer l.Release()
	value, err := s.finder.Find(&l, tabletest.Key(n), at)
	if want == "" {
		require.Equal(s.t, base.ErrNotFound, err, "key %d", n)
		return
	}
	require.NoError(s.t, err, "key %d", n)
	require.Equal(s.t, want, string(value), "key %d", n)
}

// files returns the names of the files with a suffix.
func (s *store) files(suffix string) (names []string) { return filesOf(s.t, s.fs, suffix) }

func filesOf(t *testing.T, fs *vfs.Mem, suffix string) (names []string) {
	all := result.Of(fs.List("dir"))(t)
	for _, name := range all {
		if strings.HasSuffix(name, suffix) {
			names = append(names, name)
		}
	}
	return names
}

// requireOnlyTables requires that the directory has n tables and no temporary file.
func (s *store) requireOnlyTables(n int) {
	s.t.Helper()
	require.Len(s.t, s.files(".ldb"), n)
	require.Empty(s.t, s.files(".dbtmp"))
}

// numbers returns the numbers from one to another one, limit excluded.
func numbers(from, limit int) (all []int) {
	for n := from; n < limit; n++ {
		all = append(all, n)
	}
	return all
}
