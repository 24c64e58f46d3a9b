package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sievedb/sievedb/cluster/internal/kv"
	"github.com/sievedb/sievedb/cluster/internal/overview"
)

// Health is how a node and its groups are.
type Health struct {
	// Problems are what an operator should know, each a sentence; none if all is well.
	Problems []string
	// Ready reports whether this node can answer or redirect clients for all slots.
	Ready bool
	// Removed reports whether the node is not a part of its cluster any more.
	Removed bool
	// Full reports whether the disk is.
	Full bool
	// Nodes is the number of nodes of the cluster, NodesUp that of those that were heard of lately.
	Nodes, NodesUp int
	// Groups are this node's replicas, Leads how many of them lead.
	Groups, Leads int
}

// Health describes the node.
func (n *Node) Health() Health {
	m := n.atlas.chart()
	h := Health{Ready: true, Full: n.full.Load(), Nodes: len(m.Nodes)}
	problem := func(format string, args ...any) { h.Problems = append(h.Problems, fmt.Sprintf(format, args...)) }
	if _, found := m.Find(n.o.ID); !found {
		h.Removed, h.Ready = true, false
		problem("this node was removed from the cluster")
	} else if err := n.Err(); err != nil {
		h.Ready = false
		problem("%v", err)
	}
	if h.Full {
		problem("the disk is full: this node refuses writes")
	}
	if err := n.logs.err(); err != nil {
		problem("the log of the node failed: %v", err)
	}
	for _, text := range n.scrub.problems() {
		problem("%s", text)
	}
	var leaderless, takingOver []kv.GroupID
	for _, p := range n.places {
		leader := n.leader(p.id)
		if leader == "" {
			h.Ready = false
			leaderless = append(leaderless, p.id)
		}
		if !p.isHosted() {
			continue
		}
		h.Groups++
		r := p.get()
		if r == nil {
			problem("the replica of group %d does not work: %s", p.id, p.failure())
		} else if r.replica.Leading() {
			h.Leads++
		} else if leader == r.server { // elected, but it cannot answer yet and has nobody to redirect to
			h.Ready = false
			takingOver = append(takingOver, p.id)
		}
	}
	if len(leaderless) > 0 {
		problem("no leader is known of %s", overview.GroupsText(leaderless))
	}
	if len(takingOver) > 0 {
		problem("this node was elected and does not lead %s yet", overview.GroupsText(takingOver))
	}
	h.Problems = append(h.Problems, n.wire.OtherVersions()...)
	for _, member := range m.Nodes {
		if n.isUp(member.ID) {
			h.NodesUp++
		} else {
			problem("node %s was not heard of for %v", member.ID, n.atlas.age(member.ID).Round(time.Second))
		}
	}
	return h
}

// Ready waits until the node can answer or redirect clients for all slots.
func (n *Node) Ready(ctx context.Context) error {
	for {
		h := n.Health()
		if h.Ready {
			return nil
		}
		if h.Removed {
			return n.removed()
		}
		if err := n.sleep(ctx, 10*time.Millisecond); err != nil {
			return fmt.Errorf("the node is not ready, %q: %w", h.Problems, errors.Join(kv.ErrNoQuorum, err))
		}
	}
}
