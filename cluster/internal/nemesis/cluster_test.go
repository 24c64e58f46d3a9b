package nemesis

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/cluster/internal/consensus"
	"github.com/sievedb/sievedb/cluster/internal/kv"
	"github.com/sievedb/sievedb/cluster/internal/node"
	"github.com/sievedb/sievedb/cluster/internal/server"
	"github.com/sievedb/sievedb/cluster/internal/slot"
	"github.com/sievedb/sievedb/vfs"
)

// The shape of the clusters of this package, and how long they may take to recover.
const (
	groups    = 2
	heartbeat = 250 * time.Millisecond
	recovery  = 2 * time.Minute
	nodeDir   = "/node"
)

// testCluster is nodes in this process.
type testCluster struct {
	t       *testing.T
	net     *network
	log     *journal
	setup   setup
	members []*member
	added   int // so that no name is used twice
	flipped []flipped
	zombies sync.WaitGroup // killed nodes that still end
	clients *Workload
}

// setup is what is special about the nodes of a cluster. The zero value is nothing.
type setup struct {
	wrap func(kv.Cluster) kv.Cluster           // what clients talk to
	raft func(m *member, o *consensus.Options) // of each group
	// trailing is how many entries a log keeps before a snapshot. 0: 20.
	trailing uint64
	// stale bounds the age of stale reads. 0: the default of nodes.
	stale time.Duration
}

// member is a node. Its disk and address remain when it is killed.
type member struct {
	id   kv.NodeID
	addr string
	disk *disk
	skew *atomic.Int64 // of its clock, in milliseconds

	// These are nil while the node is down.
	host   *host
	node   *node.Node
	server *server.Server
	served chan error
}

// journal is what nodes log. It is shown if a test fails.
type journal struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.buf.Write(p)
}

// newJournal leaves what was logged next to the pictures if the test fails.
func newJournal(t *testing.T, dir string) *journal {
	j := &journal{}
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		j.mu.Lock()
		defer j.mu.Unlock()
		name := filepath.Join(dir, "nodes.log")
		if err := os.WriteFile(name, j.buf.Bytes(), 0o600); err == nil {
			t.Logf("what the nodes logged is in %s", name)
		}
	})
	return j
}

// newCluster starts nodes and waits until all have replicas.
//
//race:clock
func newCluster(t *testing.T, size, replicas int, dir string, p setup) *testCluster {
	t.Helper()
	c := &testCluster{t: t, net: newNetwork(), log: newJournal(t, dir), setup: p}
	t.Cleanup(c.stop)
	for range size {
		c.add(replicas)
	}
	c.waitReplicas(replicas)
	return c
}

// add starts a new node.
func (c *testCluster) add(replicas int) *member {
	c.t.Helper()
	c.added++
	number := c.added
	m := &member{
		id: kv.NodeID("n" + strconv.Itoa(number)), addr: fmt.Sprintf("127.0.9.%d:7001", number),
		disk: &disk{mem: vfs.NewMem()}, skew: &atomic.Int64{},
	}
	require.NoError(c.t, c.start(m, replicas))
	c.members = append(c.members, m)
	return m
}

func (c *testCluster) options(m *member, replicas int) node.Options {
	skew := m.skew
	o := node.Options{
		ID: m.id, Dir: nodeDir, FS: m.disk.fs(), Listen: "127.0.0.1:0", Advertise: m.addr,
		Groups: groups, Replicas: replicas, Dial: m.host.dial, Accepted: m.host.wrap,
		Memory: node.MemoryOptions{Cache: 8 << 20, Memtables: 4 << 20},
		Space:  node.SpaceOptions{Reserve: 1, Free: m.disk.free},
		Timing: node.TimingOptions{
			Heartbeat: heartbeat, Election: heartbeat, Gossip: 100 * time.Millisecond,
			Clock:      func() int64 { return time.Now().UnixMilli() + skew.Load() },
			StaleBound: c.setup.stale,
		},
		Log:    node.LogOptions{SnapshotThreshold: 100, TrailingLogs: cmp.Or(c.setup.trailing, 20)},
		Scrub:  node.ScrubOptions{BytesPerSecond: 4 << 20, Every: heartbeat},
		Logger: slog.New(slog.NewTextHandler(c.log, &slog.HandlerOptions{Level: slog.LevelDebug})).With("node", m.id),
	}
	if change := c.setup.raft; change != nil {
		o.Raft = func(o *consensus.Options) { change(m, o) }
	}
	for _, other := range c.members {
		o.Join = append(o.Join, other.addr)
	}
	return o
}

