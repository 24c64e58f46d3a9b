package commit

import (
	"context"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"weak"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/limit/share"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/result"
)

// logs returns the numbers of the logs.
func (s *store) logs() (nums []uint64) {
	names := result.Of(s.mem.List("dir"))(s.t)
	for _, name := range names {
		kind, num, ok := base.ParseFileName(name)
		require.True(s.t, ok && kind == base.FileLog, name)
		nums = append(nums, num)
	}
	slices.Sort(nums)
	return nums
}

// fillUntil puts entries from the n-th on until ok returns true, and returns their number.
func (s *store) fillUntil(n int, ok func() bool) int {
	for ; !ok(); n++ {
		require.NoError(s.t, s.put(n, WithSystem))
	}
	return n
}

func TestASuccessorIsReadyBeforeTheMemtableIsFull(t *testing.T) {
	s := open(t, config{})
	n := s.fillUntil(0, func() bool { return s.log.next != nil })
	mem := s.state().Mem
	require.Less(t, mem.Available(), mem.Capacity()/successorShare)
	<-s.log.next.done
	require.NoError(t, s.log.next.err)
	num, next := s.log.next.num, s.log.next.mem
	require.Equal(t, []uint64{1, num}, s.logs())
	require.Equal(t, next.Memory(), s.Status().SpareMemory)

	n = s.fillUntil(n, func() bool { return s.log.next == nil })
	require.Same(t, next, s.state().Mem)
	require.Same(t, mem, s.state().Imm[0])
	require.Equal(t, num, next.LogNum)
	require.Zero(t, s.Status().SpareMemory)
	require.Equal(t, 1, s.full)
	require.EqualValues(t, 10+n-1, mem.MaxSeq)
	s.requireKeys(0, n)
	require.NoError(t, s.shut())
	requireLogged(t, s.mem.Crash(), upTo(n)...)
}

func TestAnUnusedSuccessorLeavesNoFiles(t *testing.T) {
	s := open(t, config{})
	n := s.fillUntil(0, func() bool { return s.log.next != nil })
	require.NoError(t, s.shut())
	require.Equal(t, []uint64{1}, s.logs())
	require.Zero(t, s.Status().SpareMemory)
	requireLogged(t, s.mem.Crash(), upTo(n)...)
}

// isLogOf returns a condition for failing: an operation of a log with a number.
func isLogOf(kind wrap.OpKind, num uint64) func(op wrap.Op) bool {
	return func(op wrap.Op) bool {
		_, n, _ := base.ParseFileName(filepath.Base(op.Name))
		return op.Kind == kind && n == num
	}
}

// If the log could not be made ahead, it is made when it is needed. Only if that fails as well, the
// write that needs it fails, and the next write tries again.
func TestASuccessorThatCouldNotBeMadeIsMadeWhenItIsNeeded(t *testing.T) {
	for name, kinds := range map[string][]wrap.OpKind{"create": {wrap.OpCreate}, "the sync of the directory": {wrap.OpSyncDir}} {
		t.Run(name, func(t *testing.T) {
			s := open(t, config{})
			s.faults.On(failing(nil, kindOf(kinds...)))
			n := s.fillUntil(0, func() bool { return s.log.next != nil })
			<-s.log.next.done
			require.ErrorIs(t, s.log.next.err, wrap.ErrInjected)
			var err error
			for ; err == nil; n++ {
				err = s.put(n, WithSystem)
			}
			n-- // the refused one
			require.ErrorIs(t, err, wrap.ErrInjected)
			require.NoError(t, s.Err())
			require.EqualValues(t, 1, s.state().Mem.LogNum)
			require.Equal(t, []uint64{1}, s.logs())
			s.faults.Heal()
			n = s.fillUntil(n, func() bool { return s.state().Mem.LogNum != 1 })
			s.requireKeys(0, n)
			require.NoError(t, s.shut())
			requireLogged(t, s.mem.Crash(), upTo(n)...)
		})
	}
}

// The old log is synced and closed before the new one gets its first byte. If that fails, writes end, and the new log
// is removed.
func TestAFailedRotationEndsTheWrites(t *testing.T) {
	for name, kind := range map[string]wrap.OpKind{"sync": wrap.OpSync, "close": wrap.OpClose} {
		t.Run(name, func(t *testing.T) {
			s := open(t, config{})
			require.NoError(t, s.put(0, WithSystem))
			s.faults.On(failing(syscall.EIO, isLogOf(kind, 1)))
			require.ErrorIs(t, result.Err(s.Rotate()), syscall.EIO)
			s.faults.Heal()
			require.ErrorIs(t, s.put(1, WithSystem), base.ErrReadOnly)
			require.Equal(t, []uint64{1}, s.logs())
			s.requireKeys(0, 1)
			require.EqualValues(t, 1, s.state().Mem.LogNum)
		})
	}
}

