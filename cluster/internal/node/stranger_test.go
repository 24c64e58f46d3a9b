package node

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/cluster/internal/kv"
	"github.com/sievedb/sievedb/cluster/internal/nettest"
	"github.com/sievedb/sievedb/cluster/internal/wire"
)

// Raft of the nodes that live dials the dead one again and again: none of these streams may reach a replica.
func TestANodeAtTheAddressOfADeadOneIsNotTakenForIt(t *testing.T) {
	const value = "a value that only nodes may see"
	f := newFleet(t, 1)
	f.o.Bind, f.o.Dial = nil, nil // the relay uses the network of the system
	f.startThree()
	f.write("a", value)
	addr := f.nodes["3"].Addr()
	f.crash("3")
	stranger := nettest.NewRelay(t, addr, f.nodes["1"].Addr())
	member, found := f.nodes["1"].atlas.chart().Find("3")
	require.True(t, found)
	for dialer, says := range map[kv.NodeID]string{"1": "came back", "2": "where node 1.1 is"} {
		n := f.nodes[dialer]
		var status statusReply
		var err error
		for !errors.Is(err, wire.ErrRefused) { // the pool may have connections to the dead node
			err = n.call(f.ctx, member.target(), "status", statusRequest{}, &status)
			require.Error(t, err, "node 1 has answered for node 3")
			require.NoError(t, f.ctx.Err(), "%v", err)
		}
		require.ErrorContains(t, err, says)
		require.ErrorIs(t, n.replaceStateFrom(f.ctx, wire.Target{Peer: wire.Peer{ID: "3", Incarnation: 1}, Addr: addr}, 0), wire.ErrRefused)
		_, err = n.wire.Group(0).Dial(f.ctx, member.Server(), addr)
		require.ErrorIs(t, err, wire.ErrRefused)
		_, err = n.wire.Group(0).DialConfirm(f.ctx, member.Server(), addr)
		require.ErrorIs(t, err, wire.ErrRefused)
	}
	f.write("b", value)
	f.eventually(func() error { // the leader has looked since
		for _, n := range f.nodes {
			if g := n.replica(0); g != nil && g.Leading() {
				if s, err := n.survey(f.ctx, surveyAll); err != nil || s.answering()["3"] || !s.answering()["2"] {
					return fmt.Errorf("answering: %v", s.answering())
				}
				return nil
			}
		}
		return errors.New("nobody leads")
	})
	require.False(t, stranger.Saw(value))
}

// Raft refuses two servers with one address, and the replicas of the dead node never moved.
func TestANodeAtTheAddressOfADeadOneReplacesIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 1)
		f.startThree()
		f.write("a", "1")
		addr := f.nodes["3"].Addr()
		f.crash("3")
		o := f.options("4")
		o.Listen = addr
		n, err := Start(f.ctx, o)
		require.NoError(t, err)
		f.nodes["4"] = n
		require.Equal(t, addr, n.Addr())
		f.eventually(func() error {
			_, err := f.operate(n.o.ID, "raft.remove", "3")
			return err
		})
		f.settled(3)
		f.write("b", "2")
		f.has("a", "1")
		f.eventually(func() error {
			if _, found := n.atlas.chart().Find("3"); found {
				return errors.New("it is still in the map")
			}
			return nil
		})
	})
}

func TestANodesOwnAddressBelongsToNoOther(t *testing.T) {
	n := &Node{atlas: newAtlas(), o: Options{Advertise: "mine:1"}}
	require.Empty(t, n.owner("a:1"), "before it has a map")
	n.atlas.learn(&Map{Version: 1, Nodes: []Member{{ID: "1", Addr: "a:1"}, {ID: "2", Addr: "mine:1"}, {ID: "3", Addr: "b:1"}, {ID: "4", Addr: "b:1"}}})
	require.Equal(t, kv.NodeID("1"), n.owner("a:1"))
	require.Empty(t, n.owner("mine:1"), "node 2 had it before")
	require.Empty(t, n.owner("b:1"), "two nodes have it")
	require.Empty(t, n.owner("c:1"))
}
