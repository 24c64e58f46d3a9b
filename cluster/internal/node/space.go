package node

import "context"

// spaceLoop looks at the free space of the disk. While there is little, the node refuses writes with
// kv.ErrNoSpace and gives its leaderships to nodes that have space. What remains is a reserve: replicas of
// groups that other nodes lead still grow.
func (n *Node) spaceLoop(ctx context.Context) {
	n.every(ctx, n.o.Timing.Gossip, func() {
		free, err := n.o.Space.Free(n.o.Dir)
		if err != nil {
			n.o.Logger.Warn("the free space of the disk is unknown", "err", err)
			return
		}
		full := n.full.Load()
		switch {
		case !full && free < n.o.Space.Reserve:
			n.o.Logger.Error("the disk is full: this node refuses writes", "free", free, "reserve", n.o.Space.Reserve)
			n.full.Store(true)
		case full && free >= n.o.Space.Reserve+n.o.Space.Reserve/4: // a little more, so that it does not alternate
			n.o.Logger.Info("the disk has space again", "free", free)
			n.full.Store(false)
		}
		if n.full.Load() {
			n.yieldLeaderships(ctx)
		}
	})
}

// yieldLeaderships gives leaderships to nodes that have space, if there are some.
func (n *Node) yieldLeaderships(ctx context.Context) {
	n.giveAway(ctx, "a full node could not give a leadership away", func(to string) bool {
		return n.atlas.age(nodeOf(to)) <= n.callTimeout()*4
	})
}
