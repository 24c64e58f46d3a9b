package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/sievedb/sievedb/cluster/internal/kv"
	"github.com/sievedb/sievedb/cluster/internal/wire"
)

// mapName is the name under which group 0 stores the map.
const mapName = "map"

// joined is the answer to a joinRequest.
type joined struct {
	Map    *Map   `json:"map"`
	Member Member `json:"member"`
}

// changeMap replaces the map by what change makes of it. It must run on the leader of group 0. change may be
// called again, with a newer map. What it says of a map counts although nothing changes, so the map is read as by a
// linearizable read: a deposed leader would refuse a node by an old one, or say that all is done.
func (n *Node) changeMap(ctx context.Context, change func(m *Map) (*Map, error)) (*Map, error) {
	for {
		old, m, _, err := n.readMap(ctx)
		if err != nil {
			return nil, err
		}
		changed, err := change(m)
		if err != nil || changed == m {
			return m, err
		}
		group := n.replica(0)
		if group == nil {
			return nil, n.notLeader(0)
		}
		swapped, err := group.MetaCAS(ctx, mapName, old, changed.encode())
		if err != nil {
			return nil, err
		}
		if swapped {
			n.learn(changed)
			return changed, nil
		}
	}
}

// storeFirstMap stores the map of a new cluster, once this node leads group 0.
func (n *Node) storeFirstMap(ctx context.Context, m *Map) error {
	for {
		group := n.replica(0)
		if group != nil && group.Leading() {
			_, err := group.MetaCAS(ctx, mapName, nil, m.encode()) // if it is there, this node stored it earlier
			if err == nil {
				n.refreshMap()
				return n.placeAgain(ctx)
			}
			n.o.Logger.Warn("the first map could not be stored", "err", err)
		}
		if err := n.sleep(ctx, 10*time.Millisecond); err != nil {
			return fmt.Errorf("the groups of a new cluster did not start in time: %w", err)
		}
	}
}

// placeAgain corrects the stored map, if an earlier start stored it with another address or zone of this node.
func (n *Node) placeAgain(ctx context.Context) error {
	self := n.self()
	_, err := n.changeMap(ctx, func(m *Map) (*Map, error) {
		known, found := m.Find(self.ID)
		if !found || known.Addr == self.Addr && known.Zone == self.Zone {
			return m, nil
		}
		known.Addr, known.Zone = self.Addr, self.Zone
		return m.with(known), nil
	})
	return err
}

// onJoin gives a node its place in the map, or asks the leader of group 0 to.
func (n *Node) onJoin(ctx context.Context, r joinRequest) (joined, error) {
	var member Member
	if r.Incarnation == 0 {
		if err := n.spare(ctx, r.ID); err != nil {
			return joined{}, err
		}
	}
	m, err := n.changeMap(ctx, func(m *Map) (next *Map, err error) {
		next, member, err = m.admit(r, func(addr string) bool { return n.answers(ctx, addr, r.ID, r.Process) })
		return next, err
	})
	if err != nil {
		return joined{}, err
	}
	n.atlas.hear(member.ID, contact{at: time.Now()})
	return joined{m, member}, nil
}

// spare returns an error if groups need what a known node had before it lost its directory or its log: if they have no
// leader now without it, or a majority of all others lacks entries. To admit it as another server would make that
// final, and perhaps its directory is only not mounted.
func (n *Node) spare(ctx context.Context, id kv.NodeID) error {
	s, err := n.survey(ctx, confirmAll)
	if err != nil {
		return err
	}
	if _, known := s.Map.Find(id); !known {
		return nil
	}
	needed := make([]bool, s.Map.Groups)
	var asking sync.WaitGroup
	for group := range kv.GroupID(s.Map.Groups) {
		g, found := s.Groups[group]
		if !found || nodeOf(g.Leader) == id {
			needed[group] = true
			continue
		}
		if !slices.ContainsFunc(g.Servers, func(s server) bool { return nodeOf(s.ID) == id }) {
			continue
		}
		asking.Go(func() {
			// A voter that lags acknowledges the leader too. But this call commits an entry, and then a majority of
			// those that answer has all entries before it.
			_, err := n.configurationOf(ctx, group, g.Leader)
			needed[group] = err != nil
		})
	}
	asking.Wait()
	var without []kv.GroupID
	for group, needs := range needed {
		if needs {
			without = append(without, kv.GroupID(group))
		}
	}
	if len(without) == 0 {
		return nil
	}
	return fmt.Errorf("%w: without it, the groups %v have no leader now, or no majority with all entries. Is the file system of "+
		"its directory not mounted? If they stay so, start it with its old directory; if that is lost, start it with another ID",
		errNeeded, without)
}

