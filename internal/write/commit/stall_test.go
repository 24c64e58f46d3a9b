package commit

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/batch"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/limit/throttle"
	"github.com/sievedb/sievedb/internal/read/lookup"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/memtable"
)

// fillUp rotates until the next rotation would have to wait for a flush, and returns how many keys it has written.
func (s *store) fillUp() (n int) {
	for ; len(s.state().Imm) < s.limits.Load().MaxMemtables; n++ {
		require.NoError(s.t, s.put(n, WithSystem))
		require.NoError(s.t, result.Err(s.Rotate()))
	}
	require.NoError(s.t, s.put(n, WithSystem))
	return n + 1
}

// stalledRotation calls Rotate in a goroutine, and returns once it waits for a reason.
func (s *store) stalledRotation(reason string) (result <-chan error) {
	c := make(chan error, 1)
	go func() {
		_, err := s.Rotate()
		c <- err
	}()
	fixture.Eventually(s.t, func() bool { return s.Status().Stall == reason })
	return c
}

func TestAWriterWaitsForAFlush(t *testing.T) {
	s := open(t, config{})
	n := s.fillUp()
	ended := s.stalledRotation(throttle.StopMemtables)
	s.flush()
	require.NoError(t, <-ended)
	require.Len(t, s.state().Imm, 2)
	s.requireKeys(0, n)
	status := s.Status()
	require.Empty(t, status.Stall)
	require.EqualValues(t, 1, status.Waits[throttle.StopMemtables].Count)
	require.Equal(t, []string{throttle.StopMemtables + " true"}, s.stalls)
}

// A writer whose flush fails gets that error instead of waiting. The next one, after a success, does not.
func TestAWriterDoesNotWaitForAFlushThatFails(t *testing.T) {
	s := open(t, config{})
	n := s.fillUp()
	ended := s.stalledRotation(throttle.StopMemtables)
	s.EndFlush(syscall.EIO)
	err := <-ended
	require.ErrorIs(t, err, syscall.EIO)
	require.ErrorContains(t, err, throttle.StopMemtables)
	require.Equal(t, syscall.EIO, s.Status().FlushErr)
	require.Empty(t, s.Status().Stall)
	require.NoError(t, s.Err())
	s.flush()
	require.NoError(t, s.Status().FlushErr)
	require.NoError(t, result.Err(s.Rotate()))
	s.requireKeys(0, n)
	require.Empty(t, s.stalls, "what failed is no stall")
}

func TestAWriterThatWaitsLearnsThatWritesHaveEnded(t *testing.T) {
	failure := errors.New("a failure")
	for name, c := range map[string]struct {
		end  func(s *store)
		want error
	}{
		"closed":  {func(s *store) { s.Refuse() }, base.ErrClosed},
		"failed":  {func(s *store) { s.Fail(failure) }, failure},
		"limited": {func(s *store) { s.SetLimits(Limits{MemtableSize: 1 << 10, MaxMemtables: 9, L0Slowdown: 8, L0Stop: 12}) }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, config{})
			s.fillUp()
			ended := s.stalledRotation(throttle.StopMemtables)
			c.end(s)
			require.ErrorIs(t, <-ended, c.want)
			require.Empty(t, s.Status().Stall)
		})
	}
}

func TestAFullLevel0StopsWriters(t *testing.T) {
	s := open(t, config{})
	require.NoError(t, s.put(0, WithSystem))
	s.level0(12)
	ended := s.stalledRotation(throttle.StopLevel0)
	s.level0(11)
	require.NoError(t, <-ended)

	require.NoError(t, s.put(1, WithSystem))
	s.level0(12)
	ended = s.stalledRotation(throttle.StopLevel0)
	end := s.IgnoreLevel0()
	require.NoError(t, <-ended)
	end()
	s.flush()

	require.NoError(t, s.put(2, WithSystem))
	ended = s.stalledRotation(throttle.StopLevel0)
	s.mu.Lock()
	s.stuck = syscall.EIO
	s.mu.Unlock()
	s.Wake()
	require.ErrorIs(t, <-ended, syscall.EIO)
}

