package replica

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/cluster/internal/command"
	"github.com/sievedb/sievedb/cluster/internal/kv"
	"github.com/sievedb/sievedb/cluster/internal/layout"
)

// incr sends ONCE id INCR n.
func (g *rig) incr(id string) (p kv.Pending, reply func() string, wrote bool) {
	g.t.Helper()
	var r command.Reply
	p, wrote = g.evaluate(mustFind(g.t, "once"), &r, []string{id, "incr", "n"})
	return p, func() string { return string(r.Bytes) }, wrote
}

// The reply is stored with the effect, so that it is there exactly if the effect is.
func TestARequestIsRepeatedOnlyIfItsEntryWasLost(t *testing.T) {
	g := newRig(t)
	g.mustPut("first", "1")
	g.log.set(func() { g.log.held = true })
	first, reply, _ := g.incr("1")
	again, second, wrote := g.incr("1")
	require.Equal(t, ":1\r\n", reply())
	require.Equal(t, ":1\r\n", second(), "the first one is on its way")
	require.False(t, wrote)
	g.log.commit(1)
	require.NoError(t, first.Wait(t.Context()))
	require.NoError(t, again.Wait(t.Context()))
	lost, _, _ := g.incr("2")
	g.log.set(func() { g.log.held = false })
	g.log.lead(true, kv.ErrUnknown)
	require.ErrorIs(t, lost.Wait(t.Context()), kv.ErrUnknown)
	for id, want := range map[string]string{"1": ":1\r\n", "2": ":2\r\n"} {
		p, reply, _ := g.incr(id)
		require.NoError(t, p.Wait(t.Context()))
		require.Equal(t, want, reply())
	}
	require.Equal(t, "2", g.get("n"))
}

// An answer that was repeated is confirmed in its term as others are.
func TestARepeatedRequestIsConfirmed(t *testing.T) {
	g := newRig(t)
	p, _, _ := g.incr("1")
	require.NoError(t, p.Wait(t.Context()))
	p, _, wrote := g.incr("1")
	require.False(t, wrote)
	g.succeed("n", "5")
	require.ErrorIs(t, p.Wait(t.Context()), kv.ErrDeposed)
}

func TestOutcomesAreRemovedAfterTheirTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t)
		for i := range 1100 { // more than one sweep removes
			g.incr(fmt.Sprint(i))
		}
		kept := func() int { return g.stored(layout.OutcomePrefix, layout.OutcomeExpiryPrefix) }
		g.at(1000 + command.DefaultOnceFor.Milliseconds() - 1)
		time.Sleep(time.Minute)
		require.Equal(t, 2200, kept())
		g.at(1000 + command.DefaultOnceFor.Milliseconds())
		p, reply, _ := g.incr("7")
		require.NoError(t, p.Wait(t.Context()))
		require.Equal(t, ":1101\r\n", reply(), "its time was over, and it has another one")
		time.Sleep(time.Minute)
		require.Equal(t, 2, kept())
		p, reply, _ = g.incr("7")
		require.NoError(t, p.Wait(t.Context()))
		require.Equal(t, ":1101\r\n", reply())
	})
}
