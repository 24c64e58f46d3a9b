package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/cluster/internal/consensus"
	"github.com/sievedb/sievedb/cluster/internal/kv"
)

// planner waits until a node leads group 0, and returns it with its confirmed survey.
func (f *fleet) planner() (n *Node, s situation) {
	f.t.Helper()
	f.eventually(func() error {
		err := errors.New("no node plans")
		for _, n = range f.nodes {
			if s, err = n.survey(f.ctx, confirmAll); err == nil && len(s.Groups) == s.Map.Groups {
				return nil
			}
		}
		return fmt.Errorf("a survey of %d groups: %w", len(s.Groups), err)
	})
	return n, s
}

// depose makes another node the leader of group 0, and returns it.
func (f *fleet) depose(n *Node) *Node {
	f.t.Helper()
	f.eventually(func() error {
		h, err := n.hostedGroup(0)
		if err != nil || !h.replica.Leading() {
			return err
		}
		return h.log.TransferLeadership(f.ctx, n.successor(h))
	})
	other, _ := f.planner()
	return other
}

func (f *fleet) configurations() map[kv.GroupID][]server {
	_, s := f.planner()
	all := map[kv.GroupID][]server{}
	for group, g := range s.Groups {
		all[group] = g.Servers
	}
	return all
}

// calm is a fleet whose planner has nothing to do.
func calm(t *testing.T, groups int, ids ...kv.NodeID) *fleet {
	f := newFleet(t, groups)
	for _, id := range ids {
		f.start(id)
	}
	f.settled(min(3, len(ids)))
	f.eventually(func() error { // no move is on its way
		n, s := f.planner()
		s.Calm = true
		if rest := plan(s); len(rest) > 0 {
			return fmt.Errorf("node %s plans %v", n.o.ID, rest)
		}
		return nil
	})
	return f
}

// The planner was paused, deposed, and goes on: it had read a map without a node that is a healthy voter by now. It
// removed that node from all groups.
func TestADeposedPlannerCarriesNothingOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := calm(t, 4, "1", "2", "3")
		old, s := f.planner()
		f.depose(old)
		f.start("4")
		f.eventually(func() error { // it has replicas
			for _, servers := range f.configurations() {
				if slices.Contains(servers, server{"4.1", true}) {
					return nil
				}
			}
			return errors.New("node 4 has no vote yet")
		})
		f.settled(3)
		_, now := f.planner()
		s.Groups, s.Hosted = now.Groups, now.Hosted // what it hears from the others is new
		actions := plan(s)
		require.Contains(t, actions, action{actRemove, actions[0].Group, "4.1"})
		for _, a := range actions {
			require.Error(t, old.act(f.ctx, s, a), "%+v", a)
		}
		require.Equal(t, len(now.Groups), len(f.configurations()))
		for group, servers := range f.configurations() {
			for _, s := range now.Groups[group].Servers {
				require.True(t, hasServer(servers, s.ID), "group %d has lost %s: %v", group, s.ID, servers)
			}
		}
	})
}

func hasServer(servers []server, id string) bool {
	return slices.ContainsFunc(servers, func(s server) bool { return s.ID == id })
}

// Every step of a plan is refused after a change of the leader of group 0, and after a change of the map.
func TestStepsOfAnOldPlanAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := calm(t, 1, "1", "2", "3")
		old, s := f.planner()
		follower := s.Groups[0].Servers[0].ID
		if follower == s.Groups[0].Leader {
			follower = s.Groups[0].Servers[1].ID
		}
		leaving, _ := s.Map.Find(nodeOf(follower))
		leaving.Leaving = true
		steps := []action{
			{actHost, 0, follower}, {actDrop, 0, follower}, {actAdd, 0, follower}, {actPromote, 0, follower}, {actRemove, 0, follower},
			{actTransfer, 0, follower}, {Kind: actForget, Server: follower},
		}
		refused := func(n *Node, why string) {
			t.Helper()
			for _, a := range steps {
				require.Error(t, n.act(f.ctx, s, a), "%s: %+v", why, a)
			}
			require.True(t, f.nodes[nodeOf(follower)].places[0].isHosted(), why)
			require.True(t, hasServer(f.configurations()[0], follower), why)
			_, found := n.atlas.chart().Find(nodeOf(follower))
			require.True(t, found, why)
		}
		s.Basis.Version--
		refused(old, "an older map")
		s.Basis.Version++
		s.Basis.Term--
		refused(old, "an older term")
		s.Basis.Term++
		s.Groups = map[kv.GroupID]groupSituation{0: s.Groups[0]}
		f.depose(old)
		refused(old, "another leader")
	})
}

