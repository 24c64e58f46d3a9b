package repair

import (
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/tables"
)

// conflicting returns the live tables that have another value for an internal key than another live
// table: a compaction of both would fail, and a lookup returns either. For more runs than can be
// merged at the same time it returns nothing; Check reports them.
func (r *Repairer) conflicting(live map[*foundTable]int) (map[*foundTable]bool, error) {
	var runs []*run
	for t := range live {
		runs = append(runs, r.tableRun(t))
	}
	chains := r.chains(runs)
	if len(chains) < 2 || len(chains) > r.maxFanIn {
		return nil, nil
	}
	children := make([]base.Iterator, len(chains))
	for i, c := range chains {
		children[i] = r.newChainIter(c)
	}
	it := tables.NewMergingIter(r.cmp, children)
	found := map[*foundTable]bool{}
	for ok := it.First(); ok; ok = it.Next() {
		if a, b, differ := it.DifferingTwins(); differ {
			found[a.(*chainIter).present().table] = true
			found[b.(*chainIter).present().table] = true
		}
	}
	return found, it.Close()
}
