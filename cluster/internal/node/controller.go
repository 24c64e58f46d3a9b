package node

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/sievedb/sievedb/cluster/internal/kv"
)

// groupRequest is about a group.
type groupRequest struct {
	Group kv.GroupID `json:"group"`
}

// statusReply is what a node says of its replicas.
type statusReply struct {
	Member   Member                       `json:"member"`
	Process  string                       `json:"process,omitempty"`
	Full     bool                         `json:"full,omitempty"`
	Replicas map[kv.GroupID]replicaStatus `json:"replicas"`
	// Groups has those that the node leads.
	Groups map[kv.GroupID]leadStatus `json:"groups"`
}

// leadStatus is a group as a node sees it that leads it, or believes so: the highest term is right.
type leadStatus struct {
	Term uint64 `json:"term"`
	groupSituation
}

// statusRequest asks a node for its status.
type statusRequest struct {
	// Confirm asks the node to find out by a majority of each group whether it leads, and to leave out the others. A
	// node that was paused may believe in a leadership that has ended.
	Confirm bool `json:"confirm,omitempty"`
}

// onStatus answers the leader of group 0, which plans, and the overview.
func (n *Node) onStatus(ctx context.Context, r statusRequest) (statusReply, error) {
	leads := n.leadStatuses
	if r.Confirm {
		leads = n.confirmedLeads
	}
	s := statusReply{
		Member: n.self(), Process: n.process, Full: n.full.Load(),
		Replicas: map[kv.GroupID]replicaStatus{}, Groups: leads(ctx),
	}
	for _, p := range n.places {
		if !p.isHosted() {
			continue
		}
		r := replicaStatus{Server: s.Member.Server()}
		if h := p.get(); h == nil {
			r.Failed = p.failure()
		} else {
			r.Applied, r.Damaged = h.applied(), n.scrub.damaged(p)
		}
		s.Replicas[p.id] = r
	}
	return s, nil
}

// leadStatuses returns the groups that this node leads, or believes to lead.
func (n *Node) leadStatuses(context.Context) map[kv.GroupID]leadStatus {
	all := map[kv.GroupID]leadStatus{}
	for _, h := range n.running() {
		if lead, leads := h.lead(); leads {
			all[h.id] = lead
		}
	}
	return all
}

// confirmedLeads returns the groups of which a majority says that this node leads them.
func (n *Node) confirmedLeads(ctx context.Context) map[kv.GroupID]leadStatus {
	ctx, cancel := context.WithTimeout(ctx, n.callTimeout()/2) // the caller waits for the others that long
	defer cancel()
	all := map[kv.GroupID]leadStatus{}
	var mu sync.Mutex
	var asking sync.WaitGroup
	for _, h := range n.running() {
		asking.Go(func() {
			term, err := h.confirmLeadership(ctx)
			lead, leads := h.lead()
			if err == nil && leads && lead.Term == term {
				mu.Lock()
				all[h.id] = lead
				mu.Unlock()
			}
		})
	}
	asking.Wait()
	return all
}

// confirmLeadership returns the term in which this node led the group at some moment during the call. A majority has
// said so. If the node still leads in that term afterwards, it has led all the time: no term begins twice.
func (h *hosted) confirmLeadership(ctx context.Context) (term uint64, err error) {
	before := h.log.Leadership()
	if !before.Leading {
		return 0, &kv.NotLeaderError{Group: h.id}
	}
	if err := h.replica.View(ctx, false, func(kv.Reader) error { return nil }); err != nil {
		return 0, err
	}
	if now := h.log.Leadership(); !now.Leading || now.Term != before.Term {
		return 0, &kv.NotLeaderError{Group: h.id}
	}
	return before.Term, nil
}

// failure says why the replica does not work.
func (p *place) failure() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failed != nil {
		return p.failed.Error()
	}
	return "it is being opened"
}

// lead returns the group as its leader sees it, if this node leads.
func (h *hosted) lead() (leadStatus, bool) {
	news, leads := h.news()
	if !leads {
		return leadStatus{}, false
	}
	return leadStatus{news.Term, groupSituation{news.Leader, news.Index, news.Servers}}, true
}

// configurationReply is a group's configuration, which is committed.
type configurationReply struct {
	Servers []server `json:"servers"`
}

