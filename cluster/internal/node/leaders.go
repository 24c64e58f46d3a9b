package node

import (
	"github.com/sievedb/sievedb/cluster/internal/kv"
	"github.com/sievedb/sievedb/cluster/internal/wire"
)

// leader returns the server that leads a group, as far as this node knows, or "".
func (n *Node) leader(group kv.GroupID) string {
	if h, err := n.hostedGroup(group); err == nil {
		return h.log.Leader() // "" during an election: what others said before is not newer
	}
	return n.atlas.group(group).Leader
}

// leaderTarget is where calls to the leader of a group go. If no leader is known, it is a node that has a replica
// and was heard lately, if there is one; that node knows more.
func (n *Node) leaderTarget(group kv.GroupID) wire.Target {
	switch leader := n.leader(group); {
	case leader != "" && nodeOf(leader) == n.o.ID:
		return wire.At(n.addr) // the map may have another one from before
	case leader != "":
		return n.atlas.target(leader)
	}
	best := ""
	for _, s := range n.servers(group) {
		id := nodeOf(s.ID)
		if id != n.o.ID && (best == "" || n.atlas.age(id) < n.atlas.age(nodeOf(best))) {
			best = s.ID
		}
	}
	return n.atlas.target(best)
}

// servers returns the replicas of a group, as far as this node knows.
func (n *Node) servers(group kv.GroupID) []server {
	if h, err := n.hostedGroup(group); err == nil {
		return h.servers()
	}
	return n.atlas.group(group).Servers
}

// notLeader is the error of a request that only the leader of a group can answer.
func (n *Node) notLeader(group kv.GroupID) error {
	e := &kv.NotLeaderError{Group: group}
	if leader := n.leader(group); nodeOf(leader) != n.o.ID {
		e.Leader = n.atlas.addr(leader)
	}
	return e
}