// In a pause only what frees space begins a memtable although level 0 is full, and so it does on a full disk.
func TestAFlushInAPauseDoesNotWaitForLevel0(t *testing.T) {
	s := open(t, config{})
	s.level0(12)
	s.paused.Store(true)
	require.NoError(t, s.put(0, WithSystem))
	ended := s.stalledRotation(throttle.StopPaused)
	end := s.FlushInPause()
	require.NoError(t, <-ended)
	end()
	s.flush()

	s.paused.Store(false)
	s.mu.Lock()
	s.stuck = syscall.ENOSPC
	s.mu.Unlock()
	require.NoError(t, s.put(1, WithSystem))
	require.ErrorIs(t, result.Err(s.Rotate()), base.ErrNoSpace)
	done := make(chan error, 1)
	go func() { done <- s.Lead(t.Context(), (*Leader).Flush) }()
	fixture.Eventually(t, func() bool { return len(s.state().Imm) == 1 })
	s.flush()
	require.NoError(t, <-done)
	require.Zero(t, s.inPause.Load())
}

func TestALeaderThatFlushesGetsItsError(t *testing.T) {
	s := open(t, config{})
	require.NoError(t, s.put(0, WithSystem))
	done := make(chan error, 1)
	go func() { done <- s.Lead(t.Context(), (*Leader).Flush) }()
	fixture.Eventually(t, func() bool { return len(s.state().Imm) == 1 })
	s.EndFlush(syscall.EIO)
	require.ErrorIs(t, <-done, syscall.EIO)
	s.ForgetFlushError()
	go func() { done <- s.Lead(t.Context(), (*Leader).Flush) }()
	fixture.Eventually(t, func() bool { return s.queue.state.Load() != idle })
	s.Fail(errors.New("a failure"))
	require.ErrorIs(t, <-done, base.ErrReadOnly)
}

// Only the memtables of before are waited for, and only their flushes count.
func TestWaitFlushedWaitsForThoseOfBefore(t *testing.T) {
	s := open(t, config{})
	require.NoError(t, s.put(0, WithSystem))
	waiting := result.Of(s.Rotate())(t)
	require.NoError(t, s.put(1, WithSystem))
	done := make(chan error, 1)
	wait := func() { done <- s.WaitFlushed(waiting) }
	go wait()
	require.NoError(t, result.Err(s.Rotate()))
	s.flush()
	require.NoError(t, <-done)
	require.Len(t, s.state().Imm, 1)
	waiting = s.state().Imm
	s.EndFlush(syscall.EIO)
	require.Equal(t, syscall.EIO, s.WaitFlushed(waiting))
	s.ForgetFlushError()
	go wait()
	s.Fail(errors.New("a failure"))
	require.ErrorIs(t, <-done, base.ErrReadOnly)
	mem, _ := s.NextToFlush()
	require.Nil(t, mem, "nothing is flushed any more")
}

// While level 0 has many tables, a writer is slowed; the wait ends early if writing ends.
func TestWritersAreSlowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, config{limits: Limits{MemtableSize: 1 << 20, MaxMemtables: 2, L0Slowdown: 1, L0Stop: 3}})
		s.level0(2)
		began := time.Now()
		for i := range 1_000 {
			require.NoError(t, s.put(i, WithSystem))
		}
		require.Positive(t, time.Since(began))
		require.Equal(t, throttle.SlowLevel0+" false", s.stalls[0])
		require.EqualValues(t, len(s.stalls), s.Status().Waits[throttle.SlowLevel0].Count)
		s.BeginEnd()
		require.False(t, s.Pause(time.Hour))
		s.Refuse()
		s.Shut(base.ErrClosed)
		require.NoError(t, result.Err(s.CloseLog()))
	})
}

// While the last memtable fills, writes go no faster than the flushes before, so that they do not stop.
func TestWritersAreSlowedWhileTheLastMemtableFills(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, config{})
		n := s.fillUntil(0, func() bool { return len(s.state().Imm) == 1 })
		mem, _ := s.NextToFlush()
		s.Install(func(state *lookup.State) { s.Retire(state, time.Second) })
		s.EndFlush(nil)
		require.NotNil(t, mem)
		n = s.fillUntil(n, func() bool { return len(s.state().Imm) == 2 })
		require.Empty(t, s.stalls)
		for range 50 {
			require.NoError(t, s.put(n, WithSystem))
			n++
		}
		require.Positive(t, s.Status().Waits[throttle.SlowMemtables].Count)
		require.Zero(t, s.Status().Waits[throttle.StopMemtables].Count)
		require.NoError(t, s.shut())
	})
}

