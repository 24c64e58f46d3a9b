package commit

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/batch"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/disk/tables"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/internal/disk/wal"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/limit/share"
	"github.com/sievedb/sievedb/internal/read/latency"
	"github.com/sievedb/sievedb/internal/read/lookup"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/internal/write/txn"
	"github.com/sievedb/sievedb/memtable"
	"github.com/sievedb/sievedb/vfs"
)

// store is a Committer on a file system in memory. A flush only moves a memtable to tables.
type store struct {
	*Committer
	t       testing.TB
	faults  *fixture.Failing
	mem     *vfs.Mem // below the faults
	current lookup.Current
	recent  txn.Recent
	latency latency.Set
	set     *manifest.Set
	paused  atomic.Bool

	mu     sync.Mutex
	stuck  error
	full   int // memtables that became full
	causes []error
	end    error // of the last call of Stop
	disk   []error
	stalls []string
	tables []*lookup.Memtable
}

// config changes a store before it begins.
type config struct {
	hook   func(op wrap.Op) *wrap.Fault
	limits Limits
	cmp    *base.Comparer
	change func(*Start)
	memory *share.Memory
	plain  bool // the logs are plain files
}

// open returns a Committer that is ready, and shuts it when the test ends.
func open(t testing.TB, c config) *store {
	s := &store{t: t, faults: fixture.NewFailing()}
	if c.plain {
		s.faults = fixture.NewFailingPlain()
	}
	if s.mem = s.faults.Mem; c.hook != nil {
		s.faults.On(c.hook)
	}
	require.NoError(t, s.mem.MkdirAll("dir"))
	require.NoError(t, s.mem.SyncDir("."))
	if c.limits == (Limits{}) {
		c.limits = Limits{MemtableSize: 16 << 10, MaxMemtables: 2, L0Slowdown: 8, L0Stop: 12}
	}
	if c.cmp == nil {
		c.cmp = base.Bytewise
	}
	s.set = manifest.New(manifest.SetOptions{Cmp: base.Bytewise, NewHandle: tables.NewHandle})
	s.Committer = New(s.options(c))
	w := result.Of(s.CreateLog(s.set.NewFileNum()))(t)
	start := Start{Log: w, LogNum: 1, LastSeq: 10, Store: Store{Set: s.set, Compactions: s.compactions()}}
	if c.change != nil {
		c.change(&start)
	}
	s.Begin(start)
	s.Open(versionOf(t, 0))
	t.Cleanup(func() {
		select {
		case <-s.ending: // the test has shut it
		default:
			_ = s.shut()
		}
	})
	return s
}

