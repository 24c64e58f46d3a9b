package machine

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/cluster/internal/layout"
	"github.com/sievedb/sievedb/cluster/internal/logstore"
	"github.com/sievedb/sievedb/vfs"
)

// node is one of a cluster in this process.
type node struct {
	id    string
	mem   *vfs.Mem
	logs  *logstore.Store
	m     *Machine
	trans *raft.InmemTransport
	raft  *raft.Raft
}

type testCluster struct {
	t     *testing.T
	nodes []*node
	next  int // of a value
	// restoreAtStart makes raft open and restore its own snapshot when it begins.
	restoreAtStart bool
	trailing       uint64
}

// newCluster starts three nodes that keep trailing entries after a snapshot.
func newCluster(t *testing.T, trailing uint64) *testCluster {
	t.Parallel() // most of the time is spent waiting
	c := &testCluster{t: t, trailing: trailing}
	var all raft.Configuration
	for i := range 3 {
		n := &node{id: fmt.Sprintf("n%d", i), mem: vfs.NewMem()}
		c.nodes = append(c.nodes, n)
		all.Servers = append(all.Servers, raft.Server{ID: raft.ServerID(n.id), Address: raft.ServerAddress(n.id)})
	}
	for i, n := range c.nodes {
		c.start(n)
		if i == 0 {
			require.NoError(t, n.raft.BootstrapCluster(all).Error())
		}
	}
	t.Cleanup(func() {
		for _, n := range c.nodes {
			c.stop(n)
		}
	})
	return c
}

func (c *testCluster) start(n *node) {
	var err error
	n.logs, err = logstore.Open("logs", logstore.Options{FS: n.mem})
	require.NoError(c.t, err)
	n.m = open(c.t, n.mem)
	group := n.logs.Group(0)
	require.NoError(c.t, dropCovered(group, n.m))
	_, n.trans = raft.NewInmemTransport(raft.ServerAddress(n.id))
	c.connect(n)
	conf := raft.DefaultConfig()
	conf.LocalID = raft.ServerID(n.id)
	conf.HeartbeatTimeout, conf.ElectionTimeout, conf.LeaderLeaseTimeout = 300*time.Millisecond, 300*time.Millisecond, 250*time.Millisecond
	conf.CommitTimeout = 2 * time.Millisecond
	conf.SnapshotThreshold, conf.SnapshotInterval, conf.TrailingLogs = 50, 20*time.Millisecond, c.trailing
	conf.NoSnapshotRestoreOnStart = !c.restoreAtStart
	conf.Logger = hclog.New(&hclog.LoggerOptions{Output: io.Discard})
	n.raft, err = raft.NewRaft(conf, n.m, group, group, n.m.Snapshots(), n.trans)
	require.NoError(c.t, err)
}

func (c *testCluster) stop(n *node) {
	require.NoError(c.t, n.raft.Shutdown().Error())
	require.NoError(c.t, n.m.Close())
	require.NoError(c.t, n.logs.Close())
}

// connect connects a node with the others, in both directions.
func (c *testCluster) connect(n *node) {
	for _, other := range c.nodes {
		if other != n && other.trans != nil {
			n.trans.Connect(raft.ServerAddress(other.id), other.trans)
			other.trans.Connect(raft.ServerAddress(n.id), n.trans)
		}
	}
}

func (c *testCluster) disconnect(n *node) {
	for _, other := range c.nodes {
		n.trans.Disconnect(raft.ServerAddress(other.id))
		other.trans.Disconnect(raft.ServerAddress(n.id))
	}
}

func (c *testCluster) eventually(what string, f func() bool) {
	c.t.Helper()
	require.Eventually(c.t, f, time.Minute, time.Millisecond, what)
}

// leader waits for a leader among the nodes that are not excluded.
func (c *testCluster) leader(except ...*node) (leader *node) {
	c.t.Helper()
	c.eventually("a leader", func() bool {
		for _, n := range c.nodes {
			excluded := len(except) > 0 && n == except[0]
			if !excluded && n.raft.State() == raft.Leader {
				leader = n
				return true
			}
		}
		return false
	})
	return leader
}

// propose proposes a write on a node.
func (c *testCluster) propose(n *node) raft.ApplyFuture {
	c.next++
	term := n.raft.CurrentTerm()
	l := chained(c.t, 0, 0, layout.Chain{Term: term}, int64(c.next), put(fmt.Sprintf("key-%d", c.next%200), fmt.Sprint(c.next)))
	return n.raft.Apply(l.Data, 0)
}

// write writes entries on the leader, which it returns. Entries of a leader that loses its place are written again.
func (c *testCluster) write(entries int, except ...*node) *node {
	c.t.Helper()
	for end := time.Now().Add(time.Minute); ; {
		leader := c.leader(except...)
		var futures []raft.ApplyFuture
		for range entries {
			futures = append(futures, c.propose(leader))
		}
		written := true
		for _, f := range futures {
			written = f.Error() == nil && f.Response() == nil && written
		}
		if written {
			return leader
		}
		require.NoError(c.t, leader.m.Err())
		require.True(c.t, time.Now().Before(end), "entries cannot be written")
	}
}

// requireEqual waits until a node has applied what the leader has, and compares.
func (c *testCluster) requireEqual(leader, n *node) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	index, _ := leader.m.Applied()
	require.NoError(c.t, n.m.WaitApplied(ctx, index))
	require.NoError(c.t, n.m.Err())
	require.Equal(c.t, content(c.t, leader.m), content(c.t, n.m))
	require.Equal(c.t, leader.m.Clock(), n.m.Clock())
	require.Equal(c.t, leader.m.Chain(), n.m.Chain())
	a, _ := leader.m.Configuration()
	b, _ := n.m.Configuration()
	require.Equal(c.t, a, b)
}

