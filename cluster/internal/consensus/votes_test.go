package consensus

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"
)

// missedChange has a voter miss that another server was replaced. Then the leader ends, and only that voter and the
// new server are left of the three. It reports whether they elect a leader. On a busy machine, the leader can lose its
// place before the server is replaced: then there is no case.
func missedChange(t *testing.T) (elected, isCase bool) {
	c := startCluster(t, 3, nil)
	c.propose("before")
	c.agree([]string{"before"})
	leader, followers := c.leader(), c.followers()
	missed, replaced := followers[0], followers[1]
	c.net.isolate(missed.id)
	fresh := c.listen()
	c.start(fresh)
	if leader.AddNonvoter(within(t, patience), fresh.id, fresh.o.Address) != nil ||
		leader.AddVoter(within(t, patience), fresh.id, fresh.o.Address) != nil ||
		leader.RemoveServer(within(t, patience), replaced.id) != nil {
		return false, false
	}
	if _, _, err := leader.Propose([]byte("without one")).Wait(within(t, patience)); err != nil {
		return false, false
	}
	eventually(t, "the new server has all entries", func() bool {
		entries, _ := fresh.fsm.state()
		return len(entries) == 2
	})
	require.NoError(t, replaced.Close())
	require.NoError(t, leader.Close())
	c.net.heal()
	for end := time.Now().Add(patience); !elected && time.Now().Before(end); time.Sleep(time.Millisecond) {
		elected = fresh.IsLeader()
	}
	if elected {
		c.propose("after")
		c.agree([]string{"before", "without one", "after"}, missed, fresh)
	}
	return elected, true
}

func TestAVoterThatMissedAChangeElectsAServerThatItDoesNotKnow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 20 {
			if elected, isCase := missedChange(t); isCase {
				require.True(t, elected, "the voter refuses a stranger")
				return
			}
		}
		t.Fatal("no leader keeps its place")
	})
}

// replace has another server, which knows nothing, start where a node was.
func (c *cluster) replace(old *node) *node {
	require.NoError(c.t, old.Close())
	n := &node{id: "another", listener: old.listener, fsm: &recorder{}, store: &memory{InmemStore: raft.NewInmemStore()}, o: old.o}
	n.o.ID, n.o.Logs, n.o.Stable, n.o.FSM, n.o.Snapshots, n.o.Bootstrap = n.id, n.store, n.store, n.fsm, n.fsm, nil
	c.start(n)
	return n
}

// A write is on the leader and on a server that then loses its stores, and comes back as another one at the same
// address. The third server does not have the write. Without the leader it must not win by the vote of the new server,
// which has forgotten what the old one has acknowledged.
func TestAServerDoesNotVoteInTheNameOfTheOneThatWasThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, known := range []bool{true, false} {
			addresses := func(id string) (string, error) { return "", errors.New("it is not there any more") }
			c := startCluster(t, 3, func(o *Options) {
				if !known {
					o.Addresses = addresses
				}
			})
			c.propose("old")
			c.agree([]string{"old"})
			leader := c.leader()
			lost, behind := c.followers()[0], c.followers()[1]
			c.net.isolate(behind.id)
			c.proposeAt(leader, "new")
			require.NoError(t, leader.Close())
			fresh := c.replace(lost)
			c.net.heal()
			for end := time.Now().Add(10 * testTiming.Heartbeat); time.Now().Before(end); time.Sleep(time.Millisecond) {
				require.False(t, behind.IsLeader(), "it does not have all that was acknowledged")
			}
			require.Zero(t, fresh.Term(), "messages for the old server")
		}
	})
}

// The old leader and another server, at the address of one that has voted for the successor, are cut off from that.
func TestAServerDoesNotAcknowledgeInTheNameOfTheOneThatWasThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		require.Error(t, deposed(t, func() (error, bool) {
			c, a := patientLeader(t, func(*Options) {})
			c.proposeAt(a, "old")
			c.agree([]string{"old"})
			c.net.isolate(a.id)
			c.propose("new", a)
			successor := c.leader(a)
			c.net.isolate(successor.id)
			lost := c.nodes[1]
			if lost == successor {
				lost = c.nodes[2]
			}
			fresh := c.replace(lost)
			c.net.release("", a.id, lost.id)
			c.net.release("", lost.id, a.id)
			_, err := a.ReadIndex(within(t, 300*time.Millisecond))
			leads := a.IsLeader()
			require.Zero(t, fresh.Term(), "messages for the old server")
			return err, leads
		}))
	})
}

// A server has voted for one that was at an address. Another one at this address did not get that vote.
func TestAVoteIsForAServerAndNotForItsAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3, nil)
		c.propose("x")
		c.agree([]string{"x"})
		leader, f := c.leader(), c.followers()[0]
		for _, n := range c.nodes {
			if n != f {
				require.NoError(t, n.Close())
			}
		}
		require.True(t, c.vote(f, leader.id, leader.o.Address, 100, 50))
		require.True(t, c.vote(f, leader.id, leader.o.Address, 100, 50), "again")
		require.False(t, c.vote(f, "another", leader.o.Address, 100, 50))
	})
}

// vote asks a node for its vote in the name of a candidate whose newest entry has an index, and a term of that number.
func (c *cluster) vote(n *node, id, addr string, term, index uint64) bool {
	var resp raft.RequestVoteResponse
	require.NoError(c.t, c.stranger().RequestVote(raft.ServerID(n.id), raft.ServerAddress(n.o.Address), &raft.RequestVoteRequest{
		RPCHeader: raft.RPCHeader{
			ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(id),
			Addr: n.trans.EncodePeer(raft.ServerID(id), raft.ServerAddress(addr)),
		},
		Term: term, LastLogIndex: index, LastLogTerm: index, LeadershipTransfer: true,
	}, &resp))
	return resp.Granted
}

// halfVotes is a store that has a disk error after the first half of a vote.
type halfVotes struct {
	*memory
	left int // how many halves it stores
}

func (h *halfVotes) half() error {
	if h.left--; h.left < 0 {
		return errors.New("a disk error")
	}
	return nil
}

func (h *halfVotes) SetUint64(key []byte, n uint64) error {
	if string(key) == keyVoteTerm {
		if err := h.half(); err != nil {
			return err
		}
	}
	return h.memory.SetUint64(key, n)
}

func (h *halfVotes) Set(key, value []byte) error {
	if err := h.half(); err != nil {
		return err
	}
	return h.memory.Set(key, value)
}

// A server has voted for a candidate, and half of its next vote, for another one, was stored. The first one, whose log
// is shorter by now, must not get that vote.
func TestHalfAVoteIsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3, nil)
		c.propose("x")
		c.agree([]string{"x"})
		leader, f, other := c.leader(), c.followers()[0], c.followers()[1]
		for _, n := range c.nodes {
			require.NoError(t, n.Close())
		}
		f.o.Stable = &halfVotes{f.store, 3}
		f.o.Timing.Heartbeat, f.o.Timing.Election = time.Minute, time.Minute // it votes for no other
		c.start(f)
		require.True(t, c.vote(f, leader.id, leader.o.Address, 100, 50))
		require.False(t, c.vote(f, other.id, other.o.Address, 101, 50))
		f.o.Stable.(*halfVotes).left = 4
		require.False(t, c.vote(f, leader.id, leader.o.Address, 101, 0), "its log is too short")
		require.True(t, c.vote(f, other.id, other.o.Address, 101, 50))
	})
}
