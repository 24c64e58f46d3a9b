package node

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"sync"
	"time"

	"github.com/sievedb/sievedb/cluster/internal/kv"
	"github.com/sievedb/sievedb/cluster/internal/wire"
)

// ErrRolledBack says that the directory of this node is an older copy: others know a start of the node that it has not
// had.
var ErrRolledBack = wire.ErrRolledBack

// countEvery is how often a node that runs counts another start, so that a copy of its directory that was made
// meanwhile is noticed as well.
const countEvery = 5 * time.Minute

// mark is a start of another node. If a node's directory is replaced by an older copy, it has forgotten votes and
// entries on which others count, and raft cannot see that. But that copy has not had all starts of the node: others
// keep the latest one before they exchange anything else with it, and refuse a directory that lacks it. If they lose
// their own directories, they learn the present start as they join again. Other incarnations of a node have votes and
// entries of their own.
type mark struct {
	Incarnation uint64     `json:"incarnation"`
	Start       wire.Start `json:"start"`
}

// met keeps the start of another node, or returns an error if it does not follow the latest one.
func (n *Node) met(from wire.Peer, s wire.Start) (err error) {
	m, id := mark{from.Incarnation, s.Brief()}, n.identity.Load()
	if m.Incarnation == 0 || s.Number == 0 || id == nil { // one of the two has not joined yet
		return nil
	}
	if reflect.DeepEqual(id.Starts[from.ID], m) {
		return nil // without a wait for a write of node.json
	}
	refused := false
	err = n.changeIdentity(func(id *identity) {
		known, found := id.Starts[from.ID]
		switch {
		case !found || m.Incarnation > known.Incarnation:
		case m.Incarnation < known.Incarnation: // raft knows the former no more
			return
		case !s.Follows(known.Start):
			refused = true
			return
		}
		id.Starts = maps.Clone(id.Starts)
		if id.Starts == nil {
			id.Starts = map[kv.NodeID]mark{}
		}
		id.Starts[from.ID] = m
	})
	if err != nil {
		if !n.full.Load() { // which the log has
			n.o.Logger.Error("the start of another node could not be kept", "node", from.ID, "err", err)
		}
		return err
	}
	if refused {
		return fmt.Errorf("%w: that of node %s has not had its latest start", ErrRolledBack, from)
	}
	return nil
}

// introduce tells all other nodes of this start, and waits a heartbeat for them, before this node votes for or
// acknowledges anything of one of them: another one may know a start that its directory lacks.
func (n *Node) introduce(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, n.o.Timing.Heartbeat)
	defer cancel()
	var asking sync.WaitGroup
	for _, to := range n.others(true) {
		asking.Go(func() { _ = n.call(ctx, to, "status", statusRequest{}, &statusReply{}) }) // it may be down
	}
	asking.Wait()
	return n.Err()
}

// onRolledBack ends a node whose directory is an older copy, for all time: each further start would count.
func (n *Node) onRolledBack(err error) {
	if n.identity.Load() == nil {
		return // there is no directory yet
	}
	if err := n.changeIdentity(func(id *identity) { id.RolledBack = true }); err != nil {
		n.o.Logger.Error("node.json could not be written", "err", err)
	}
	n.giveUp(n.rolledBack(err))
}

func (n *Node) rolledBack(err error) error {
	return fmt.Errorf("%w. Was %s, or its disk, restored from a copy or a snapshot? It lacks what the node has acknowledged: "+
		"move it away, and start the node with an empty one and --join", err, n.o.Dir)
}

// countLoop counts starts while this one runs.
func (n *Node) countLoop(ctx context.Context) { n.every(ctx, countEvery, n.countAgain) }

// countAgain counts only if another node can have learned of the present start: what nobody knows marks nothing, and an
// old copy that waits for the others must not get ahead of what these remember.
func (n *Node) countAgain() {
	for _, c := range n.atlas.allContacts() {
		if time.Since(c.at) >= countEvery {
			continue
		}
		if err := n.count(); err != nil {
			n.o.Logger.Error("node.json could not be written", "err", err)
		}
		return
	}
}

func (n *Node) count() error {
	return n.changeIdentity(func(id *identity) { id.Start = id.Start.Next() })
}
