package node

import (
	"context"
	"fmt"
	"time"

	"github.com/sievedb/sievedb/cluster/internal/kv"
	"github.com/sievedb/sievedb/cluster/internal/slot"
	"github.com/sievedb/sievedb/db"
)

// Overview is the cluster as this node sees it now, for people.
type Overview struct {
	Node, Cluster string
	MapVersion    uint64
	Replicas      int // that each group should have
	Problems      []string
	Nodes         []NodeOverview
	Groups        []GroupOverview
	At            time.Time
}

// NodeOverview is a node of the cluster.
type NodeOverview struct {
	ID, Addr, Zone string
	// State is up, down, full or leaving.
	State string
	// Silent is the number of milliseconds since the last sign of life.
	Silent int64
	// Answered reports whether it has answered just now; if not, its replicas are not known.
	Answered bool
	Leads    int
}

// GroupOverview is a group with its replicas.
type GroupOverview struct {
	Group       kv.GroupID
	First, Last uint16
	Leader      string // a node; "" if none is known
	Term        uint64
	// Commit is the index of the last committed entry; 0 if the leader has not answered.
	Commit   uint64
	Replicas []ReplicaOverview
	// Local reports whether this node has a working replica, whose database can be looked at.
	Local bool
}

// ReplicaOverview is a replica of a group.
type ReplicaOverview struct {
	Node  string
	Voter bool
	// Known reports whether its node has answered. Lag is then the number of entries that it has applied less
	// than the leader.
	Known  bool
	Lag    uint64
	Failed string // why it does not work
}

// Overview asks all nodes how they are. Those that do not answer in time are shown as far as they are known.
func (n *Node) Overview(ctx context.Context) Overview {
	m := n.atlas.chart()
	o := Overview{
		Node: string(n.o.ID), Cluster: m.Cluster, MapVersion: m.Version, Replicas: m.Replicas, Problems: n.Health().Problems,
		At: time.Now(),
	}
	replies := n.askAll(ctx, m, statusRequest{})
	answers := map[kv.NodeID]*statusReply{}
	for i, member := range m.Nodes {
		r := replies[i]
		if r != nil && r.Member.Server() == member.Server() {
			answers[member.ID] = r
		}
		age := n.atlas.age(member.ID)
		if member.ID == n.o.ID {
			age = 0
		}
		o.Nodes = append(o.Nodes, NodeOverview{
			ID: string(member.ID), Addr: member.Addr, Zone: member.Zone, State: n.stateOf(member), Silent: age.Milliseconds(),
			Answered: answers[member.ID] != nil,
		})
	}
	for group := range kv.GroupID(m.Groups) {
		g := n.overviewOf(group, m, answers)
		for i := range o.Nodes {
			if o.Nodes[i].ID == g.Leader {
				o.Nodes[i].Leads++
			}
		}
		o.Groups = append(o.Groups, g)
	}
	return o
}

func (n *Node) overviewOf(group kv.GroupID, m *Map, answers map[kv.NodeID]*statusReply) GroupOverview {
	g := GroupOverview{Group: group, Local: n.replica(group) != nil}
	g.First, g.Last = slot.Range(group, m.Groups)
	leader, servers := n.leader(group), n.servers(group)
	for _, r := range answers {
		if lead, leads := r.Groups[group]; leads && lead.Term > g.Term {
			g.Term, g.Commit, leader, servers = lead.Term, lead.Commit, lead.Leader, lead.Servers
		}
	}
	g.Leader = string(nodeOf(leader))
	first := uint64(0)
	if r := answers[nodeOf(leader)]; r != nil {
		first = r.Replicas[group].Applied
	}
	for _, s := range servers {
		if !m.hasServer(s.ID) {
			continue // of an earlier incarnation: it does not exist any more
		}
		replica := ReplicaOverview{Node: string(nodeOf(s.ID)), Voter: s.Voter}
		if r := answers[nodeOf(s.ID)]; r != nil {
			status, hosted := r.Replicas[group]
			replica.Known, replica.Failed = first > 0, status.Failed
			if !hosted {
				replica.Failed = "it does not exist yet"
			} else if status.Applied < first {
				replica.Lag = first - status.Applied
			}
		}
		g.Replicas = append(g.Replicas, replica)
	}
	return g
}

// WithState calls f with the database of a local replica, which stays open until f returns. f must not write.
func (n *Node) WithState(group kv.GroupID, f func(*db.DB) error) error {
	h, err := n.hostedGroup(group)
	if err != nil {
		return fmt.Errorf("group %d: %w", group, err)
	}
	return h.state.WithDB(f)
}
