package consensus

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// missedChange has a voter miss that another server was replaced. Then the leader ends, and only that voter and the
// new server are left of the three. It reports whether they elect a leader.
func missedChange(t *testing.T, faults Faults) (elected bool) {
	c := startCluster(t, 3, func(o *Options) { o.Faults = faults })
	c.propose("before")
	c.agree([]string{"before"})
	leader, followers := c.leader(), c.followers()
	missed, replaced := followers[0], followers[1]
	c.net.isolate(missed.id)
	fresh := c.listen()
	fresh.o.Faults = faults
	c.start(fresh)
	require.NoError(t, leader.AddVoter(within(t, 5*time.Second), fresh.id, fresh.o.Address))
	require.NoError(t, leader.RemoveServer(within(t, 5*time.Second), replaced.id))
	leader.propose(t, "without one")
	eventually(t, "the new server has all entries", func() bool {
		entries, _ := fresh.fsm.state()
		return len(entries) == 2
	})
	require.NoError(t, replaced.Close())
	require.NoError(t, leader.Close())
	c.net.heal()
	for end := time.Now().Add(20 * testTiming.Heartbeat); !elected && time.Now().Before(end); time.Sleep(time.Millisecond) {
		elected = fresh.IsLeader()
	}
	if elected {
		fresh.propose(t, "after")
		c.agree([]string{"before", "without one", "after"}, missed, fresh)
	}
	return elected
}

func TestAVoterThatMissedAChangeElectsAServerThatItDoesNotKnow(t *testing.T) {
	require.True(t, missedChange(t, Faults{}))
	require.False(t, missedChange(t, Faults{RefuseStrangers: true}), "the test would find that raft refuses strangers")
}