// A paused leader answers the survey with what it believed before.
func TestASurveyLeavesOutLeadersThatNoMajorityConfirms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := calm(t, 1, "1", "2", "3")
		n, _ := f.planner()
		for id := range f.nodes {
			if id != n.o.ID {
				f.crash(id)
			}
		}
		require.Empty(t, n.confirmedLeads(f.ctx))
		_, err := n.survey(f.ctx, confirmAll)
		require.Error(t, err, "group 0 has no majority that confirms the map")
	})
}

// The survey may have the words of a deposed leader, which knows no replica on the node.
func TestWhatAGroupSaysItHasIsNeitherDeletedNorForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := calm(t, 1, "1", "2", "3")
		n, s := f.planner()
		for _, voter := range s.Groups[0].Servers {
			require.ErrorIs(t, n.act(f.ctx, s, action{actDrop, 0, voter.ID}), errChanged)
			require.True(t, f.nodes[nodeOf(voter.ID)].places[0].isHosted())
			require.ErrorIs(t, n.forget(f.ctx, s, nodeOf(voter.ID)), errChanged)
		}
		require.Len(t, n.atlas.chart().Nodes, 3)
	})
}

// The plan was right when it was made: then another voter died.
func TestTheLeaderOfAGroupKeepsAVoterThatTheGroupNeeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := calm(t, 1, "1", "2", "3")
		_, s := f.planner()
		var others []string
		for _, voter := range s.Groups[0].Servers {
			if voter.ID != s.Groups[0].Leader {
				others = append(others, voter.ID)
			}
		}
		f.crash(nodeOf(others[0]))
		f.eventually(func() error { // on a busy machine the group may get another leader now
			n, s := f.planner()
			err := n.act(f.ctx, s, action{actRemove, 0, others[1]})
			require.Error(t, err)
			if !errors.Is(err, consensus.ErrNoLiveQuorum) {
				return err
			}
			return nil
		})
		f.write("after", "the refusal")
	})
}

// A process that was paused has heard nobody meanwhile.
func TestSilenceDoesNotCountWhileTheProcessStoodStill(t *testing.T) {
	a := newAtlas()
	begin := time.Now()
	a.hear("2", contact{at: begin.Add(-time.Hour)})
	a.awake, a.ran = begin.Add(-time.Hour), begin.Add(-time.Minute)
	a.pulse(begin, 2*time.Minute)
	require.GreaterOrEqual(t, a.silence("2"), time.Hour)
	a.ran = begin.Add(-time.Minute)
	a.pulse(begin, 30*time.Second)
	require.LessOrEqual(t, a.silence("2"), time.Since(begin))
	require.GreaterOrEqual(t, a.age("2"), time.Hour)
}

// droppedConn loses what is written while the network is cut.
type droppedConn struct {
	net.Conn
	cut *atomic.Bool
}

func (c droppedConn) Write(p []byte) (int, error) {
	if c.cut.Load() {
		return len(p), nil
	}
	return c.Conn.Write(p)
}

// A leader of group 0 that has just lost the others believes in its map for a moment.
func TestWhatALeaderSaysOfTheMapIsConfirmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 1)
		var cut atomic.Bool
		f.o.Dial = func(ctx context.Context, addr string) (net.Conn, error) {
			conn, err := network.Dial(ctx, addr)
			return droppedConn{conn, &cut}, err
		}
		f.o.Accepted = func(conn net.Conn) net.Conn { return droppedConn{conn, &cut} }
		f.startThree()
		n, _ := f.planner()
		self := n.self()
		cut.Store(true)
		t.Cleanup(func() { cut.Store(false) })
		ctx, cancel := context.WithTimeout(f.ctx, 2*n.callTimeout())
		defer cancel()
		same := joinRequest{Cluster: n.clusterName(), ID: self.ID, Addr: self.Addr, Incarnation: self.Incarnation, Process: n.process}
		_, err := n.onJoin(ctx, same)
		require.Error(t, err, "nothing changes, but it does not know that")
		_, err = n.onLeave(ctx, leaveRequest{"9"})
		require.Error(t, err)
		require.NotContains(t, err.Error(), "has no node 9")
	})
}
