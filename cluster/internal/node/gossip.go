package node

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/sievedb/sievedb/cluster/internal/kv"
	"github.com/sievedb/sievedb/cluster/internal/overview"
	"github.com/sievedb/sievedb/cluster/internal/wire"
)

// gossip is what two nodes exchange.
type gossip struct {
	Cluster string                   `json:"cluster"`
	From    Member                   `json:"from"`
	Map     *Map                     `json:"map,omitempty"`
	Groups  map[kv.GroupID]groupNews `json:"groups"`
	// Signs has how long ago the sender heard of each node. The receiver subtracts that from a time before
	// the call, so signs of life never seem younger than they are, however often they are passed on.
	Signs map[kv.NodeID]sign `json:"signs"`
	// Figures are the sender's. Overviews show them when it has fallen silent.
	Figures *overview.Figures `json:"figures,omitempty"`
}

type sign struct {
	Milliseconds int64 `json:"ms"`
	Full         bool  `json:"full,omitempty"`
}

// gossipLoop exchanges news with a random node at each tick.
func (n *Node) gossipLoop(ctx context.Context) {
	n.every(ctx, n.o.Timing.Gossip, func() {
		n.refreshMap()
		n.announce(ctx)
		if partner := n.partner(); partner.Addr != "" {
			n.exchange(ctx, partner)
		}
	})
}

// refreshMap reads the map of group 0 if it has a replica here, and reports whether it could.
func (n *Node) refreshMap() bool {
	group := n.replica(0)
	if group == nil {
		return false
	}
	text, err := group.MetaGet(mapName)
	if err != nil || text == nil {
		return false // the replica lags, or has failed: others have the map
	}
	m, err := parseMap(text)
	if err != nil {
		n.o.Logger.Error("the stored map of the cluster cannot be read", "err", err)
		return false
	}
	n.learn(m)
	return true
}

// learn keeps a newer map, in node.json as well.
func (n *Node) learn(m *Map) {
	if !n.atlas.learn(m) {
		return
	}
	n.o.Logger.Info("the cluster has a new map", "version", m.Version, "nodes", len(m.Nodes))
	if err := n.changeIdentity(func(id *identity) { id.Map, id.Alone = m, id.Alone && len(m.Nodes) < 2 }); err != nil {
		n.o.Logger.Error("the map of the cluster could not be kept", "err", err)
	}
}

// others returns the other nodes of the map, and those of Join.
func (n *Node) others(join bool) (all []wire.Target) {
	if m := n.atlas.chart(); m != nil {
		for _, member := range m.Nodes {
			if member.ID != n.o.ID {
				all = append(all, n.atlas.locate(member))
			}
		}
	}
	if join {
		for _, addr := range n.o.Join {
			all = append(all, wire.At(addr))
		}
	}
	return all
}

// partner returns a random other node. Before a node knows any, it asks those of Join.
func (n *Node) partner() wire.Target {
	all := n.others(rand.IntN(8) == 0) // all may have new addresses
	if len(all) == 0 {
		return wire.Target{}
	}
	return all[rand.IntN(len(all))]
}

// exchange sends what this node knows, and learns what the other knows.
func (n *Node) exchange(ctx context.Context, partner wire.Target) {
	ctx, cancel := context.WithTimeout(ctx, n.callTimeout())
	defer cancel()
	before := time.Now()
	var theirs gossip
	if err := n.call(ctx, partner, "gossip", n.news(), &theirs); err != nil {
		n.o.Logger.Debug("an exchange of news failed", "node", partner.String(), "err", err)
		return
	}
	n.atlas.greet(theirs.From)
	n.hearNews(theirs, before)
}

// news returns what this node knows.
func (n *Node) news() gossip {
	g := gossip{
		From: n.self(), Map: n.atlas.chart(), Groups: n.atlas.allGroups(), Signs: map[kv.NodeID]sign{},
	}
	figures := n.Figures()
	g.Figures = &figures
	g.Cluster = n.clusterName()
	for _, h := range n.running() {
		if news, leads := h.news(); leads {
			g.Groups[h.id] = news
		}
	}
	for id, c := range n.atlas.allContacts() {
		g.Signs[id] = sign{time.Since(c.at).Milliseconds(), c.full}
	}
	g.Signs[n.o.ID] = sign{0, n.full.Load()}
	return g
}

// hearNews learns what another node says. at is a time before it said that.
func (n *Node) hearNews(g gossip, at time.Time) {
	n.learn(g.Map)
	n.recollections.noteFigures(g.From.ID, g.Figures, at)
	for group, news := range g.Groups {
		n.atlas.learnGroup(group, news)
	}
	for id, s := range g.Signs {
		if id != n.o.ID {
			n.atlas.hear(id, contact{at.Add(-time.Duration(s.Milliseconds) * time.Millisecond), s.Full})
		}
	}
}

// onGossip answers another node. When it sent its news is not known, so their signs of life do not
// count, but that it speaks does.
func (n *Node) onGossip(ctx context.Context, theirs gossip) (gossip, error) {
	if theirs.Cluster != n.clusterName() {
		return gossip{}, errOtherCluster
	}
	ours := n.news()
	n.learn(theirs.Map)
	n.atlas.greet(theirs.From)
	for group, news := range theirs.Groups {
		n.atlas.learnGroup(group, news)
	}
	m := n.atlas.chart()
	if known, found := m.Find(theirs.From.ID); found && known.Incarnation == theirs.From.Incarnation {
		n.atlas.hear(theirs.From.ID, contact{time.Now(), theirs.Signs[theirs.From.ID].Full})
		n.recollections.noteFigures(theirs.From.ID, theirs.Figures, time.Now())
	}
	return ours, nil
}
