package node

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/sievedb/sievedb/cluster/internal/consensus"
	"github.com/sievedb/sievedb/cluster/internal/files"
	"github.com/sievedb/sievedb/cluster/internal/kv"
	"github.com/sievedb/sievedb/cluster/internal/machine"
	"github.com/sievedb/sievedb/cluster/internal/replica"
	"github.com/sievedb/sievedb/db"
)

// place is where a group's replica is, if this node has one.
type place struct {
	id kv.GroupID

	// lifecycle is held while the replica is opened, closed, healed or deleted.
	lifecycle kv.Mutex
	retries   int       // of healing; guarded by lifecycle
	retryAt   time.Time // guarded by lifecycle

	mu      sync.Mutex
	running *hosted // nil if the replica is absent or does not work
	hosted  bool    // whether node.json lists the group
	failed  error   // why the replica does not work; nil if it does
}

// hosted is a working replica of a group.
type hosted struct {
	id      kv.GroupID
	server  string
	state   *machine.Machine
	log     *raftLog
	replica *replica.Replica

	changing kv.Mutex // held during changes of the configuration
}

// news is what a leader says about its group.
func (h *hosted) news() (groupNews, bool) {
	if !h.replica.Leading() {
		return groupNews{}, false
	}
	s := h.log.Stats()
	return groupNews{Term: h.log.Term(), Index: s.CommitIndex, Leader: h.server, Servers: h.servers()}, true
}

// closePatience bounds the wait for the end of raft.
const closePatience = 20 * time.Second

// errStuck says that raft did not end. Raft v1.8.0 can wait for ever in pipelineSend: if pipelineDecode has ended
// because of a rejection, no goroutine takes answers any more. What remains is a goroutine that waits.
var errStuck = errors.New("raft did not end in time")

// close ends the log first, so that nothing new begins, then what depends on it.
func (h *hosted) close() error {
	ended := make(chan error, 1)
	go func() { ended <- h.log.Close() }()
	patience := time.NewTimer(closePatience)
	defer patience.Stop()
	var err error
	select {
	case err = <-ended:
	case <-patience.C:
		err = errStuck
	}
	h.replica.Close()
	return errors.Join(err, h.state.Close())
}

func groupDir(dir string, group kv.GroupID) string {
	return filepath.Join(dir, fmt.Sprintf("group-%04d", group))
}

// openPlaces opens the replicas that node.json lists. One that does not open is left to the healer.
func (n *Node) openPlaces() {
	groups := n.atlas.chart().Groups
	n.places = make([]*place, groups)
	for i := range n.places {
		id := kv.GroupID(i)
		n.places[i] = &place{id: id, lifecycle: kv.NewMutex(), hosted: slices.Contains(n.identity.Load().Hosted, id)}
	}
	var opening sync.WaitGroup
	for _, p := range n.places {
		if !p.hosted {
			continue
		}
		opening.Go(func() {
			p.lifecycle.Lock()
			defer p.lifecycle.Unlock()
			n.open(p)
		})
	}
	opening.Wait()
}

// place returns that of a group, nil if the group does not exist.
func (n *Node) place(group kv.GroupID) *place {
	if !n.isReady() || int(group) >= len(n.places) {
		return nil
	}
	return n.places[group]
}

// running returns the working replicas of this node.
func (n *Node) running() (all []*hosted) {
	if !n.isReady() {
		return nil
	}
	for _, p := range n.places {
		if h := p.get(); h != nil {
			all = append(all, h)
		}
	}
	return all
}

func (p *place) get() *hosted {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.running
}

// replica returns the working replica of a group, or nil.
func (n *Node) replica(group kv.GroupID) *replica.Replica {
	if h, err := n.hostedGroup(group); err == nil {
		return h.replica
	}
	return nil
}

// hostedGroup returns the working replica of a group, or errNotHosted.
func (n *Node) hostedGroup(group kv.GroupID) (*hosted, error) {
	if p := n.place(group); p != nil {
		if h := p.get(); h != nil {
			return h, nil
		}
	}
	return nil, errNotHosted
}

// open opens a group's replica and notes the result. The lifecycle must be locked.
func (n *Node) open(p *place) {
	h, err := n.openReplica(p.id)
	p.mu.Lock()
	p.running, p.failed = h, err
	p.mu.Unlock()
	if err != nil {
		n.o.Logger.Error("a replica could not be opened", "group", p.id, "err", err)
		n.wake()
	}
}

// close closes the replica, if it works, and notes why.
func (p *place) close(why error) error {
	p.lifecycle.Lock()
	defer p.lifecycle.Unlock()
	return p.closeLocked(why)
}

// closeLocked closes the replica and notes why. The lifecycle must be locked.
func (p *place) closeLocked(why error) error {
	p.mu.Lock()
	h := p.running
	p.running, p.failed = nil, why
	p.mu.Unlock()
	if h == nil {
		return nil
	}
	return h.close()
}

