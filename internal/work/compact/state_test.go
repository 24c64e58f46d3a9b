package compact

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/disk/pick"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/internal/test/result"
)

// step is a transition of a state.
type step struct {
	name string
	mode mode
	ends bool
}

var allSteps = []step{
	{"back-off", modeBackoff, false}, {"end of back-off", modeBackoff, true},
	{"pause", modePaused, false}, {"resume", modePaused, true},
	{"hold", modeHeld, false}, {"release", modeHeld, true},
	{"stop", modeStopped, false}, {"close", modeClosed, false},
}

// Every walk of six transitions is in the mode of the strictest reason in effect, in whatever order they came.
func TestTheStrictestReasonIsTheMode(t *testing.T) {
	walks := 0
	var walk func(path []step, counts [modeClosed + 1]int)
	walk = func(path []step, counts [modeClosed + 1]int) {
		s := newState(false)
		for _, p := range path {
			p.take(&s)
		}
		want := modeClosed
		for want > modeFree && counts[want] == 0 {
			want--
		}
		require.Equal(t, want, s.mode(), "%v", path)
		require.Equal(t, counts[modeClosed] > 0, s.isClosed())
		walks++
		if len(path) == 6 {
			return
		}
		for _, next := range allSteps {
			if next.ends && counts[next.mode] == 0 || !next.ends && next.mode >= modeStopped && counts[next.mode] > 0 {
				continue
			}
			after := counts
			if after[next.mode]++; next.ends {
				after[next.mode] -= 2
			}
			walk(append(slices.Clip(path), next), after)
		}
	}
	walk(nil, [modeClosed + 1]int{})
	require.Greater(t, walks, 10_000)
}

func (p step) take(s *state) {
	switch {
	case p.mode == modeStopped:
		s.stop(errors.New("stopped"))
	case p.mode == modeClosed:
		s.close()
	case p.ends:
		s.end(p.mode)
	default:
		s.begin(p.mode)
	}
}

func TestNothingBeginsAgainAfterTheEnd(t *testing.T) {
	s := newState(false)
	require.NoError(t, s.endErr())
	full := errors.New("the disk is full")
	s.stop(full)
	require.Equal(t, full, s.endErr())
	s.close()
	require.Equal(t, base.ErrClosed, s.endErr(), "whatever else happened")
	readOnly := newState(true)
	require.Equal(t, modeStopped, readOnly.mode())
	require.Equal(t, base.ErrReadOnly, readOnly.endErr())
	require.Panics(t, func() { readOnly.end(modeHeld) })
}

// reasons put a Scheduler into each mode. end is nil if the mode is final.
var reasons = map[mode]func(t *testing.T, st *testStore) (end func()){
	modeFree: func(*testing.T, *testStore) func() { return func() {} },
	modeBackoff: func(t *testing.T, st *testStore) func() {
		st.fault(errors.New("broken"))
		st.Schedule()
		synctest.Wait()
		st.fault(nil)
		require.Error(t, st.Status().Err)
		return func() { time.Sleep(time.Minute) }
	},
	modePaused: func(t *testing.T, st *testStore) func() {
		resume := result.Of(st.Pause(t.Context()))(t)
		require.True(t, st.Paused())
		return resume
	},
	modeHeld: func(_ *testing.T, st *testStore) func() {
		release := st.Hold()
		return func() { release(); st.Schedule() }
	},
	modeStopped: func(_ *testing.T, st *testStore) func() { st.Stop(errStopped); return nil },
	modeClosed:  func(_ *testing.T, st *testStore) func() { st.Close(); return nil },
}

var errStopped = errors.New("writes have ended")

// claimed is the result of a call of claim.
type claimed struct {
	c   *pick.Compaction
	err error
}

// What a Scheduler begins in each mode: a compaction that is due, one that a caller asks for, and the remaining pieces
// of a running one.
func TestWhatBeginsInEachMode(t *testing.T) {
	for m, want := range map[mode]struct {
		automatic, claims, pieces bool
		claimErr                  error
	}{
		modeFree:    {automatic: true, claims: true, pieces: true},
		modeBackoff: {claims: true, pieces: true},
		modePaused:  {claims: true, pieces: true},
		modeHeld:    {},
		modeStopped: {claimErr: errStopped},
		modeClosed:  {claimErr: base.ErrClosed},
	} {
		t.Run(fmt.Sprint(m), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := newTestStore(t, func(o *storeOptions) { o.Tuning.L0Trigger, o.Tuning.MaxConcurrent = 2, 2 })
				st.put(0, numbered(0, 10)...)
				st.put(0, numbered(5, 15)...)
				st.put(3, numbered(100, 110)...)
				end := reasons[m](t, st)
				st.Scheduler.mu.Lock()
				require.Equal(t, m, st.state.mode())
				st.Scheduler.mu.Unlock()

				begun := len(st.infos)
				st.Schedule()
				synctest.Wait()
				require.Equal(t, want.automatic, len(st.infos) > begun)

				result := make(chan claimed, 1)
				go func() {
					c, err := st.claim(context.Background(), pickLevel3)
					result <- claimed{c, err}
				}()
				synctest.Wait()
				require.Equal(t, want.claims || want.claimErr != nil, len(result) == 1, "claim returned")
				require.Equal(t, want.pieces, st.helps(), "a piece was begun")
				if end != nil {
					end()
					synctest.Wait()
					require.Empty(t, st.files(0), "what was due has begun")
				}
				if got := <-result; want.claimErr != nil {
					require.Equal(t, want.claimErr, got.err)
				} else {
					require.NoError(t, st.compactClaimed(context.Background(), got.c))
				}
			})
		})
	}
}