func TestAPanicAtEachPointOfARotationEndsTheWrites(t *testing.T) {
	var at atomic.Uint64
	boom := func(op wrap.Op) *wrap.Fault {
		if n := at.Load(); n > 0 && at.Add(^uint64(0)) == 0 {
			panic("boom")
		}
		return nil
	}
	for n := uint64(1); ; n++ {
		s := open(t, config{hook: boom})
		require.NoError(t, s.put(0, WithSystem))
		at.Store(n)
		err := base.Catch(nil, "the caller", func() error { _, err := s.Rotate(); return err })
		if at.Swap(0) > 0 {
			require.NoError(t, err)
			require.Greater(t, n, uint64(3), "create, sync of the directory, sync, close")
			return
		}
		var p *base.PanicError
		require.ErrorAs(t, err, &p, "operation %d", n)
		require.ErrorAs(t, s.put(1, WithSystem), &p)
		s.requireKeys(0, 1)
		_ = s.shut()
		requireLogged(t, s.mem, 0)
	}
}

func TestAnEmptyMemtableIsReplacedAndNotRotated(t *testing.T) {
	s := open(t, config{})
	require.Empty(t, result.Of(s.Rotate())(t))
	small := s.state().Mem
	require.NoError(t, s.Put(base.KindSet, key(0), make([]byte, 17<<10), OnDisk))
	require.NotSame(t, small, s.state().Mem)
	require.Equal(t, []uint64{1}, s.logs())
	require.Empty(t, s.state().Imm)
	v, ok := s.get(0)
	require.True(t, ok)
	require.Len(t, v, 17<<10)
}

// A large write has a memtable of its own. It is flushed at once, unless the write would have to wait for that.
func TestTheMemtableOfALargeWriteIsRetired(t *testing.T) {
	on := new(atomic.Bool)
	var s *store
	one := Limits{MemtableSize: 16 << 10, MaxMemtables: 1, L0Slowdown: 8, L0Stop: 12}
	s = open(t, config{hook: func(op wrap.Op) *wrap.Fault {
		if on.Load() && op.Kind == wrap.OpWrite {
			s.limits.Store(&one)
		}
		return nil
	}})
	large := make([]byte, largeWrite)
	require.NoError(t, s.Put(base.KindSet, key(0), large, OnDisk))
	require.Len(t, s.state().Imm, 1)
	require.Zero(t, s.state().Mem.Len())
	on.Store(true)
	require.NoError(t, s.Put(base.KindSet, key(1), large, InBuffer))
	on.Store(false)
	require.Len(t, s.state().Imm, 1, "a second one would have to wait")
	require.Equal(t, 1, s.state().Mem.Len())
	two := one
	two.MaxMemtables = 2
	s.SetLimits(two)
	require.NoError(t, s.Apply(batchOf(2), OnDisk, nil))
	require.Len(t, s.state().Imm, 2, "the next write begins the flush")
	for n := range 2 {
		v, ok := s.get(n)
		require.True(t, ok)
		require.Equal(t, string(large), v)
	}
	require.NoError(t, s.shut())
	all := logged(t, s.mem.Crash())
	require.Len(t, all, 3)
	require.Equal(t, string(large), all[1].value)
}

func TestTheLeaderAdvancesTheSequenceNumber(t *testing.T) {
	s := open(t, config{})
	require.NoError(t, s.put(0, WithSystem))
	s.recent.Begin()
	defer s.recent.End()
	require.NoError(t, s.put(1, WithSystem))
	require.True(t, s.recent.Covers(11, 12))
	require.NoError(t, s.Lead(t.Context(), func(l *Leader) error {
		require.EqualValues(t, 12, l.LastSeq())
		require.EqualValues(t, 12, l.Logged())
		l.Advance(100, false)
		require.EqualValues(t, 100, l.LastSeq())
		require.EqualValues(t, 12, l.Logged(), "the edit may not be in force")
		return nil
	}))
	require.EqualValues(t, 100, s.current.VisibleSeq.Load())
	require.EqualValues(t, 10, s.Synced())
	require.False(t, s.recent.Covers(12, 100), "what the edit changed is not among the recent keys")
	require.NoError(t, s.Lead(t.Context(), func(l *Leader) error {
		l.Advance(200, true)
		require.EqualValues(t, 200, l.Logged())
		return nil
	}))
	require.EqualValues(t, 200, s.Synced())
	require.NoError(t, s.put(2, OnDisk))
	require.EqualValues(t, 201, s.Synced())
	s.requireKeys(0, 3)
}

// yield calls yieldMemory as the leader.
func (s *store) yield() (yielded bool) {
	require.NoError(s.t, s.Lead(context.Background(), func(*Leader) (err error) {
		yielded, err = s.yieldMemory()
		return err
	}))
	return yielded
}

// enlarge gives the store an active memtable that other stores may ask for.
func (s *store) enlarge() {
	require.NoError(s.t, s.Lead(context.Background(), func(*Leader) error {
		s.enlargeMemtable(s.state().Mem.LogNum, 60<<10)
		return nil
	}))
	require.False(s.t, s.state().Mem.Grant.Small())
}

