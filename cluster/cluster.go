package cluster

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"strings"
	"sync"

	"github.com/sievedb/sievedb"
	"github.com/sievedb/sievedb/cluster/internal/node"
	"github.com/sievedb/sievedb/cluster/internal/overview"
	"github.com/sievedb/sievedb/cluster/internal/server"
	"github.com/sievedb/sievedb/vfs"
)

// Node is a running node. Its methods may be called from any goroutine.
type Node struct {
	node   *node.Node
	server *server.Server
	looks  *overview.Shared // for the metrics

	work sync.WaitGroup
	once sync.Once
	err  error // of Close
}

// Errors after which an operator has to act: starting the node again does not help.
var (
	// ErrNoNode is returned by Start if the directory is empty or does not exist and Network.Join is empty. Its file
	// system may not be mounted. Create makes the first node of a new cluster.
	ErrNoNode = node.ErrNoNode
	// ErrRemoved says that an operator has removed the node from its cluster. With an empty directory it can join
	// again.
	ErrRemoved = node.ErrRemoved
	// ErrForked says that nodes of another cluster look for this node, which is the only one of a cluster that Create
	// has made: probably the directory of the old node was lost.
	ErrForked = node.ErrForked
	// ErrRolledBack says that the directory of the node is an older copy of itself: other nodes know a later start of
	// the node. It must join again with an empty directory.
	ErrRolledBack = node.ErrRolledBack
)

// Create makes the directory of the first node of a new cluster, which must be empty or not exist. Start starts that
// node then, and further ones with Network.Join. Of the options, ID and Dir are required; Shape, FS, Zone and
// Network.Advertise are used.
func Create(o Options) error {
	if err := o.Validate(); err != nil {
		return err
	}
	no := o.identityOptions()
	no.Advertise = o.Network.Advertise
	return node.Create(no)
}

// Start opens the directory of a node, which joins a cluster or continues where it stopped, and serves clients. It
// never creates a cluster: see Create. ctx bounds the start: a node that joins waits until another one answers. The
// node runs until Close.
func Start(ctx context.Context, o Options) (n *Node, err error) {
	ended := make(chan struct{})
	go func() { // without the pprof labels of the caller, as all goroutines that it starts
		defer close(ended)
		pprof.SetGoroutineLabels(context.Background())
		returned := false
		defer func() { // a panic would end the process, and Goexit would be no error
			if !returned {
				e := &sievedb.PanicError{During: "the start of a node", Value: recover(), Stack: debug.Stack()}
				e.Place, err = panicPlace(), e
			}
		}()
		n, err = startNode(ctx, o)
		returned = true
	}()
	<-ended
	return n, err
}

// panicPlace returns where the code was that has panicked or ended its goroutine, for a deferred function.
func panicPlace() string {
	var pcs [64]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(1, pcs[:])])
	for ending, more := false, true; more; {
		var f runtime.Frame
		f, more = frames.Next()
		switch {
		case f.Function == "runtime.gopanic" || f.Function == "runtime.Goexit":
			ending = true
		case ending && !strings.HasPrefix(f.Function, "runtime."):
			return fmt.Sprintf("%s, %s:%d", f.Function, f.File, f.Line)
		}
	}
	return "an unknown place"
}

func startNode(ctx context.Context, o Options) (*Node, error) {
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
	n := &Node{node: inner, server: server.New(inner, o.serverOptions(bounds)), looks: overview.Share(inner.Overview)}
	inner.SetClients(func() (commands, clients int64) {
		s := n.server.Stats()
		return s.Commands, int64(s.Clients)
	})
	n.work.Go(n.serve)
	return n, nil
}

func (n *Node) serve() {
	_ = n.server.Serve(n.node.Clients()) // its error is that it was closed
}

// Addr returns the address of the node for clients and other nodes.
func (n *Node) Addr() string { return n.node.Addr() }

// Ready waits until the node knows the leader of every slot, so that it can answer or redirect all clients.
func (n *Node) Ready(ctx context.Context) error { return n.node.Ready(ctx) }

// Done returns a channel that is closed when the node cannot go on, and should be closed. Err says why.
func (n *Node) Done() <-chan struct{} { return n.node.Done() }

// Err returns nil before Done is closed. Then it is ErrRemoved, after the replicas of a removed node have moved to
// other nodes, ErrForked or ErrRolledBack.
func (n *Node) Err() error { return n.node.Err() }

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
		n.node.HandOver()
		n.err = errors.Join(n.server.Close(), n.node.Close())
		n.work.Wait()
	})
	return n.err
}
