package node

import (
	"fmt"
	"time"

	"github.com/sievedb/sievedb/cluster/internal/kv"
	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/metrics"
)

// GroupFigures are the figures of a replica on this node.
type GroupFigures struct {
	Group          kv.GroupID
	Working, Leads bool
	Term, Applied  uint64
	Voters         int
	LastContact    time.Duration // since a message of the leader; 0 for the leader
}

// Groups returns the figures of this node's replicas.
func (n *Node) Groups() (all []GroupFigures) {
	for _, p := range n.places {
		if !p.isHosted() {
			continue
		}
		f := GroupFigures{Group: p.id}
		if h := p.get(); h != nil {
			f.Working, f.Leads = true, h.replica.Leading()
			f.Term, f.Applied = h.log.Term(), h.applied()
			f.Voters = len(voters(h.servers()))
			if !f.Leads {
				f.LastContact = min(time.Since(h.log.LastContact()), time.Since(n.started))
			}
		}
		all = append(all, f)
	}
	return all
}

// EachStore calls f with the database of the logs, which is named "log", and those of the groups, which are named by
// their numbers.
func (n *Node) EachStore(f func(name string, source metrics.Source) error) error {
	if d := n.logs.database(); d != nil {
		if err := f("log", d); err != nil {
			return err
		}
	}
	for _, h := range n.running() {
		if err := h.state.WithDB(func(d *db.DB) error { return f(fmt.Sprint(h.id), d) }); err != nil {
			return err
		}
	}
	return nil
}
