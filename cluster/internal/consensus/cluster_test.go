package consensus

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/cluster/internal/kv"
	"github.com/sievedb/sievedb/cluster/internal/nettest"
	"github.com/sievedb/sievedb/cluster/internal/wire"
)

const testGroup = 7

var testTiming = Timing{
	Heartbeat: 100 * time.Millisecond, Lease: 100 * time.Millisecond, Commit: 5 * time.Millisecond, RPC: 500 * time.Millisecond,
}

// patience is how long a test waits for what happens sooner or later. Only a fault reaches it: a busy machine is slow.
const patience = time.Minute

// network cuts directions between nodes. What is cut is delayed until it is healed, as by TCP.
type network struct {
	nettest.Memory
	mu    sync.Mutex
	nodes map[string]string // ID by address
	cuts  map[[2]string]bool
	links []link
}

// link is the dialing end of a connection.
type link struct {
	*nettest.MemoryConn
	from, to string
}

// change changes what is cut.
func (n *network) change(f func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f()
	for _, l := range n.links {
		l.Hold(n.isCut(l.from, l.to))
	}
}

// isCut reports whether the requests of a dialer, and the answers to them, are cut. mu must be locked.
func (n *network) isCut(from, to string) (sent, received bool) {
	return n.cuts[[2]string{from, to}] || n.cuts[[2]string{requests + from, to}],
		n.cuts[[2]string{to, from}] || n.cuts[[2]string{answers + from, to}]
}

func (n *network) cut(from, to string) { n.change(func() { n.cuts[[2]string{from, to}] = true }) }

// isolate cuts a node from all others but those named, in both directions.
func (n *network) isolate(id string, but ...string) {
	n.change(func() {
		for _, other := range n.nodes {
			if !slices.Contains(but, other) {
				n.cuts[[2]string{id, other}], n.cuts[[2]string{other, id}] = true, true
			}
		}
	})
}

// hold cuts one half of the connections that a node has dialed: its requests, or the answers to them.
func (n *network) hold(half, dialer, other string) { n.cut(half+dialer, other) }

func (n *network) release(half, dialer, other string) {
	n.change(func() { delete(n.cuts, [2]string{half + dialer, other}) })
}

const requests, answers = "requests of ", "answers to "

func (n *network) heal() { n.change(func() { clear(n.cuts) }) }

func (n *network) dialer(from string) func(ctx context.Context, addr string) (net.Conn, error) {
	return func(ctx context.Context, addr string) (net.Conn, error) {
		for n.cutOff(from, addr) {
			select {
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-time.After(time.Millisecond):
			}
		}
		conn, err := n.Memory.Dial(ctx, addr)
		if err == nil {
			n.change(func() { n.links = append(n.links, link{conn.(*nettest.MemoryConn), from, n.nodes[addr]}) })
		}
		return conn, err
	}
}

func (n *network) cutOff(from, addr string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	sent, received := n.isCut(from, n.nodes[addr])
	return sent || received
}

// recorder is a state machine that records its commands. It also keeps its snapshots.
type recorder struct {
	mu       sync.Mutex
	entries  []string
	applied  uint64
	restored int
	opened   int
	metas    []*raft.SnapshotMeta // the newest is first
	data     map[string][]byte
}

func (r *recorder) Apply(l *raft.Log) any { return r.ApplyBatch([]*raft.Log{l})[0] }

func (r *recorder) ApplyBatch(logs []*raft.Log) (responses []any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range logs {
		if l.Type == raft.LogCommand {
			r.entries = append(r.entries, string(l.Data))
		}
		r.applied = l.Index
		responses = append(responses, len(r.entries))
	}
	return responses
}

func (r *recorder) Snapshot() (raft.FSMSnapshot, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return encoded{r.entries, r.applied}.snapshot()
}

type encoded struct {
	Entries []string
	Applied uint64
}

func (e encoded) snapshot() (raft.FSMSnapshot, error) {
	b, err := json.Marshal(e)
	return bytesSnapshot(b), err
}

type bytesSnapshot []byte

func (b bytesSnapshot) Persist(sink raft.SnapshotSink) error {
	_, err := sink.Write(b)
	return err
}

func (bytesSnapshot) Release() {}

