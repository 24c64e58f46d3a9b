package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/cluster/internal/kv"
	"github.com/sievedb/sievedb/cluster/internal/nettest"
	"github.com/sievedb/sievedb/cluster/internal/slot"
	"github.com/sievedb/sievedb/vfs"
)

// network connects the nodes. Tests run in bubbles, in which time passes at once when all wait for it.
var network nettest.Memory

// fleet is a cluster in this process.
type fleet struct {
	t     testing.TB
	ctx   context.Context
	nodes map[kv.NodeID]*Node
	disks map[kv.NodeID]vfs.FS
	free  sync.Map // by node: *atomic.Int64, free bytes
	dir   string   // of the nodes' directories on the disk of the system; "": disks has them
	o     Options  // of all nodes
}

func newFleet(t testing.TB, groups int) *fleet {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute) // only a fault reaches it
	level := slog.LevelError + 4
	if os.Getenv("NODE_TEST_LOG") != "" {
		level = slog.LevelInfo
	}
	f := &fleet{t: t, ctx: ctx, nodes: map[kv.NodeID]*Node{}, disks: map[kv.NodeID]vfs.FS{}}
	// Three nodes with many groups need most of two processors for heartbeats with the race detector.
	heartbeat := time.Duration(250+50*groups) * time.Millisecond
	f.o = Options{
		Dir: "node", Bind: network.Listen, Dial: network.Dial, Listen: "127.0.0.1:0", Groups: groups, Secret: []byte("a secret of the tests"),
		Timing: TimingOptions{Heartbeat: heartbeat, Election: heartbeat, Gossip: 40 * time.Millisecond},
		Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level})),
	}
	t.Cleanup(func() {
		for _, n := range f.nodes {
			n.closing.Store(true) // all end at the same time: no node is left to hand over to
			n.stop()
			n.work.Wait()
			require.NoError(t, n.release())
		}
		cancel()
	})
	return f
}

func (f *fleet) freeBytes(id kv.NodeID) *atomic.Int64 {
	v, _ := f.free.LoadOrStore(id, new(atomic.Int64))
	return v.(*atomic.Int64)
}

// start starts a node: the first one creates the cluster, others join or continue.
func (f *fleet) start(id kv.NodeID) *Node {
	o := f.options(id)
	if _, err := o.FS.Lstat(identityFile(o.Dir)); err != nil && len(o.Join) == 0 {
		require.NoError(f.t, Create(o))
	}
	n, err := Start(f.ctx, o)
	require.NoError(f.t, err)
	f.nodes[id] = n
	return n
}

// startThree starts the nodes 1, 2 and 3, and waits until they have all replicas.
func (f *fleet) startThree() {
	f.t.Helper()
	for _, id := range []kv.NodeID{"1", "2", "3"} {
		f.start(id)
	}
	f.settled(3)
}

func (f *fleet) options(id kv.NodeID) Options {
	o := f.o
	o.ID = id
	if f.disks[id] == nil {
		f.disks[id] = vfs.NewMem()
	}
	o.FS = f.disks[id]
	if f.dir != "" {
		o.Dir, o.FS = filepath.Join(f.dir, string(id)), vfs.OS
	}
	f.freeBytes(id).CompareAndSwap(0, 1<<40)
	o.Space.Free = func(string) (int64, error) { return f.freeBytes(id).Load(), nil }
	for _, n := range f.nodes {
		o.Join = append(o.Join, n.Addr())
	}
	o.Logger = o.Logger.With("node", id)
	return o
}

// crash ends a node without a word to others, and takes its power.
func (f *fleet) crash(id kv.NodeID) {
	n := f.nodes[id]
	delete(f.nodes, id)
	after := f.disks[id].(*vfs.Mem).Crash()
	n.closing.Store(true)
	n.stop()
	n.work.Wait()
	_ = n.release()
	f.disks[id] = after
}