// start starts a node that is down.
func (c *testCluster) start(m *member, replicas int) error {
	m.host = c.net.host(m.addr)
	ctx, cancel := context.WithTimeout(context.Background(), recovery)
	defer cancel()
	o := c.options(m, replicas)
	if len(o.Join) == 0 { // the first one
		if err := node.Create(o); err != nil {
			return err
		}
	}
	n, err := node.Start(ctx, o)
	if err != nil {
		m.host.down()
		return fmt.Errorf("start of %s: %w", m.id, err)
	}
	m.host.up(n.Clients().Addr().String())
	var served kv.Cluster = n
	if c.setup.wrap != nil {
		served = c.setup.wrap(n)
	}
	m.node, m.served = n, make(chan error, 1)
	m.server = server.New(served, server.Options{WriteTimeout: 700 * time.Millisecond, ReadTimeout: 700 * time.Millisecond})
	go func(s *server.Server, served chan error) { served <- s.Serve(n.Clients()) }(m.server, m.served)
	return nil
}

// close stops a node in order.
func (m *member) close() error {
	if m.node == nil {
		return nil
	}
	m.node.HandOver()
	err := errors.Join(m.server.Close(), m.node.Close())
	m.host.down()
	if served := <-m.served; !errors.Is(served, server.ErrClosed) {
		err = errors.Join(err, served)
	}
	m.node, m.server = nil, nil
	return err
}

// kill ends a node as the end of its process would, or as a power cut. What it does afterwards reaches neither
// its disk nor others.
func (c *testCluster) kill(m *member, powerCut bool) {
	if m.node == nil {
		return
	}
	m.host.down() // before the disk is copied: what was sent must be there
	old := *m
	if powerCut {
		m.disk = &disk{mem: old.disk.mem.Crash()}
	} else {
		m.disk = &disk{mem: old.disk.mem.Kill()}
	}
	m.node, m.server = nil, nil
	c.zombies.Go(func() {
		// Errors are no surprise here: the node is cut off.
		_ = old.server.Close()
		_ = old.node.Close()
		<-old.served
	})
}

func (c *testCluster) stop() {
	c.abandon()
	c.zombies.Wait()
}

// abandon kills all nodes and does not wait for their ends: a leader needs a lease to step down.
func (c *testCluster) abandon() {
	c.net.heal(true)
	var closing sync.WaitGroup
	for _, m := range c.members {
		closing.Go(func() { c.kill(m, false) })
	}
	closing.Wait()
}

// dialer implements victim.
func (c *testCluster) dialer() dialer { return c.net.dialClient }

// serve implements victim.
func (c *testCluster) serve(w *Workload) { c.clients = w }

// addrs implements victim.
func (c *testCluster) addrs() (all []string) {
	for _, m := range c.members {
		all = append(all, m.addr)
	}
	return all
}

// others returns all members but one.
func (c *testCluster) others(m *member) (some []*member) {
	for _, other := range c.members {
		if other != m {
			some = append(some, other)
		}
	}
	return some
}

// leads reports whether a node believes that it leads a group.
func (m *member) leads(group kv.GroupID) bool {
	if m.node == nil {
		return false
	}
	local, leading := m.node.Local()
	for i, g := range local {
		if g.ID() == group {
			return leading[i]
		}
	}
	return false
}

