package commit

import (
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/limit/throttle"
	"github.com/sievedb/sievedb/internal/read/lookup"
	"github.com/sievedb/sievedb/internal/test/fixture"
)

// fillUp rotates until the next rotation would have to wait for a flush, and returns how many keys it has written.
func (s *store) fillUp() (n int) {
	for ; len(s.state().Imm) < s.limits.Load().MaxMemtables; n++ {
		require.NoError(s.t, s.put(n, WithSystem))
		_, err := s.Rotate()
		require.NoError(s.t, err)
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
	_, err = s.Rotate()
	require.NoError(t, err)
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
	_, err := s.Rotate()
	require.ErrorIs(t, err, base.ErrNoSpace)
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
	waiting, err := s.Rotate()
	require.NoError(t, err)
	require.NoError(t, s.put(1, WithSystem))
	done := make(chan error, 1)
	wait := func() { done <- s.WaitFlushed(waiting) }
	go wait()
	_, err = s.Rotate()
	require.NoError(t, err)
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
		_, err := s.CloseLog()
		require.NoError(t, err)
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
