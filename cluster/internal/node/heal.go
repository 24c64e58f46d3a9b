package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sievedb/sievedb/cluster/internal/consensus"
	"github.com/sievedb/sievedb/cluster/internal/files"
	"github.com/sievedb/sievedb/cluster/internal/kv"
	"github.com/sievedb/sievedb/cluster/internal/wire"
	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/vfs"
)

// errGivenUp says that the map has a later incarnation of this node than node.json.
var errGivenUp = errors.New("this incarnation of the node was given up")

// wake makes the healer look at once.
func (n *Node) wake() {
	select {
	case n.failures <- struct{}{}:
	default:
	}
}

// healLoop takes out replicas that have failed, and brings them back.
func (n *Node) healLoop(ctx context.Context) {
	ticker := time.NewTicker(n.o.Timing.Gossip)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-n.failures:
		case <-ctx.Done():
			return
		}
		if err := n.logFailure(); err != nil {
			n.healLog(ctx, err)
			continue
		}
		for _, p := range n.places {
			n.healPlace(ctx, p)
		}
	}
}

// logFailure returns why the log cannot be used, or nil.
func (n *Node) logFailure() error {
	self := n.self()
	if known, found := n.atlas.chart().Find(self.ID); found && known.Incarnation > self.Incarnation {
		return errGivenUp
	}
	return n.logs.err()
}

// healLog takes all groups of the node out, because they share its log. If only the disk was full or failed
// once, the log has all that was acknowledged and is opened again. If it is damaged, this node may have
// forgotten entries and votes, and joins again as another server.
func (n *Node) healLog(ctx context.Context, cause error) {
	for _, p := range n.places {
		if p.get() != nil {
			n.o.Logger.Error("the log of the node failed: its replicas are taken out", "group", p.id, "err", cause)
		}
		if err := p.close(cause); err != nil {
			n.o.Logger.Warn("a replica was closed with an error", "group", p.id, "err", err)
		}
	}
	if err := n.logs.close(cause); err != nil {
		n.o.Logger.Warn("the log was closed with an error", "err", err)
	}
	if errors.Is(cause, db.ErrNoSpace) && n.full.Load() {
		return // until there is space
	}
	if isDamage(cause) || errors.Is(cause, errGivenUp) {
		if err := n.rejoin(ctx); err != nil {
			n.o.Logger.Warn("this node could not join again yet", "err", err)
			if !errors.Is(cause, errScrubbed) {
				return
			}
			// Nobody has needed what is damaged, and groups may need what is not. The scrub tries again.
		}
	}
	if err := n.logs.open(n); err != nil {
		n.o.Logger.Error("the log could not be opened again", "err", err)
		return // the next round has this error as its cause
	}
	n.reopenPlaces()
	n.o.Logger.Info("the log of the node works again")
}

func isDamage(err error) bool {
	return errors.Is(err, db.ErrCorruption) || errors.Is(err, consensus.ErrStateBehind)
}

// rejoin gets a new incarnation from the leader of group 0. node.json has it before the log is replaced, so
// no crash can leave an old incarnation with an empty log.
func (n *Node) rejoin(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*n.callTimeout())
	defer cancel()
	m, self := n.atlas.chart(), n.self()
	if len(m.Nodes) < 2 {
		return errors.New("there is no other node that has the data")
	}
	var j joined
	err := n.callLeader(ctx, 0, "join", joinRequest{Cluster: m.Cluster, ID: self.ID, Addr: self.Addr, Zone: self.Zone, Process: n.process}, &j)
	if err != nil {
		return err
	}
	err = n.changeIdentity(func(id *identity) {
		id.Incarnation, id.OldLog, id.Map = j.Member.Incarnation, true, j.Map
	})
	if err == nil {
		n.atlas.learn(j.Map)
		n.o.Logger.Info("this node has joined again, with an empty log", "incarnation", j.Member.Incarnation)
	}
	return err
}

// reopenPlaces opens all replicas that node.json lists.
func (n *Node) reopenPlaces() {
	for _, p := range n.places {
		p.lifecycle.Lock()
		if p.isHosted() && p.get() == nil && !n.closing.Load() {
			n.open(p)
		}
		p.lifecycle.Unlock()
	}
}