func pickLevel3(v *version.Version, o pick.Options) (*pick.Compaction, bool) {
	return pick.From(v).OfFiles(3, 4, v.Levels[3].Files, ManualStep, o)
}

// fault makes edits fail with err until it is called with nil.
func (st *testStore) fault(err error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.applyErr = err
}

// helps reports whether the Scheduler gives a free slot to a piece of a compaction that has not begun.
func (st *testStore) helps() bool {
	v := st.RefVersion()
	defer v.Unref()
	s := st.Scheduler
	j := &mergeJob{
		s: s, ctx: context.Background(), done: new(progress), pieces: make([]mergePiece, 2),
		c: &pick.Compaction{Version: v, Level: 5, OutputLevel: 6},
	}
	j.begin()
	defer j.end()
	s.mu.Lock()
	s.jobs = append(s.jobs, j)
	s.scheduleLocked()
	begun := j.next > 0
	j.forgetLocked()
	s.mu.Unlock()
	st.settled(func() bool { return j.helped == 0 })
	return begun
}

// Each pause and hold ends once, however often its end is called.
func TestAnEndThatIsRepeatedEndsNoOther(t *testing.T) {
	st := newTestStore(t, nil)
	resume := result.Of(st.Pause(t.Context()))(t)
	other := result.Of(st.Pause(t.Context()))(t)
	hold, held := st.Hold(), st.Hold()
	resume()
	resume()
	hold()
	hold()
	require.Equal(t, [modeHeld + 1]int{modePaused: 1, modeHeld: 1}, st.state.counts)
	other()
	held()
	require.Equal(t, modeFree, st.state.mode())
}

// A pause that cannot begin leaves nothing behind.
func TestAPauseThatCannotBeginIsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		proceed := make(chan struct{})
		st := newTestStore(t, nil)
		st.onBegin = func(Info) { <-proceed }
		for range 4 {
			st.flush(numbered(0, 10)...)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.ErrorIs(t, result.Err(st.Pause(ctx)), context.DeadlineExceeded)
		require.Zero(t, st.Status().Pauses)
		failed := make(chan error)
		go func() { _, err := st.Pause(context.Background()); failed <- err }()
		synctest.Wait()
		st.Close()
		require.Equal(t, base.ErrClosed, <-failed)
		require.Zero(t, st.Status().Pauses)
		close(proceed)
	})
}

// No compaction starts during a pause, however many are due, and it begins when the last pause ends.
func TestPausesAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newTestStore(t, nil)
		first, second := reasons[modePaused](t, st), reasons[modePaused](t, st)
		require.Equal(t, 2, st.Status().Pauses)
		for range 6 {
			st.flush(numbered(0, 10)...)
		}
		time.Sleep(time.Hour)
		require.Len(t, st.files(0), 6)
		first()
		first() // again: it must not end the other pause
		time.Sleep(time.Hour)
		require.Equal(t, 1, st.Status().Pauses)
		require.Len(t, st.files(0), 6)
		second()
		synctest.Wait()
		require.Zero(t, st.Status().Pauses)
		require.Empty(t, st.files(0))
	})
}

// A pause begins when the running compactions have ended. Those that a caller asked for do not count.
func TestAPauseWaitsForRunningCompactions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		proceed := make(chan struct{})
		st := newTestStore(t, func(o *storeOptions) { o.Tuning.MaxConcurrent = 2 })
		st.onBegin = func(Info) { <-proceed }
		st.put(5, set("x", ""))
		st.put(6, set("x", ""))
		go func() { _ = st.compactLevel(context.Background(), 5, nil, nil) }()
		synctest.Wait()
		reasons[modePaused](t, st)() // it did not wait for that
		for range 4 {
			st.flush(numbered(0, 10)...)
		}
		synctest.Wait()
		require.Equal(t, 2, st.Status().Running)
		paused := make(chan func(), 1)
		go func() { paused <- reasons[modePaused](t, st) }()
		time.Sleep(time.Hour)
		require.Empty(t, paused)
		close(proceed)
		synctest.Wait()
		require.Len(t, st.infos, 2)
		(<-paused)()
	})
}

