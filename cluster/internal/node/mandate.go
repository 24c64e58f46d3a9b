package node

import (
	"context"
	"fmt"

	"github.com/sievedb/sievedb/cluster/internal/kv"
	"github.com/sievedb/sievedb/cluster/internal/wire"
)

// mandate is by what right a plan is carried out: its maker led group 0 in a term, and read a version of the map in
// it. A leader that was paused and deposed goes on where it was, with requests that it had sent and plans that it had
// made. So each request of a plan has the plan's mandate. A node that gets the request first asks the maker of the plan
// whether its mandate is still the newest, and the maker asks a majority of group 0.
type mandate struct {
	Term    uint64 `json:"term"`
	Version uint64 `json:"version"`
	// Maker is the node that leads group 0, at Addr. Who carries the plan out may not know who leads.
	Maker kv.NodeID `json:"maker"`
	Addr  string    `json:"addr"`
}

// mandate returns that of a plan which this node makes now, and the map for it.
func (n *Node) mandate(ctx context.Context) (mandate, *Map, error) {
	ctx, cancel := context.WithTimeout(ctx, n.callTimeout())
	defer cancel()
	_, m, term, err := n.readMap(ctx)
	if err != nil {
		return mandate{}, nil, err
	}
	n.learn(m)
	return mandate{term, m.Version, n.o.ID, n.addr}, m, nil
}

// readMap returns the map that group 0 stores, which this node leads in term: a majority has said so, and the map has
// all changes that were made before the call.
func (n *Node) readMap(ctx context.Context) (text []byte, m *Map, term uint64, err error) {
	h, err := n.hostedGroup(0)
	if err != nil {
		return nil, nil, 0, n.notLeader(0)
	}
	if term, err = h.confirmLeadership(ctx); err != nil {
		if isElsewhere(err) {
			err = n.notLeader(0)
		}
		return nil, nil, 0, err
	}
	text, err = h.replica.MetaGet(mapName)
	if err == nil && text == nil {
		err = fmt.Errorf("%w: the cluster has no map yet", kv.ErrNoQuorum)
	}
	if err != nil {
		return nil, nil, 0, err
	}
	if m, err = parseMap(text); err != nil {
		return nil, nil, 0, err
	}
	// The map must be one of this term, not what a successor has changed.
	if now := h.log.Leadership(); !now.Leading || now.Term != term {
		return nil, nil, 0, n.notLeader(0)
	}
	return text, m, term, nil
}

// permit returns an error unless a mandate is the newest one.
func (n *Node) permit(ctx context.Context, m mandate) error {
	if m.Term < n.atlas.group(0).Term || m.Version < n.atlas.chart().Version {
		return errOldPlan
	}
	ctx, cancel := context.WithTimeout(ctx, 2*n.callTimeout())
	defer cancel()
	return n.call(ctx, wire.Target{Peer: wire.Peer{ID: m.Maker}, Addr: m.Addr}, "mandate", m, &struct{}{})
}

// onMandate answers whether a mandate is the newest one.
func (n *Node) onMandate(ctx context.Context, m mandate) (struct{}, error) {
	newest, _, err := n.mandate(ctx)
	if err == nil && newest != m {
		err = errOldPlan
	}
	return struct{}{}, err
}
