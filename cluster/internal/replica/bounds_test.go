package replica

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/cluster/internal/kv"
)

// Entries that no bound of writes counts, such as those that advance the clock, may fill the queue. They must not
// wait for a place in it: the place becomes free only by a lock that they hold.
func TestEntriesBeyondTheBoundOfWritesAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t)
		synctest.Wait()
		g.mustPut("a", "1")
		g.log.set(func() { g.log.held = true })
		var writes []kv.Pending
		for range g.o.MaxInFlight {
			writes = append(writes, g.put("a", "2", 0))
		}
		_, err := g.Update(t.Context(), func(tx kv.Tx) error { tx.Delete([]byte("a")); return nil })
		require.ErrorIs(t, err, kv.ErrBusy)
		ticks := make(chan error, 10)
		for i := range cap(ticks) {
			go func() { ticks <- g.advanceClock(t.Context(), 2000+int64(i)) }()
			synctest.Wait()
		}
		g.log.set(func() {
			g.log.held = false
			g.log.commitLocked(len(g.log.waiting))
		})
		for _, p := range writes {
			require.NoError(t, p.Wait(t.Context()))
		}
		refused := 0
		for range cap(ticks) {
			if err := <-ticks; err != nil {
				require.ErrorIs(t, err, kv.ErrBusy)
				refused++
			}
		}
		require.Positive(t, refused)
		g.mustPut("a", "3")
	})
}

// A leader that was paused for an hour still believes that it leads when it continues.
func TestALeaderThatWasPausedDoesNotAnswerStaleReads(t *testing.T) {
	g := newRig(t)
	g.mustPut("a", "1")
	g.log.set(func() {
		g.log.verified = &kv.NotLeaderError{}
	})
	_, err := g.tryGet("a", true)
	var not *kv.NotLeaderError
	require.True(t, errors.As(err, &not), "%v", err)
	g.log.set(func() { g.log.verified = nil })
	got, err := g.tryGet("a", true)
	require.NoError(t, err)
	require.Equal(t, "1", got)
}
