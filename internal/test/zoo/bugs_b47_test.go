//go:build linux

package zoo

var bugsFromB47 = []bug{
	{
		id: "B41a", what: "a checkpoint lacks what a flush moved from a log to a table while it began", seen: "two looks at one state",
		plant: []patch{{
			file: "internal/work/checkpoint/state.go",
			old:  "		flushed := set.LogNum() != s.LogNum",
			new:  "		flushed := set.LogNum() < s.LogNum",
		}},
		caught: []catch{{
			pkg: "internal/work/checkpoint", test: "TestAFlushDuringTakeIsNoticed",
			sees: "before_the_logs_are_listed",
		}},
	},
	{
		id: "B41b", what: "a checkpoint shares the newest log, and later writes appear in it", seen: "copies by hard links of a whole directory",
		plant: []patch{{
			file: "internal/work/checkpoint/state.go",
			old:  "Full: i < len(nums)-1",
			new:  "Full: i < len(nums)",
		}},
		caught: []catch{{
			pkg: "internal/work/checkpoint", test: "TestACheckpointHasTheStateOfItsMoment",
			sees: "one_directory",
		}},
	},
	{
		id: "B41c", what: "a restore removes a database that has the name of an unfinished one", seen: "this store, in a review",
		plant: []patch{{
			file: "backup/temp.go",
			old:  "	if err != nil || !slices.ContainsFunc(names, func(n string)",
			new:  "	if err != nil || len(names) >= 0 || !slices.ContainsFunc(names, func(n string)",
		}},
		caught: []catch{{
			pkg: "backup", test: "TestADatabaseWithTheNameOfAnUnfinishedRestoreStays",
			sees: "An error is expected",
		}},
	},
	{
		id: "B41d", what: "a backup relies on an object that a killed process had not synced", seen: "this store, in a review",
		plant: []patch{{
			file: "backup/dir.go",
			old:  "		err = d.fs.SyncDir(d.path(dir))\n",
			new:  "",
		}},
		caught: []catch{{
			pkg: "backup", test: "TestAPowerCutAfterAProcessWasKilled", part: "Create",
			sees: "file does not exist",
		}},
	},
	{
		id: "B42a", what: "an undamaged table is taken for a damaged one that is stored, and never stored", seen: "identities that nothing verifies; this store, in a review",
		plant: []patch{{
			file: "backup/create.go",
			old:  "		f.identity, err = \"\", nil",
			new:  "		err = nil",
		}},
		caught: []catch{{
			pkg: "backup", test: "TestADamagedTableIsNotTakenForAnUndamagedOne",
			sees: "data block at offset 0: checksum",
		}},
	},
	{
		id: "B42b", what: "a table is reused although its content differs", seen: "backups that compare names, sizes and numbers",
		plant: []patch{{
			file: "backup/create.go",
			old:  "f.identity = hex.EncodeToString(id[:])",
			new:  "for i := range id {\n\t\tid[i] = byte(f.size >> (8 * (i % 8)))\n\t}\n\tf.identity = hex.EncodeToString(id[:])",
		}},
		caught: []catch{{
			pkg: "backup", test: "TestTablesThatDifferOnlyInValuesAreNotConfused",
			sees: "this is not the table that belongs under this name",
		}},
	},
	{
		id: "B42c", what: "a prune removes tables that a kept backup needs", seen: "chains that are pruned link by link",
		plant: []patch{{
			file: "backup/prune.go",
			old:  "	for _, m := range all {\n		needs(m, needed)\n",
			new:  "	for _, m := range all[max(0, len(all)-1):] {\n		needs(m, needed)\n",
		}},
		caught: []catch{{
			pkg: "backup", test: "TestChainsOfBackupsAgreeWithAModel", args: "-chain.seed 1",
			sees: "file does not exist",
		}},
	},
	{
		id: "B42d", what: "a restored database lacks what was only in the log", seen: "backups of tables",
		plant: []patch{{
			file: "backup/manifest.go",
			old:  "ok && kind != base.FileLock &&",
			new:  "ok && kind != base.FileLock && kind != base.FileLog && kind != base.FileClosed &&",
		}},
		caught: []catch{{
			pkg: "backup", test: "TestADeletedKeyDoesNotComeBack",
			sees: "should have 500 item(s)",
		}},
	},
	{
		id: "B42e", what: "a prune removes what a running backup has decided to reuse", seen: "garbage collection without a grace period",
		plant: []patch{{
			file: "backup/prune.go",
			old:  "	if slices.ContainsFunc(waits, func(id string) bool { return slices.Contains(running, id) }) {",
			new:  "	if len(waits)+len(running) < 0 {",
		}},
		caught: []catch{{
			pkg: "backup", test: "TestCondemnedObjectsAreNotPardoned",
			sees: "the running backup may use the objects",
		}},
	},
	{
		id: "B42f", what: "the newest backup is pruned, and an older one restored, after a clock was set back", seen: "this store, in a review",
		plant: []patch{{
			file: "backup/create.go",
			old:  "			at = t.Add(1)\n",
			new:  "			at = at.Add(0)\n",
		}},
		caught: []catch{{
			pkg: "backup", test: "TestABackupIsNewerThanThoseBeforeIt",
			sees: "Not equal",
		}},
	},
	{
		id: "B42g", what: "a prune removes the tables of a load that only a log segment needs", seen: "a reference that the collector does not know",
		plant: []patch{{
			file: "backup/keep.go",
			old:  "				to[h.tables[i].object()] = true\n",
			new:  "				_ = i\n",
		}},
		caught: []catch{{
			pkg: "backup", test: "TestPruneKeepsTheSegmentsAfterTheOldestBackup",
			sees: "file does not exist",
		}},
	},
	{
		id: "B42h", what: "changes of a copied directory get into the history of the original", seen: "archives that go by numbers alone",
		plant: []patch{{
			file: "backup/archive.go",
			old:  "		if err := a.compare(ctx, s); err != nil {",
			new:  "		if err := a.compare(ctx, s); err != nil && len(numbers) < 0 {",
		}},
		caught: []catch{{
			pkg: "backup", test: "TestCopiesOfADatabaseHaveStreamsOfTheirOwn",
			sees: "the copy has other changes",
		}},
	},
	{
		id: "B42i", what: "an interrupted restore opens with a state between the backup and the point", seen: "changes applied to a directory in use",
		plant: []patch{{
			file: "backup/hidden.go",
			old:  "const hiddenCurrent = base.CurrentName + restoreSuffix",
			new:  "const hiddenCurrent = base.CurrentName",
		}},
		caught: []catch{{
			pkg: "backup", test: "TestAnErrorAtEveryFileOperationOfRestoreAt",
			sees: "restored.restore",
		}},
	},
	{
		id: "B42j", what: "a restore to a number applies a change that ends after it", seen: "targets compared with the beginning of a batch",
		plant: []patch{{
			file: "backup/restoreat.go",
			old:  "		case c.last > s.replay.target:\n",
			new:  "		case c.first > s.replay.target:\n",
		}},
		caught: []catch{{
			pkg: "backup", test: "TestEveryStateOfAHistoryCanBeRestored", args: "-chain.seed 1",
			sees: "Not equal",
		}},
	},
	{
		id: "B43a", what: "a follower shows writes after a load whose tables it has not seen", seen: "tailing a log without its gaps",
		plant: []patch{{
			file: "internal/work/follow/logs.go",
			old:  "	case b.Seq > known+1:",
			new:  "	case b.Seq > known+1 && known > base.MaxSeq:",
		}},
		caught: []catch{{
			pkg: "internal/work/follow", test: "TestARecordBehindAGapIsNotUsed",
			sees: "Should be true",
		}},
	},
	{
		id: "B43b", what: "the writer removes a table that an iterator of a follower needs", seen: "RocksDB's secondary instances with few open files",
		plant: []patch{{
			file: "internal/work/follow/pins.go",
			old:  "	one := p.paths[name]",
			new:  "	one := p.paths[filepath.Base(name)]",
		}},
		caught: []catch{{
			pkg: "internal/work/follow", test: "TestReadersOfRemovedTables",
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
			pkg: "internal/work/follow", test: "TestAFollowerShowsWhatTheWriterWrote",
			sees: "sievedb: not found",
		}},
	},
	{
		id: "B43d", what: "a reader of a follower's old version sees records of the new one", seen: "one memtable for two versions",
		plant: []patch{{
			file: "internal/work/follow/follower.go",
			old:  "	return f.readLogs(s.reading, logs, s.reading != f.reading)",
			new:  "	return f.readLogs(s.reading, logs, false)",
		}},
		caught: []catch{{
			pkg: "internal/work/follow", test: "TestNewRecordsAreApartFromAnOldVersion",
			sees: "Not equal",
		}},
	},
	{
		id: "B44a", what: "a reader of changes goes from one log to the next although numbers are missing", seen: "binlog readers that skip a removed file",
		plant: []patch{{
			file: "internal/work/changes/archive.go",
			old:  "s.last <= position && i+1 < len(segments)",
			new:  "s.last < s.first",
		}, {
			file: "internal/work/changes/reader.go",
			old:  "	if b.Seq > r.position+1 {",
			new:  "	if b.Seq > base.MaxSeq {",
		}, {
			file: "internal/work/changes/reader.go",
			old:  "	if s.logged == unknown && r.position < s.last {",
			new:  "	if s.logged == unknown && r.position < s.first {",
		}},
		caught: []catch{{
			pkg: "internal/work/changes", test: "TestADirectoryWithoutThePast",
			sees: "An error is expected but got nil",
		}},
	},
	{
		id: "B44b", what: "a change that was recorded before a crash is yielded, although it was not made", seen: "outbox rows of transactions that did not commit",
		plant: []patch{{
			file: "internal/work/changes/open.go",
			old:  "	case r.LastSeq < s.last:\n		return false, false, nil\n",
			new:  "",
		}, {
			file: "internal/work/changes/open.go",
			old:  "restart || end != nil && *end != r.LastSeq",
			new:  "restart && end != nil",
		}},
		caught: []catch{{
			pkg: "internal/work/changes", test: "TestAKillBeforeAChangeIsRenamed", part: "not_made",
			sees: ".load",
		}},
	},
	{
		id: "B44c", what: "what a cursor needs is removed", seen: "retention that does not look at replication slots",
		plant: []patch{{
			file: "internal/work/changes/archive.go",
			old:  "		if s.keptFor(at) {",
			new:  "		if s.keptFor(at) && !tooMuch {",
		}},
		caught: []catch{{
			pkg: "internal/work/changes", test: "TestACursorKeepsItsChanges",
			sees: "not there any more",
		}},
	},
	{
		id: "B44d", what: "a waiting reader gets the record of a write that failed", seen: "followers of a log that a full disk ended",
		plant: []patch{{
			file: "internal/work/changes/reader.go",
			old:  "		r.limit, r.stale = limit, true",
			new:  "		r.limit = limit",
		}},
		caught: []catch{{
			pkg: "internal/work/changes", test: "TestTheFeedHasNoWriteThatFailed",
			sees: "failed",
		}},
	},
	{
		id: "B44e", what: "a reader without the past gets an empty history and no error", seen: "change streams that end where their log was removed",
		plant: []patch{{
			file: "internal/work/changes/directory.go",
			old:  "	return &GoneError{position, limit, \"no log has them: \" + whyGone}",
			new:  "	return nil",
		}},
		caught: []catch{{
			pkg: "internal/work/changes", test: "TestAMissingPastIsNoEnd",
			sees: "in chain but got nil",
		}},
	},
	{
		id: "B45a", what: "a repair uses those tables of an interrupted ingest that have high sequence numbers", seen: "a judgement of tables by their numbers, which those of other stores do not follow",
		plant: []patch{{
			file: "internal/work/repair/plan.go",
			old:  "		case p.complete && r.knowsAll():",
			new:  "		case p.complete && r.knowsAll() && t.entries == 0:",
		}},
		caught: []catch{{
			pkg: "db", test: "TestCrashAtEveryOperationOfIngests", args: "-crash.limit 1500",
			sees: "after a repair",
		}},
	},
	{
		id: "B45b", what: "a table that is replaced between its check and its rewriting is added unchecked", seen: "a file that is read twice",
		plant: []patch{{
			file: "internal/write/bulk/ingest_commit.go",
			old:  "		if t.ours {",
			new:  "		if t.ours || t.rewrite {",
		}},
		caught: []catch{{
			pkg: "db", test: "TestATableThatChangesBeforeItIsRewrittenIsRefused",
			sees: "An error is expected",
		}},
	},
	{
		id: "B45c", what: "a snapshot sees a table that was ingested later, because its sequence numbers are old", seen: "linking with the numbers as they are",
		plant: []patch{{
			file: "internal/write/bulk/ingest_commit.go",
			old:  "	if drained == nil {",
			new:  "	if drained == nil || last > 0 {",
		}},
		caught: []catch{{
			pkg: "db", test: "TestSnapshotsIteratorsAndTransactionsOfBeforeDoNotSeeAnIngest",
			sees: "an iterator pins what it reads",
		}},
	},
	{
		id: "B45d", what: "deletions of ranges in a table of Pebble are ignored", seen: "readers of LevelDB's format, which skip unknown blocks",
		plant: []patch{{
			file: "sstable/foreign.go",
			old:  "		case bytes.HasPrefix(key, []byte(rangeDeletions)):",
			new:  "		case string(key) == rangeDeletions+\"?\":",
		}},
		caught: []catch{{
			pkg: "sstable", test: "TestForeignPartsOfATableAreFound",
			sees: "An error is expected",
		}},
	},
	{
		id: "B46a", what: "a panic in Open keeps the part of a store for ever", seen: "cleaning up after errors only",
		plant: []patch{{
			file: "db/open.go",
			old:  "		if d == nil { // also if the file system panics",
			new:  "		if d == nil && err != nil {",
		}},
		caught: []catch{{
			pkg: "db", test: "TestAPanicLeavesNothingInUse",
			sees: "Should be zero",
		}},
	},
	{
		id: "B46b", what: "a store that closes keeps the slots of its compactions", seen: "slots that only their compaction returns",
		plant: []patch{{
			file: "internal/limit/share/slots.go",
			old:  "	p.used -= s.used\n",
			new:  "",
		}},
		caught: []catch{{
			pkg: "internal/limit/share", test: "TestAStoreThatLeavesReturnsItsSlots",
			sees: "Should be true",
		}},
	},
	{
		id: "B46c", what: "one store takes all slots, and its hanging compactions stop all others", seen: "RocksDB's thread pools, which all databases of an Env share",
		plant: []patch{{
			file: "internal/limit/share/slots.go",
			old:  "s.used < p.limit-1)",
			new:  "s.used < p.limit)",
		}},
		caught: []catch{{
			pkg: "internal/limit/share", test: "TestNoStoreHasAllSlotsOfSeveral",
			sees: "Should be false",
		}},
	},
	{
		id: "B46d", what: "a busy store evicts what its neighbours are guaranteed", seen: "one cache for all, without parts of their own",
		plant: []patch{{
			file: "internal/limit/cache/pool.go",
			old:  "func (p *Pool) safe() int64 { return min(p.floor, p.fair()) }",
			new:  "func (p *Pool) safe() int64 { return min(p.floor, 0) }",
		}},
		caught: []catch{{
			pkg: "internal/limit/cache", test: "TestABusyCacheLeavesOthersTheirFloor",
			sees: "is not greater than or equal to",
		}},
	},
	{
		id: "B47a", what: "a compaction filter drops what a snapshot sees that was opened meanwhile", seen: "RocksDB, by its manual",
		plant: []patch{{
			file: "internal/read/lookup/snapshots.go",
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
			file: "internal/work/compact/retention.go",
			old:  "case e.dropped && e.seq == 0:",
			new:  "case e.dropped:",
		}},
		caught: []catch{{
			pkg: "internal/work/compact", test: "TestADroppedValueHidesOlderOnes",
			sees: "m@5 deleted",
		}},
	},
	{
		id: "B47c", what: "values that have expired are shown again when the clock is set back", seen: "stores that compare with the clock as it is",
		plant: []patch{{
			file: "internal/base/expiry/policy.go",
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
			file: "internal/disk/manifest/expired.go",
			old:  "		if len(v.Overlapping(l, start, end)) > 0 {",
			new:  "		if len(v.Overlapping(l, start, end)) < 0 {",
		}},
		caught: []catch{{
			pkg: "internal/disk/manifest", test: "TestPickRemovesExpiredTables",
			sees: "not_above_older_entries",
		}},
	},
	{
		id: "B47e", what: "a merge drops what expires while it runs, and a snapshot opened meanwhile misses it", seen: "RocksDB's TTL, by its manual",
		plant: []patch{{
			file: "internal/work/compact/filter.go",
			old:  "	at, ok := expiry.Decode(value)\n",
			new:  "	at, ok := expiry.Decode(value)\n	r.now = m.s.o.Expiry.Now()\n",
		}},
		caught: []catch{{
			pkg: "db", test: "TestAMergeUsesTheTimeOfItsBeginning",
			sees: "sievedb: not found",
		}},
	},
	{
		id: "B47f", what: "a table is removed when its values have expired for new readers, though an older snapshot sees them", seen: "FIFO compaction by age",
		plant: []patch{{
			file: "internal/read/lookup/snapshots.go",
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
			file: "internal/disk/manifest/set.go",
			old:  "	if s.opts.LogsElsewhere {",
			new:  "	if s.opts.LogsElsewhere && s.opts.Dir == \"\" {",
		}},
		caught: []catch{{
			pkg: "internal/disk/dbdir", test: "TestLogsMoveAndComeBack",
			sees: "sievedb.LogDir:leveldb.BytewiseComparator",
		}},
	},
	{
		id: "B49b", what: "a copy of a database removes the logs of the original", seen: "two directories with one wal_dir",
		plant: []patch{{
			file: "internal/disk/dbdir/logdir_refuse.go",
			old:  "	if err != nil || !ok || m.id != p.mark.id {",
			new:  "	if err != nil || !ok || m.id == p.mark.id {",
		}},
		caught: []catch{{
			pkg: "internal/disk/dbdir", test: "TestDirectoriesThatDoNotBelongTogetherAreRefused",
			sees: "a_copy,_recorded",
		}},
	},
	{
		id: "B49c", what: "logs that came back are found again without their mark after a power cut", seen: "the first version of our own",
		plant: []patch{{
			file: "internal/disk/dbdir/logdir.go",
			old:  "		if err == nil {\n			err = p.plain.SyncDir(p.logs)\n		}\n		if err != nil && !errors",
			new:  "		if err != nil && !errors",
		}},
		caught: []catch{{
			pkg: "db", test: "TestCrashAtEveryOperationWhileTheLogsMove", args: "-crash.states M0 -crash.seed 7 -crash.limit 1500",
			sees: "has no LOGDIR that says that they belong to it",
		}},
	},
}