func TestBufferedWritesReachTheSystem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, config{plain: true}) // otherwise it reaches the system at once
		for i := range 10 {
			require.NoError(t, s.put(i, InBuffer))
		}
		s.requireKeys(0, 10)
		require.Empty(t, logged(t, s.mem))
		time.Sleep(2 * bufferedFor)
		synctest.Wait()
		requireLogged(t, s.mem, upTo(10)...)
		require.NoError(t, s.put(10, InBuffer))
		require.NoError(t, s.HandOver())
		requireLogged(t, s.mem, upTo(11)...)
		require.NoError(t, s.HandOver(), "there is nothing")
		require.NoError(t, s.put(11, InBuffer))
		require.NoError(t, s.put(12, OnDisk))
		requireLogged(t, s.mem.Crash(), upTo(13)...)
		require.NoError(t, s.put(13, InBuffer))
		require.NoError(t, s.shut())
		requireLogged(t, s.mem.Crash(), upTo(14)...)
		require.Equal(t, base.ErrClosed, s.HandOver())
	})
}

func TestBufferedWritesThatCannotBeWrittenEndTheWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, config{plain: true}) // otherwise it reaches the system at once
		require.NoError(t, s.put(0, InBuffer))
		s.faults.On(failing(syscall.EIO, kindOf(wrap.OpWrite)))
		time.Sleep(2 * bufferedFor)
		synctest.Wait()
		require.ErrorIs(t, s.Err(), syscall.EIO)
		require.Len(t, s.causes, 1)
		require.ErrorIs(t, s.put(1, InBuffer), base.ErrReadOnly)
		require.NoError(t, s.HandOver(), "writes have ended for another reason than a Close")
		require.Error(t, s.shut())
	})
}

// A write that waits for room counts the wait in its own latency and not in that of its commit.
func TestTheLatencyOfAWriteIncludesItsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, config{})
		s.fillUp()
		go func() {
			time.Sleep(time.Minute)
			s.flush()
		}()
		require.NoError(t, s.Put(base.KindSet, key(100), make([]byte, 20<<10), OnDisk))
		l := s.latency.Report()
		require.Equal(t, time.Minute, l.SyncedPut.Sum)
		require.Zero(t, l.SyncedCommit.Sum)
		require.NoError(t, s.shut())
	})
}

// The bug: nothing waited for quiet any more if a memtable became full during a look at it, so Scheduler.BeginBurst had
// the last word.
func TestQuietComesAfterAMemtableThatBecameFullDuringALook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s *store
		var quiet, filled atomic.Bool
		s = open(t, config{change: func(o *Start) {
			o.SetQuiet = quiet.Store
			o.Full = func() { quiet.Store(false) }
			o.WouldFree = func(mem *memtable.Memtable, _ bool) (*version.Gain, bool) {
				for i := 0; !filled.Load() && s.state().Mem.Memtable == mem && i < 1000; i++ {
					require.NoError(t, s.put(i, InBuffer))
				}
				return nil, true
			}
		}})
		s.flushAlways()
		require.NoError(t, s.put(0, InBuffer))
		time.Sleep(quietFor + time.Second)
		require.False(t, quiet.Load())
		filled.Store(true)
		time.Sleep(3 * quietFor)
		require.True(t, quiet.Load())
	})
}

// The bug: the memtable was looked at after each write that no other followed for three seconds, however long that
// took.
func TestLooksAtTheMemtableTakeLittleTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var took time.Duration
		s := open(t, config{change: func(o *Start) {
			o.WouldFree = func(*memtable.Memtable, bool) (*version.Gain, bool) {
				time.Sleep(time.Second / 2)
				took += time.Second / 2
				return nil, true
			}
		}})
		for i := range 75 {
			require.NoError(t, s.put(i%2, InBuffer))
			time.Sleep(4 * time.Second)
		}
		synctest.Wait()
		require.Less(t, took, 10*time.Second)
	})
}

