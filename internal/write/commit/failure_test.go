package commit

import (
	"bytes"
	"context"
	"io/fs"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/read/lookup"
	"github.com/sievedb/sievedb/internal/test/result"
)

// writes are the ways to write key i.
var writes = map[string]func(s *store, i int) error{
	"a synced put":   func(s *store, i int) error { return s.put(i, OnDisk) },
	"a put":          func(s *store, i int) error { return s.put(i, WithSystem) },
	"a batch":        func(s *store, i int) error { return s.Apply(batchOf(i), WithSystem, nil) },
	"a synced batch": func(s *store, i int) error { return s.Apply(batchOf(i), OnDisk, nil) },
	"a large put":    func(s *store, i int) error { return s.Put(base.KindSet, key(i), make([]byte, largeWrite), WithSystem) },
}

func TestAFailedWriteEndsTheWritesAndIsInvisible(t *testing.T) {
	for name, write := range writes {
		t.Run(name, func(t *testing.T) {
			s := open(t, config{})
			require.NoError(t, s.put(0, OnDisk))
			s.faults.On(failing(syscall.EIO, kindOf(wrap.OpWrite)))
			require.ErrorIs(t, write(s, 1), syscall.EIO)
			s.faults.Heal()
			require.Len(t, s.causes, 1)
			for _, again := range writes {
				err := again(s, 2)
				require.ErrorIs(t, err, base.ErrReadOnly)
				require.ErrorIs(t, err, syscall.EIO)
			}
			err := s.Lead(t.Context(), func(*Leader) error { return errors.New("f was called") })
			require.ErrorIs(t, err, base.ErrReadOnly)
			require.Equal(t, s.Err(), err)
			require.Len(t, s.causes, 1, "the first failure is reported")
			s.requireKeys(0, 1)
			require.ErrorIs(t, s.shut(), syscall.EIO)
			require.EqualValues(t, 11, s.Synced())
		})
	}
}

// What was acknowledged is in the memtables, so a flush saves it, and writes go on in another log.
func TestWritesGoOnInAnotherLogAfterAFlush(t *testing.T) {
	for name, kind := range map[string]wrap.OpKind{"write": wrap.OpWrite, "sync": wrap.OpSync} {
		t.Run(name, func(t *testing.T) {
			s := open(t, config{})
			s.flushAlways()
			require.NoError(t, s.put(0, WithSystem))
			s.faults.On(failing(syscall.EIO, kindOf(kind, wrap.OpCreate)))
			require.ErrorIs(t, s.put(1, OnDisk), syscall.EIO)
			require.ErrorIs(t, result.Err(s.Rotate()), syscall.EIO, "no log can be made")
			require.ErrorIs(t, s.put(1, OnDisk), base.ErrReadOnly)
			s.faults.Heal()
			require.ErrorIs(t, s.put(1, OnDisk), base.ErrReadOnly, "it is for the user to decide")
			require.NoError(t, result.Err(s.Rotate()))
			require.NoError(t, s.Err())
			require.NoError(t, s.Failure())
			require.EqualValues(t, s.log.lastSeq, s.Synced())
			require.NoError(t, s.put(1, OnDisk))
			s.requireKeys(0, 2)
			require.Len(t, s.causes, 1, "it is reported once")
			require.NoError(t, s.shut())
			all := logged(t, s.mem.Crash())
			require.Equal(t, string(key(1)), all[len(all)-1].key)
		})
	}
}

// The bug: the log had failed with the error nil.
func TestALogThatIsBackIsNotGone(t *testing.T) {
	s := open(t, config{})
	asked := 0
	s.faults.On(failing(fs.ErrNotExist, func(op wrap.Op) bool {
		if op.Kind == wrap.OpStat {
			asked++
		}
		return op.Kind == wrap.OpStat && asked == 1
	}))
	s.verifyLog()
	require.NotZero(t, asked)
	require.NoError(t, s.Err())
	require.NoError(t, s.put(0, OnDisk))
}

