package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sievedb/sievedb/cluster/internal/kv"
	"github.com/sievedb/sievedb/cluster/internal/wire"
)

// Errors after which an operator has to act. Starting the node again does not help.
var (
	// ErrNoNode says that a directory has no node, and nothing says which cluster a new one should join.
	ErrNoNode = errors.New("the directory has no node")
	// ErrRemoved says that the node was removed from its cluster.
	ErrRemoved = errors.New("this node was removed from its cluster")
	// ErrForked says that the node was created beside a cluster to which it belonged.
	ErrForked = errors.New("nodes of another cluster look for this one")
)

// Create makes the directory of the first node of a new cluster. Start continues: it creates the groups. Nothing else
// creates a cluster, because a node whose directory is lost, or not mounted, would be the first of another one, at an
// address at which clients look for the old one.
func Create(o Options) (err error) {
	o.fillDefaults()
	if err := o.validate(); err != nil {
		return err
	}
	names, err := o.FS.List(o.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if found := contents(names); len(found) > 0 {
		return fmt.Errorf("%s has %s: a new cluster needs a directory that is empty or does not exist", o.Dir, found[0])
	}
	lock, err := lockDir(o.FS, o.Dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if old, err := readIdentity(o.FS, o.Dir); err != nil || old != nil { // another process was faster
		return errors.Join(err, fmt.Errorf("%s has a node already", o.Dir))
	}
	member := Member{ID: o.ID, Addr: o.Advertise, Zone: o.Zone, Incarnation: 1} // Start writes its own address
	m := &Map{Version: 1, Cluster: randomID(), Groups: o.Groups, Replicas: o.Replicas, Nodes: []Member{member}}
	id := &identity{Cluster: m.Cluster, ID: o.ID, Incarnation: 1, Bootstrap: true, Alone: true, Map: m}
	for group := range kv.GroupID(o.Groups) {
		id.Hosted = append(id.Hosted, group)
	}
	return id.write(o.FS, o.Dir)
}

// contents returns what a directory has besides what a lock and a new file system leave there.
func contents(names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name == lockName || name == "lost+found" })
}

// refuseMissing returns an error if a directory has no node and this one must not be made: without --join, because that
// would be a new cluster, and with the data of a node, because node.json is lost. It leaves the directory as it is.
func refuseMissing(o *Options) error {
	names, err := o.FS.List(o.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, name := range names {
		switch name {
		case filepath.Base(identityFile(o.Dir)), filepath.Base(unfinishedFile(o.Dir)):
			return nil
		}
	}
	for _, name := range names {
		if strings.HasPrefix(name, "group-") || name == filepath.Base(logDir("")) {
			return fmt.Errorf("%w: %s has %s, and node.json is missing; restore its last state (others refuse an older one), or "+
				"move all away and join again", ErrNoNode, o.Dir, name)
		}
	}
	if len(o.Join) > 0 {
		return nil
	}
	return fmt.Errorf("%w: %s is empty or does not exist. Is its file system not mounted? A new node needs --join ADDRESS of "+
		"a node of its cluster. Only the first node of a new cluster is made by 'sieved init --id %s --dir %s'", ErrNoNode, o.Dir, o.ID, o.Dir)
}

// placeFirst gives the first map the address and the zone of the node, which Create did not know.
func (n *Node) placeFirst() error {
	id := n.identity.Load()
	if !id.Bootstrap {
		return nil
	}
	m := *id.Map
	m.Nodes = []Member{n.self()}
	return n.changeIdentity(func(id *identity) { id.Map = &m })
}

// refuseRemoved returns an error if the newest map that the node knows does not have it.
func (n *Node) refuseRemoved() error {
	if _, found := n.identity.Load().Map.Find(n.o.ID); found {
		return nil
	}
	return n.removed()
}

func (n *Node) removed() error {
	return fmt.Errorf("%w, and its data are of no use: to use the machine again, delete %s and start it with --join", ErrRemoved, n.o.Dir)
}

// onForeign is called when a node of another cluster wanted this one by its ID. If this node has always been the only
// one of its cluster, it was created by mistake, where the old one lost its directory: clients would take the empty
// cluster for the old one. A cluster that has had other nodes is no mistake, nor is one that was restored or recovered.
func (n *Node) onForeign(from wire.Peer) {
	if id := n.identity.Load(); id != nil && id.Alone {
		n.giveUp(fmt.Errorf("%w: node %s wanted node %s at this address, and this one is the first of a cluster that 'sieved "+
			"init' has made. Was the directory of the old node lost, or not mounted? Then stop this one, mount it, or join with "+
			"an empty directory and --join. Otherwise give this node another address", ErrForked, from, n.o.ID))
	}
}

// giveUp ends Done. The first error counts.
func (n *Node) giveUp(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ended == nil {
		n.ended = err
		close(n.done)
	}
}

// Done is closed when the node cannot go on; Err says why.
func (n *Node) Done() <-chan struct{} { return n.done }

// Err returns why Done is closed, or nil.
func (n *Node) Err() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.ended
}

// watchRemoval ends Done when the map does not have the node any more.
func (n *Node) watchRemoval(ctx context.Context) {
	n.every(ctx, n.o.Timing.Gossip, func() {
		if _, found := n.atlas.chart().Find(n.o.ID); !found {
			n.giveUp(n.removed())
		}
	})
}
