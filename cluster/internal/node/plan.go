package node

import (
	"cmp"
	"slices"
	"time"

	"github.com/sievedb/sievedb/cluster/internal/kv"
)

// situation is all that a plan depends on.
type situation struct {
	Map *Map
	// Basis is the mandate of the plan.
	Basis mandate
	// Age is how long ago this node last heard from, or of, each node.
	Age map[kv.NodeID]time.Duration
	// Full has the nodes whose disk is full.
	Full map[kv.NodeID]bool
	// Groups has those whose leader answered just now.
	Groups map[kv.GroupID]groupSituation
	// Hosted has the replicas of each node that answered just now.
	Hosted map[kv.NodeID]map[kv.GroupID]replicaStatus
	// DeadAfter is the age at which a node is replaced.
	DeadAfter time.Duration
	// Calm reports that the same nodes have answered for a while. Leaders are balanced only then, because each
	// transfer stops writes for a moment.
	Calm bool
	// MaxMoves bounds the number of groups that get a new replica at a time, and that of those that lose one.
	MaxMoves int
}

// groupSituation is a group as its leader sees it.
type groupSituation struct {
	Leader string `json:"leader"`
	// Commit is the index of the last committed entry.
	Commit  uint64   `json:"commit"`
	Servers []server `json:"servers"`
}

// server is a member of a group's configuration.
type server struct {
	ID    string `json:"id"`
	Voter bool   `json:"voter"`
}

// replicaStatus is a replica as its node sees it.
type replicaStatus struct {
	Server  string `json:"server"`
	Applied uint64 `json:"applied"`
	// Failed is why the replica does not work, or "".
	Failed string `json:"failed,omitempty"`
	// Damaged reports that the scrub has found damage in files of the replica, and that it still works.
	Damaged bool `json:"damaged,omitempty"`
}

// voters returns the servers that have a vote.
func voters(all []server) (some []server) {
	for _, s := range all {
		if s.Voter {
			some = append(some, s)
		}
	}
	return some
}

// actionKind is what an action does.
type actionKind string

const (
	actAdd      actionKind = "add"      // open a replica on the node, then add it as one without a vote
	actHost     actionKind = "host"     // open the replica that the configuration has
	actPromote  actionKind = "promote"  // give the replica a vote
	actRemove   actionKind = "remove"   // remove the server from the configuration
	actDrop     actionKind = "drop"     // delete the data of a replica that no configuration has
	actTransfer actionKind = "transfer" // make the server the leader
	actForget   actionKind = "forget"   // remove a node without replicas from the map
)

// action is one step. The controller reads the situation again before it plans the next step of a group.
type action struct {
	Kind   actionKind
	Group  kv.GroupID
	Server string
}

// caughtUp is how many entries a replica may lack to get a vote. Raft sends the rest while the
// change of the configuration is replicated.
const caughtUp = 1000

// plan returns the next steps towards the right number of replicas, in different zones, on the nodes with the
// fewest replicas. It has at most one step for each group.
func plan(s situation) []action {
	p := planner{situation: s, load: map[kv.NodeID]int{}}
	for _, g := range s.Groups {
		for _, server := range g.Servers {
			p.load[nodeOf(server.ID)]++
			if !server.Voter {
				p.moves++
			}
		}
	}
	var actions []action
	repaired := map[kv.GroupID]bool{}
	for _, step := range []func(kv.GroupID) (action, bool){p.repair, p.rebalance} {
		for group := range kv.GroupID(s.Map.Groups) {
			if _, known := s.Groups[group]; !known || repaired[group] {
				continue
			}
			if a, needed := step(group); needed {
				repaired[group] = true
				if a.Kind != "" {
					actions = append(actions, a)
				}
			}
		}
	}
	actions = append(actions, p.drops(repaired)...)
	if s.Calm && len(actions) == 0 && p.moves == 0 {
		actions = p.balanceLeaders()
	}
	return append(actions, p.forgets()...)
}

// planner has the counts that one plan updates as it goes.
type planner struct {
	situation
	load   map[kv.NodeID]int // replicas of each node
	moves  int               // groups that are getting a replica
	losses int               // groups that lose one by this plan
}

// wait is the step of a group that needs none now, and no other.
func wait() (action, bool) { return action{}, true }

func (p *planner) answers(id kv.NodeID) bool {
	_, yes := p.Hosted[id]
	return yes
}

func (p *planner) dead(id kv.NodeID) bool { return !p.answers(id) && p.Age[id] >= p.DeadAfter }

// stays reports whether a server is on a node that keeps its replicas.
func (p *planner) stays(id string) bool {
	member, found := p.Map.Find(nodeOf(id))
	return found && member.Server() == id && !member.Leaving && !p.dead(member.ID)
}

