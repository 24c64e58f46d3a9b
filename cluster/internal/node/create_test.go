package node

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/cluster/internal/consensus"
	"github.com/sievedb/sievedb/cluster/internal/files"
	"github.com/sievedb/sievedb/cluster/internal/kv"
	"github.com/sievedb/sievedb/cluster/internal/wire"
	"github.com/sievedb/sievedb/vfs"
)

// A first node whose directory was not mounted created another cluster at its address.
func TestAnEmptyDirectoryWithoutJoinIsNoCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 1)
		o := f.options("1")
		_, err := Start(f.ctx, o)
		require.ErrorIs(t, err, ErrNoNode)
		require.ErrorContains(t, err, "sieved init")
		require.ErrorContains(t, err, "--join")
		require.ErrorContains(t, err, "not mounted")
		_, err = o.FS.Lstat(o.Dir)
		require.Error(t, err, "nothing is written where a file system may be missing")
		require.NoError(t, o.FS.MkdirAll(o.Dir))
		_, err = Start(f.ctx, o)
		require.ErrorIs(t, err, ErrNoNode)
	})
}

func TestACreatedDirectoryIsThatOfTheFirstNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 4)
		o := f.options("1")
		require.NoError(t, Create(o))
		require.ErrorContains(t, Create(o), "node.json")
		f.start("1")
		f.settled(1)
		m := f.nodes["1"].atlas.chart()
		require.Equal(t, f.nodes["1"].Addr(), m.Nodes[0].Addr)
		require.Equal(t, 4, m.Groups)
		f.crash("1")
		f.start("1") // at another port
		f.write("a", "b")
	})
}

func TestADirectoryThatIsNotEmptyIsNotCreated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 1)
		o := f.options("1")
		require.NoError(t, o.FS.MkdirAll(o.Dir+"/lost+found"))
		require.NoError(t, o.FS.MkdirAll(o.Dir+"/group-0000"))
		require.ErrorContains(t, Create(o), "group-0000")
		o.Join = []string{"127.0.0.1:1"}
		_, err := Start(f.ctx, o)
		require.ErrorIs(t, err, ErrNoNode, "the data of a node that has lost its name")
		require.NoError(t, files.RemoveAll(o.FS, o.Dir+"/group-0000"))
		require.NoError(t, Create(o), "a new file system has lost+found")
	})
}

// The old node 1 is down. What 'init' made at its address has its ID and no data.
func TestANewClusterAtTheAddressOfAnOldOneStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := threeNodes(t, 1)
		addr := f.nodes["1"].Addr()
		f.crash("1")
		empty := newFleet(t, 1)
		o := empty.options("1")
		o.Listen = addr
		require.NoError(t, Create(o))
		forked, err := Start(empty.ctx, o)
		require.NoError(t, err)
		empty.nodes["1"] = forked
		select {
		case <-forked.Done():
		case <-f.ctx.Done():
		}
		require.ErrorIs(t, forked.Err(), ErrForked)
		require.False(t, forked.Health().Ready)
	})
}

// Old nodes of another cluster must not stop one that works.
func TestANodeThatHasHadOthersIgnoresForeignOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 1)
		f.start("1")
		f.start("2")
		f.settled(2)
		for _, n := range f.nodes {
			n.onForeign(wire.Peer{ID: "3", Incarnation: 1})
			require.NoError(t, n.Err())
		}
	})
}

func TestARemovedNodeSaysSoAtEachStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := threeNodes(t, 1)
		_, err := f.operate("2", "RAFT.REMOVE", "1")
		require.NoError(t, err)
		removed := f.nodes["1"]
		select {
		case <-removed.Done():
		case <-f.ctx.Done():
		}
		require.ErrorIs(t, removed.Err(), ErrRemoved)
		f.crash("1")
		_, err = Start(f.ctx, f.options("1"))
		require.ErrorIs(t, err, ErrRemoved)
		require.ErrorContains(t, err, "delete node and start it with --join")
		f.disks["1"] = vfs.NewMem()
		f.start("1")
		f.settled(3)
	})
}

