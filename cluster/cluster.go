package cluster

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/sievedb/sievedb/cluster/internal/node"
	"github.com/sievedb/sievedb/cluster/internal/server"
	"github.com/sievedb/sievedb/vfs"
)

// Node is a running node. Its methods may be called from any goroutine.
type Node struct {
	node   *node.Node
	server *server.Server

	removed chan struct{} // closed when the node was removed from the cluster
	stop    chan struct{}
	work    sync.WaitGroup
	once    sync.Once
	err     error // of Close
}

// Start opens the directory of a node, which creates a cluster, joins one, or continues where it stopped, and
// serves clients. ctx bounds the start: a node that joins waits until another one answers. The node runs
// until Close.
func Start(ctx context.Context, o Options) (*Node, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	no, err := o.nodeOptions()
	if err != nil {
		return nil, err
	}
	bounds := o.connections(vfs.MaxDescriptors())
	no.MaxHandshakes = bounds.handshakes
	inner, err := node.Start(ctx, no)
	if err != nil {
		return nil, err
	}
	o.Security.explain(no.Logger, inner.Addr())
	n := &Node{
		node: inner, server: server.New(inner, o.serverOptions(bounds)),
		removed: make(chan struct{}), stop: make(chan struct{}),
	}
	n.work.Add(2)
	go n.serve()
	go n.watchRemoval()
	return n, nil
}

func (n *Node) serve() {
	defer n.work.Done()
	_ = n.server.Serve(n.node.Clients()) // its error is that it was closed
}

// watchRemoval closes removed when the map of the cluster does not have the node any more.
func (n *Node) watchRemoval() {
	defer n.work.Done()
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			if n.node.Health().Removed {
				close(n.removed)
				return
			}
		case <-n.stop:
			return
		}
	}
}

// Addr returns the address of the node for clients and other nodes.
func (n *Node) Addr() string { return n.node.Addr() }

// Ready waits until the node knows the leader of every slot, so that it can answer or redirect all clients.
func (n *Node) Ready(ctx context.Context) error { return n.node.Ready(ctx) }

// Removed returns a channel that is closed when an operator has removed the node from its cluster, and its replicas
// have moved to other nodes. It should then be closed.
func (n *Node) Removed() <-chan struct{} { return n.removed }

// Health is the state of a node.
type Health struct {
	// Ready reports whether the node can answer or redirect clients for all slots.
	Ready bool
	// Problems are sentences about what an operator should know, for example that a disk is full or that
	// another node is silent. There are none if all is well.
	Problems []string
	// Groups is the number of groups that have a replica here, Leads the number of those that this node leads.
	Groups, Leads int
}

// Health describes the node as it is now.
func (n *Node) Health() Health {
	h := n.node.Health()
	return Health{Ready: h.Ready, Problems: h.Problems, Groups: h.Groups, Leads: h.Leads}
}

// Close stops the node. It first gives its leaderships to other nodes, so that clients hardly notice, then answers
// what has arrived, and then closes the connections. Later calls return the same error.
func (n *Node) Close() error {
	n.once.Do(func() {
		close(n.stop)
		n.node.HandOver()
		n.err = errors.Join(n.server.Close(), n.node.Close())
		n.work.Wait()
	})
	return n.err
}