// openShared returns a store whose memory is shared with another one, and the memory of that one.
func openShared(t *testing.T, hook func(op wrap.Op) *wrap.Fault) (s *store, other *share.Memory) {
	r := share.New(share.Options{MaxStores: 8, MaxOpenFiles: 100, MemtableSize: 1 << 20, MaxMerges: 1})
	part := result.Of(r.Join())(t)
	t.Cleanup(part.Leave)
	second := result.Of(r.Join())(t)
	t.Cleanup(second.Leave)
	return open(t, config{
		hook: hook, limits: Limits{MemtableSize: 100 << 10, MaxMemtables: 2, L0Slowdown: 8, L0Stop: 12},
		memory: part.Memory(),
	}), second.Memory()
}

// A store gives up the memory that others can use: the memtable that was made ahead, and the active one.
func TestMemoryIsYielded(t *testing.T) {
	s, _ := openShared(t, nil)
	require.False(t, s.yield(), "the first memtable is small")
	s.enlarge()
	mem := s.state().Mem
	require.True(t, s.yield(), "an empty memtable is replaced")
	require.NotSame(t, mem, s.state().Mem)
	require.Empty(t, s.state().Imm)
	s.enlarge()
	require.NoError(t, s.put(0, WithSystem))
	require.True(t, s.yield())
	require.Len(t, s.state().Imm, 1, "one with entries is rotated")
	s.flush()
	require.NoError(t, s.Lead(t.Context(), func(*Leader) error {
		s.prepareSuccessor()
		s.awaitSuccessor()
		require.False(t, s.log.next.mem.Grant.Small())
		return nil
	}))
	require.True(t, s.yield())
	require.Nil(t, s.log.next.mem)
	require.Zero(t, s.Status().SpareMemory)
	s.Fail(errors.New("a failure"))
	var yielded bool
	require.NoError(t, s.run(&request{alone: func() (err error) { yielded, err = s.yieldMemory(); return err }}))
	require.False(t, yielded, "nothing is written any more")
	s.requireKeys(0, 1)
}

func TestAnotherStoreGetsTheMemoryThatItAsksFor(t *testing.T) {
	s, other := openShared(t, nil)
	s.enlarge()
	require.NoError(t, s.put(0, WithSystem))
	served := make(chan struct{})
	go func() {
		defer close(served)
		s.ServeMemory()
	}()
	for range 8 { // more than there is
		other.Take(100<<10, 50<<10, false)
	}
	fixture.Eventually(t, func() bool { return len(s.state().Imm) == 1 })
	s.requireKeys(0, 1)
	require.NoError(t, s.shut())
	<-served
}

// yieldOften writes to a store that gives up its memory again and again, and returns how many writes were acknowledged.
func yieldOften(s *store) (kept int) {
	for ; kept < 60 && s.put(kept, OnDisk) == nil; kept++ {
		if kept%10 != 9 {
			continue
		}
		_ = s.Lead(context.Background(), func(*Leader) error {
			if kept%20 == 9 {
				s.prepareSuccessor()
			}
			_, err := s.yieldMemory()
			return err
		})
	}
	_ = s.shut()
	return kept
}

// An error, or a power cut, at any operation while a store gives up its memory loses nothing that was acknowledged.
func TestAnErrorAtEveryOperationOfAFlushForAnotherStore(t *testing.T) {
	const opening = 2 // operations
	for n, reached := uint64(opening), true; reached; n++ {
		for _, later := range []bool{false, true} {
			hook, failed := wrap.FailNth(n, nil), new(atomic.Bool)
			if later {
				hook = wrap.FailFrom(n, nil)
			}
			s, _ := openShared(t, func(op wrap.Op) *wrap.Fault {
				fault := hook(op)
				if fault != nil {
					failed.Store(true)
				}
				return fault
			})
			s.flushAlways()
			kept := yieldOften(s)
			reached = failed.Load()
			all := logged(t, s.mem.Crash())
			require.GreaterOrEqual(t, len(all), kept, "operation %d, and later ones: %v", n, later)
			for i, e := range all[:kept] {
				require.Equal(t, entry{all[0].seq + uint64(i), string(key(i)), string(value(i))}, e)
			}
		}
	}
}

func TestARotationBeginsANewLog(t *testing.T) {
	s := open(t, config{})
	require.NoError(t, s.put(0, WithSystem))
	waiting := result.Of(s.Rotate())(t)
	require.Len(t, waiting, 1)
	names := result.Of(s.mem.List("dir"))(t)
	require.Equal(t, "000001.log 000002.log", strings.Join(names, " "))
	mem, next := s.NextToFlush()
	require.Same(t, waiting[0], mem)
	require.EqualValues(t, 2, next)
}

// The bug: what Begin was given kept the first log in memory.
func TestALogThatWasReplacedIsNotKept(t *testing.T) {
	s := open(t, config{})
	first := weak.Make(s.log.w)
	require.NoError(t, s.put(0, WithSystem))
	require.NoError(t, result.Err(s.Rotate()))
	runtime.GC()
	require.Nil(t, first.Value())
}