func (r *recorder) Restore(rc io.ReadCloser) error {
	time.Sleep(time.Millisecond) // fake time would stand still in a livelock of restores
	var e encoded
	if err := json.NewDecoder(rc).Decode(&e); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.entries, r.applied = e.Entries, e.Applied
	r.restored++
	return nil
}

func (r *recorder) state() (entries []string, applied uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.entries), r.applied
}

func (r *recorder) Create(v raft.SnapshotVersion, index, term uint64, c raft.Configuration, ci uint64, _ raft.Transport) (raft.SnapshotSink, error) {
	return &sink{r: r, meta: &raft.SnapshotMeta{
		Version: v, ID: fmt.Sprintf("%d-%d", term, index), Index: index, Term: term, Configuration: c, ConfigurationIndex: ci,
	}}, nil
}

func (r *recorder) List() ([]*raft.SnapshotMeta, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.metas), nil
}

func (r *recorder) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range r.metas {
		if m.ID == id {
			r.opened++
			return m, io.NopCloser(bytes.NewReader(r.data[id])), nil
		}
	}
	return nil, nil, fmt.Errorf("no snapshot %s", id)
}

type sink struct {
	bytes.Buffer
	r        *recorder
	meta     *raft.SnapshotMeta
	canceled bool
}

func (s *sink) ID() string    { return s.meta.ID }
func (s *sink) Cancel() error { s.canceled = true; return nil }

func (s *sink) Close() error {
	if s.canceled {
		return nil
	}
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	s.meta.Size = int64(s.Len())
	s.r.metas = []*raft.SnapshotMeta{s.meta}
	s.r.data = map[string][]byte{s.meta.ID: s.Bytes()}
	return nil
}

// memory is raft's in-memory store, as a monotonic one.
type memory struct {
	*raft.InmemStore
	before atomic.Pointer[func(logs []*raft.Log) error] // is called before entries are stored; nil: nothing is
}

func (*memory) IsMonotonic() bool { return true }

func (m *memory) StoreLogs(logs []*raft.Log) error {
	if before := m.before.Load(); before != nil {
		if err := (*before)(logs); err != nil {
			return err
		}
	}
	return m.InmemStore.StoreLogs(logs)
}

func (m *memory) StoreLog(l *raft.Log) error { return m.StoreLogs([]*raft.Log{l}) }

type node struct {
	*Group
	id       string
	listener *wire.Listener
	fsm      *recorder
	store    *memory
	o        Options

	mu     sync.Mutex
	events []Leadership
}

type cluster struct {
	t     *testing.T
	net   *network
	nodes []*node
}

func newCluster(t *testing.T) *cluster {
	return &cluster{t: t, net: &network{nodes: map[string]string{}, cuts: map[[2]string]bool{}}}
}

// startCluster starts n voters. change may be nil.
func startCluster(t *testing.T, n int, change func(*Options)) *cluster {
	c := newCluster(t)
	for range n {
		c.listen()
	}
	var servers []Server
	for _, n := range c.nodes {
		servers = append(servers, Server{ID: n.id, Address: n.o.Address, Voter: true})
	}
	for _, n := range c.nodes {
		n.o.Bootstrap = servers
		if change != nil {
			change(&n.o)
		}
		c.start(n)
	}
	return c
}

// listen adds a node that does not run yet.
func (c *cluster) listen() *node {
	n := &node{id: string(rune('a' + len(c.nodes))), fsm: &recorder{}, store: &memory{InmemStore: raft.NewInmemStore()}}
	l, err := wire.Listen(wire.Options{
		ID: kv.NodeID(n.id), Address: "127.0.0.1:0", Bind: c.net.Listen, Logger: slog.New(slog.DiscardHandler), Dial: c.net.dialer(n.id),
	})
	require.NoError(c.t, err)
	c.t.Cleanup(func() { l.Close() })
	n.listener = l
	c.net.mu.Lock()
	c.net.nodes[l.Addr().String()] = n.id
	c.net.mu.Unlock()
	n.o = Options{
		Group: testGroup, ID: n.id, Address: l.Addr().String(), Logs: n.store, Stable: n.store, FSM: n.fsm, Snapshots: n.fsm,
		Timing: testTiming, Logger: testLogger(c.t, n.id),
		OnLeadership: func(l Leadership) {
			n.mu.Lock()
			n.events = append(n.events, l)
			n.mu.Unlock()
		},
	}
	c.nodes = append(c.nodes, n)
	return n
}

