package compact

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/disk/pick"
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
		resume, err := st.Pause(t.Context())
		require.NoError(t, err)
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

func pickLevel3(v *manifest.Version, o pick.Options) (*pick.Compaction, bool) {
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
	resume, err := st.Pause(t.Context())
	require.NoError(t, err)
	other, err := st.Pause(t.Context())
	require.NoError(t, err)
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
		_, err := st.Pause(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
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