func TestAFailedSyncEndsTheWritesOfItsGroup(t *testing.T) {
	s := open(t, config{})
	require.NoError(t, s.put(0, WithSystem))
	release := s.hold()
	first := s.begin(1, func() error { return s.put(1, WithSystem) })
	second := s.begin(2, func() error { return s.put(2, OnDisk) })
	sync := s.begin(3, func() error { return s.Apply(batchOf(), OnDisk, nil) })
	s.faults.On(failing(syscall.EIO, kindOf(wrap.OpSync)))
	release()
	for _, r := range []<-chan error{first, second, sync} {
		require.ErrorIs(t, <-r, syscall.EIO)
	}
	s.faults.Heal()
	s.requireKeys(0, 1)
	require.EqualValues(t, 10, s.Synced())
	require.ErrorIs(t, s.Apply(batchOf(), OnDisk, nil), base.ErrReadOnly, "a later sync would prove nothing")
	require.EqualValues(t, 10, s.Synced())
}

func TestAnEmptySyncThatFailsEndsTheWrites(t *testing.T) {
	s := open(t, config{})
	s.faults.On(failing(syscall.EIO, kindOf(wrap.OpSync)))
	require.NoError(t, s.Apply(batchOf(), OnDisk, nil), "there is nothing to sync")
	require.NoError(t, s.put(0, WithSystem))
	require.ErrorIs(t, s.Apply(batchOf(), OnDisk, nil), syscall.EIO)
	require.Error(t, s.Failure())
}

// The order of the two failures does not matter: a panic explains the others.
func TestAPanicIsReportedBeforeItsConsequences(t *testing.T) {
	s := open(t, config{})
	s.Fail(errors.New("an edit is uncertain"))
	s.Fail(base.NewPanicError(nil, "a test", "boom"))
	s.Fail(errors.New("another consequence"))
	var p *base.PanicError
	require.ErrorAs(t, s.put(0, WithSystem), &p)
	require.Equal(t, "boom", p.Value)
	require.Len(t, s.causes, 2)
	require.ErrorAs(t, s.end, &p)
}

func TestFreezeIsNoFailure(t *testing.T) {
	s := open(t, config{})
	require.NoError(t, s.put(0, InBuffer))
	s.Freeze()
	require.True(t, s.Frozen())
	require.NoError(t, s.Failure())
	require.Equal(t, base.ErrReadOnly, s.Err())
	require.Equal(t, base.ErrReadOnly, s.put(1, WithSystem))
	require.Equal(t, base.ErrReadOnly, s.Lead(t.Context(), func(*Leader) error { return nil }))
	require.NoError(t, s.HandOver())
	require.Empty(t, s.causes)
	s.BeginEnd()
	s.Shut(base.ErrReadOnly)
	end := result.Of(s.CloseLog())(t)
	require.EqualValues(t, 11, end.LastSeq)
	requireLogged(t, s.mem.Crash(), 0)
	require.EqualValues(t, 11, s.Synced())
	s.Fail(errors.New("a failure afterwards"))
	require.False(t, s.Frozen())
	require.ErrorIs(t, s.Err(), base.ErrReadOnly)
}

// bombComparer panics while on is set.
func bombComparer(on *atomic.Bool) *base.Comparer {
	return &base.Comparer{Name: "test.bomb", Compare: func(x, y []byte) int {
		if on.Load() {
			panic("boom")
		}
		return bytes.Compare(x, y)
	}}
}

func TestAPanicInTheLeaderEndsTheWrites(t *testing.T) {
	for name, write := range writes {
		t.Run(name, func(t *testing.T) {
			on := new(atomic.Bool)
			s := open(t, config{cmp: bombComparer(on), limits: Limits{MemtableSize: 4 << 20, MaxMemtables: 2, L0Slowdown: 8, L0Stop: 12}})
			require.NoError(t, s.put(0, WithSystem))
			on.Store(true)
			require.PanicsWithValue(t, "boom", func() { _ = write(s, 1) })
			on.Store(false)
			var p *base.PanicError
			require.ErrorAs(t, write(s, 2), &p)
			require.Contains(t, string(p.Stack), "bombComparer")
			s.requireKeys(0, 1)
			require.EqualValues(t, idle, s.queue.state.Load(), "nobody leads")
		})
	}
}