// testLogger logs to the test's output if RAFT_LOG is set.
func testLogger(t *testing.T, id string) *slog.Logger {
	if os.Getenv("RAFT_LOG") == "" {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug})).With("node", id)
}

func (c *cluster) start(n *node) {
	c.t.Helper()
	n.o.Stream = n.listener.Group(testGroup)
	g, err := Start(n.o)
	require.NoError(c.t, err)
	n.Group = g
	c.t.Cleanup(func() { g.Close() })
}

func (c *cluster) node(id string) *node { return c.nodes[id[0]-'a'] }

// leader waits until one of the nodes, except those named, leads and is ready.
func (c *cluster) leader(except ...*node) *node {
	c.t.Helper()
	var leader *node
	eventually(c.t, "a leader", func() bool {
		for _, n := range c.nodes {
			if n.Group != nil && !slices.Contains(except, n) && n.Leadership().Ready && n.IsLeader() {
				leader = n
				return true
			}
		}
		return false
	})
	return leader
}

func (c *cluster) followers() []*node {
	leader := c.leader()
	var followers []*node
	for _, n := range c.nodes {
		if n != leader {
			followers = append(followers, n)
		}
	}
	return followers
}

// agree waits until all nodes that are named have applied the same entries, among them want.
func (c *cluster) agree(want []string, nodes ...*node) {
	c.t.Helper()
	if len(nodes) == 0 {
		nodes = c.nodes
	}
	eventually(c.t, "the nodes agree", func() bool {
		first, _ := nodes[0].fsm.state()
		for _, n := range nodes[1:] {
			if other, _ := n.fsm.state(); !slices.Equal(first, other) {
				return false
			}
		}
		for _, w := range want {
			if !slices.Contains(first, w) {
				return false
			}
		}
		return true
	})
}

func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !f(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("timed out while waiting: " + what)
		}
	}
}

// soon is how long a test waits for what must not happen.
const soon = 300 * time.Millisecond

func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// propose proposes an entry and waits until it is committed.
func (n *node) propose(t *testing.T, entry string) {
	t.Helper()
	_, _, err := n.Propose([]byte(entry)).Wait(within(t, patience))
	require.NoError(t, err)
}

// propose proposes an entry to whatever node leads, except those named, until it is committed: at least once.
func (c *cluster) propose(entry string, except ...*node) {
	c.t.Helper()
	for range 20 {
		if _, _, err := c.leader(except...).Propose([]byte(entry)).Wait(within(c.t, 5*time.Second)); err == nil {
			return
		}
	}
	c.t.Fatal("no leader stays")
}

// transfer makes a node the leader. On a busy machine a transfer can fail, or another node can win.
func (c *cluster) transfer(to *node) {
	c.t.Helper()
	eventually(c.t, "the transfer", func() bool {
		leader := c.leader()
		if leader != to {
			leader.TransferLeadership(within(c.t, 5*time.Second), to.id)
		}
		return c.leader() == to
	})
}

// asLeader calls f, which needs a node that leads, until it succeeds: on a busy machine, another node can be elected
// meanwhile.
func (c *cluster) asLeader(a *node, f func() error) {
	c.t.Helper()
	eventually(c.t, "a node keeps its place", func() bool {
		c.transfer(a)
		return f() == nil
	})
}

// proposeAt proposes an entry to a node, which leads then, until it is committed: at least once.
func (c *cluster) proposeAt(a *node, entry string) {
	c.t.Helper()
	c.asLeader(a, func() error {
		_, _, err := a.Propose([]byte(entry)).Wait(within(c.t, patience))
		return err
	})
}

// WaitReady waits until this server leads and is ready, or knows another leader.
func (g *Group) WaitReady(ctx context.Context) error {
	for {
		now, changed := g.leading.watch()
		if id, _ := g.Leader(); now.Ready || id != "" && id != g.o.ID {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-g.dead:
			return kv.ErrClosed
		}
	}
}
