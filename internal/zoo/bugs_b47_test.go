//go:build linux

package zoo

var bugsFromB47 = []bug{
	{
		id: "B41a", what: "a checkpoint lacks what a flush moved from a log to a table while it began", seen: "two looks at one state",
		plant: []patch{{
			file: "internal/checkpoint/state.go",
			old:  "		flushed := set.LogNum() != s.LogNum",
			new:  "		flushed := set.LogNum() < s.LogNum",
		}},
		caught: []catch{{
			pkg: "internal/checkpoint", test: "TestAFlushDuringTakeIsNoticed",
			sees: "before_the_logs_are_listed",
		}},
	},
	{
		id: "B41b", what: "a checkpoint shares the newest log, and later writes appear in it", seen: "copies by hard links of a whole directory",
		plant: []patch{{
			file: "internal/checkpoint/state.go",
			old:  "Full: i < len(nums)-1",
			new:  "Full: i < len(nums)",
		}},
		caught: []catch{{
			pkg: "db", test: "TestACheckpointHasTheStateOfItsMoment",
			sees: "one_directory",
		}},
	},
	{
		id: "B43a", what: "a follower shows writes after a load whose tables it has not seen", seen: "tailing a log without its gaps",
		plant: []patch{{
			file: "internal/follow/logs.go",
			old:  "	case b.Seq > known+1:",
			new:  "	case b.Seq > known+1 && known > base.MaxSeq:",
		}},
		caught: []catch{{
			pkg: "internal/follow", test: "TestARecordBehindAGapIsNotUsed",
			sees: "Should be true",
		}},
	},
	{
		id: "B43b", what: "the writer removes a table that an iterator of a follower needs", seen: "RocksDB's secondary instances with few open files",
		plant: []patch{{
			file: "internal/follow/pins.go",
			old:  "	one := p.paths[name]",
			new:  "	one := p.paths[filepath.Base(name)]",
		}},
		caught: []catch{{
			pkg: "db", test: "TestReadersOfRemovedTables",
			sees: "does not exist",
		}},
	},
	{
		id: "B43c", what: "a snapshot of a follower misses what the writer's compaction dropped", seen: "sequence numbers without a version",
		plant: []patch{{
			file: "db/follow.go",
			old:  "	d.snapshots.Pin() // the writer does not know them\n",
			new:  "",
		}},
		caught: []catch{{
			pkg: "db", test: "TestAFollowerShowsWhatTheWriterWrote",
			sees: "sievedb: not found",
		}},
	},
	{
		id: "B43d", what: "a reader of a follower's old version sees records of the new one", seen: "one memtable for two versions",
		plant: []patch{{
			file: "internal/follow/follower.go",
			old:  "	return f.readLogs(s.reading, logs, s.reading != f.reading)",
			new:  "	return f.readLogs(s.reading, logs, false)",
		}},
		caught: []catch{{
			pkg: "internal/follow", test: "TestNewRecordsAreApartFromAnOldVersion",
			sees: "Not equal",
		}},
	},
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
	{
		id: "B49a", what: "another engine opens the database without the logs that are in another directory", seen: "RocksDB's wal_dir, and copies of it",
		plant: []patch{{
			file: "internal/manifest/set.go",
			old:  "	if s.opts.LogsElsewhere {",
			new:  "	if s.opts.LogsElsewhere && s.opts.Dir == \"\" {",
		}},
		caught: []catch{{
			pkg: "db", test: "TestLogsMoveAndComeBack",
			sees: "sievedb.LogDir:leveldb.BytewiseComparator",
		}},
	},
	{
		id: "B49b", what: "a copy of a database removes the logs of the original", seen: "two directories with one wal_dir",
		plant: []patch{{
			file: "internal/logdir/refuse.go",
			old:  "	if err != nil || !ok || m.id != p.mark.id {",
			new:  "	if err != nil || !ok || m.id == p.mark.id {",
		}},
		caught: []catch{{
			pkg: "internal/logdir", test: "TestDirectoriesThatDoNotBelongTogetherAreRefused",
			sees: "a_copy,_recorded",
		}},
	},
	{
		id: "B49c", what: "logs that came back are found again without their mark after a power cut", seen: "the first version of our own",
		plant: []patch{{
			file: "internal/logdir/place.go",
			old:  "		if err == nil {\n			err = p.plain.SyncDir(p.logs)\n		}\n		if err != nil && !errors",
			new:  "		if err != nil && !errors",
		}},
		caught: []catch{{
			pkg: "db", test: "TestCrashAtEveryOperationWhileTheLogsMove", args: "-crash.states M0 -crash.seed 7 -crash.limit 3000",
			sees: "has no LOGDIR that says that they belong to it",
		}},
	},
}