// openReplica opens a group's state, its log and what runs commands on them.
func (n *Node) openReplica(group kv.GroupID) (*hosted, error) {
	if err := finishReplacement(n.o.FS, n.o.Dir, group); err != nil {
		return nil, err
	}
	state, err := n.openState(group, groupDir(n.o.Dir, group))
	if err != nil {
		return nil, fmt.Errorf("the state of group %d: %w", group, err)
	}
	log, err := n.openLog(group, state)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the log of group %d: %w", group, err), state.Close())
	}
	r := replica.Start(replica.Options{
		Group: group, State: state, Log: log, Addr: n.atlas.addr, Clock: n.o.Timing.Clock,
		StaleBound: n.o.Timing.StaleBound, AskTimeout: n.o.Timing.Heartbeat,
		MaxInFlight: maxInFlight, Full: n.full.Load, Logger: n.o.Logger,
	})
	return &hosted{id: group, server: n.self().Server(), state: state, log: log, replica: r, changing: kv.NewMutex()}, nil
}

func (n *Node) openState(group kv.GroupID, dir string) (*machine.Machine, error) {
	return machine.Open(machine.Options{
		Dir: dir, FS: n.o.FS, Logger: n.o.Logger,
		DB:             func(o *db.Options) { o.Resources = n.shared },
		BytesPerSecond: n.o.Log.BytesPerSecond,
		Failed:         func(error) { n.wake() },
	})
}

func (n *Node) openLog(group kv.GroupID, state *machine.Machine) (*raftLog, error) {
	logGroup, err := n.logs.group(group)
	if err != nil {
		return nil, err
	}
	store := raftStore{logGroup}
	self := n.self()
	log := newRaftLog()
	o := consensus.Options{
		Group: group, ID: self.Server(), Address: n.addr,
		Logs: store, Stable: store, FSM: state, Snapshots: state.Snapshots(), Stream: n.wire.Group(group),
		Addresses:   n.addrOf,
		Timing:      consensus.Timing{Heartbeat: n.o.Timing.Heartbeat, Election: n.o.Timing.Election},
		MaxInFlight: maxInFlight + 16, SnapshotThreshold: n.o.Log.SnapshotThreshold, TrailingLogs: n.o.Log.TrailingLogs,
		SnapshotInterval: 5 * time.Second, // a look costs nothing, and a busy log grows fast
		OnLeadership:     log.onLeadership, Logger: n.o.Logger.With("group", group),
		OnFailure: func(err error) {
			log.onFailure(err)
			n.wake()
		},
	}
	if n.isNew() {
		o.Bootstrap = []consensus.Server{{ID: self.Server(), Address: n.addr, Voter: true}}
	}
	if n.o.Raft != nil {
		n.o.Raft(&o)
	}
	if log.Group, err = consensus.Start(o); err != nil {
		return nil, errors.Join(err, o.Stream.Close())
	}
	return log, nil
}

// maxInFlight is how many writes of a group may be on their way.
const maxInFlight = 8192

// isNew reports whether this node is creating a cluster.
func (n *Node) isNew() bool { return n.identity.Load().Bootstrap }

// addrOf is the address of a server for raft.
func (n *Node) addrOf(server string) (string, error) {
	if addr := n.atlas.addr(server); addr != "" {
		return addr, nil
	}
	return "", fmt.Errorf("server %s is not in the map of the cluster", server)
}

// hostRequest asks a node to open an empty replica, or to delete one.
type hostRequest struct {
	Group   kv.GroupID `json:"group"`
	Server  string     `json:"server"`
	Mandate mandate    `json:"mandate"`
	// Leader is the server that leads the group. A replica that left it may know nobody.
	Leader string `json:"leader"`
}

// onHost opens a replica of a group, which waits for its leader.
func (n *Node) onHost(ctx context.Context, r hostRequest) (struct{}, error) {
	p := n.place(r.Group)
	switch {
	case p == nil:
		return struct{}{}, kv.ErrClosed
	case r.Server != n.self().Server():
		return struct{}{}, errChanged
	case n.full.Load():
		return struct{}{}, kv.ErrNoSpace
	}
	if err := p.lifecycle.LockContext(ctx); err != nil {
		return struct{}{}, err
	}
	defer p.lifecycle.Unlock()
	if err := n.permit(ctx, r.Mandate); err != nil {
		return struct{}{}, err
	}
	if n.closing.Load() {
		return struct{}{}, kv.ErrClosed
	}
	if p.isHosted() {
		return struct{}{}, nil
	}
	if err := n.setHosted(p, true); err != nil {
		return struct{}{}, err
	}
	n.open(p)
	p.mu.Lock()
	defer p.mu.Unlock()
	return struct{}{}, p.failed
}

func (p *place) isHosted() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.hosted
}

