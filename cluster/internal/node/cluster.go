package node

import (
	"math/bits"
	"time"

	"github.com/sievedb/sievedb/cluster/internal/kv"
	"github.com/sievedb/sievedb/cluster/internal/slot"
)

var _ kv.Cluster = (*Node)(nil)

// Self implements kv.Cluster.
func (n *Node) Self() kv.NodeInfo {
	return kv.NodeInfo{ID: n.o.ID, Addr: n.addr, Zone: n.o.Zone, Up: true}
}

func (n *Node) groupOf(slotNum uint16) kv.GroupID {
	return slot.GroupOf(slotNum, n.atlas.chart().Groups)
}

// Group implements kv.Cluster.
func (n *Node) Group(slotNum uint16) (kv.Group, bool) {
	r := n.replica(n.groupOf(slotNum))
	if r == nil {
		return nil, false
	}
	return r, true
}

// Local implements kv.Cluster.
func (n *Node) Local() (groups []kv.Group, leading []bool) {
	for _, h := range n.running() {
		groups = append(groups, h.replica)
		leading = append(leading, h.replica.Leading())
	}
	return groups, leading
}

// Map implements kv.Cluster.
func (n *Node) Map() ([]kv.NodeInfo, []kv.SlotRange) {
	m := n.atlas.chart()
	nodes := make([]kv.NodeInfo, 0, len(m.Nodes))
	for _, member := range m.Nodes {
		nodes = append(nodes, kv.NodeInfo{ID: member.ID, Addr: n.atlas.locate(member).Addr, Zone: member.Zone, Up: n.isUp(member.ID)})
	}
	ranges := make([]kv.SlotRange, 0, m.Groups)
	for group := range kv.GroupID(m.Groups) {
		r := kv.SlotRange{Group: group, Leader: nodeOf(n.leader(group))}
		r.First, r.Last = slot.Range(group, m.Groups)
		for _, s := range n.servers(group) {
			if s.Voter && m.hasServer(s.ID) {
				r.Replicas = append(r.Replicas, nodeOf(s.ID))
			}
		}
		ranges = append(ranges, r)
	}
	return nodes, ranges
}

// isUp reports whether a node was heard of lately: news needs a few exchanges to reach this node.
func (n *Node) isUp(id kv.NodeID) bool {
	nodes := uint(len(n.atlas.chart().Nodes))
	return id == n.o.ID || n.atlas.age(id) < max(n.callTimeout(), n.o.Timing.Gossip*time.Duration(4+4*bits.Len(nodes)))
}

// Leader implements kv.Cluster.
func (n *Node) Leader(slotNum uint16) string { return n.atlas.addr(n.leader(n.groupOf(slotNum))) }