// A compaction that runtime.Goexit ends is over, so that pauses do not wait for it.
func TestAPauseAfterAListenerThatEndsItsGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newTestStore(t, nil)
		st.onBegin = func(Info) { runtime.Goexit() }
		for range 4 {
			st.flush(numbered(0, 10)...)
		}
		synctest.Wait()
		require.Zero(t, st.Status().Running)
		require.Zero(t, st.Status().Slots)
		st.onBegin = nil
		reasons[modePaused](t, st)()
		synctest.Wait()
		require.Empty(t, st.files(0), "the inputs were released")
	})
}

// A failed compaction that waits for its next attempt does not delay a pause, and is not tried during it.
func TestAPauseDuringABackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := due(t)
		st.Schedule()
		synctest.Wait()
		start := time.Now()
		resume := reasons[modePaused](t, st)
		require.Zero(t, time.Since(start))
		st.fault(nil)
		time.Sleep(time.Hour)
		require.Len(t, st.infos, 1)
		require.Error(t, st.Status().Err, "it is still due")
		resume()
		synctest.Wait()
		require.Empty(t, st.files(0))
		require.NoError(t, st.Status().Err)
	})
}

// The bug: the error stayed for good if what had failed was not due any more.
func TestTheErrorOfACompactionEndsWhenNoneIsDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := due(t)
		st.Schedule()
		synctest.Wait()
		edit := &manifest.Edit{}
		for _, f := range st.files(0) { // as a deletion of their range
			edit.Deleted = append(edit.Deleted, version.DeletedFile{Level: 0, Num: f.Num})
		}
		require.NoError(t, st.set.Apply(edit, nil))
		st.Schedule()
		require.Error(t, st.Status().Err, "the back-off is not over")
		time.Sleep(time.Minute)
		require.NoError(t, st.Status().Err)
	})
}

func TestTheBurstTriggerIsBelowTheSlowdown(t *testing.T) {
	for _, c := range []struct{ trigger, slowdown, want int }{
		{4, 12, 8}, {1, 12, 2}, {6, 12, 8}, {8, 12, 8}, {12, 12, 12}, {100, 300, 200}, {1, 1, 1}, {2, 3, 2},
	} {
		o := Tuning{L0Trigger: c.trigger, L0SlowdownTrigger: c.slowdown}
		require.Equal(t, c.want, o.burstTrigger(), "%+v", c)
	}
}

// fillMemtable flushes a memtable that has become full.
func (st *testStore) fillMemtable() {
	st.BeginBurst()
	st.flush(numbered(0, 10)...)
	synctest.Wait()
}

// burstOf is a store in which so many memtables have become full at one moment.
func burstOf(t *testing.T, n int) *testStore {
	st := newTestStore(t, nil)
	for range n {
		st.fillMemtable()
	}
	return st
}

func TestLevelZeroGathersTwiceTheTablesInABurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := burstOf(t, 3)
		require.False(t, st.Status().Gathering, "nothing is due")
		for n := 4; n < 8; n++ {
			st.fillMemtable()
			require.Len(t, st.files(0), n)
			require.True(t, st.Status().Gathering)
		}
		st.fillMemtable()
		require.Empty(t, st.files(0))
		require.Len(t, st.infos, 1)
	})
}

func TestTheEndOfABurstIsNoticedAutomatically(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := burstOf(t, 5)
		time.Sleep(burstPause / 2)
		st.fillMemtable()
		time.Sleep(burstPause - 1)
		require.Len(t, st.files(0), 6, "the burst goes on")
		time.Sleep(time.Second)
		require.Empty(t, st.files(0))
		require.False(t, st.Status().Gathering)
	})
}

// Each of the tables alone would be worth a compaction of what is below.
func TestTombstonesOfABurstAreCompactedTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newTestStore(t, nil)
		st.put(6, numbered(0, 200)...)
		for n := range 3 {
			st.BeginBurst()
			var deletions []entry
			for i := n; i < 180; i += 3 {
				deletions = append(deletions, del(testKey(i)))
			}
			st.flush(deletions...)
			synctest.Wait()
		}
		require.Len(t, st.files(0), 3)
		require.True(t, st.Status().Gathering)
		time.Sleep(2 * burstPause)
		require.Empty(t, st.files(0))
		require.Len(t, st.infos, 1)
		require.Len(t, st.content(6), 20)
	})
}

func TestEndBurstStartsWhatWaitedForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := burstOf(t, 5)
		st.EndBurst()
		st.Schedule()
		synctest.Wait()
		require.Empty(t, st.files(0))
	})
}

// The clock stands still, so the burst would never end.
func TestCloseDoesNotWaitForTheEndOfABurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := burstOf(t, 5)
		start := time.Now()
		st.Close()
		st.Wait()
		require.Zero(t, time.Since(start))
		require.Len(t, st.files(0), 5)
	})
}