// setHosted records whether the group has a replica here. The lifecycle must be locked.
func (n *Node) setHosted(p *place, yes bool) error {
	err := n.changeIdentity(func(id *identity) {
		id.Hosted = slices.DeleteFunc(id.Hosted, func(g kv.GroupID) bool { return g == p.id })
		if yes {
			id.Hosted = append(id.Hosted, p.id)
			slices.Sort(id.Hosted)
		}
	})
	if err != nil {
		return err
	}
	p.mu.Lock()
	p.hosted = yes
	p.mu.Unlock()
	return nil
}

// onDrop deletes a replica that the group does not have any more, as the leader of the group says and a majority of it
// confirms. All is asked while the lifecycle is locked: the group can get the replica back only after onHost, which
// waits for that.
func (n *Node) onDrop(ctx context.Context, r hostRequest) (struct{}, error) {
	p := n.place(r.Group)
	if p == nil {
		return struct{}{}, nil
	}
	if err := p.lifecycle.LockContext(ctx); err != nil {
		return struct{}{}, err
	}
	defer p.lifecycle.Unlock()
	self := n.self().Server()
	if r.Server != self {
		return struct{}{}, errChanged
	}
	if err := n.permit(ctx, r.Mandate); err != nil {
		return struct{}{}, err
	}
	servers, err := n.configurationOf(ctx, r.Group, r.Leader)
	if err != nil {
		return struct{}{}, err
	}
	if slices.ContainsFunc(servers, func(s server) bool { return s.ID == self }) {
		return struct{}{}, errChanged
	}
	if !p.isHosted() {
		return struct{}{}, nil
	}
	n.o.Logger.Info("a replica leaves this node", "group", r.Group)
	return struct{}{}, n.drop(p)
}

// configurationOf asks the leader of a group for its configuration, which is committed: a majority of the group says
// so.
func (n *Node) configurationOf(ctx context.Context, group kv.GroupID, leader string) ([]server, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*n.callTimeout())
	defer cancel()
	to := n.atlas.target(leader)
	if to.ID == n.o.ID {
		to.Addr = n.addr // the map may have another one from before
	}
	var c configurationReply
	if err := n.call(ctx, to, "configuration", groupRequest{group}, &c); err != nil {
		return nil, err
	}
	if len(c.Servers) == 0 {
		return nil, fmt.Errorf("the leader of group %d knows no servers of it", group)
	}
	return c.Servers, nil
}

// drop deletes a replica's state and the entries of its log. Its votes remain: if the group returns, it must not
// vote twice in a term. The lifecycle must be locked.
func (n *Node) drop(p *place) error {
	if err := p.closeLocked(nil); err != nil {
		n.o.Logger.Warn("a replica was closed with an error before it was deleted", "group", p.id, "err", err)
	}
	if err := n.logs.clear(p.id); err != nil {
		return err
	}
	for _, dir := range []string{newGroupDir(n.o.Dir, p.id), groupDir(n.o.Dir, p.id)} {
		if err := files.RemoveAll(n.o.FS, dir); err != nil {
			return err
		}
	}
	return n.setHosted(p, false)
}

// handoverTimeout bounds the transfer of leaderships before a stop.
func (n *Node) handoverTimeout() time.Duration {
	return 2 * (n.o.Timing.Heartbeat + n.o.Timing.Election)
}

// HandOver gives all leaderships of this node to other nodes, as far as these answer in time. A server calls it
// before it closes the connections of its clients, so that these learn who leads.
func (n *Node) HandOver() {
	n.giveAway(context.Background(), "a leadership was not handed over", func(string) bool { return true })
}

// giveAway gives all leaderships of this node to other nodes that may have one, as far as these answer in time. It logs
// what failed.
func (n *Node) giveAway(ctx context.Context, failed string, may func(to string) bool) {
	ctx, cancel := context.WithTimeout(ctx, n.handoverTimeout())
	defer cancel()
	var transfers sync.WaitGroup
	for _, h := range n.running() {
		to := n.successor(h)
		if to == "" || !may(to) {
			continue
		}
		transfers.Go(func() {
			if err := h.log.TransferLeadership(ctx, to); err != nil {
				n.o.Logger.Warn(failed, "group", h.id, "err", err)
			}
		})
	}
	transfers.Wait()
}

// successor returns the voter to which this node should give a leadership, "" if it does not lead or there is
// none: the one that was heard last among those that have space.
func (n *Node) successor(h *hosted) (best string) {
	if !h.log.Leads() {
		return ""
	}
	var bestAge time.Duration
	for _, s := range h.servers() {
		id := nodeOf(s.ID)
		age := n.atlas.age(id)
		if s.Voter && s.ID != h.server && !n.atlas.full(id) && (best == "" || age < bestAge) {
			best, bestAge = s.ID, age
		}
	}
	return best
}
