package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/sievedb/sievedb/cluster/internal/kv"
	"github.com/sievedb/sievedb/cluster/internal/overview"
	"github.com/sievedb/sievedb/cluster/internal/slot"
	"github.com/sievedb/sievedb/cluster/internal/wire"
	"github.com/sievedb/sievedb/db"
)

// viewReply is what a node says for an overview.
type viewReply struct {
	Status  statusReply             `json:"status"`
	Figures overview.Figures        `json:"figures"`
	Logs    map[kv.GroupID]logState `json:"logs"` // of the replicas that work
}

// logState is where the log of a replica is.
type logState struct {
	Last      uint64 `json:"last"`
	LastTerm  uint64 `json:"last_term"`
	Commit    uint64 `json:"commit"`
	Leader    string `json:"leader"`
	ContactMs int64  `json:"contact_ms"` // since a message of the leader
	// Servers are those of its configuration, which may not be committed.
	Servers []server `json:"servers"`
}

// onView answers a node that makes an overview.
func (n *Node) onView(ctx context.Context, _ struct{}) (viewReply, error) {
	status, err := n.onStatus(ctx, statusRequest{})
	if err != nil {
		return viewReply{}, err
	}
	v := viewReply{Status: status, Figures: n.Figures(), Logs: map[kv.GroupID]logState{}}
	for _, h := range n.running() {
		s := h.log.Stats()
		v.Logs[h.id] = logState{s.LastIndex, h.log.LastTerm(), s.CommitIndex, s.Leader, min(time.Since(s.LastContact),
			time.Since(n.started)).Milliseconds(), h.servers()}
	}
	return v, nil
}

// sight is what came of asking a node for an overview.
type sight struct {
	view *viewReply // nil: none
	why  string     // then
	took time.Duration
}

// lookAround asks all nodes of a map at the same time, and waits for a heartbeat at most: one that is silent for longer
// would soon lose its leaderships.
func (n *Node) lookAround(ctx context.Context, m *Map) map[kv.NodeID]sight {
	patience := max(n.o.Timing.Heartbeat, 100*time.Millisecond)
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var mu sync.Mutex
	sights := map[kv.NodeID]sight{}
	var asking sync.WaitGroup
	for _, member := range m.Nodes {
		asking.Go(func() {
			s := n.askForView(ctx, member, patience)
			mu.Lock()
			defer mu.Unlock()
			sights[member.ID] = s
		})
	}
	asking.Wait()
	return sights
}

func (n *Node) askForView(ctx context.Context, member Member, patience time.Duration) sight {
	to := member.target()
	if member.ID == n.o.ID {
		to.Addr = n.addr
	}
	begin := time.Now()
	var v viewReply
	err := n.call(ctx, to, "view", struct{}{}, &v)
	if err != nil && ctx.Err() == nil { // an idle connection may be of a process that has ended
		err = n.call(ctx, to, "view", struct{}{}, &v)
	}
	switch {
	case err != nil:
		return sight{why: whySilent(err, patience)}
	case v.Status.Member.Server() != member.Server():
		return sight{why: "another incarnation of the node answers"}
	}
	n.atlas.hear(member.ID, contact{time.Now(), v.Status.Full})
	n.recollections.noteView(member.ID, &v, begin)
	return sight{view: &v, took: time.Since(begin)}
}

// whySilent says in a few words why a node has not answered.
func whySilent(err error, patience time.Duration) string {
	var timeout net.Error
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return overview.WhyRefused
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded),
		errors.As(err, &timeout) && timeout.Timeout():
		return fmt.Sprintf("no answer in %v", patience)
	case errors.Is(err, kv.ErrClosed):
		return "it starts or stops"
	case errors.Is(err, wire.ErrVersion):
		return overview.WhyVersion
	case errors.Is(err, wire.ErrTwin):
		return "another node has its address or ID"
	}
	return err.Error()
}

// Overview asks all nodes how they are. Of those that do not answer within a heartbeat, it shows what they said last.
func (n *Node) Overview(ctx context.Context) overview.Overview {
	m := n.atlas.chart()
	_, member := m.Find(n.o.ID)
	o := overview.Overview{
		Node: string(n.o.ID), Cluster: m.Cluster, MapVersion: m.Version, Replicas: m.Replicas, Removed: !member,
		HeartbeatMs: n.o.Timing.Heartbeat.Milliseconds(), DeadAfterMs: n.o.Timing.DeadAfter.Milliseconds(),
	}
	sights := n.lookAround(ctx, m)
	n.recollections.keep(m)
	o.At = time.Now()
	for _, member := range m.Nodes {
		o.Took = max(o.Took, sights[member.ID].took)
		o.Nodes = append(o.Nodes, n.describeNode(member, sights[member.ID], o.At))
	}
	for group := range kv.GroupID(m.Groups) {
		o.Groups = append(o.Groups, n.describeGroup(group, m, sights, o.At))
	}
	for i := range o.Nodes {
		node := &o.Nodes[i]
		for _, g := range o.Groups {
			if g.Leader == node.ID {
				node.Leads++
			}
			for _, r := range g.Replicas {
				if r.Node == node.ID {
					node.Replicas++
				}
			}
		}
	}
	o.Findings = overview.Findings(&o)
	return o
}

