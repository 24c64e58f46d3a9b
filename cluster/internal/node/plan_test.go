package node

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/cluster/internal/kv"
)

// model is a cluster that obeys plans at once.
type model struct {
	t *testing.T
	s situation
}

func newModel(t *testing.T, groups int, nodes ...Member) *model {
	m := &model{t, situation{
		Map: &Map{Groups: groups, Replicas: 3}, Age: map[kv.NodeID]time.Duration{},
		Groups: map[kv.GroupID]groupSituation{}, Hosted: map[kv.NodeID]map[kv.GroupID]replicaStatus{},
		DeadAfter: time.Minute, Calm: true, MaxMoves: 4,
	}}
	for _, n := range nodes {
		m.join(n)
	}
	first := nodes[0].Server()
	for g := range kv.GroupID(groups) {
		m.s.Groups[g] = groupSituation{Leader: first, Commit: 10, Servers: []server{{first, true}}}
		m.host(g, first)
	}
	return m
}

func (m *model) join(n Member) {
	m.s.Map = m.s.Map.with(n)
	m.s.Hosted[n.ID] = map[kv.GroupID]replicaStatus{}
}

// leave begins to remove a node.
func (m *model) leave(id kv.NodeID) {
	leaving, _ := m.s.Map.Find(id)
	leaving.Leaving = true
	m.s.Map = m.s.Map.with(leaving)
}

// die stops a node. Groups that it led get other leaders.
func (m *model) die(id kv.NodeID, age time.Duration) {
	delete(m.s.Hosted, id)
	m.s.Age[id] = age
	for group, g := range m.s.Groups {
		if nodeOf(g.Leader) == id {
			i := slices.IndexFunc(g.Servers, func(s server) bool { return s.Voter && nodeOf(s.ID) != id })
			g.Leader = g.Servers[i].ID
			m.s.Groups[group] = g
		}
	}
}

func (m *model) host(g kv.GroupID, id string) {
	m.s.Hosted[nodeOf(id)][g] = replicaStatus{Server: id, Applied: 10}
}

func (m *model) apply(a action) {
	g := m.s.Groups[a.Group]
	at := slices.IndexFunc(g.Servers, func(s server) bool { return s.ID == a.Server })
	member := at >= 0
	switch a.Kind {
	case actAdd:
		require.False(m.t, member, a)
		g.Servers = append(slices.Clone(g.Servers), server{a.Server, false})
		m.host(a.Group, a.Server)
	case actHost:
		m.host(a.Group, a.Server)
	case actPromote:
		require.True(m.t, member && !g.Servers[at].Voter, a)
		g.Servers = slices.Clone(g.Servers)
		g.Servers[at].Voter = true
	case actRemove:
		require.True(m.t, member, a)
		require.NotEqual(m.t, g.Leader, a.Server, "a leader is replaced before it is removed")
		g.Servers = slices.Delete(slices.Clone(g.Servers), at, at+1)
	case actTransfer:
		require.True(m.t, member && g.Servers[at].Voter && g.Leader != a.Server, a)
		g.Leader = a.Server
	case actDrop:
		require.False(m.t, member, a)
		delete(m.s.Hosted[nodeOf(a.Server)], a.Group)
		return
	case actForget:
		m.s.Map = m.s.Map.without(nodeOf(a.Server))
		delete(m.s.Hosted, nodeOf(a.Server))
		return
	}
	m.s.Groups[a.Group] = g
	m.requireQuorum(a)
}

// requireQuorum checks that a change leaves a group a majority that works.
func (m *model) requireQuorum(a action) {
	voters, working := 0, 0
	p := planner{situation: m.s}
	for _, s := range m.s.Groups[a.Group].Servers {
		if s.Voter {
			voters++
			if p.working(a.Group, s.ID) {
				working++
			}
		}
	}
	require.Greater(m.t, 2*working, voters, "%+v takes the quorum of its group", a)
}

// settle obeys plans until there are none, and returns how many actions that took.
func (m *model) settle() (steps int) {
	for range 5000 {
		actions := plan(m.s)
		if len(actions) == 0 {
			m.requireSettled()
			return steps
		}
		seen := map[kv.GroupID]bool{}
		for _, a := range actions {
			if a.Kind != actDrop && a.Kind != actForget {
				require.False(m.t, seen[a.Group], "two steps of a group at a time: %+v", actions)
				seen[a.Group] = true
			}
			m.apply(a)
			steps++
		}
	}
	require.Fail(m.t, "the plans do not end", "%+v", plan(m.s))
	return 0
}