func (n *Node) onConfiguration(ctx context.Context, r groupRequest) (configurationReply, error) {
	h, err := n.hostedGroup(r.Group)
	if err != nil {
		return configurationReply{}, n.notLeader(r.Group)
	}
	servers := h.servers()
	if err := h.log.Barrier(ctx); err != nil { // which is after the configuration in the log
		return configurationReply{}, err
	}
	if !slices.Equal(servers, h.servers()) {
		return configurationReply{}, errChanged
	}
	return configurationReply{servers}, nil
}

// placementLoop plans while this node leads group 0, and carries the plans out.
func (n *Node) placementLoop(ctx context.Context) {
	var before map[kv.NodeID]bool
	calm := 0 // plans since the set of nodes that answer has changed
	n.every(ctx, n.o.Timing.Gossip, func() {
		if group := n.replica(0); group == nil || !group.Leading() {
			before, calm = nil, 0
			return
		}
		s, err := n.survey(ctx, surveyAll)
		if err != nil {
			n.o.Logger.Debug("the placement could not be planned", "err", err)
			return
		}
		if answering := s.answering(); maps.Equal(before, answering) {
			calm++
		} else {
			before, calm = answering, 0
		}
		s.Calm = calm >= calmPlans
		if len(plan(s)) == 0 {
			return
		}
		// Something has to be done: what is done follows from what majorities say now.
		confirmed, err := n.survey(ctx, confirmAmong(s.answering()))
		if err != nil {
			n.o.Logger.Debug("the placement could not be planned", "err", err)
			return
		}
		confirmed.Calm = s.Calm
		n.carryOut(ctx, confirmed, plan(confirmed))
	})
}

// calmPlans is how long the same nodes must have answered before leaders are moved for balance alone.
const calmPlans = 10

// answering returns the nodes that have answered.
func (s *situation) answering() map[kv.NodeID]bool {
	all := map[kv.NodeID]bool{}
	for id := range s.Hosted {
		all[id] = true
	}
	return all
}

// surveyed says whom a survey asks, and whether the leaders of groups must be confirmed by majorities.
type surveyed struct {
	confirm bool
	among   map[kv.NodeID]bool // nil: all nodes
}

var surveyAll, confirmAll = surveyed{}, surveyed{confirm: true}

// confirmAmong leaves out the nodes that have just not answered: each would be waited for once more.
func confirmAmong(ids map[kv.NodeID]bool) surveyed { return surveyed{confirm: true, among: ids} }

// survey reads the map and asks nodes for their status, after which it is certain that this node led group 0 when it
// began. If leaders must be confirmed, groups are left out whose leader is not.
func (n *Node) survey(ctx context.Context, whom surveyed) (situation, error) {
	basis, m, err := n.mandate(ctx)
	if err != nil {
		return situation{}, err
	}
	s := situation{
		Map: m, Basis: basis, Age: map[kv.NodeID]time.Duration{}, Full: map[kv.NodeID]bool{},
		Groups: map[kv.GroupID]groupSituation{}, Hosted: map[kv.NodeID]map[kv.GroupID]replicaStatus{},
		DeadAfter: n.o.Timing.DeadAfter, MaxMoves: 4,
	}
	replies := n.askAll(ctx, s.Map, whom.among, statusRequest{Confirm: whom.confirm})
	n.pulse() // before silence counts
	terms := map[kv.GroupID]uint64{}
	for i, member := range s.Map.Nodes {
		s.Age[member.ID] = n.atlas.silence(member.ID)
		r := replies[i]
		if r == nil || r.Member.ID != member.ID || r.Member.Incarnation != member.Incarnation {
			continue
		}
		n.atlas.hear(member.ID, contact{time.Now(), r.Full})
		s.Age[member.ID] = 0
		s.Full[member.ID] = r.Full
		s.Hosted[member.ID] = r.Replicas
		for group, lead := range r.Groups {
			if lead.Term > terms[group] {
				terms[group], s.Groups[group] = lead.Term, lead.groupSituation
			}
		}
	}
	return s, nil
}