// The leader's caller gets the panic, the other writers of its group and those after it get errors.
func TestAPanicInTheLeaderReachesItsGroupAsAnError(t *testing.T) {
	on := new(atomic.Bool)
	s := open(t, config{cmp: bombComparer(on), limits: Limits{MemtableSize: 4 << 20, MaxMemtables: 2, L0Slowdown: 8, L0Stop: 12}})
	require.NoError(t, s.put(0, WithSystem))
	release := s.hold()
	var results []<-chan error
	for i := range 3 {
		results = append(results, s.begin(i+1, func() error {
			return base.Catch(nil, "the caller", func() error { return s.put(1+i, WithSystem) })
		}))
	}
	results = append(results, s.begin(4, func() error { return s.Lead(context.Background(), func(*Leader) error { return nil }) }))
	on.Store(true)
	release()
	callers := 0
	for _, r := range results {
		var p *base.PanicError
		require.ErrorAs(t, <-r, &p)
		require.Equal(t, "boom", p.Value)
		if p.During == "the caller" {
			callers++
		}
	}
	require.Equal(t, 1, callers)
	require.Len(t, s.causes, 1)
}

func TestAGuardedPanicEndsTheWrites(t *testing.T) {
	s := open(t, config{})
	require.NoError(t, s.Guard("nothing", func() error { return nil }))
	require.NoError(t, s.Err())
	var p *base.PanicError
	require.ErrorAs(t, s.Guard("some work", func() error { panic("boom") }), &p)
	require.Equal(t, "some work", p.During)
	require.ErrorAs(t, s.put(0, WithSystem), &p)
}

func TestSequenceNumbersRunOutWithAnError(t *testing.T) {
	s := open(t, config{})
	require.NoError(t, s.Lead(t.Context(), func(l *Leader) error {
		l.Advance(base.MaxSeq-1, true)
		require.EqualValues(t, uint64(base.MaxSeq-1), l.LastSeq())
		return nil
	}))
	require.ErrorContains(t, s.Apply(batchOf(0, 1), WithSystem, nil), "out of sequence numbers")
	require.NoError(t, s.put(0, WithSystem))
	require.ErrorContains(t, s.put(1, WithSystem), "out of sequence numbers")
	require.NoError(t, s.Err())
	s.requireKeys(0, 1)
}

func TestABatchOrEntryThatIsTooLargeIsRefused(t *testing.T) {
	s := open(t, config{})
	long := bytes.Repeat([]byte("k"), 2<<20)
	require.ErrorIs(t, s.Put(base.KindSet, long, nil, WithSystem), base.ErrTooLarge)
	require.ErrorIs(t, s.Put(base.KindDelete, long[:1<<20+1], nil, OnDisk), base.ErrTooLarge)
	b := batchOf(1)
	b.Refuse(errors.New("no"))
	require.ErrorContains(t, s.Apply(b, WithSystem, nil), "no")
	require.NoError(t, s.Apply(batchOf(), WithSystem, nil))
	require.Empty(t, logged(t, s.mem))
}

func TestEndedNamesItsCause(t *testing.T) {
	err := error(&Ended{Cause: errors.New("the cause")})
	require.True(t, strings.HasSuffix(err.Error(), ": the cause"))
	require.ErrorIs(t, err, base.ErrReadOnly)
}

// Writes fail while the disk is full, and continue in another log once there is space. What was acknowledged is in the
// memtables, which are flushed.
func TestAFullDiskEndsALogButNotTheWrites(t *testing.T) {
	for name, kind := range map[string]wrap.OpKind{"write": wrap.OpWrite, "sync": wrap.OpSync} {
		t.Run(name, func(t *testing.T) {
			s := open(t, config{})
			s.flushAlways()
			require.NoError(t, s.put(0, WithSystem))
			s.faults.On(failing(syscall.ENOSPC, kindOf(kind, wrap.OpCreate)))
			require.ErrorIs(t, s.put(1, OnDisk), base.ErrNoSpace)
			require.ErrorIs(t, s.put(1, OnDisk), base.ErrNoSpace, "there is still no log")
			require.ErrorIs(t, s.Apply(batchOf(), OnDisk, nil), base.ErrNoSpace)
			require.NoError(t, s.Err())
			require.Len(t, s.disk, 1, "it is reported once")
			require.ErrorIs(t, s.disk[0], base.ErrNoSpace)
			s.requireKeys(0, 1)
			s.faults.Heal()
			require.NoError(t, s.put(1, OnDisk))
			s.requireKeys(0, 2)
			require.NotEqualValues(t, 1, s.state().Mem.LogNum)
			require.EqualValues(t, s.log.lastSeq, s.Synced())
			require.NoError(t, s.shut())
		})
	}
}