// requireSettled checks what all plans aim at.
func (m *model) requireSettled() {
	p := planner{situation: m.s}
	active, replicas, leads := map[kv.NodeID]bool{}, map[kv.NodeID]int{}, map[kv.NodeID]int{}
	zones := map[string]bool{}
	for _, n := range m.s.Map.Nodes {
		if p.answers(n.ID) && !n.Leaving {
			active[n.ID] = true
			zones[p.zone(n.ID)] = true
		}
	}
	want := min(3, len(active))
	for group, g := range m.s.Groups {
		in, working := map[string]bool{}, 0
		for _, s := range g.Servers {
			require.True(m.t, s.Voter)
			if active[nodeOf(s.ID)] {
				in[p.zone(nodeOf(s.ID))] = true
				replicas[nodeOf(s.ID)]++
				working++
			}
		}
		require.Equal(m.t, want, working, "working voters of group %d: %+v", group, g)
		require.Len(m.t, in, min(want, len(zones)), "zones of group %d", group)
		leads[nodeOf(g.Leader)]++
	}
	for id := range active {
		for other := range active {
			if p.zone(id) == "node "+string(id) && p.zone(other) == "node "+string(other) {
				require.LessOrEqual(m.t, replicas[id]-replicas[other], 1, "replicas: %v", replicas)
				require.LessOrEqual(m.t, leads[id]-leads[other], 2, "leaders: %v", leads) // 2 if they share no group
			}
		}
	}
	for id, hosted := range m.s.Hosted {
		for group, r := range hosted {
			require.True(m.t, slices.ContainsFunc(m.s.Groups[group].Servers, func(s server) bool { return s.ID == r.Server }),
				"node %s keeps a replica of group %d", id, group)
		}
	}
}

func members(ids ...string) (all []Member) {
	for _, id := range ids {
		all = append(all, Member{ID: kv.NodeID(id), Incarnation: 1})
	}
	return all
}

func TestReplicasAreInDifferentZones(t *testing.T) {
	var nodes []Member
	for i := range 6 {
		nodes = append(nodes, Member{ID: kv.NodeID(fmt.Sprint(i)), Incarnation: 1, Zone: string(rune('a' + i/2))})
	}
	newModel(t, 16, nodes...).settle()
}

func TestALeavingNodeIsEmptiedThenForgotten(t *testing.T) {
	m := newModel(t, 4, members("1", "2", "3", "4")...)
	m.settle()
	m.leave("1")
	m.settle()
	_, found := m.s.Map.Find("1")
	require.False(t, found)
}

func TestADeadNodeIsReplacedAfterAWhile(t *testing.T) {
	m := newModel(t, 4, members("1", "2", "3", "4")...)
	m.settle()
	m.die("2", 59*time.Second)
	for _, a := range plan(m.s) {
		require.Equal(t, actTransfer, a.Kind, "a node that may return keeps its replicas")
	}
	m.die("2", time.Minute)
	m.settle()
	for _, g := range m.s.Groups {
		require.False(t, slices.ContainsFunc(g.Servers, func(s server) bool { return s.ID == "2.1" }))
	}
}

func TestADeadNodeKeepsItsPlaceIfNoOtherCanTakeIt(t *testing.T) {
	m := newModel(t, 4, members("1", "2", "3")...)
	m.settle()
	m.die("2", time.Hour)
	for _, a := range plan(m.s) {
		require.Equal(t, actTransfer, a.Kind)
	}
}

func TestAReplicaGetsAVoteOnlyWhenItHasCaughtUp(t *testing.T) {
	m := newModel(t, 1, members("1", "2")...)
	for _, a := range plan(m.s) {
		m.apply(a)
	}
	g := m.s.Groups[0]
	g.Commit = 5000
	m.s.Groups[0] = g
	require.Empty(t, plan(m.s))
	m.s.Hosted["2"][0] = replicaStatus{Server: "2.1", Applied: 4000}
	require.Equal(t, actPromote, plan(m.s)[0].Kind)
	m.s.Hosted["2"][0] = replicaStatus{Server: "2.1", Applied: 5000, Failed: "damaged"}
	require.Empty(t, plan(m.s))
}

