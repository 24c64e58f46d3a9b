package node

import (
	"maps"
	"sync"
	"time"

	"github.com/sievedb/sievedb/cluster/internal/kv"
	"github.com/sievedb/sievedb/cluster/internal/wire"
)

// groupNews is what a leader says about its group. Nodes pass it on, so that all can direct clients.
type groupNews struct {
	Term    uint64   `json:"term"`
	Index   uint64   `json:"index"` // of the last committed entry
	Leader  string   `json:"leader"`
	Servers []server `json:"servers"`
}

func (g groupNews) newerThan(other groupNews) bool {
	return g.Term > other.Term || g.Term == other.Term && g.Index > other.Index
}

// contact is the last sign of life of a node.
type contact struct {
	at   time.Time
	full bool // its disk is
}

// atlas is what a node knows about its cluster. Its methods may be called from any goroutine.
type atlas struct {
	started time.Time

	mu       sync.Mutex
	awake    time.Time // since when this process runs without having stood still
	ran      time.Time // when it last did
	current  *Map      // immutable; nil until the node has joined
	groups   map[kv.GroupID]groupNews
	contacts map[kv.NodeID]contact
	moved    map[kv.NodeID]move
}

// move is an address that a node has told this one, other than that in the map.
type move struct {
	incarnation uint64
	from, to    string
}

func newAtlas() *atlas {
	now := time.Now()
	return &atlas{started: now, awake: now, ran: now, groups: map[kv.GroupID]groupNews{}, contacts: map[kv.NodeID]contact{},
		moved: map[kv.NodeID]move{}}
}

// chart returns the newest map, to be read only.
func (a *atlas) chart() *Map {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.current
}

// learn keeps a map if it is newer, and reports whether it is.
func (a *atlas) learn(m *Map) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if m == nil || a.current != nil && (m.Cluster != a.current.Cluster || m.Version <= a.current.Version) {
		return false
	}
	a.current = m
	return true
}

func (a *atlas) learnGroup(group kv.GroupID, g groupNews) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if g.newerThan(a.groups[group]) {
		a.groups[group] = g
	}
}

func (a *atlas) group(group kv.GroupID) groupNews {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.groups[group]
}

func (a *atlas) allGroups() map[kv.GroupID]groupNews {
	a.mu.Lock()
	defer a.mu.Unlock()
	return maps.Clone(a.groups)
}

// hear notes a sign of life.
func (a *atlas) hear(id kv.NodeID, c contact) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if c.at.After(a.contacts[id].at) {
		a.contacts[id] = c
	}
}

// age is the time since the last sign of life of a node. One that was never heard has the age of this
// process: it may have spoken before.
func (a *atlas) age(id kv.NodeID) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	if c, heard := a.contacts[id]; heard {
		return time.Since(c.at)
	}
	return time.Since(a.started)
}

// pulse notes that this process runs, which it does more often than each patience. If it did not for longer than that,
// it stood still, as a machine that was suspended does: silence during that time says nothing of others.
func (a *atlas) pulse(now time.Time, patience time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if now.Sub(a.ran) > patience {
		a.awake = now
	}
	a.ran = now
}

// silence is how long a node has been silent while this process ran: the age of its last sign of life, without the time
// before this process last stood still.
func (a *atlas) silence(id kv.NodeID) time.Duration {
	age := a.age(id)
	a.mu.Lock()
	defer a.mu.Unlock()
	return min(age, time.Since(a.awake))
}

func (a *atlas) full(id kv.NodeID) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.contacts[id].full
}

func (a *atlas) allContacts() map[kv.NodeID]contact {
	a.mu.Lock()
	defer a.mu.Unlock()
	return maps.Clone(a.contacts)
}

// greet notes the address that a node says it has. The map learns it from the leader of group 0; but if a majority of
// nodes have new addresses at the same time, they elect no leader before they know those. The address of another node
// harms nobody: who dials names the node that must be there, in the handshake, and another one refuses. A copy of the
// node's directory is refused as well; see mark.
func (a *atlas) greet(from Member) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.current == nil || from.Addr == "" {
		return
	}
	known, found := a.current.Find(from.ID)
	if !found || known.Incarnation != from.Incarnation {
		return
	}
	delete(a.moved, from.ID)
	if known.Addr != from.Addr {
		a.moved[from.ID] = move{from.Incarnation, known.Addr, from.Addr}
	}
}

// locate is where calls to a node of the map go. What the node itself has said counts until the map has another address
// than when it said that.
func (a *atlas) locate(m Member) wire.Target {
	a.mu.Lock()
	defer a.mu.Unlock()
	if to, moved := a.moved[m.ID]; moved && to.incarnation == m.Incarnation && to.from == m.Addr {
		m.Addr = to.to
	}
	return m.target()
}

// addr returns the address of a server of raft, or "". A server of an earlier incarnation has none: it
// does not exist any more.
func (a *atlas) addr(server string) string { return a.target(server).Addr }

// target is where calls to the node of a server go. It has no address if addr returns none.
func (a *atlas) target(server string) wire.Target {
	m := a.chart()
	if m == nil || !m.hasServer(server) {
		return wire.Target{}
	}
	member, _ := m.Find(nodeOf(server))
	return a.locate(member)
}

// owner returns the node that has an address, or "". If several have it, as after a reuse, it is none of them.
func (a *atlas) owner(addr string) (id kv.NodeID) {
	m := a.chart()
	if m == nil {
		return ""
	}
	for _, member := range m.Nodes {
		switch {
		case member.Addr == addr && id != "":
			return ""
		case member.Addr == addr:
			id = member.ID
		}
	}
	return id
}