// With one voter of a group down and the directory of another one not mounted, the group has no majority. It would
// never have one again if that node came back as another server.
func TestANodeWhoseDataAreNeededDoesNotJoinEmpty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := calm(t, 4, "1", "2", "3", "4")
		planner, s := f.planner()
		require.NoError(t, planner.spare(f.ctx, "9"), "a node that is new")
		// down has no replica of group 0, so that group keeps its majority without lost.
		var down, lost kv.NodeID
		for id := range f.nodes {
			if !hasNode(s.Groups[0].Servers, id) {
				down = id
			}
		}
		for id := range f.nodes {
			if hasNode(s.Groups[0].Servers, id) && hasNode(s.Groups[1].Servers, id) && hasNode(s.Groups[1].Servers, down) {
				lost = id
			}
		}
		require.NotEmpty(t, lost, "%+v", s.Groups)
		f.crash(down)
		f.crash(lost)
		f.eventually(func() error {
			err := error(errNotHosted)
			for _, n := range f.nodes {
				if _, err = n.onJoin(f.ctx, joinRequest{ID: lost, Addr: "127.0.0.1:1"}); errors.Is(err, errNeeded) {
					return nil
				}
				require.Error(t, err)
			}
			return err
		})
		f.start(down)
		f.disks[lost] = nil
		f.start(lost)
		f.settled(3)
		require.EqualValues(t, 2, f.nodes[lost].self().Incarnation)
	})
}

// slowStore is a log to which nothing is written while stalled is full.
type slowStore struct {
	raftStore
	stalled chan struct{}
}

func (s slowStore) StoreLog(l *raft.Log) error { return s.StoreLogs([]*raft.Log{l}) }

func (s slowStore) StoreLogs(l []*raft.Log) error {
	s.stalled <- struct{}{}
	defer func() { <-s.stalled }()
	return s.raftStore.StoreLogs(l)
}

// A voter that lags says who leads, and does not have what the leader and the node that joins have acknowledged.
func TestANodeWhoseEntriesAVoterLacksDoesNotJoinEmpty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 1)
		stalled := make(chan struct{}, 1)
		f.o.Raft = func(o *consensus.Options) {
			if o.ID == "3.1" {
				o.Logs = slowStore{o.Logs.(raftStore), stalled}
			}
		}
		f.startThree()
		var n *Node
		f.eventually(func() error {
			if n, _ = f.planner(); n.o.ID == "3" {
				return fmt.Errorf("node 3 leads: %w", f.nodes["1"].callLeader(f.ctx, 0, "change", changeRequest{Kind: actTransfer, Server: "1.1"}, &struct{}{}))
			}
			return nil
		})
		lost := kv.NodeID("1")
		if n.o.ID == lost {
			lost = "2"
		}
		f.crash(lost)
		spared := func() (err error) {
			for _, n := range f.nodes { // one of them leads
				if err = n.spare(f.ctx, lost); err == nil || errors.Is(err, errNeeded) {
					return err
				}
			}
			return err
		}
		f.eventually(spared)
		f.eventually(func() error {
			stalled <- struct{}{}
			err := spared()
			<-stalled
			require.Error(t, err)
			if errors.Is(err, errNeeded) {
				return nil
			}
			return err // no node leads now
		})
		f.eventually(spared)
	})
}

func hasNode(servers []server, id kv.NodeID) bool {
	return slices.ContainsFunc(servers, func(s server) bool { return nodeOf(s.ID) == id })
}

func TestTheAddressOfANodeIsOneThatOthersCanUse(t *testing.T) {
	for _, c := range []struct{ listen, advertise, want, err string }{
		{"127.0.0.1:7001", "", "127.0.0.1:7001", ""},
		{"[::]:7001", "node-a:7001", "node-a:7001", ""},
		{"[::]:7001", "", "", "--advertise HOST:PORT"},
		{"0.0.0.0:7001", "", "", "--advertise HOST:PORT"},
		{"127.0.0.1:7001", "0.0.0.0:7001", "", "--advertise is 0.0.0.0:7001"},
		{"127.0.0.1:7001", ":7001", "", "--advertise is :7001"},
		{"127.0.0.1:7001", "node-a", "", "missing port"},
		{"127.0.0.1:7001", "node-a:0", "", "need a port"},
	} {
		addr, err := net.ResolveTCPAddr("tcp", c.listen)
		require.NoError(t, err)
		got, err := (&Options{Advertise: c.advertise}).address(addr)
		require.Equal(t, c.want, got)
		if c.err != "" {
			require.ErrorContains(t, err, c.err)
		}
	}
}
