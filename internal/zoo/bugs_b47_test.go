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
}
