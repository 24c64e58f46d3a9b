//go:build linux

package zoo

var bugsFromB47 = []bug{
	{
		id: "B47a", what: "a compaction filter drops what a snapshot sees that was opened meanwhile", seen: "RocksDB, by its manual",
		plant: []patch{{
			file: "internal/lookup/snapshots.go",
			old:  "	if l.pins > 0 {",
			new:  "	if l.pins < 0 {",
		}},
		caught: []catch{{
			pkg: "db", test: "TestASnapshotOpenedDuringAFilteringCompactionKeepsItsView",
			sees: "sievedb: not found",
		}},
	},
	{
		id: "B47b", what: "a dropped value uncovers an older one below", seen: "a filter that removes entries instead of deleting keys",
		plant: []patch{{
			file: "internal/compact/compaction.go",
			old:  "			if seq == 0 { // it is",
			new:  "			if seq >= 0 { // it is",
		}},
		caught: []catch{{
			pkg: "db", test: "TestADroppedValueHidesOlderOnes",
			sees: "first m",
		}},
	},
	{
		id: "B47c", what: "values that have expired are shown again when the clock is set back", seen: "stores that compare with the clock as it is",
		plant: []patch{{
			file: "internal/expiry/policy.go",
			old:  "		if at <= seen {",
			new:  "		if at == seen {",
		}},
		caught: []catch{{
			pkg: "db", test: "TestValuesExpireAtTheirTime",
			sees: "actual  : <nil>(<nil>)",
		}},
	},
	{
		id: "B47d", what: "an expired table is removed from above older values that live longer", seen: "FIFO compaction on levels",
		plant: []patch{{
			file: "internal/manifest/expired.go",
			old:  "		if len(v.Overlapping(l, start, end)) > 0 {",
			new:  "		if len(v.Overlapping(l, start, end)) < 0 {",
		}},
		caught: []catch{{
			pkg: "internal/manifest", test: "TestPickRemovesExpiredTables",
			sees: "not_above_older_entries",
		}},
	},
	{
		id: "B47e", what: "a merge drops what expires while it runs, and a snapshot opened meanwhile misses it", seen: "RocksDB's TTL, by its manual",
		plant: []patch{{
			file: "internal/compact/filter.go",
			old:  "	now := f.now\n",
			new:  "	now := m.s.o.Expiry.Now()\n",
		}},
		caught: []catch{{
			pkg: "db", test: "TestAMergeUsesTheTimeOfItsBeginning",
			sees: "sievedb: not found",
		}},
	},
	{
		id: "B47f", what: "a table is removed when its values have expired for new readers, though an older snapshot sees them", seen: "FIFO compaction by age",
		plant: []patch{{
			file: "internal/lookup/snapshots.go",
			old:  "oldest = min(oldest, list[0].time)",
			new:  "oldest = max(oldest, list[0].time)",
		}},
		caught: []catch{{
			pkg: "db", test: "TestExpiredTablesAreRemovedWithoutBeingRead",
			sees: "the snapshot sees them",
		}},
	},
}