func (f *fleet) eventually(condition func() error) {
	f.t.Helper()
	for {
		err := condition()
		if err == nil {
			return
		}
		if f.ctx.Err() != nil {
			for id, n := range f.nodes {
				f.t.Logf("node %s: %+v", id, n.Health())
			}
			require.NoError(f.t, err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// settled waits until each group has a number of voters on working nodes, and a leader that all nodes know.
func (f *fleet) settled(replicas int) {
	f.t.Helper()
	f.eventually(func() error {
		for id, n := range f.nodes {
			if h := n.Health(); len(h.Problems) > 0 {
				return fmt.Errorf("node %s: %q", id, h.Problems)
			}
			_, ranges := n.Map()
			for _, r := range ranges {
				if len(r.Replicas) != replicas || !slices.Contains(r.Replicas, r.Leader) {
					return fmt.Errorf("node %s: group %d has the replicas %v and the leader %q", id, r.Group, r.Replicas, r.Leader)
				}
				for _, on := range r.Replicas {
					if f.nodes[on] == nil {
						return fmt.Errorf("node %s: a replica of group %d is on %s", id, r.Group, on)
					}
				}
			}
		}
		return nil
	})
}

// write writes a key through whichever node leads its group, until that is acknowledged.
func (f *fleet) write(key, value string) {
	f.t.Helper()
	f.eventually(func() error {
		err := error(errNotHosted)
		for _, n := range f.nodes {
			g, ok := n.Group(slot.Of([]byte(key)))
			if !ok {
				continue
			}
			if err = put(f.ctx, g, value, key); err == nil {
				return nil
			}
		}
		return err
	})
}

// put writes a value to keys, in one transaction.
func put(ctx context.Context, g kv.Group, value string, keys ...string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	p, err := g.Update(ctx, func(tx kv.Tx) error {
		for _, key := range keys {
			tx.Put([]byte(key), kv.Value{Data: []byte(value)})
		}
		return nil
	})
	if err != nil {
		return err
	}
	return p.Wait(ctx)
}

// read returns a key's value from a node. It is linearizable unless stale.
func read(ctx context.Context, n *Node, key string, stale bool) (value string, err error) {
	g, ok := n.Group(slot.Of([]byte(key)))
	if !ok {
		return "", errNotHosted
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	err = g.View(ctx, stale, func(r kv.Reader) error {
		v, _, err := r.Get([]byte(key))
		value = string(v.Data)
		return err
	})
	return value, err
}

// has waits until a leader, and each replica on its own, has a value.
func (f *fleet) has(key, value string) {
	f.t.Helper()
	f.eventually(func() error {
		leaders := 0
		for id, n := range f.nodes {
			got, err := read(f.ctx, n, key, false)
			if err == nil {
				require.Equal(f.t, value, got, "a linearizable read of %s by node %s", key, id)
				leaders++
			}
			if got, err := read(f.ctx, n, key, true); !errors.Is(err, errNotHosted) && (err != nil || got != value) {
				return fmt.Errorf("node %s has %q as %s: %w", id, got, key, err)
			}
		}
		if leaders == 0 {
			return errors.New("no leader answers")
		}
		return nil
	})
}

func (f *fleet) writeSome(name string, count int) map[string]string {
	f.t.Helper()
	all := map[string]string{}
	for i := range count {
		key := fmt.Sprintf("%s-%d", name, i)
		f.write(key, key+"!")
		all[key] = key + "!"
	}
	return all
}

func (f *fleet) hasAll(all map[string]string) {
	f.t.Helper()
	for key, value := range all {
		f.has(key, value)
	}
}

func (f *fleet) leads() map[kv.NodeID]int {
	leads := map[kv.NodeID]int{}
	for id, n := range f.nodes {
		leads[id] = n.Health().Leads
	}
	return leads
}

// leading waits until a node leads a group.
func (f *fleet) leading(id kv.NodeID) {
	f.t.Helper()
	f.eventually(func() error {
		if f.leads()[id] == 0 {
			return fmt.Errorf("node %s does not lead", id)
		}
		return nil
	})
}

// joinedAgain waits until a node has its second incarnation.
func (f *fleet) joinedAgain(n *Node) {
	f.t.Helper()
	f.eventually(func() error {
		if n.self().Incarnation != 2 {
			return errors.New("the node has not joined again")
		}
		return nil
	})
}

// operate sends an operator's command to a node.
func (f *fleet) operate(id kv.NodeID, words ...string) (any, error) {
	var args [][]byte
	for _, word := range words {
		args = append(args, []byte(word))
	}
	return f.nodes[id].Operate(f.ctx, args)
}

// threeNodes starts nodes 1, 2 and 3.
func threeNodes(t *testing.T, groups int) *fleet {
	f := newFleet(t, groups)
	f.startThree()
	return f
}

func TestReplicasAndLeadersSpreadOverNodesThatJoin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 16)
		f.start("1")
		alone := f.writeSome("alone", 20)
		f.start("2")
		f.settled(2)
		f.start("3")
		f.settled(3)
		f.hasAll(alone)
		f.eventually(func() error {
			for id, leads := range f.leads() {
				if leads < 5 || leads > 6 {
					return fmt.Errorf("node %s leads %d of 16 groups", id, leads)
				}
			}
			return nil
		})
	})
}

func TestWritesSurviveTheCrashOfALeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := threeNodes(t, 4)
		written := f.writeSome("before", 20)
		_, ranges := f.nodes["1"].Map()
		victim := ranges[slot.GroupOf(slot.Of([]byte("x")), 4)].Leader
		f.crash(victim)
		f.write("x", "y")
		written["x"] = "y"
		f.hasAll(written)
		f.start(victim)
		f.settled(3)
		f.hasAll(written)
	})
}

func TestANodeIsReplacedWhileOthersWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := threeNodes(t, 4)
		f.start("4")
		written := f.writeSome("joined", 10)
		_, err := f.operate("2", "raft.remove", "1")
		require.NoError(t, err)
		for i := 0; !f.nodes["1"].Health().Removed; i++ {
			key := fmt.Sprint("leaving-", i)
			f.write(key, "v")
			written[key] = "v"
			time.Sleep(time.Millisecond)
		}
		require.Zero(t, f.nodes["1"].Health().Groups)
		require.NoError(t, f.nodes["1"].Close())
		delete(f.nodes, "1")
		f.settled(3)
		f.hasAll(written)
		_, err = f.operate("2", "RAFT.REMOVE", "1")
		require.Error(t, err)
	})
}

func TestAClosedNodeHandsItsLeadershipsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := threeNodes(t, 4)
		f.leading("2")
		f.nodes["2"].HandOver()
		require.Zero(t, f.leads()["2"])
		require.NoError(t, f.nodes["2"].Close())
		delete(f.nodes, "2")
		f.write("after", "close")
		f.start("2")
		f.settled(3)
		f.has("after", "close")
	})
}

func TestANodeThatLostItsDirectoryReturnsAsAnotherServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := threeNodes(t, 4)
		written := f.writeSome("kept", 10)
		f.crash("3")
		f.disks["3"] = nil
		f.start("3")
		f.settled(3)
		require.EqualValues(t, 2, f.nodes["3"].self().Incarnation)
		f.hasAll(written)
	})
}

// Two processes with copies of one directory would vote twice, as one server of raft.
func TestANodeWithACopyOfTheDirectoryOfAnotherDoesNotStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := threeNodes(t, 1)
		o := f.o
		o.ID, o.FS = "3", f.disks["3"].(*vfs.Mem).Crash()
		_, err := Start(f.ctx, o)
		require.ErrorIs(t, err, errIDInUse)
		f.crash("3")
		f.start("3") // with another address, but alone
		f.settled(3)
		require.EqualValues(t, 1, f.nodes["3"].self().Incarnation)
	})
}

// A node has moved to another machine, and the old one is started again. Its map is too old to know that. Others would
// send it what they send to the node, and take its entries and votes for those of the node.
func TestACopyOfADirectoryAtAnOldAddressIsNotTakenForTheNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := threeNodes(t, 1)
		f.write("a", "b")
		o := f.options("3")
		o.FS, o.Listen, o.Join = f.disks["3"].(*vfs.Mem).Crash(), f.nodes["3"].Addr(), nil
		f.crash("3")
		f.start("3")
		moved := f.nodes["3"].Addr()
		require.NotEqual(t, o.Listen, moved)
		f.eventually(func() error {
			for id, n := range f.nodes {
				if known, _ := n.atlas.chart().Find("3"); known.Addr != moved {
					return fmt.Errorf("the map of node %s has the address %s of node 3", id, known.Addr)
				}
			}
			return nil
		})
		_, err := Start(f.ctx, o)
		require.ErrorIs(t, err, ErrRolledBack)
		for _, id := range []kv.NodeID{"1", "2"} {
			require.Equal(t, moved, f.nodes[id].atlas.addr("3.1"))
		}
		require.NoError(t, f.nodes["3"].Err())
		f.settled(3)
		f.has("a", "b")
	})
}