// stateOf returns the directory of a node's state.
func stateOf(n *node) string {
	n.m.mu.RLock()
	defer n.m.mu.RUnlock()
	return n.m.present.name
}

// follower returns a node that does not lead.
func (c *testCluster) follower(leader *node) *node {
	if c.nodes[0] == leader {
		return c.nodes[1]
	}
	return c.nodes[0]
}

// outrun writes until all logs but those of some nodes begin after index+1, since each of them may lead next. It returns
// the leader.
func (c *testCluster) outrun(index uint64, except ...*node) *node {
	c.t.Helper()
	for end := time.Now().Add(time.Minute); ; {
		leader := c.write(20, except...)
		cut := true
		for _, n := range c.nodes {
			if slices.Contains(except, n) {
				continue
			}
			_ = n.raft.Snapshot().Error() // so that the log is cut soon
			first, err := n.logs.Group(0).FirstIndex()
			require.NoError(c.t, err)
			cut = cut && first > index+1
		}
		if cut {
			return leader
		}
		require.True(c.t, time.Now().Before(end), "the log is not cut")
	}
}

func TestALaggingFollowerGetsTheStateAndEndsEqual(t *testing.T) {
	c := newCluster(t, 100)
	behind := c.follower(c.write(100))
	c.disconnect(behind)
	index, err := behind.logs.Group(0).LastIndex()
	require.NoError(t, err)
	c.outrun(index, behind)
	c.connect(behind)
	c.eventually("a state was installed", func() bool { return stateOf(behind) != "state-000001" })
	c.requireEqual(c.write(100), behind)

	c.stop(behind)
	c.write(10, behind)
	c.restoreAtStart = true
	c.start(behind)
	c.requireEqual(c.write(10), behind)
	first, err := behind.logs.Group(0).FirstIndex()
	require.NoError(t, err)
	require.Greater(t, first, index+1)
}

// Barriers have indexes that the machine does not see. raft counts them when it cuts the log.
func TestASnapshotAtABarrierCanBeRestartedFrom(t *testing.T) {
	c := newCluster(t, 5)
	var leader *node
	var command uint64
	c.eventually("a snapshot after 30 barriers", func() bool { // unless the leader loses its place
		leader = c.write(10)
		command, _ = leader.m.Applied()
		for range 30 {
			if leader.raft.Barrier(0).Error() != nil {
				return false
			}
		}
		return leader.raft.Snapshot().Error() == nil
	})
	applied, _ := leader.m.Applied()
	require.Greater(t, applied, command+20)
	c.stop(leader)
	c.start(leader)
	c.requireEqual(c.write(10), leader)
}

// diverge makes the leader append entries that no other node gets, and the others continue without it. It returns the node, connected
// again.
func (c *testCluster) diverge(entries int) (old *node) {
	c.t.Helper()
	old = c.write(50)
	c.disconnect(old)
	index, err := old.logs.Group(0).LastIndex()
	require.NoError(c.t, err)
	for range entries {
		c.propose(old)
	}
	c.eventually("the old leader knows", func() bool { return old.raft.State() != raft.Leader })
	last, err := old.logs.Group(0).LastIndex()
	require.NoError(c.t, err)
	require.Greater(c.t, last, index, "it has entries of its own")
	first, _ := c.outrun(index+10, old).logs.Group(0).FirstIndex()
	c.t.Logf("the common log ends at %d, that of the old leader at %d, and the leader's begins at %d", index, last, first)
	c.connect(old)
	return old
}

// requireFollows checks that a node gets new entries, and not the state again and again.
func (c *testCluster) requireFollows(n *node) {
	c.t.Helper()
	c.requireEqual(c.write(1), n)
	state := stateOf(n)
	for range 3 {
		c.requireEqual(c.write(5), n)
	}
	require.Equal(c.t, state, stateOf(n))
	require.False(c.t, n.lacks())
}

// dropCovered deletes a log that ends before the state does, as consensus.Start does.
func dropCovered(log *logstore.Group, m *Machine) error {
	applied, _ := m.Applied()
	first, _ := log.FirstIndex()
	last, _ := log.LastIndex()
	if last >= applied {
		return nil
	}
	return log.DeleteRange(first, last)
}

// lacks reports whether raft believes in a last entry that neither its log nor its snapshot has. That is also so
// for a moment while raft replaces entries.
func (n *node) lacks() bool {
	snapshot, _ := strconv.ParseUint(n.raft.Stats()["last_snapshot_index"], 10, 64)
	last, _ := n.logs.Group(0).LastIndex()
	return n.raft.LastIndex() > max(last, snapshot)
}

// hashicorp/raft issue 697, for which the log store is a monotonic one.
func TestAFollowerWithADivergedLogGetsTheStateAndFollows(t *testing.T) {
	c := newCluster(t, 10)
	old := c.diverge(5)
	c.eventually("a state was installed", func() bool { return stateOf(old) != "state-000001" })
	c.requireFollows(old)
}

// The part of issue 697 that a monotonic store does not mend: raft v1.8.0 drops the log after the snapshot, but keeps the index
// of its last entry in memory, refuses all entries that follow the state, and is sent the state again and again.
func TestAFollowerWhoseLogWentBeyondTheStateFollowsAfterARestart(t *testing.T) {
	c := newCluster(t, 10)
	old := c.diverge(500)
	c.eventually("states are installed again and again", func() bool {
		n, _ := dirNumber(stateOf(old))
		return n > 5 && old.lacks()
	})
	c.stop(old)
	c.start(old)
	c.requireFollows(old)
}