func (n *Node) describeNode(member Member, s sight, now time.Time) overview.Node {
	o := overview.Node{
		ID: string(member.ID), Addr: member.Addr, Zone: member.Zone, Incarnation: member.Incarnation,
		Answered: s.view != nil, Why: s.why, State: overview.Up, Leaving: member.Leaving,
	}
	if s.view == nil {
		o.SilentMs = n.atlas.age(member.ID).Milliseconds()
	}
	switch {
	case s.view == nil:
		o.State = overview.Silent
	case member.Leaving:
		o.State = overview.Leaving
	case s.view.Status.Full:
		o.State = overview.Full
	}
	if c := n.recollections.of(member.ID); c.figures != nil {
		o.Figures, o.FiguresAgeMs = c.figures, max(0, now.Sub(c.figuresAt).Milliseconds())
		if s.view != nil {
			o.FiguresAgeMs = 0
		}
	}
	return o
}

func (n *Node) describeGroup(group kv.GroupID, m *Map, sights map[kv.NodeID]sight, now time.Time) overview.Group {
	g := overview.Group{Group: group, Local: n.replica(group) != nil}
	g.First, g.Last = slot.Range(group, m.Groups)
	servers := n.servers(group)
	for _, s := range sights {
		if s.view == nil {
			continue
		}
		if lead, leads := s.view.Status.Groups[group]; leads && lead.Term > g.Term {
			g.Term, g.Commit, servers = lead.Term, lead.Commit, lead.Servers
			g.Leader = string(nodeOf(lead.Leader)) // others may not know yet that it leads no more
		}
	}
	if len(servers) == 0 {
		servers = serversSeen(group, m, sights)
	}
	silence := int64(-1)
	for _, s := range servers {
		if !m.hasServer(s.ID) {
			if s.Voter {
				g.Gone++ // of an earlier incarnation: it does not exist any more
			}
			continue
		}
		id := nodeOf(s.ID)
		g.Replicas = append(g.Replicas, n.describeReplica(group, id, s.Voter, sights[id].view, now))
		if v := sights[id].view; v != nil {
			log, works := v.Logs[group]
			g.Commit = max(g.Commit, log.Commit)
			if works && (silence < 0 || log.ContactMs < silence) {
				silence = log.ContactMs
			}
		}
	}
	if g.Leader == "" {
		g.LeaderlessMs = max(0, silence)
	}
	lags(&g)
	return g
}

// serversSeen returns the servers of a group of which no leader has told: this node started a moment ago, or the group
// has had none since. They are those that its replicas know, or else the nodes that should have a replica.
func serversSeen(group kv.GroupID, m *Map, sights map[kv.NodeID]sight) (servers []server) {
	last := uint64(0)
	var hosts []server
	for _, member := range m.Nodes {
		v := sights[member.ID].view
		if v == nil {
			continue
		}
		if log := v.Logs[group]; len(log.Servers) > 0 && (servers == nil || log.Last > last) {
			last, servers = log.Last, log.Servers
		}
		if _, hosted := v.Status.Replicas[group]; hosted {
			hosts = append(hosts, server{ID: member.Server(), Voter: true})
		}
	}
	if servers == nil {
		return hosts
	}
	return servers
}

func (n *Node) describeReplica(
	group kv.GroupID, id kv.NodeID, voter bool, v *viewReply, now time.Time,
) overview.Replica {
	r := overview.Replica{Node: string(id), Voter: voter, Known: v != nil}
	if v == nil {
		c := n.recollections.of(id)
		if v = c.view; v == nil {
			return r
		}
		r.AgeMs = now.Sub(c.viewAt).Milliseconds()
	}
	status, hosted := v.Status.Replicas[group]
	log := v.Logs[group]
	r.Applied, r.Last, r.LastTerm = status.Applied, log.Last, log.LastTerm
	r.Failed, r.Absent = status.Failed, !hosted
	return r
}

// lags compares the replicas of a group with its leader, or with the one that has most.
func lags(g *overview.Group) {
	first := uint64(0)
	for _, r := range g.Replicas {
		if r.Works() && r.Node == g.Leader {
			first = r.Applied
			break
		}
		if r.Known && g.Leader == "" {
			first = max(first, r.Applied)
		}
	}
	for i := range g.Replicas {
		if r := &g.Replicas[i]; r.Known && r.Applied < first {
			r.Lag = first - r.Applied
		}
	}
}

// WithState calls f with the database of a local replica, which stays open until f returns. f must not write.
func (n *Node) WithState(group kv.GroupID, f func(*db.DB) error) error {
	h, err := n.hostedGroup(group)
	if err != nil {
		return fmt.Errorf("group %d: %w", group, err)
	}
	return h.state.WithDB(f)
}