// Raft dialed the addresses of the map, which only an elected leader can change.
func TestNodesFindEachOtherThoughAllHaveNewAddresses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := threeNodes(t, 1)
		f.write("a", "b")
		before := f.nodes["1"].atlas.chart()
		for _, id := range []kv.NodeID{"1", "2", "3"} {
			f.crash(id)
		}
		for _, id := range []kv.NodeID{"1", "2", "3"} {
			f.start(id)
			old, _ := before.Find(id)
			require.NotEqual(t, old.Addr, f.nodes[id].Addr())
		}
		f.settled(3)
		f.has("a", "b")
		f.eventually(func() error {
			for id, n := range f.nodes {
				if known, _ := f.nodes["1"].atlas.chart().Find(id); known.Addr != n.Addr() {
					return fmt.Errorf("the map has the address %s of node %s", known.Addr, id)
				}
			}
			return nil
		})
	})
}

// A new leader of group 0 may know an old map, such as that of its node.json, without the servers that have joined
// since.
func TestPlansAreMadeWithTheMapOfTheGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := threeNodes(t, 1)
		old := &Map{Version: 1, Cluster: f.nodes["1"].clusterName(), Groups: 1, Replicas: 3, Nodes: members("1")}
		f.eventually(func() error {
			for _, n := range f.nodes {
				if !n.replica(0).Leading() {
					continue
				}
				n.atlas.mu.Lock()
				n.atlas.current = old
				n.atlas.mu.Unlock()
				s, err := n.survey(f.ctx, surveyAll)
				require.NoError(t, err)
				require.Len(t, s.Map.Nodes, 3)
				return nil
			}
			return errors.New("no node leads")
		})
		f.settled(3)
	})
}

func TestAnOperatorsCommandEndsAlthoughNobodyLeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := threeNodes(t, 1)
		f.start("4") // without a replica
		f.eventually(func() error {
			if n := f.nodes["4"]; f.nodes["1"].Health().Leads == 1 && n.leader(0) == "1.1" {
				return nil
			}
			_, err := f.operate("1", "RAFT.TRANSFER", "0", "1")
			return fmt.Errorf("node 1 does not lead: %w", err)
		})
		f.crash("2")
		f.crash("3")
		f.eventually(func() error {
			if f.nodes["1"].replica(0).Leading() || f.nodes["4"].leader(0) != "1.1" {
				return errors.New("node 1 still leads")
			}
			return nil
		})
		_, err := f.operate("4", "RAFT.REMOVE", "2")
		require.Error(t, err)
		require.NoError(t, f.ctx.Err())
	})
}

func TestAFullDiskMovesLeadersAndRefusesWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := threeNodes(t, 4)
		f.leading("1")
		f.freeBytes("1").Store(1 << 20)
		f.eventually(func() error {
			if h := f.nodes["1"].Health(); !h.Full || h.Leads > 0 {
				return fmt.Errorf("%+v", h)
			}
			return nil
		})
		written := f.writeSome("elsewhere", 10)
		g, _ := f.nodes["1"].Group(0)
		var not *kv.NotLeaderError
		require.ErrorAs(t, put(f.ctx, g, "v", "k"), &not, "others have space")
		f.freeBytes("2").Store(1 << 20)
		f.freeBytes("3").Store(1 << 20)
		f.eventually(func() error { // any node may lead
			for _, n := range f.nodes {
				g, _ := n.Group(0)
				if errors.Is(put(f.ctx, g, "v", "k"), kv.ErrNoSpace) {
					return nil
				}
			}
			return errors.New("no node refuses writes")
		})
		for id := range f.nodes {
			f.freeBytes(id).Store(1 << 40)
		}
		f.settled(3)
		f.hasAll(written)
	})
}
