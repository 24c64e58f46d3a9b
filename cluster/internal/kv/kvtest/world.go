// Package kvtest has a cluster in memory for tests of what is built on package kv. A World has the nodes
// and the groups; its nodes share the state, so there is no replication. Tests move the clock, choose
// leaders, let calls fail, and hold commits back.
package kvtest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sievedb/sievedb/cluster/internal/kv"
	"github.com/sievedb/sievedb/cluster/internal/slot"
)

// Epoch is the time at which a World begins, in milliseconds since 1970.
const Epoch = 1_700_000_000_000

// World is the nodes and groups of a cluster. Its methods may be called by any goroutine.
type World struct {
	groups []*state
	nodes  []*Node
}

// NewWorld returns a cluster in which each node has a replica of each group. The nodes lead the groups in turn.
func NewWorld(groups int, nodes ...kv.NodeInfo) *World {
	w := &World{}
	for _, info := range nodes {
		w.nodes = append(w.nodes, &Node{world: w, info: info})
	}
	for g := range groups {
		w.groups = append(w.groups, newState(kv.GroupID(g), w.nodes[g%len(w.nodes)].info.ID))
	}
	return w
}

// New returns the only node of a cluster with an address that clients cannot use.
func New(groups int) *Node {
	return NewWorld(groups, kv.NodeInfo{ID: "a", Addr: "127.0.0.1:1", Up: true}).Node("a")
}

// Node returns a node.
func (w *World) Node(id kv.NodeID) *Node {
	for _, n := range w.nodes {
		if n.info.ID == id {
			return n
		}
	}
	panic(fmt.Sprintf("kvtest: there is no node %q", id))
}

// Advance moves the clock by which keys expire.
func (w *World) Advance(d time.Duration) {
	for _, s := range w.groups {
		s.mu.Lock()
		s.now += d.Milliseconds()
		s.mu.Unlock()
	}
}

// SetLeader lets a node lead a group; "" is none.
func (w *World) SetLeader(group kv.GroupID, leader kv.NodeID) {
	s := w.groups[group]
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leader = leader
}

// Faults are errors that the methods of a group return instead of doing anything; nil: none.
type Faults struct {
	Update, View, StaleView, Watch error
}

// SetFaults lets calls of a group fail.
func (w *World) SetFaults(group kv.GroupID, f Faults) {
	s := w.groups[group]
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = f
}

// Hold lets the entries of a group wait until Release or Drop.
func (w *World) Hold(group kv.GroupID) {
	s := w.groups[group]
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = true
}

// Waiting returns the number of entries that are held.
func (w *World) Waiting(group kv.GroupID) int {
	s := w.groups[group]
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.pending)
}

// Release commits the entries that are held, and those that follow at once.
func (w *World) Release(group kv.GroupID) {
	s := w.groups[group]
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = false
	for _, p := range s.pending {
		s.commit(p)
	}
	s.pending = nil
}

// Drop forgets the entries that are held; waiting for them fails with err. Commands that follow
// are evaluated on what is committed.
func (w *World) Drop(group kv.GroupID, err error) {
	s := w.groups[group]
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = false
	for _, p := range s.pending {
		p.err = err
		close(p.done)
	}
	s.pending = nil
	s.newest = s.committed
	s.drops++
}

func (w *World) addr(id kv.NodeID) string {
	for _, n := range w.nodes {
		if n.info.ID == id {
			return n.info.Addr
		}
	}
	return ""
}

// Node is a node of a World. It implements kv.Cluster.
type Node struct {
	world *World
	info  kv.NodeInfo

	mu       sync.Mutex
	operator func(args [][]byte) (any, error) // guarded by mu
}

var _ kv.Cluster = (*Node)(nil)

// World returns the node's World.
func (n *Node) World() *World { return n.world }

// SetAddr sets the address of the node. It must be called before the World is used.
func (n *Node) SetAddr(addr string) { n.info.Addr = addr }

// SetOperator sets the function that Operate calls.
func (n *Node) SetOperator(f func(args [][]byte) (any, error)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.operator = f
}

// Self implements kv.Cluster.
func (n *Node) Self() kv.NodeInfo { return n.info }

// Group implements kv.Cluster.
func (n *Node) Group(of uint16) (kv.Group, bool) {
	return &group{node: n, state: n.state(of)}, true
}

func (n *Node) state(of uint16) *state {
	return n.world.groups[slot.GroupOf(of, len(n.world.groups))]
}

// Local implements kv.Cluster.
func (n *Node) Local() (groups []kv.Group, leading []bool) {
	for _, s := range n.world.groups {
		groups = append(groups, &group{node: n, state: s})
		leading = append(leading, s.leaderNow() == n.info.ID)
	}
	return groups, leading
}

// Map implements kv.Cluster.
func (n *Node) Map() (nodes []kv.NodeInfo, ranges []kv.SlotRange) {
	var replicas []kv.NodeID
	for _, other := range n.world.nodes {
		nodes = append(nodes, other.info)
		replicas = append(replicas, other.info.ID)
	}
	for _, s := range n.world.groups {
		first, last := slot.Range(s.id, len(n.world.groups))
		ranges = append(ranges, kv.SlotRange{Group: s.id, First: first, Last: last, Leader: s.leaderNow(), Replicas: replicas})
	}
	return nodes, ranges
}

// Leader implements kv.Cluster.
func (n *Node) Leader(of uint16) string { return n.world.addr(n.state(of).leaderNow()) }

// Operate implements kv.Cluster.
func (n *Node) Operate(_ context.Context, args [][]byte) (any, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.operator == nil {
		return nil, errors.New("this cluster has no operators")
	}
	return n.operator(args)
}

// Info implements kv.Cluster.
func (n *Node) Info(section string) string {
	if section == "" || section == "raft" {
		return fmt.Sprintf("# Raft\r\nraft_groups:%d\r\n", len(n.world.groups))
	}
	return ""
}