// The new log is there, but the memtable of the old one is not a table yet: no write is accepted.
func TestNoWriteIsAcceptedBeforeTheOldLogIsUnnecessary(t *testing.T) {
	s := open(t, config{})
	require.NoError(t, s.put(0, WithSystem))
	s.faults.On(failing(syscall.ENOSPC, kindOf(wrap.OpWrite)))
	require.ErrorIs(t, s.put(1, WithSystem), base.ErrNoSpace)
	s.faults.Heal()
	s.EndFlush(syscall.ENOSPC)
	for range 2 {
		require.ErrorIs(t, s.put(1, WithSystem), base.ErrNoSpace, "the flush fails")
		require.EqualValues(t, 2, s.state().Mem.LogNum, "only one new log is made")
	}
	s.flush()
	require.NoError(t, s.put(1, WithSystem))
	s.requireKeys(0, 2)
	require.NoError(t, s.shut())
	all := logged(t, s.mem.Crash())
	require.Equal(t, string(key(1)), all[len(all)-1].key)
}

func TestAFailureEndsTheWritesOfAFullDiskToo(t *testing.T) {
	s := open(t, config{})
	require.NoError(t, s.put(0, WithSystem))
	s.faults.On(failing(syscall.ENOSPC, kindOf(wrap.OpWrite)))
	require.ErrorIs(t, s.put(1, WithSystem), base.ErrNoSpace)
	s.faults.Heal()
	failure := errors.New("a failure")
	s.Fail(failure)
	require.ErrorIs(t, s.put(1, WithSystem), failure)
	require.Equal(t, []uint64{1}, s.logs(), "no log is made any more")
	require.Error(t, s.shut(), "the content of the log is not durable")
}

// The history learns which numbers a log has before the store can do without the log, and of the next one.
func TestChangesFollowTheLogs(t *testing.T) {
	s := open(t, config{})
	var wakes, failed int
	var switches [][3]uint64
	refused := errors.New("refused")
	s.store.Changes = &Changes{
		SwitchLog: func(logged, last, next uint64) { switches = append(switches, [3]uint64{logged, last, next}) },
		KeepFailed: func(logged, last uint64) error {
			if failed++; failed == 1 {
				return refused
			}
			require.EqualValues(t, 12, logged)
			require.EqualValues(t, 13, last)
			return nil
		},
		Wake: func() { wakes++ },
	}
	require.NoError(t, s.put(0, WithSystem))
	require.Equal(t, 1, wakes)
	require.NoError(t, result.Err(s.Rotate()))
	require.Equal(t, [][3]uint64{{11, 11, 2}}, switches)
	require.Equal(t, 2, wakes, "the old log is synced")
	require.NoError(t, s.put(1, WithSystem))
	s.faults.On(failing(syscall.ENOSPC, kindOf(wrap.OpWrite)))
	require.ErrorIs(t, s.put(2, WithSystem), base.ErrNoSpace)
	s.faults.Heal()
	s.flush()
	require.Equal(t, refused, s.put(2, WithSystem))
	require.Len(t, switches, 1)
	s.flushAlways()
	require.NoError(t, s.put(2, WithSystem))
	require.Equal(t, [3]uint64{12, 13, 3}, switches[1])
	require.EqualValues(t, 13, s.Synced())
	require.NoError(t, s.put(3, OnDisk))
	require.NoError(t, s.shut())
	require.Equal(t, 8, wakes, "a failed write wakes nobody")
	s.requireKeys(0, 4)
}

// A store that only reads has no log, but leaders.
func TestAStoreThatOnlyReadsHasLeaders(t *testing.T) {
	s := open(t, config{})
	o := s.o
	var current lookup.Current
	current.State.Store(s.state())
	o.Current = &current
	reader := New(o)
	called := false
	require.NoError(t, reader.Lead(t.Context(), func(*Leader) error { called = true; return nil }))
	require.True(t, called)
	reader.Refuse()
	reader.BeginEnd()
	reader.Shut(base.ErrClosed)
	require.Equal(t, base.ErrClosed, reader.Lead(t.Context(), func(*Leader) error { return nil }))
}
