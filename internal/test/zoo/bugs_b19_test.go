//go:build linux

package zoo

var bugsFromB19 = []bug{
	{
		id: "B19a", what: "offset and size of a block are added before they are checked, and wrap", seen: "LevelDB 1310, 1313; RocksDB 14993",
		plant: []patch{{
			file: "internal/base/codec/handle.go",
			old:  "h.Size <= most && h.Offset <= most-h.Size &&",
			new:  "h.Offset+h.Size <= most &&",
		}},
		caught: []catch{{
			pkg: "sstable", test: "TestHostileIndexesAreRejected",
			sees: "a_handle_that_overflows_64_bits",
		}},
	},
	{
		id: "B19b", what: "a block's size is not compared with the file's before it is allocated", seen: "LevelDB 1314, 1318; RocksDB 15208",
		plant: []patch{{
			file: "internal/base/codec/handle.go",
			old:  "h.Size <= most && h.Offset <= most-h.Size &&",
			new:  "h.Offset <= most &&",
		}},
		caught: []catch{{
			pkg: "sstable", test: "TestMalformedTablesWithGoodChecksums", args: "-malformed.seed 1",
			sees: "slice bounds out of range",
		}},
	},
	{
		id: "B20a", what: "the claimed decoded size of a Snappy block is allocated unchecked", seen: "LevelDB, goleveldb",
		plant: []patch{{
			file: "internal/base/codec/codec.go",
			old:  "err != nil || uint64(n) > most {",
			new:  "err != nil {",
		}},
		caught: []catch{{
			// Another part claims 2 GiB: it would get them.
			pkg: "sstable", test: "TestHostileDataBlocksAreRejected", part: "Snappy_that_claims_more_than_its_bytes_can_make",
			sees: "does not contain \"want at most\"",
		}},
	},
	{
		id: "B20b", what: "a deflate bomb is inflated to its end", seen: "LevelDB, goleveldb, of their own codecs",
		plant: []patch{{
			file: "internal/base/codec/deflate.go",
			old:  "for len(f.out) <= most {",
			new:  "for {",
		}, {
			file: "internal/base/codec/deflate.go",
			old:  "min(max(len(f.out), minInflated), most+1-len(f.out))",
			new:  "max(len(f.out), minInflated)",
		}},
		caught: []catch{{
			// The stream's end, which is wrong, is never reached otherwise.
			pkg: "internal/base/codec", test: "TestInflatingIsBounded", part: "decoding_stops_at_the_limit",
			sees: "zlib: invalid checksum",
		}},
	},
	{
		id: "B21a", what: "a filter is used although its checksum is wrong", seen: "LevelDB's default",
		plant: []patch{{
			file: "sstable/filter_open.go",
			old:  "data, err := r.readBlockInto(alignedBytes(int(h.Size)+blockTrailerLen), h, part)",
			new:  "data := alignedBytes(int(h.Size))\n	err := r.readAt(data, h.Offset, part)",
		}},
		caught: []catch{{
			pkg: "sstable", test: "TestADamagedFilterRulesNothingOut",
			sees: "Not equal:",
		}, {
			pkg: "db", test: "TestEveryFlippedBitOfAFilterChangesNoAnswer",
			sees: "Not equal:",
		}},
	},
	{
		id: "B21b", what: "a filter that denies a key of its table is written", seen: "RocksDB's detect_filter_construct_corruption prevents it",
		plant: []patch{{
			file: "sstable/filter_writer.go",
			old:  "	if denied > 0 {",
			new:  "	if denied < 0 {",
		}},
		caught: []catch{{
			pkg: "sstable", test: "TestAFilterThatDeniesAKeyOfItsTableIsNotWritten",
			sees: "An error is expected but got nil",
		}},
	},
	{
		id: "B21c", what: "a filter of the first blocks is checked for the keys of all blocks", seen: "a hostile filter block",
		plant: []patch{{
			file: "sstable/filter_block.go",
			old:  "(endOfData == 0 || (endOfData-1)>>f.baseLg == 0) {",
			new:  "endOfData+1 > 0 {",
		}},
		caught: []catch{{
			pkg: "sstable", test: "TestHostileFilterBlocksHideNothing",
			sees: "base_lg_that_shifts_nothing_away",
		}},
	},
	{
		id: "B22", what: "a table under another's name is read", seen: "RocksDB's verify_sst_unique_id prevents it",
		plant: []patch{{
			file: "sstable/bounds.go",
			old:  "if r.bounds == want {",
			new:  "if r.bounds == want || r.marked {",
		}},
		caught: []catch{{
			pkg: "sstable", test: "TestATableUnderAWrongNameIsRejectedByOpen",
			sees: "Expected error with \"sievedb: corruption\"",
		}, {
			pkg: "db", test: "TestSwappedTablesOfEqualSizeAreCorruption",
			sees: "sievedb: not found",
		}},
	},
	{
		id: "B23a", what: "the lock is lost when any descriptor of LOCK is closed", seen: "fcntl(2): LevelDB, Pebble",
		plant: []patch{{
			file: "vfs/lock_linux.go",
			old:  "err := fcntlLock(f, ofdSetLock, shared)",
			new:  "err := fcntlLock(f, syscall.F_SETLK, shared)",
		}},
		caught: []catch{{
			pkg: "vfs", test: "TestLockOutlivesOtherDescriptors",
			sees: "does not contain \"refused\"",
		}},
	},
	{
		id: "B23b", what: "only one family of locks is used, and stores that use the other are not excluded", seen: "LevelDB and goleveldb on one directory",
		plant: []patch{{
			file: "vfs/lock_linux.go",
			old:  "return flockLock(f, shared)",
			new:  "return nil",
		}},
		caught: []catch{{
			pkg: "vfs", test: "TestLockBetweenProcesses",
			sees: "flock_exclusive_excludes_our_exclusive",
		}},
	},
	{
		id: "B23c", what: "LOCK is truncated when it is opened", seen: "Pebble",
		plant: []patch{{
			file: "vfs/lock_unix.go",
			old:  "f, err := openPlain(\"lock\", name, os.O_RDWR|os.O_CREATE, mode)",
			new:  "f, err := openPlain(\"lock\", name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, mode)",
		}},
		caught: []catch{{
			pkg: "vfs", test: "TestConformance",
			sees: "Lock_leaves_the_bytes_of_the_file_unchanged",
		}},
	},
	{
		id: "B24a", what: "an iterator of a table skips a block that it cannot read", seen: "LevelDB",
		plant: []patch{{
			file: "sstable/iter_block.go",
			old:  "		it.err = err\n		it.data.unposition()\n",
			new:  "		it.data.unposition()\n",
		}},
		caught: []catch{{
			pkg: "sstable", test: "TestEveryBitFlipIsDetectedOrHarmless",
			sees: "Not equal:",
		}, {
			pkg: "db", test: "TestEveryFlippedBitIsDetectedOrHarmless",
			sees: "this outcome is not allowed",
		}},
	},
	{
		id: "B24b", what: "an iterator ends cleanly if one of its runs failed", seen: "LevelDB",
		plant: []patch{{
			file: "internal/disk/tables/merging_iter.go",
			old:  "		if err := top.it.Err(); err != nil {",
			new:  "		if err := top.it.Err(); err != nil && m.reverse {",
		}},
		caught: []catch{{
			pkg: "internal/read/scan", test: "TestAnIteratorThatCannotReadReportsIt",
			sees: "the walk ended cleanly",
		}},
	},
	{
		id: "B25", what: "a compaction that found damage is tried again forever", seen: "basho/eleveldb 23, Pebble 270",
		plant: []patch{{
			file: "internal/work/compact/scheduler.go",
			old:  "parked := base.IsUnreadable(err)",
			new:  "parked := base.IsUnreadable(err) && s == nil",
		}},
		caught: []catch{{
			pkg: "internal/work/compact", test: "TestACompactionThatFindsCorruptionIsNotRetried",
			sees: "compactions that found the damage",
		}},
	},
	{
		id: "B26", what: "the chunks of an unfinished record become part of the next one", seen: "Pebble 3865",
		plant: []patch{{
			file: "internal/disk/wal/reader.go",
			old:  "case begins && a.open && !a.emptyFirst(c):",
			new:  "case begins && a.open && !a.emptyFirst(c) && c.off < 0:",
		}, {
			file: "internal/disk/wal/reader.go",
			old:  "a.buf, a.start = a.buf[:0], c.off",
			new:  "if a.start = c.off; !a.open {\n\t\t\ta.buf = a.buf[:0]\n\t\t}",
		}},
		caught: []catch{{
			pkg: "internal/disk/wal", test: "TestChunksOfALostRecordAreNotMixedIntoTheNextRecord",
			sees: "Expected error with \"sievedb: corruption\"",
		}},
	},
	{
		id: "B27a", what: "recovery removes the logs before the new MANIFEST is in force", seen: "Pebble, TestCrashOpenCrashAfterWALCreation",
		plant: []patch{{
			file: "db/recovery.go",
			old:  "err = d.set.Begin(&manifest.Edit{",
			new: "files, _ = manifest.ListDir(d.files.FS, d.files.Path)\n\tfor _, f := range files.All {\n\t\tif f.Kind == base.FileLog && f.Num < logNum {\n\t\t\t" +
				"d.files.Remove(d.files.File(f.Kind, f.Num))\n\t\t}\n\t}\n\terr = d.set.Begin(&manifest.Edit{",
		}},
		caught: []catch{{
			pkg: "db", test: "TestCrashAtEveryOperationOfARecovery", args: "-crash.states M0,M1 -crash.seed 1 -crash.limit 40",
			sees: "in its recovery",
		}},
	},
	{
		id: "B27b", what: "CURRENT names a MANIFEST that is not durable", seen: "RocksDB, by its HISTORY",
		plant: []patch{{
			file: "internal/disk/manifest/set.go",
			old:  "	if err == nil {\n		err = log.Sync()\n	}\n",
			new:  "",
		}},
		caught: []catch{{
			pkg: "db", test: "TestCrashAtEveryOperationOfARecovery", args: "-crash.states M0,M1 -crash.seed 1 -crash.limit 40",
			sees: "in its recovery",
		}},
	},
	{
		id: "B27c", what: "recovery does not sync the tables that it makes from the logs", seen: "RocksDB, by its HISTORY",
		plant: []patch{{
			file: "internal/disk/tables/writer.go",
			old:  "return errors.CombineErrors(file.Sync(), file.Close())",
			new:  "if t.options.NoSync {\n\t\treturn file.Close()\n\t}\n\treturn errors.CombineErrors(file.Sync(), file.Close())",
		}, {
			file: "internal/disk/tables/writer.go",
			old:  "type WriterOptions struct {",
			new:  "type WriterOptions struct {\n\tNoSync bool",
		}, {
			file: "db/table_options.go",
			old:  "Dir: d.files, Kind: base.FileTable,",
			new:  "NoSync: d.state() == nil /* in recovery */, Dir: d.files, Kind: base.FileTable,",
		}},
		caught: []catch{{
			pkg: "db", test: "TestCrashAtEveryOperationOfARecovery", args: "-crash.states M0,M1 -crash.seed 1 -crash.limit 40",
			sees: "in its recovery",
		}},
	},
	{
		id: "B28a", what: "a failed write is visible while the store is open", seen: "ATC'20, fsync failures",
		plant: []patch{{
			file: "internal/write/commit/record.go",
			old:  "	if err := c.writeLog(r.count, parts, r.durability); err != nil {\n",
			new: "	if err := c.writeLog(r.count, parts, r.durability); err != nil {\n		batch.Insert(c.state().Mem.Memtable, &c.log.inserter, bytes.Join(parts, nil))\n" +
				"		c.o.Current.VisibleSeq.Store(c.log.lastSeq)\n",
		}, {
			file: "internal/write/commit/record.go",
			old:  "	\"encoding/binary\"\n",
			new:  "	\"bytes\"\n	\"encoding/binary\"\n",
		}},
		caught: []catch{{
			pkg: "internal/work/replay", test: "TestAFailedWriteIsInvisibleUntilTheNextOpenDecides",
			sees: `expected: "old"`,
		}},
	},
	{
		id: "B28b", what: "entries that one opening shows are gone at the next: the log that they were read from is not made durable", seen: "ATC'20, fsync failures",
		plant: []patch{{
			file: "internal/work/replay/replay.go",
			old:  "	if r.mem != nil {\n		if err := r.flush(); err != nil {\n			return nil, err",
			new:  "	if r.mem != nil && len(r.logs) != 1 {\n		if err := r.flush(); err != nil {\n			return nil, err",
		}, {
			file: "db/recovery.go",
			old:  "LogNum: manifest.Num(logNum), LastSeq: manifest.Num(lastSeq), Added: added,",
			new:  "LogNum: manifest.Num(r.KeptLog(logNum)), LastSeq: manifest.Num(lastSeq), Added: added,",
		}, {
			file: "db/recovery.go",
			old:  "}, d.commit.Open)",
			new: "}, func(v *manifest.Version) {\n\t\td.commit.Open(v)\n\t\tif m := r.Memtables(); m != nil {\n\t\t\ts := *d.state()\n" +
				"\t\t\ts.Mem = &lookup.Memtable{Memtable: m[0], LogNum: r.KeptLog(logNum)}\n\t\t\td.finder.State.Store(&s)\n\t\t}\n\t})",
		}, {
			file: "db/recovery.go",
			old:  "	r.RemoveOld(logNum, d.set.ManifestNum())\n",
			new:  "	r.RemoveOld(r.KeptLog(logNum), d.set.ManifestNum())\n",
		}, {
			file: "internal/work/replay/replay.go",
			old:  "// LastSeq returns the last sequence number in use.\n",
			new:  "func (r *Replayer) KeptLog(num uint64) uint64 {\n\tif r.mem != nil {\n\t\treturn r.logs[0].Num\n\t}\n\treturn num\n}\n\n",
		}},
		caught: []catch{{
			pkg: "db", test: "TestAFailureOfEverySync", args: "-crash.seed 1",
			sees: "then",
		}},
	},
	{
		id: "B39a", what: "write skew: a transaction's reads are not compared with the commits of the meantime", seen: "snapshot isolation, SIGMOD'95",
		plant: []patch{{
			file: "internal/write/txn/commit.go",
			old:  "} else if c.Recent.Conflict(c.Reads, horizon) {",
			new:  "} else if false {",
		}},
		caught: []catch{{
			pkg: "db", test: "TestTheLeaderFindsLateConflicts",
			sees: "an earlier group",
		}},
	},
	{
		id: "B39b", what: "phantoms: the ranges that a transaction has walked over are not compared", seen: "snapshot isolation, SIGMOD'95",
		plant: []patch{{
			file: "internal/write/txn/reads.go",
			old:  "	for i := range r.ranges {\n		if found",
			new:  "	for i := range r.ranges[:0] {\n		if found",
		}},
		caught: []catch{{
			pkg: "db", test: "TestConflicts",
			sees: "a_phantom_in_a_range",
		}},
	},
	{
		id: "B39c", what: "a transaction overlooks changes that were flushed before its commit", seen: "RocksDB's optimistic transactions refuse to decide then",
		plant: []patch{{
			file: "internal/write/txn/search.go",
			old:  "			if !mayHave(f) {",
			new:  "			if true {",
		}},
		caught: []catch{{
			pkg: "db", test: "TestConflicts",
			sees: "in_a_table",
		}},
	},
	{
		id: "B40a", what: "a deleted range is visible in part: its tables are removed before its tombstones are visible", seen: "two steps where one is needed",
		plant: []patch{{
			file: "internal/read/lookup/snapshots.go",
			old:  "	current.VisibleSeq.Store(seq)\n	current.State",
			new:  "	current.State",
		}, {
			file: "internal/write/bulk/change.go",
			old:  "	uncertain := manifest.IsUncertain(err)\n",
			new:  "	uncertain := manifest.IsUncertain(err)\n	time.Sleep(time.Millisecond)\n",
		}, {
			file: "internal/write/bulk/change.go",
			old:  "	\"slices\"\n",
			new:  "	\"slices\"\n	\"time\"\n",
		}},
		caught: []catch{{
			pkg: "db", test: "TestReadersSeeARangeWholeOrDeleted",
			sees: "panic:",
		}},
	},
	{
		id: "B40b", what: "what is written while a range is deleted survives in part", seen: "a walk with deletions",
		plant: []patch{{
			file: "internal/write/bulk/rangedel.go",
			old:  "return !known[f.Num] && j.WrittenSince(f, j.from)",
			new:  "return false",
		}},
		caught: []catch{{
			pkg: "db", test: "TestWritesDuringADeletionAreDeleted",
			sees: "--- FAIL: TestWritesDuringADeletionAreDeleted",
		}},
	},
	{
		id: "B40c", what: "older entries come back when the table that hides them is removed", seen: "LevelDB's advice to delete files of a range",
		plant: []patch{{
			file: "internal/write/bulk/rangedel.go",
			old:  "			if j.drop[f] || !read(f) {",
			new:  "			if len(j.drop) > 0 || !read(f) {",
		}},
		caught: []catch{{
			pkg: "db", test: "TestNoOlderEntryComesBackWhenATableIsRemoved",
			sees: "--- FAIL: TestNoOlderEntryComesBackWhenATableIsRemoved",
		}},
	},
	{
		id: "B40d", what: "a snapshot loses entries because a range is deleted", seen: "RocksDB's DeleteFilesInRange, which warns of it",
		plant: []patch{{
			file: "internal/read/lookup/snapshots.go",
			old:  "	if l.pins > 0 {",
			new:  "	if false {",
		}},
		caught: []catch{{
			pkg: "db", test: "TestSnapshotsDuringADeletionKeepTheirView",
			sees: "--- FAIL: TestSnapshotsDuringADeletionKeepTheirView",
		}},
	},
	{
		id: "B40e", what: "a transaction that begins while a deletion becomes visible misses it and brings a key back", seen: "this store, in a review",
		plant: []patch{{
			file: "internal/read/lookup/snapshots.go",
			old:  "	l.mu.Lock()\n	defer l.mu.Unlock()\n	current.VisibleSeq.Store(seq)\n",
			new:  "	current.VisibleSeq.Store(seq)\n	time.Sleep(time.Millisecond)\n",
		}, {
			file: "internal/read/lookup/snapshots.go",
			old:  "	\"sync/atomic\"\n",
			new:  "	\"sync/atomic\"\n	\"time\"\n",
		}},
		caught: []catch{{
			pkg: "db", test: "TestNoTransactionBringsADeletedKeyBack",
			sees: "--- FAIL: TestNoTransactionBringsADeletedKeyBack",
		}, {
			pkg: "internal/read/lookup", test: "TestAPinnedSnapshotIsOfOneMoment",
			sees: "--- FAIL: TestAPinnedSnapshotIsOfOneMoment",
		}},
	},
}