// Some writers become the leader by swapping the state, others from the queue. There are always
// both kinds here, so they take turns in every order.
func TestSingleAndQueuedWritersAllGetTheirTurn(t *testing.T) {
	const writers, each = 6, 300
	s := open(t, config{})
	s.flushAlways()
	var group sync.WaitGroup
	for w := range writers {
		group.Go(func() {
			for i := range each {
				n := i*writers + w
				d := []Durability{WithSystem, InBuffer, WithSystem, OnDisk}[i%4]
				var err error
				if i%16 == 0 {
					err = s.Apply(batchOf(n), d, nil)
				} else {
					err = s.put(n, d)
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
	s.requireKeys(0, writers*each)
	require.EqualValues(t, writers*each, s.Status().Batches)
	require.EqualValues(t, idle, s.queue.state.Load(), "no writer is left in the queue")
	require.NoError(t, s.shut())
	require.Len(t, logged(t, s.mem), writers*each)
}

func TestAGroupIsOneRecordWithOneSync(t *testing.T) {
	s := open(t, config{})
	release := s.hold()
	var results []<-chan error
	for i := range 8 {
		d := []Durability{OnDisk, WithSystem, InBuffer}[i%3]
		results = append(results, s.begin(2*i+1, func() error { return s.put(i, d) }))
		results = append(results, s.begin(2*i+2, func() error { return s.Apply(batchOf(), OnDisk, nil) }))
	}
	before := s.Status()
	release()
	for _, r := range results {
		require.NoError(t, <-r)
	}
	after := s.Status()
	require.EqualValues(t, 1, after.LogSyncs-before.LogSyncs)
	require.EqualValues(t, 8, after.Batches-before.Batches, "an empty batch is not counted")
	requireLogged(t, s.mem.Crash(), upTo(8)...)
	s.requireKeys(0, 8)
	require.EqualValues(t, 18, s.Synced())
}

// A conflict in a group leaves the other writes of the group as they are.
func TestAConflictDoesNotDisturbItsGroup(t *testing.T) {
	s := open(t, config{})
	release := s.hold()
	refused := errors.New("refused")
	first := s.begin(1, func() error {
		return s.Apply(batchOf(1), OnDisk, func([]*batch.Batch) error { return refused })
	})
	var before []int
	second := s.begin(2, func() error {
		return s.Apply(batchOf(0), OnDisk, func(earlier []*batch.Batch) error {
			for _, b := range earlier {
				before = append(before, b.Len())
			}
			return nil
		})
	})
	release()
	require.Equal(t, refused, <-first)
	require.NoError(t, <-second)
	require.Equal(t, []int{0}, before, "the writes of the first one are not there")
	s.requireKeys(0, 1)

	release = s.hold()
	first = s.begin(1, func() error {
		return s.Apply(batchOf(1), OnDisk, func([]*batch.Batch) error { return refused })
	})
	syncs := s.Status().LogSyncs
	release()
	require.Equal(t, refused, <-first)
	require.Equal(t, syncs, s.Status().LogSyncs, "a group without a write is not synced")
}

// A request leaves the queue only while no leader has begun with it.
func TestOnlyAWaitingRequestLeavesTheQueue(t *testing.T) {
	q := &queue{requests: newRequests()}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	first, second := &request{wake: make(chan bool, 1), ctx: ctx}, &request{wake: make(chan bool, 1), ctx: ctx}
	q.waiting = []*request{first, second}
	first.wake <- true
	require.False(t, q.leave(first), "it leads")
	require.True(t, q.leave(second))
	require.Equal(t, context.Canceled, second.err)
	require.Equal(t, []*request{first}, q.waiting)
	require.False(t, q.leave(second), "it is not in the queue")
}

func TestAContextEndsTheWaitForALeader(t *testing.T) {
	s := open(t, config{})
	release := s.hold()
	ctx, cancel := context.WithCancel(t.Context())
	called := false
	left := s.begin(1, func() error { return s.Lead(ctx, func(*Leader) error { called = true; return nil }) })
	after := s.begin(2, func() error { return s.put(0, OnDisk) })
	cancel()
	require.Equal(t, context.Canceled, <-left)
	require.Equal(t, 1, s.waiting())
	release()
	require.NoError(t, <-after)
	require.False(t, called)
	s.requireKeys(0, 1)
}

func TestALeaderDoesNotWaitForWritersThatDoNotReturn(t *testing.T) {
	for d, want := range map[Durability]int{InBuffer: 0, WithSystem: 0, OnDisk: gatherYields} {
		q := &queue{waiting: []*request{{durability: d}}, expected: 1000}
		require.Equal(t, want, q.gather())
		q.expected = 1
		require.Zero(t, q.gather(), "all writers have returned")
	}
}

// With one processor, a writer that was started runs when the leader yields.
func TestALeaderWaitsForWritersThatReturn(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	q := &queue{waiting: []*request{{durability: OnDisk}}, expected: 2}
	var returned sync.WaitGroup
	returned.Go(func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.waiting = append(q.waiting, &request{durability: OnDisk})
	})
	require.Less(t, q.gather(), gatherYields)
	returned.Wait()
	require.Len(t, q.waiting, 2)
}

func TestAGroupIsBounded(t *testing.T) {
	half := new(batch.Batch)
	half.Add(base.KindSet, key(0), make([]byte, maxGroupBytes/2))
	small, empty := batchOf(1), batchOf()
	alone := &request{alone: func() error { return nil }}
	write := func(b *batch.Batch) *request { return &request{batch: b} }
	for name, c := range map[string]struct {
		waiting []*request
		room    int
		want    int
	}{
		"small writes":                             {[]*request{write(small), write(small), write(small)}, 1 << 30, 3},
		"a function is alone":                      {[]*request{alone, write(small)}, 1 << 30, 1},
		"a function ends a group":                  {[]*request{write(small), alone, write(small)}, 1 << 30, 1},
		"at most a megabyte":                       {[]*request{write(half), write(half), write(half)}, 1 << 30, 1},
		"a small write after a large one":          {[]*request{write(half), write(small), write(half)}, 1 << 30, 2},
		"writes that need a new memtable":          {[]*request{write(half), write(small)}, 0, 2},
		"a sync does not wait for a memtable":      {[]*request{write(empty), write(small)}, 0, 1},
		"nor because it comes after a write":       {[]*request{write(small), write(empty), write(small)}, 0, 1},
		"a sync shares the group if there is room": {[]*request{write(empty), write(small), write(empty)}, 1 << 20, 3},
	} {
		t.Run(name, func(t *testing.T) {
			q := &queue{waiting: c.waiting}
			q.takeGroup(c.room)
			require.Len(t, q.group, c.want)
			require.Len(t, q.waiting, len(c.waiting)-c.want)
		})
	}
}

func TestShutWaitsForThoseThatQueueAndRefusesOthers(t *testing.T) {
	s := open(t, config{})
	release := s.hold()
	waits := s.begin(1, func() error { return s.put(0, OnDisk) })
	s.Refuse()
	s.BeginEnd()
	ended := s.begin(2, func() error { s.Shut(base.ErrClosed); return nil })
	require.Equal(t, base.ErrClosed, s.Apply(batchOf(1), WithSystem, nil))
	require.Equal(t, base.ErrClosed, s.put(1, WithSystem))
	release()
	require.Equal(t, base.ErrClosed, <-waits)
	require.NoError(t, <-ended)
	require.Equal(t, base.ErrClosed, s.Lead(t.Context(), func(*Leader) error { return nil }))
	require.NoError(t, result.Err(s.CloseLog()))
	require.Empty(t, logged(t, s.mem))
}

// No writer waits for a look. Otherwise the look would lead the writers while it waits for room.
func TestALookThatFindsNoRoomForAMemtableMakesNoWriterWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, config{change: func(o *Start) {
			o.WouldFree = func(*memtable.Memtable, bool) (*version.Gain, bool) { return &version.Gain{}, true }
		}})
		s.level0(12)
		require.NoError(t, s.put(0, InBuffer))
		time.Sleep(2*quietFor + time.Second)
		written := false
		go func() { written = s.put(1, InBuffer) == nil }()
		synctest.Wait()
		require.True(t, written)
		s.level0(0)
		time.Sleep(3 * quietFor)
		require.Len(t, s.state().Imm, 1)
	})
}

// While writes go on, a look counts tombstones alone, and when nothing is written any more, also what newer values hide.
func TestALookCountsAllThatIsHiddenOnceNothingIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var looks []bool
		s := open(t, config{change: func(o *Start) {
			o.WouldFree = func(_ *memtable.Memtable, quiet bool) (*version.Gain, bool) {
				looks = append(looks, quiet)
				return nil, true
			}
		}})
		for i := range 70 {
			require.NoError(t, s.put(i, InBuffer))
			time.Sleep(time.Second)
		}
		time.Sleep(3 * quietFor)
		synctest.Wait()
		require.Equal(t, []bool{false, true}, looks)
	})
}