// working reports whether a server answers and has a sound replica of a group.
func (p *planner) working(group kv.GroupID, id string) bool {
	r, found := p.Hosted[nodeOf(id)][group]
	return found && r.Server == id && r.Failed == ""
}

// mayLead reports whether a server should get a leadership. While it catches up with what it lacks, no write succeeds.
func (p *planner) mayLead(group kv.GroupID, s server) bool {
	const lag = 100
	return s.Voter && p.stays(s.ID) && p.working(group, s.ID) && !p.Full[nodeOf(s.ID)] &&
		p.Hosted[nodeOf(s.ID)][group].Applied+lag >= p.Groups[group].Commit
}

// isCurrent reports whether a server works and has nearly all that its leader has.
func (p *planner) isCurrent(group kv.GroupID, id string) bool {
	return p.working(group, id) && p.Hosted[nodeOf(id)][group].Applied+caughtUp >= p.Groups[group].Commit
}

// wanted is the number of voters that a group should have.
func (p *planner) wanted() int {
	active := 0
	for _, member := range p.Map.Nodes {
		if !member.Leaving {
			active++
		}
	}
	return min(p.Map.Replicas, active)
}

// repair returns the step that a group needs to get the right number of working voters.
func (p *planner) repair(group kv.GroupID) (action, bool) {
	g := p.Groups[group]
	step := func(kind actionKind, server string) (action, bool) {
		return action{kind, group, server}, true
	}
	for _, s := range g.Servers {
		if !p.Map.hasServer(s.ID) { // a node that was removed, or lost its log: it will not return
			return p.remove(group, s)
		}
	}
	for _, s := range g.Servers {
		if _, hosted := p.Hosted[nodeOf(s.ID)][group]; !hosted && p.answers(nodeOf(s.ID)) {
			return step(actHost, s.ID)
		}
	}
	staying := 0
	for _, s := range g.Servers {
		switch {
		case !s.Voter && !p.stays(s.ID):
			return p.remove(group, s)
		case !s.Voter && p.isCurrent(group, s.ID):
			return step(actPromote, s.ID)
		case !s.Voter && p.Full[nodeOf(s.ID)]: // it would never catch up, and others would wait for it
			return p.remove(group, s)
		case !s.Voter:
			return wait()
		case p.stays(s.ID):
			staying++
		}
	}
	if staying < p.wanted() {
		if to, found := p.candidate(group); found {
			return p.add(group, to)
		}
		return action{}, false
	}
	return p.shrink(group, staying)
}

// remove removes a server, unless too many groups lose one already or the voters that remain and answer would be no
// majority. The leader of the group checks the latter once more.
func (p *planner) remove(group kv.GroupID, server server) (action, bool) {
	remain, live := 0, 0
	for _, s := range voters(p.Groups[group].Servers) {
		switch {
		case s.ID == server.ID:
		case p.working(group, s.ID):
			remain, live = remain+1, live+1
		default:
			remain++
		}
	}
	if p.losses >= p.MaxMoves || server.Voter && live <= remain/2 {
		return wait()
	}
	p.losses++
	p.load[nodeOf(server.ID)]--
	return action{actRemove, group, server.ID}, true
}

// shrink removes a server that the group does not need, first one that does not work. A leader is replaced first.
func (p *planner) shrink(group kv.GroupID, staying int) (action, bool) {
	g := p.Groups[group]
	surplus := ""
	for _, s := range g.Servers {
		if !p.stays(s.ID) && (surplus == "" || !p.working(group, s.ID)) {
			surplus = s.ID
		}
	}
	if surplus == "" && staying > p.wanted() {
		surplus = p.leastUseful(group)
	}
	switch {
	case surplus == "":
		return action{}, false
	case surplus != g.Leader:
		return p.remove(group, server{surplus, true})
	}
	for _, s := range g.Servers {
		if s.ID != surplus && p.mayLead(group, s) {
			return action{actTransfer, group, s.ID}, true
		}
	}
	return wait()
}

// zonesOf counts the replicas of a group that stay, by their zones. A node without a zone is a zone of its own.
func (p *planner) zonesOf(group kv.GroupID) map[string]int {
	zones := map[string]int{}
	for _, s := range p.Groups[group].Servers {
		if p.stays(s.ID) {
			zones[p.zone(nodeOf(s.ID))]++
		}
	}
	return zones
}

func (p *planner) zone(id kv.NodeID) string {
	member, _ := p.Map.Find(id)
	if member.Zone == "" {
		return "node " + string(id)
	}
	return "zone " + member.Zone
}

