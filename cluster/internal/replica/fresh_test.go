package replica

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/cluster/internal/kv"
)

// follower runs a test on a replica with a = 1 that does not lead.
func follower(t *testing.T, f func(t *testing.T, g *rig)) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t)
		g.mustPut("a", "1")
		g.log.lead(false, kv.ErrUnknown)
		f(t, g)
	})
}

func (g *rig) questions() (n int) {
	g.log.set(func() { n = g.log.asked })
	return n
}

// The bug: an answer that lay in a socket for 14 s while the process was paused counted as fresh.
func TestAnAnswerIsAsOldAsItsQuestion(t *testing.T) {
	follower(t, func(t *testing.T, g *rig) {
		g.log.set(func() { g.log.answers = make(chan struct{}) })
		read := make(chan error, 1)
		go func() { _, err := g.tryGet("a", true); read <- err }()
		synctest.Wait()
		g.pass(14 * time.Second)
		close(g.log.answers)
		require.ErrorIs(t, <-read, kv.ErrStale)
		got, err := g.tryGet("a", true)
		require.NoError(t, err, "the leader answers a second question at once")
		require.Equal(t, "1", got)
		require.Equal(t, 2, g.questions())
	})
}

// The answer says what the leader had committed, which must be applied before it counts.
func TestAnAnswerCountsOnceItIsApplied(t *testing.T) {
	follower(t, func(t *testing.T, g *rig) {
		g.log.set(func() { g.log.index++ })
		read := make(chan error, 1)
		go func() { _, err := g.tryGet("a", true); read <- err }()
		synctest.Wait()
		require.Empty(t, read)
		g.state.Apply(&raft.Log{Index: g.log.index, Term: 1, Type: raft.LogNoop})
		require.NoError(t, <-read)
	})
}

func TestTheLeaderIsAskedOnlyForStaleReadsAndInTime(t *testing.T) {
	follower(t, func(t *testing.T, g *rig) {
		time.Sleep(time.Minute)
		require.Zero(t, g.questions())
		for range 100 {
			_, err := g.tryGet("a", true)
			require.NoError(t, err)
		}
		require.Equal(t, 1, g.questions())
		g.pass(g.o.StaleBound / 2)
		for range 100 {
			_, err := g.tryGet("a", true)
			require.NoError(t, err)
			synctest.Wait()
		}
		require.Equal(t, 2, g.questions(), "in the background, before the bound")
		time.Sleep(time.Hour)
		require.Equal(t, 2, g.questions())
	})
}

func TestAReplicaWithoutALeaderAnswersForTheBound(t *testing.T) {
	follower(t, func(t *testing.T, g *rig) {
		_, err := g.tryGet("a", true)
		require.NoError(t, err)
		g.log.set(func() { g.log.silent = errors.New("no leader") })
		g.pass(g.o.StaleBound)
		_, err = g.tryGet("a", true)
		require.NoError(t, err)
		synctest.Wait()
		g.pass(1)
		asked := g.questions()
		for range 10 {
			_, err = g.tryGet("a", true)
			require.ErrorIs(t, err, kv.ErrStale)
		}
		require.Equal(t, asked, g.questions(), "a question has just failed")
		g.pass(g.o.AskTimeout)
		g.log.set(func() { g.log.silent = nil })
		_, err = g.tryGet("a", true)
		require.NoError(t, err)
	})
}

// The process is paused while it reads.
func TestAnAnswerThatBecameTooOldIsNotGiven(t *testing.T) {
	follower(t, func(t *testing.T, g *rig) {
		err := g.View(t.Context(), true, func(kv.Reader) error {
			g.pass(g.o.StaleBound + 1)
			return nil
		})
		require.ErrorIs(t, err, kv.ErrStale)
	})
}

func TestALeaderThatLostItsPlaceAnswersStaleReadsForTheBound(t *testing.T) {
	follower(t, func(t *testing.T, g *rig) {
		g.log.lead(true, kv.ErrUnknown)
		_, err := g.tryGet("a", true)
		require.NoError(t, err)
		g.log.lead(false, kv.ErrUnknown)
		g.log.set(func() { g.log.silent = errors.New("no leader") })
		g.pass(g.o.StaleBound)
		_, err = g.tryGet("a", true)
		require.NoError(t, err)
		g.pass(1)
		_, err = g.tryGet("a", true)
		require.ErrorIs(t, err, kv.ErrStale)
	})
}

func TestTimeElapses(t *testing.T) {
	before := elapsed()
	require.Positive(t, before)
	require.Eventually(t, func() bool { return elapsed() > before }, time.Minute, time.Millisecond)
}