func (s *store) locked(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

func (s *store) compactions() Compactions {
	return Compactions{
		Stop:        func(err error) { s.locked(func() { s.end = err }) },
		Full:        func() { s.locked(func() { s.full++ }) },
		Paused:      s.paused.Load,
		SetQuiet:    func(bool) {},
		WouldFree:   func(*memtable.Memtable, bool) (*version.Gain, bool) { return nil, true },
		GarbageLoad: func(*version.Version) float64 { return 0 },
		Stuck: func(*version.Version) (err error) {
			s.locked(func() { err = s.stuck })
			return err
		},
	}
}

func (s *store) options(c config) Options {
	return Options{
		Cmp: c.cmp, Dir: tables.Directory{FS: s.faults, Path: "dir", Logger: slog.New(slog.DiscardHandler)},
		Limits: c.limits, Memory: c.memory, Current: &s.current, Recent: &s.recent, Latency: &s.latency,
		Events: Events{
			Failed: func(cause error) { s.locked(func() { s.causes = append(s.causes, cause) }) },
			LogFailed: func(err error) {
				s.locked(func() {
					if base.IsNoSpace(err) {
						s.disk = append(s.disk, err)
					} else {
						s.causes = append(s.causes, err)
					}
				})
			},
			Stalled: func(reason string, stopped bool, _ time.Duration) {
				s.locked(func() { s.stalls = append(s.stalls, fmt.Sprint(reason, " ", stopped)) })
			},
		},
	}
}

// shut closes the store.
func (s *store) shut() error {
	s.Refuse()
	s.BeginEnd()
	s.Shut(base.ErrClosed)
	_, err := s.CloseLog()
	return err
}

// flush flushes the oldest memtable, once there is an immutable one.
func (s *store) flush() {
	mem, _ := s.NextToFlush()
	require.NotNil(s.t, mem)
	s.retire(mem)
}

// retire ends the flush of mem.
func (s *store) retire(mem *lookup.Memtable) {
	s.mu.Lock()
	s.tables = append(s.tables, mem)
	s.mu.Unlock()
	s.Install(func(state *lookup.State) { s.Retire(state, time.Millisecond) })
	s.EndFlush(nil)
}

// flushAlways flushes what there is until writes end.
func (s *store) flushAlways() {
	go func() {
		for {
			mem, _ := s.NextToFlush()
			if mem == nil {
				return
			}
			s.retire(mem)
		}
	}()
}

// versionOf returns a version with n tables in level 0.
func versionOf(t testing.TB, n int) *version.Version {
	var edit version.Change
	for i := range uint64(n) {
		k := base.AppendInternalKey(nil, key(int(i)), 1, base.KindSet)
		edit.Added = append(edit.Added, version.LevelFile{File: version.NewFileMeta(1_000+i, 1, k, k)})
	}
	v, err := version.New(base.Bytewise, &version.Owner{NewHandle: tables.NewHandle}).Apply(edit)
	require.NoError(t, err)
	return v
}

// level0 makes n the number of tables in level 0.
func (s *store) level0(n int) {
	v := versionOf(s.t, n)
	s.Install(func(state *lookup.State) { state.Version = v })
}

func key(i int) []byte { return fmt.Appendf(nil, "key%06d", i) }

func value(i int) []byte { return fmt.Appendf(nil, "value%06d%089d", i, i) }

func (s *store) put(i int, d Durability) error { return s.Put(base.KindSet, key(i), value(i), d) }

// get returns the value of key i that readers see.
func (s *store) get(i int) (string, bool) {
	state, seq := s.current.StateAt(nil)
	s.mu.Lock()
	defer s.mu.Unlock()
	runs := state.Memtables()
	for _, m := range slices.Backward(s.tables) {
		runs = append(runs, m)
	}
	for _, m := range runs {
		if v, kind, ok := m.Get(key(i), seq); ok {
			return string(v), kind == base.KindSet
		}
	}
	return "", false
}

// requireKeys requires that readers see exactly keys from to limit among the first ones up to 100 after limit.
func (s *store) requireKeys(from, limit int) {
	s.t.Helper()
	for i := from; i < limit+100; i++ {
		v, ok := s.get(i)
		require.Equal(s.t, i < limit, ok, "key %d", i)
		if ok {
			require.Equal(s.t, string(value(i)), v)
		}
	}
}

// entry is what a log says.
type entry struct {
	seq        uint64
	key, value string
}

// logged returns the entries of the logs of a directory, and checks the preambles and the order of the numbers.
func logged(t testing.TB, fsys vfs.FS) (all []entry) {
	t.Helper()
	names := result.Of(fsys.List("dir"))(t)
	slices.Sort(names)
	last := uint64(10)
	for _, name := range names {
		f := result.Of(fsys.Open(filepath.Join("dir", name)))(t)
		size := result.Of(f.Size())(t)
		log := wal.NewReader(f, size, wal.ReaderOptions{Last: true})
		for {
			record, err := log.Next()
			if err == io.EOF {
				break
			}
			require.NoError(t, err)
			if before, ok := batch.ReadPreamble(log, record); ok {
				require.GreaterOrEqual(t, before, last, "%s: the preamble", name)
				continue
			}
			require.NotZero(t, log.Offset(), "%s: the first record is the preamble", name)
			require.Greater(t, binary.LittleEndian.Uint64(record), last)
			all = appendEntries(t, all, record)
			last = all[len(all)-1].seq
		}
		require.NoError(t, f.Close())
	}
	return all
}

func appendEntries(t testing.TB, all []entry, record []byte) []entry {
	t.Helper()
	r := result.Of(batch.NewReader(record))(t)
	for {
		_, k, v, seq, ok, err := r.Next()
		require.NoError(t, err)
		if !ok {
			return all
		}
		all = append(all, entry{seq, string(k), string(v)})
	}
}

// requireLogged requires that the log has these keys, in this order.
func requireLogged(t testing.TB, fsys vfs.FS, keys ...int) {
	t.Helper()
	all := logged(t, fsys)
	require.Len(t, all, len(keys))
	for i, n := range keys {
		require.Equal(t, string(key(n)), all[i].key)
		require.Equal(t, string(value(n)), all[i].value)
	}
}

// upTo returns the numbers from 0 to n-1.
func upTo(n int) (all []int) {
	for i := range n {
		all = append(all, i)
	}
	return all
}

// batchOf returns a batch that puts these keys.
func batchOf(keys ...int) *batch.Batch {
	b := new(batch.Batch)
	for _, i := range keys {
		b.Add(base.KindSet, key(i), value(i))
	}
	return b
}

// hold leads until release is called.
func (s *store) hold() (release func()) {
	leads, end, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- s.Lead(context.Background(), func(*Leader) error {
			close(leads)
			<-end
			return nil
		})
	}()
	<-leads
	return func() {
		close(end)
		require.NoError(s.t, <-ended)
	}
}

// begin calls f in a goroutine, and returns once n requests wait in the queue. result has the error.
func (s *store) begin(n int, f func() error) (result <-chan error) {
	c := make(chan error, 1)
	go func() { c <- f() }()
	fixture.Eventually(s.t, func() bool { return s.waiting() == n })
	return c
}

// waiting returns how many requests wait for their turn.
func (s *store) waiting() int {
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	return len(s.queue.waiting)
}

// failing returns a hook that fails the operations that when chooses.
func failing(err error, when func(op wrap.Op) bool) func(op wrap.Op) *wrap.Fault {
	return func(op wrap.Op) *wrap.Fault {
		if when(op) {
			return &wrap.Fault{Err: err}
		}
		return nil
	}
}

// kindOf returns a condition for failing.
func kindOf(kinds ...wrap.OpKind) func(op wrap.Op) bool {
	return func(op wrap.Op) bool { return slices.Contains(kinds, op.Kind) }
}