// askAll returns the status of each node of a map, nil for those that do not answer in time, and those that are not
// among the ones to ask; nil: all.
func (n *Node) askAll(ctx context.Context, m *Map, among map[kv.NodeID]bool, r statusRequest) []*statusReply {
	ctx, cancel := context.WithTimeout(ctx, n.callTimeout())
	defer cancel()
	replies := make([]*statusReply, len(m.Nodes))
	var asking sync.WaitGroup
	for i, member := range m.Nodes {
		if among != nil && !among[member.ID] {
			continue
		}
		asking.Go(func() {
			to := n.atlas.locate(member)
			if member.ID == n.o.ID {
				to.Addr = n.addr
			}
			var reply statusReply
			if err := n.call(ctx, to, "status", r, &reply); err == nil {
				replies[i] = &reply
			}
		})
	}
	asking.Wait()
	return replies
}

// carryOut runs the actions of a plan at the same time. Those that fail are planned again.
func (n *Node) carryOut(ctx context.Context, s situation, actions []action) {
	ctx, cancel := context.WithTimeout(ctx, 10*n.callTimeout())
	defer cancel()
	var acting sync.WaitGroup
	for _, a := range actions {
		acting.Go(func() {
			err := n.act(ctx, s, a)
			log := n.o.Logger.With("action", a.Kind, "group", a.Group, "server", a.Server)
			if err != nil {
				log.Warn("a step of the placement failed; it will be planned again", "err", err)
			} else {
				log.Info("a step of the placement is done")
			}
		})
	}
	acting.Wait()
}

func (n *Node) act(ctx context.Context, s situation, a action) error {
	member, found := s.Map.Find(nodeOf(a.Server))
	onNode := func(name string) error {
		if !found {
			return fmt.Errorf("node %s is not in the map", nodeOf(a.Server))
		}
		return n.call(ctx, n.atlas.locate(member), name, hostRequest{a.Group, a.Server, s.Basis, s.Groups[a.Group].Leader}, &struct{}{})
	}
	switch a.Kind {
	case actForget:
		return n.forget(ctx, s, nodeOf(a.Server))
	case actHost, actDrop:
		return onNode(string(a.Kind))
	case actAdd:
		if err := onNode("host"); err != nil {
			return err
		}
	}
	lead, found := s.Map.Find(nodeOf(s.Groups[a.Group].Leader))
	if !found {
		return fmt.Errorf("%w: the leader of the group is not in the map", kv.ErrNoQuorum)
	}
	r := changeRequest{a.Kind, a.Group, a.Server, member.Addr, s.Groups[a.Group].Servers, &s.Basis}
	return n.call(ctx, n.atlas.locate(lead), "change", r, &struct{}{})
}

// changeRequest asks the leader of a group to change it.
type changeRequest struct {
	Kind   actionKind `json:"kind"`
	Group  kv.GroupID `json:"group"`
	Server string     `json:"server"`
	Addr   string     `json:"addr"`
	// Servers is the configuration on which the plan is based. Another one is not changed.
	Servers []server `json:"servers"`
	// Mandate is that of the plan; nil: an operator wants the transfer of a leadership.
	Mandate *mandate `json:"mandate"`
}

func (n *Node) onChange(ctx context.Context, r changeRequest) (struct{}, error) {
	h, err := n.hostedGroup(r.Group)
	if err != nil {
		return struct{}{}, n.notLeader(r.Group)
	}
	if err := h.changing.LockContext(ctx); err != nil { // raft has no compare-and-swap of configurations
		return struct{}{}, err
	}
	defer h.changing.Unlock()
	switch {
	case r.Mandate == nil && r.Kind != actTransfer:
		return struct{}{}, errOldPlan
	case r.Mandate != nil: // asked now: the change before may have taken its time
		if err := n.permit(ctx, *r.Mandate); err != nil {
			return struct{}{}, err
		}
	}
	if !h.log.Leads() {
		return struct{}{}, n.notLeader(r.Group)
	}
	if r.Servers != nil && !slices.Equal(r.Servers, h.servers()) {
		return struct{}{}, errChanged
	}
	switch r.Kind {
	case actAdd:
		err = h.log.AddNonvoter(ctx, r.Server, r.Addr)
	case actPromote:
		err = h.log.AddVoter(ctx, r.Server, r.Addr)
	case actRemove:
		err = h.log.RemoveServer(ctx, r.Server)
	case actTransfer:
		err = h.log.TransferLeadership(ctx, r.Server)
	default:
		err = fmt.Errorf("the change %q of a group is unknown: upgrade this node", r.Kind)
	}
	return struct{}{}, err
}
