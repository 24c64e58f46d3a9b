package repair

// conflicting returns the live tables that have different values for the same key and sequence
// number. A compaction of two such tables would fail, and a lookup returns either value. If there are
// more runs than can be merged at the same time, it returns no tables; Check reports them.
func (r *Repairer) conflicting(live map[*foundTable]int) (map[*foundTable]bool, error) {
	var runs []*run
	for t := range live {
		runs = append(runs, r.tableRun(t))
	}
	chains := r.chains(runs)
	if len(chains) < 2 || len(chains) > r.maxFanIn {
		return nil, nil
	}
	it := r.newMergingIter(chains, false)
	found := map[*foundTable]bool{}
	for ok := it.First(); ok; ok = it.Next() {
		if a, b, differ := it.DifferingTwins(); differ {
			found[a.(*chainIter).present().table] = true
			found[b.(*chainIter).present().table] = true
		}
	}
	return found, it.Close()
}