func TestFewGroupsMoveAtATime(t *testing.T) {
	m := newModel(t, 64, members("1", "2", "3")...)
	actions := plan(m.s)
	require.Len(t, actions, 4)
	for _, a := range actions {
		m.apply(a)
		m.s.Hosted[nodeOf(a.Server)][a.Group] = replicaStatus{Server: a.Server, Failed: "not yet"}
	}
	require.Empty(t, plan(m.s))
}

// A replica that cannot catch up, because the disk of its node is full, must not keep its group from being repaired.
func TestAReplicaOnAFullNodeIsReplacedBeforeItHasAVote(t *testing.T) {
	m := newModel(t, 4, members("1", "2", "3")...)
	m.settle()
	m.join(members("4")[0])
	m.die("3", time.Hour)
	for _, a := range plan(m.s) {
		m.apply(a)
		m.s.Hosted[nodeOf(a.Server)][a.Group] = replicaStatus{Server: a.Server, Failed: "the disk is full"}
	}
	m.s.Full = map[kv.NodeID]bool{"4": true}
	m.join(members("5")[0])
	for range 20 {
		for _, a := range plan(m.s) {
			m.apply(a)
		}
	}
	for group, g := range m.s.Groups {
		require.True(t, slices.ContainsFunc(g.Servers, func(s server) bool { return s.ID == "5.1" && s.Voter }), "group %d: %+v", group, g)
	}
}

func TestNothingIsPlannedForGroupsWithoutAnAnswer(t *testing.T) {
	m := newModel(t, 4, members("1", "2", "3")...)
	m.settle()
	delete(m.s.Groups, 2)
	m.s.Hosted["9"] = nil
	m.join(members("4")[0])
	for _, a := range plan(m.s) {
		require.NotEqual(t, kv.GroupID(2), a.Group)
	}
}

// Clusters of random shapes, in which nodes join, leave, die and lose their logs, settle after each event.
func TestRandomClustersSettle(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for range 30 {
		m := newModel(t, []int{1, 4, 16}[random.IntN(3)], members("1", "2", "3", "4")...)
		m.settle()
		next := 5
		for range 10 {
			nodes := m.s.Map.Nodes
			n := nodes[random.IntN(len(nodes))]
			switch event := random.IntN(4); {
			case event == 0 || len(m.s.Hosted) < 5:
				m.join(members(fmt.Sprint(next))[0])
				next++
			case event == 1:
				m.leave(n.ID)
			case event == 2:
				m.die(n.ID, time.Hour)
			default:
				m.die(n.ID, time.Hour)
				m.settle()
				n.Incarnation++
				n.Leaving = false
				m.join(n)
				delete(m.s.Age, n.ID)
			}
			m.settle()
		}
	}
}

// A node that an operator removes has votes that a group needs while another node is silent.
func TestAServerStaysWhileTheOthersWouldHaveNoMajorityThatWorks(t *testing.T) {
	m := newModel(t, 4, members("1", "2", "3")...)
	m.settle()
	m.die("2", time.Second)
	m.leave("3")
	for range 20 {
		for _, a := range plan(m.s) {
			require.NotEqual(t, actRemove, a.Kind, "%+v", a)
			m.apply(a)
		}
	}
}

func TestAServerThatDoesNotWorkIsRemovedFirst(t *testing.T) {
	m := newModel(t, 1, members("1", "2", "3", "4", "5")...)
	m.s.Groups[0] = groupSituation{Leader: "1.1", Commit: 10}
	for _, id := range []string{"1.1", "2.1", "3.1", "4.1", "5.1"} {
		g := m.s.Groups[0]
		g.Servers = append(g.Servers, server{id, true})
		m.s.Groups[0] = g
		m.host(0, id)
	}
	m.die("2", time.Hour)
	m.leave("5")
	require.Equal(t, []action{{actRemove, 0, "2.1"}}, plan(m.s))
}

// A node lost its log, and its replicas with it.
func TestFewGroupsLoseAReplicaAtATime(t *testing.T) {
	m := newModel(t, 64, members("1", "2", "3")...)
	m.settle()
	m.die("3", 0)
	m.s.Age = map[kv.NodeID]time.Duration{}
	m.join(Member{ID: "3", Incarnation: 2})
	actions := plan(m.s)
	require.Len(t, actions, m.s.MaxMoves)
	for _, a := range actions {
		require.Equal(t, action{actRemove, a.Group, "3.1"}, a)
	}
	m.settle()
}