// healPlace takes a replica out if its state has failed, and tries to bring it back.
func (n *Node) healPlace(ctx context.Context, p *place) {
	p.lifecycle.Lock()
	defer p.lifecycle.Unlock()
	if !p.isHosted() || n.closing.Load() {
		return
	}
	h := p.get()
	if h != nil {
		cause := h.err()
		if cause == nil {
			return
		}
		n.o.Logger.Error("a replica failed and is taken out", "group", p.id, "err", cause)
		p.retries = 0
		if err := p.closeLocked(cause); err != nil {
			n.o.Logger.Warn("a replica was closed with an error", "group", p.id, "err", err)
		}
	}
	cause := p.cause()
	if errors.Is(cause, db.ErrNoSpace) && n.full.Load() || time.Now().Before(p.retryAt) {
		return
	}
	p.retries++
	p.retryAt = time.Now().Add(n.o.Timing.Gossip << min(p.retries, 6))
	// A state that is not damaged has all it had: the log continues it. If that does not help, it is replaced.
	if isDamage(cause) || p.retries > 2 {
		if err := n.replaceState(ctx, p.id); err != nil {
			n.o.Logger.Warn("a replica could not get its state from another one yet", "group", p.id, "err", err)
			return
		}
	}
	if n.open(p); p.get() != nil {
		n.o.Logger.Info("a replica works again", "group", p.id)
	}
}

func (p *place) cause() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failed
}

// replaceState gets the state of a group from another replica. The old state is kept until the new one is complete,
// because a replica without any state would lack entries that it has acknowledged.
func (n *Node) replaceState(ctx context.Context, group kv.GroupID) error {
	err := error(errNotHosted)
	for _, s := range n.servers(group) {
		if nodeOf(s.ID) == n.o.ID {
			continue
		}
		from := n.atlas.target(s.ID)
		peer, err1 := wire.ParsePeer(s.ID)
		if from.Addr == "" || err1 != nil {
			continue
		}
		from.Peer = peer // with its incarnation: a state is what a server of raft has
		if err = n.replaceStateFrom(ctx, from, group); err == nil {
			n.o.Logger.Info("a replica got its state from another one", "group", group, "from", s.ID)
			return nil
		}
		n.o.Logger.Warn("a state could not be fetched", "group", group, "from", s.ID, "err", err)
	}
	return err
}

func newGroupDir(dir string, group kv.GroupID) string { return groupDir(dir, group) + ".new" }

func (n *Node) replaceStateFrom(ctx context.Context, from wire.Target, group kv.GroupID) error {
	fresh := newGroupDir(n.o.Dir, group)
	if err := files.RemoveAll(n.o.FS, fresh); err != nil {
		return err
	}
	if err := n.fetchState(ctx, from, group, fresh); err != nil {
		return errors.Join(err, files.RemoveAll(n.o.FS, fresh))
	}
	if err := n.moveAside(groupDir(n.o.Dir, group)); err != nil {
		return err
	}
	return finishReplacement(n.o.FS, n.o.Dir, group)
}

// finishReplacement gives a new state its place, if the old one was moved aside already. A crash may have come between
// these steps.
func finishReplacement(fsys vfs.FS, nodeDir string, group kv.GroupID) error {
	dir, fresh := groupDir(nodeDir, group), newGroupDir(nodeDir, group)
	_, there := fsys.Lstat(dir)
	_, ready := fsys.Lstat(fresh)
	if there == nil || ready != nil {
		return nil
	}
	if err := fsys.Rename(fresh, dir); err != nil {
		return err
	}
	return fsys.SyncDir(nodeDir)
}

// fetchState writes the state of another replica to a new directory, and checks that the log of this one continues it.
func (n *Node) fetchState(ctx context.Context, from wire.Target, group kv.GroupID, dir string) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := n.wire.CallStream(ctx, from, "state", groupRequest{group})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stream.Close()) }()
	state, err := n.openState(group, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, state.Close()) }()
	if err := state.InstallState(ctx, stream); err != nil {
		return err
	}
	log, err := n.logs.group(group)
	if err != nil {
		return err
	}
	first, err := log.FirstIndex()
	applied, _ := state.Applied()
	if err == nil && first > applied+1 {
		err = fmt.Errorf("the other replica has applied %d entries, and the log of this one begins with %d", applied, first)
	}
	return err
}
