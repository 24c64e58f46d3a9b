package consensus

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"
)

// A plan may be old: it does not know who has died since. The refusal waits for as long as the caller does.
func TestAVoterStaysIfTheOthersWouldHaveNoLiveQuorum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startSteady(t, 3, nil)
		leader, others := c.leader(), c.followers()
		healthy, dead := others[0], others[1]
		leader.propose(t, "before")
		c.net.isolate(dead.id)
		require.ErrorIs(t, leader.RemoveServer(within(t, 200*time.Millisecond), healthy.id), ErrNoLiveQuorum)
		require.ErrorIs(t, leader.RemoveServer(within(t, 200*time.Millisecond), leader.id), ErrNoLiveQuorum)
		require.Len(t, leader.Configuration(), 3)
		leader.propose(t, "between")
		require.NoError(t, leader.RemoveServer(within(t, patience), dead.id))
		leader.propose(t, "after")
		require.Len(t, leader.Configuration(), 2)
	})
}

func TestAServerThatDoesNotAnswerGetsNoVoteThatTheGroupWouldNeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startSteady(t, 3, nil)
		leader := c.leader()
		leader.propose(t, "before")
		d := c.listen()
		c.start(d)
		require.NoError(t, leader.AddNonvoter(within(t, patience), d.id, d.o.Address))
		c.agree([]string{"before"}, leader, d)
		dead := c.followers()[0]
		if dead == d {
			dead = c.followers()[1]
		}
		c.net.isolate(dead.id)
		c.net.isolate(d.id)
		require.ErrorIs(t, leader.AddVoter(within(t, 200*time.Millisecond), d.id, d.o.Address), ErrNoLiveQuorum)
		leader.propose(t, "two of three")
		c.net.heal()
		require.NoError(t, leader.AddVoter(within(t, patience), d.id, d.o.Address))
		leader.propose(t, "after")
	})
}

// A server that is back, or whose disk was full, answers heartbeats at once, and raft sends it entries up to ten
// seconds later: it stops writes for a transfer before, and a second one would wait even after the leader was closed.
func TestALeadershipDoesNotGoToAServerThatGetsNoEntriesYet(t *testing.T) {
	refuse := func([]*raft.Log) error { return errors.New("the disk is full") }
	for name, c := range map[string]struct {
		away            time.Duration
		leave, comeBack func(t *testing.T, c *cluster, n *node)
	}{
		"back": {
			25 * time.Second,
			func(t *testing.T, _ *cluster, n *node) { require.NoError(t, n.Close()) },
			func(_ *testing.T, c *cluster, n *node) { c.start(n) },
		},
		"its disk is full": { // and it refuses some entries meanwhile
			300 * time.Millisecond,
			func(_ *testing.T, _ *cluster, n *node) { n.store.before.Store(&refuse) },
			func(*testing.T, *cluster, *node) {},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				group := startSteady(t, 3, nil)
				leader, back := group.leader(), group.followers()[0]
				refused := func() {
					require.ErrorIs(t, leader.TransferLeadership(within(t, 500*time.Millisecond), back.id), ErrNoLiveQuorum)
					leader.propose(t, "between")
					require.True(t, leader.Leadership().Ready)
				}
				c.leave(t, group, back)
				leader.propose(t, "before")
				refused()
				time.Sleep(c.away)
				c.comeBack(t, group, back)
				time.Sleep(100 * time.Millisecond)
				refused()
				refused()
				back.store.before.Store(nil)
				time.Sleep(10 * time.Second)
				require.NoError(t, leader.TransferLeadership(within(t, patience), back.id))
				require.Equal(t, back, group.leader())
			})
		})
	}
}
