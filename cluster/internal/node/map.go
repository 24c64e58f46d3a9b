package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/sievedb/sievedb/cluster/internal/kv"
)

// Map is what the nodes of a cluster agree on. Group 0 stores it, and the nodes pass it on: the one
// with the highest version is the newest.
type Map struct {
	Version uint64 `json:"version"`
	// Cluster distinguishes clusters, so that a node of another one is refused.
	Cluster string `json:"cluster"`
	// Groups is the number of groups. It never changes.
	Groups int `json:"groups"`
	// Replicas is the number of voters that each group gets if there are enough nodes.
	Replicas int `json:"replicas"`
	// Nodes are sorted by their IDs.
	Nodes []Member `json:"nodes"`
	// Gone is the highest incarnation of a removed node. New nodes get higher ones, so that a new node and an old
	// directory of a removed one never have the same name in raft.
	Gone uint64 `json:"gone,omitempty"`
}

// Member is a node in the map.
type Member struct {
	ID   kv.NodeID `json:"id"`
	Addr string    `json:"addr"`
	Zone string    `json:"zone,omitempty"`
	// Incarnation counts the times that the node began without a log. It is a part of the node's
	// name in raft, because a server that has forgotten its votes must not vote again.
	Incarnation uint64 `json:"incarnation"`
	// Leaving is set while the replicas of the node move to other nodes.
	Leaving bool `json:"leaving,omitempty"`
}

// Server returns the node's name in the configurations of raft.
func (m Member) Server() string { return serverName(m.ID, m.Incarnation) }

func serverName(id kv.NodeID, incarnation uint64) string {
	return string(id) + "." + strconv.FormatUint(incarnation, 10)
}

// nodeOf returns the node of a server.
func nodeOf(server string) kv.NodeID {
	id, _, _ := strings.Cut(server, ".")
	return kv.NodeID(id)
}

// Find returns the member with an ID.
func (m *Map) Find(id kv.NodeID) (Member, bool) {
	i, found := m.index(id)
	if !found {
		return Member{}, false
	}
	return m.Nodes[i], true
}

func (m *Map) index(id kv.NodeID) (int, bool) {
	return slices.BinarySearchFunc(m.Nodes, id, func(n Member, id kv.NodeID) int {
		return strings.Compare(string(n.ID), string(id))
	})
}

// hasServer reports whether a server of raft is the present incarnation of a node.
func (m *Map) hasServer(server string) bool {
	member, found := m.Find(nodeOf(server))
	return found && member.Server() == server
}

// next returns a copy to change, with the next version.
func (m *Map) next() *Map {
	changed := *m
	changed.Version++
	changed.Nodes = slices.Clone(m.Nodes)
	return &changed
}

// with returns the next map, in which a member has been added or replaced.
func (m *Map) with(member Member) *Map {
	changed := m.next()
	if i, found := changed.index(member.ID); found {
		changed.Nodes[i] = member
	} else {
		changed.Nodes = slices.Insert(changed.Nodes, i, member)
	}
	return changed
}

// without returns the next map, in which a member is missing.
func (m *Map) without(id kv.NodeID) *Map {
	changed := m.next()
	if i, found := changed.index(id); found {
		changed.Gone = max(changed.Gone, changed.Nodes[i].Incarnation)
		changed.Nodes = slices.Delete(changed.Nodes, i, i+1)
	}
	return changed
}

// joinRequest asks for a place in the map: of a new node, of one whose log was lost, or of a known one
// with a new address or zone.
type joinRequest struct {
	Cluster string    `json:"cluster"` // "" if the node does not know it yet
	ID      kv.NodeID `json:"id"`
	Addr    string    `json:"addr"`
	Zone    string    `json:"zone,omitempty"`
	// Incarnation is the one that the node has; 0: it has no log.
	Incarnation uint64 `json:"incarnation"`
	// Process distinguishes the process that asks from another one with the same ID.
	Process string `json:"process,omitempty"`
}

// Errors of join requests.
var (
	errOtherCluster = errors.New("this node belongs to another cluster")
	errNeeded       = errors.New("the cluster needs the data that the node of this ID had")
	errIDInUse      = errors.New("another node has this ID and answers")
)

// admit returns the map after a join request, which is m itself if nothing changes. answers reports
// whether a node other than the one that asks answers at an address.
func (m *Map) admit(r joinRequest, answers func(addr string) bool) (*Map, Member, error) {
	known, found := m.Find(r.ID)
	switch {
	case !r.ID.Valid():
		return nil, Member{}, fmt.Errorf("a node ID has 1 to 64 letters, digits, - and _; got %d bytes", len(r.ID))
	case r.Cluster != "" && r.Cluster != m.Cluster:
		return nil, Member{}, errOtherCluster
	case !found && (r.Incarnation > 0 || r.Cluster != ""): // it was a node of this cluster
		return nil, Member{}, ErrRemoved
	case !found:
		member := Member{ID: r.ID, Addr: r.Addr, Zone: r.Zone, Incarnation: m.Gone + 1}
		return m.with(member), member, nil
	case r.Incarnation > known.Incarnation:
		return nil, Member{}, fmt.Errorf("node %s has incarnation %d, the map has %d", r.ID, r.Incarnation, known.Incarnation)
	case r.Incarnation < known.Incarnation && r.Incarnation > 0:
		return nil, Member{}, errIDInUse
	case known.Addr != r.Addr && answers(known.Addr): // perhaps one of them has a copy of the other's directory
		return nil, Member{}, errIDInUse
	}
	member := known
	member.Addr, member.Zone = r.Addr, r.Zone
	if r.Incarnation == 0 {
		member.Incarnation++
		member.Leaving = false
	}
	if member == known {
		return m, known, nil
	}
	return m.with(member), member, nil
}

func (m *Map) encode() []byte {
	text, err := json.Marshal(m)
	if err != nil {
		panic("a map cannot be encoded: " + err.Error()) // it has only numbers and strings
	}
	return text
}

// parseMap decodes a map and checks what the rest of this package relies on.
func parseMap(text []byte) (*Map, error) {
	var m Map
	if err := json.Unmarshal(text, &m); err != nil {
		return nil, fmt.Errorf("the map of the cluster: %w", err)
	}
	return &m, m.check()
}

func (m *Map) check() error {
	if m.Groups < 1 || m.Groups > MaxGroups || m.Replicas < 1 {
		return fmt.Errorf("the map of the cluster has %d groups of %d replicas", m.Groups, m.Replicas)
	}
	for i, member := range m.Nodes {
		if !member.ID.Valid() || i > 0 && m.Nodes[i-1].ID >= member.ID {
			return fmt.Errorf("the map of the cluster has an invalid ID at position %d", i)
		}
	}
	return nil
}