// answers reports whether a node with an ID, but another process, answers at an address.
func (n *Node) answers(ctx context.Context, addr string, id kv.NodeID, process string) bool {
	ctx, cancel := context.WithTimeout(ctx, n.callTimeout())
	defer cancel()
	var s statusReply
	err := n.call(ctx, wire.Target{Peer: wire.Peer{ID: id}, Addr: addr}, "status", statusRequest{}, &s)
	// If the ID is this node's own, the other process refuses the connection of a twin.
	return err == nil && s.Member.ID == id && s.Process != process || id == n.o.ID && errors.Is(err, wire.ErrTwin)
}

// join asks the nodes of Join, one after the other, until one gives this node a place.
func (n *Node) join(ctx context.Context, r joinRequest) (joined, error) {
	var last error // what was logged
	for {
		for _, addr := range n.o.Join {
			j, err := n.askToJoin(ctx, addr, r)
			if err == nil {
				return j, nil
			}
			if isRefusal(err) {
				return joined{}, fmt.Errorf("node %s cannot join through %s: %w", r.ID, addr, err)
			}
			if last == nil || last.Error() != err.Error() {
				n.o.Logger.Warn("a node does not let this one join yet", "addr", addr, "err", err)
			}
			last = err
		}
		if err := n.sleep(ctx, n.o.Timing.Gossip/2); err != nil {
			return joined{}, fmt.Errorf("no node of %v lets this one join: %w", n.o.Join, errors.Join(last, err))
		}
	}
}

func isRefusal(err error) bool {
	return errors.Is(err, errOtherCluster) || errors.Is(err, ErrRemoved) || errors.Is(err, errIDInUse) ||
		errors.Is(err, wire.ErrTwin) || errors.Is(err, wire.ErrVersion)
}

// askToJoin asks a node, and those to which it redirects.
func (n *Node) askToJoin(ctx context.Context, addr string, r joinRequest) (joined, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*n.callTimeout())
	defer cancel()
	var not *kv.NotLeaderError
	for range 4 {
		var j joined
		err := n.call(ctx, wire.At(addr), "join", r, &j)
		if err == nil {
			if j.Map == nil {
				return j, errors.New("the answer has no map")
			}
			return j, nil
		}
		if !errors.As(err, &not) || not.Leader == "" {
			return j, err
		}
		addr = not.Leader
	}
	return joined{}, not
}

// announce informs the leader of group 0 if the map has another address or zone of this node than it has now.
func (n *Node) announce(ctx context.Context) {
	m := n.atlas.chart()
	if m == nil {
		return
	}
	self := n.self()
	known, found := m.Find(self.ID)
	if found && known.Addr == self.Addr && known.Zone == self.Zone || known.Incarnation > self.Incarnation {
		return
	}
	if !found {
		return // removed; see Health
	}
	asking, cancel := context.WithTimeout(ctx, 3*n.callTimeout()) // the leader asks at the old address first
	defer cancel()
	var j joined
	err := n.callLeaderOnce(asking, 0, "join", joinRequest{m.Cluster, self.ID, self.Addr, self.Zone, self.Incarnation, n.process}, &j)
	if errors.Is(err, errIDInUse) {
		// The map of node.json may have been too old to find that out at the start.
		if err := n.refuseTwins(ctx, m); err != nil {
			n.giveUp(err)
		}
	}
	if err != nil {
		n.o.Logger.Info("the new address of this node is not in the map yet", "err", err)
		return
	}
	n.learn(j.Map)
}

// leaveRequest begins the removal of a node.
type leaveRequest struct {
	ID kv.NodeID `json:"id"`
}

// onLeave marks a node, whose replicas then move to others.
func (n *Node) onLeave(ctx context.Context, r leaveRequest) (struct{}, error) {
	_, err := n.changeMap(ctx, func(m *Map) (*Map, error) {
		member, found := m.Find(r.ID)
		if !found {
			return nil, fmt.Errorf("the cluster has no node %s", r.ID)
		}
		stay := 0
		for _, other := range m.Nodes {
			if !other.Leaving && other.ID != r.ID {
				stay++
			}
		}
		if stay == 0 {
			return nil, errors.New("the last node of a cluster cannot be removed")
		}
		if member.Leaving {
			return m, nil
		}
		member.Leaving = true
		return m.with(member), nil
	})
	return struct{}{}, err
}

// forget removes an empty node from the map, if that is still the one of the plan. A node that did not answer may have
// replicas, of which the survey does not know if a deposed leader spoke for a group. So all leaders are asked, and what
// they say is confirmed by majorities.
func (n *Node) forget(ctx context.Context, s situation, id kv.NodeID) error {
	for group := range kv.GroupID(s.Map.Groups) {
		servers, err := n.configurationOf(ctx, group, s.Groups[group].Leader)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(servers, func(s server) bool { return nodeOf(s.ID) == id }) {
			return errChanged
		}
	}
	_, err := n.changeMap(ctx, func(m *Map) (*Map, error) {
		if m.Version != s.Basis.Version {
			return nil, errOldPlan
		}
		return m.without(id), nil
	})
	return err
}