// leader waits for a node that leads a group.
func (c *testCluster) leader(group kv.GroupID) *member {
	c.t.Helper()
	var found *member
	require.Eventually(c.t, func() bool {
		for _, m := range c.members {
			if m.leads(group) {
				found = m
				return true
			}
		}
		return false
	}, recovery, 10*time.Millisecond, "group %d has no leader", group)
	return found
}

// waitReplicas waits until every group has a number of replicas, and all of them vote.
func (c *testCluster) waitReplicas(replicas int) {
	c.t.Helper()
	var ranges []kv.SlotRange
	require.Eventually(c.t, func() bool {
		for _, m := range c.members {
			if m.node == nil {
				continue
			}
			_, ranges = m.node.Map()
			for _, r := range ranges {
				if len(r.Replicas) != replicas || r.Leader == "" {
					return false
				}
			}
			return true
		}
		return false
	}, recovery, 20*time.Millisecond, "the groups do not have %d replicas", replicas)
	// The map has a replica before it votes. A fault would then leave a group with fewer voters than it is to have.
	require.Eventually(c.t, func() bool {
		for _, m := range c.members {
			for group := range groups {
				if m.voters(group) != replicas {
					return false
				}
			}
		}
		return true
	}, recovery, 20*time.Millisecond, "the groups do not have %d voters", replicas)
}

// voters returns how many voters a group has, as a node sees it: 0 if that node itself is none. One that lost its log
// joins as another server, and the one that it was keeps a vote for a while.
func (m *member) voters(group int) int {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	status, err := m.node.Operate(ctx, [][]byte{[]byte("RAFT.STATUS"), []byte(strconv.Itoa(group))})
	text, ok := status.([]byte)
	if err != nil || !ok {
		return 0
	}
	_, server, _ := strings.Cut(string(text), "\r\nserver:")
	server, _, _ = strings.Cut(server, "\r\n")
	if !strings.Contains(string(text), "\r\nmember:"+server+" voter=true\r\n") {
		return 0
	}
	return strings.Count(string(text), "voter=true")
}

// waitRemoved waits until a node that leaves the cluster is not needed any more, and closes it.
func (c *testCluster) waitRemoved(m *member) error {
	c.t.Helper()
	require.Eventually(c.t, func() bool { return m.node.Health().Removed }, recovery, 20*time.Millisecond, "%s was not removed", m.id)
	c.members = c.others(m)
	return m.close()
}

// waitWrites waits until each group of the cluster takes writes.
func (c *testCluster) waitWrites() {
	c.t.Helper()
	for group := range kv.GroupID(groups) {
		require.NoError(c.t, c.write(group), "group %d does not take writes", group)
	}
}

// write writes a key of a group, on whichever node leads it.
func (c *testCluster) write(group kv.GroupID) (err error) {
	for deadline := time.Now().Add(recovery); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		m := c.leader(group)
		if err = m.probe(group); err == nil {
			return nil
		}
	}
	return err
}

// probe writes a key that no client uses.
func (m *member) probe(group kv.GroupID) error { return m.put(group, string(m.id)) }

// put writes that key of a group on this node.
func (m *member) put(group kv.GroupID, text string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	key := []byte(probeKey(int(group), groups))
	g, ok := m.node.Group(slot.Of(key))
	if !ok {
		return fmt.Errorf("node %s has no replica of group %d", m.id, group)
	}
	p, err := g.Update(ctx, func(tx kv.Tx) error {
		tx.Put(key, kv.Value{Data: []byte(text)})
		return nil
	})
	if err != nil {
		return err
	}
	return p.Wait(ctx)
}

// operate runs an operator's command on a node.
func (m *member) operate(words ...string) error {
	args := make([][]byte, len(words))
	for i, w := range words {
		args[i] = []byte(w)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_, err := m.node.Operate(ctx, args)
	return err
}