// candidate returns the best of the nodes that may get a replica of a group, if there is one.
func (p *planner) candidate(group kv.GroupID) (best kv.NodeID, found bool) {
	has := map[kv.NodeID]bool{}
	for _, s := range p.Groups[group].Servers {
		has[nodeOf(s.ID)] = true
	}
	var to []kv.NodeID
	for _, member := range p.Map.Nodes {
		if !member.Leaving && !has[member.ID] && p.answers(member.ID) && !p.Full[member.ID] {
			to = append(to, member.ID)
		}
	}
	if len(to) == 0 {
		return "", false
	}
	zones := p.zonesOf(group)
	return slices.MinFunc(to, func(a, b kv.NodeID) int {
		return cmp.Or(cmp.Compare(zones[p.zone(a)], zones[p.zone(b)]), cmp.Compare(p.load[a], p.load[b]))
	}), true
}

// add starts to move a replica to a node, if not too many are moving.
func (p *planner) add(group kv.GroupID, to kv.NodeID) (action, bool) {
	if p.moves >= p.MaxMoves {
		return wait()
	}
	p.moves++
	p.load[to]++
	member, _ := p.Map.Find(to)
	return action{actAdd, group, member.Server()}, true
}

// leastUseful returns the server without which the others are spread best. The leader is the last choice.
func (p *planner) leastUseful(group kv.GroupID) string {
	g, zones := p.Groups[group], p.zonesOf(group)
	number := func(condition bool) int {
		if condition {
			return 1
		}
		return 0
	}
	return slices.MaxFunc(g.Servers, func(a, b server) int {
		x, y := nodeOf(a.ID), nodeOf(b.ID)
		return cmp.Or(
			cmp.Compare(number(!p.working(group, a.ID)), number(!p.working(group, b.ID))),
			cmp.Compare(zones[p.zone(x)], zones[p.zone(y)]),
			cmp.Compare(p.load[x], p.load[y]),
			cmp.Compare(number(b.ID == g.Leader), number(a.ID == g.Leader)),
			cmp.Compare(a.ID, b.ID))
	}).ID
}

// rebalance adds a replica of a sound group to a better node. The next plans remove the one that it replaces.
func (p *planner) rebalance(group kv.GroupID) (action, bool) {
	g := p.Groups[group]
	to, found := p.candidate(group)
	if !found || p.moves >= p.MaxMoves {
		return action{}, false
	}
	for _, s := range g.Servers {
		if !p.working(group, s.ID) {
			return action{}, false // another replica would be the third that moves data
		}
	}
	zones := p.zonesOf(group)
	from := nodeOf(p.leastUseful(group))
	better := zones[p.zone(to)] == 0 && zones[p.zone(from)] > 1
	after := zones[p.zone(to)] // other replicas in the zone of the new one
	if p.zone(to) == p.zone(from) {
		after--
	}
	lighter := p.load[from]-p.load[to] >= 2 && after+1 <= zones[p.zone(from)]
	if !better && !lighter {
		return action{}, false
	}
	return p.add(group, to)
}

// drops returns the steps that delete replicas which are in no configuration.
func (p *planner) drops(busy map[kv.GroupID]bool) (actions []action) {
	for _, member := range p.Map.Nodes {
		for group := range kv.GroupID(p.Map.Groups) {
			r, hosted := p.Hosted[member.ID][group]
			g, known := p.Groups[group]
			if !hosted || !known || busy[group] {
				continue
			}
			if !slices.ContainsFunc(g.Servers, func(s server) bool { return s.ID == r.Server }) {
				actions = append(actions, action{actDrop, group, r.Server})
			}
		}
	}
	return actions
}

// forgets returns the steps that remove nodes from the map which have left all groups.
func (p *planner) forgets() (actions []action) {
	if len(p.Groups) < p.Map.Groups {
		return nil
	}
	for _, member := range p.Map.Nodes {
		uses := func(g groupSituation) bool {
			return slices.ContainsFunc(g.Servers, func(s server) bool { return nodeOf(s.ID) == member.ID })
		}
		used := len(p.Hosted[member.ID]) > 0 // it may still have to delete some
		for _, g := range p.Groups {
			used = used || uses(g)
		}
		if member.Leaving && !used {
			actions = append(actions, action{Kind: actForget, Server: member.Server()})
		}
	}
	return actions
}

// balanceLeaders returns at most one transfer, from a node that leads more groups than another that has
// a replica of one of them.
func (p *planner) balanceLeaders() []action {
	leads := map[kv.NodeID]int{}
	for _, g := range p.Groups {
		leads[nodeOf(g.Leader)]++
	}
	best, bestGap := action{}, 1
	for group := range kv.GroupID(p.Map.Groups) {
		g, known := p.Groups[group]
		if !known {
			continue
		}
		for _, s := range g.Servers {
			gap := leads[nodeOf(g.Leader)] - leads[nodeOf(s.ID)]
			if gap > bestGap && p.mayLead(group, s) {
				best, bestGap = action{actTransfer, group, s.ID}, gap
			}
		}
	}
	if best.Kind == "" {
		return nil
	}
	return []action{best}
}
