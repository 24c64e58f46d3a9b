//go:build linux

package zoo

import "slices"

// bugs are all bugs, in the order of their numbers.
var bugs = slices.Concat(bugsFromB1, bugsFromB10, bugsFromB19, bugsFromB47, bugsFromB48)

var bugsFromB1 = []bug{
	{
		id: "B1a", what: "the directory is not synced after the creation of a log", seen: "LevelDB 195, 196",
		plant: []patch{{
			file: "internal/write/commit/rotate.go",
			old:  "if err := dir.FS.SyncDir(dir.Path); err != nil {",
			new:  "if err := error(nil); err != nil {",
		}},
		caught: []catch{{
			pkg: "internal/work/replay", test: "TestSyncedWritesSurvivePowerLossAndTheRestIsAPrefix",
			sees: "order of operations",
		}, {
			pkg: "db", test: "TestCrashAtEveryOperation", args: "-crash.states M0 -crash.seed 1 -crash.limit 2000",
			sees: "seed 1, M0",
		}},
	},
	{
		id: "B1b", what: "the directory is not synced after the writing of tables", seen: "LevelDB 195, 196",
		plant: []patch{{
			file: "internal/disk/tables/writer.go",
			old:  "err = t.options.Dir.FS.SyncDir(t.options.Dir.Path)",
			new:  "err = nil",
		}},
		caught: []catch{{
			pkg: "db", test: "TestCrashAtEveryOperation", args: "-crash.states M0 -crash.seed 1 -crash.limit 2000",
			sees: "seed 1, M0",
		}},
	},
	{
		id: "B1c", what: "the directory is not synced after the renaming of CURRENT", seen: "RocksDB 10573",
		plant: []patch{{
			file: "internal/disk/manifest/current.go",
			old:  "if err := fsys.SyncDir(dir); err != nil {",
			new:  "if err := error(nil); err != nil {",
		}},
		caught: []catch{{
			pkg: "db", test: "TestCrashAtEveryOperation", args: "-crash.states M0 -crash.seed 1 -crash.limit 2000",
			sees: "seed 1, M0",
		}},
	},
	{
		id: "B2", what: "a failed sync is tried again, and its success is believed", seen: "ATC'20, fsync failures",
		plant: []patch{{
			file: "internal/disk/wal/writer.go",
			old:  "	err := w.file.Sync()\n",
			new:  "	err := w.file.Sync()\n	if err != nil {\n		err = w.file.Sync()\n	}\n",
		}},
		caught: []catch{{
			pkg: "internal/disk/wal", test: "TestAFailedSyncIsNotRetried",
			sees: "Not equal:",
		}, {
			pkg: "db", test: "TestAFailureOfEverySync", args: "-crash.seed 1",
			sees: "then crash",
		}},
	},
	{
		id: "B3", what: "the log continues after an append that failed or was cut short", seen: "LevelDB; RocksDB 6316, 6331",
		plant: []patch{{
			file: "internal/disk/wal/writer.go",
			old:  "w.err = errors.Wrapf(err, \"append of",
			new:  "return errors.Wrapf(err, \"append of",
		}, {
			file: "internal/write/commit/fulldisk.go",
			old:  "c.Fail(err)",
			new:  "",
		}},
		caught: []catch{{
			pkg: "internal/disk/wal", test: "TestNothingIsAppendedAfterAFailedAppend",
			sees: "Both arguments must be pointers",
		}, {
			pkg: "internal/work/replay", test: "TestAFailedLogEndsWritesButNotReads",
			sees: "vfs: injected fault",
		}},
	},
	{
		id: "B4", what: "the torn end of the newest log is treated as damage", seen: "goleveldb, StrictAll",
		plant: []patch{{
			file: "internal/disk/wal/tail.go",
			old:  "return r.tail.Kind != TailDamaged, nil",
			new:  "return false, nil",
		}},
		caught: []catch{{
			pkg: "internal/disk/wal", test: "TestTruncatedLogsReturnTheirCompleteRecords",
			sees: "Not same:",
		}, {
			pkg: "internal/work/replay", test: "TestATornLogIsTheEndOfTheLog",
			sees: "past the end of the log",
		}},
	},
	{
		id: "B5a", what: "damage inside the newest log is treated as its torn end", seen: "the default modes of LevelDB, goleveldb, Pebble, Badger",
		plant: []patch{{
			file: "internal/disk/wal/tail.go",
			old:  "return r.tail.Kind != TailDamaged, nil",
			new:  "return true, nil",
		}},
		caught: []catch{{
			pkg: "internal/disk/wal", test: "TestEveryFlippedBitIsDetected",
			sees: "Target error should be in err chain",
		}, {
			pkg: "internal/work/replay", test: "TestDamageInsideALogIsCorruptionWithItsOffset",
			sees: "Expected error with \"sievedb: corruption\"",
		}},
	},
	{
		id: "B5b", what: "a flipped bit at the end of an older log is treated as its torn end", seen: "the default modes of LevelDB, goleveldb, Pebble, Badger",
		plant: []patch{{
			file: "internal/disk/wal/tail.go",
			old:  "case r.tail.Kind != TailTorn || !r.o.AllowTornEnd || r.tail.BitFlip:",
			new:  "case r.tail.Kind != TailTorn || !r.o.AllowTornEnd:",
		}, {
			file: "internal/disk/wal/tail.go",
			old:  "case bad.cut || unwritten:",
			new:  "case bad.cut || unwritten || r.tail.BitFlip:",
		}},
		caught: []catch{{
			pkg: "internal/disk/wal", test: "TestATornEndIsAcceptedOnlyIfItWasCut",
			sees: "a_bit_was_flipped",
		}},
	},
	{
		id: "B6", what: "the log continues after the torn end of the recovered one", seen: "LevelDB, reuse_logs",
		plant: []patch{{
			file: "internal/write/commit/rotate.go",
			old:  "return wal.NewWriter(f), nil",
			new: `if names, lerr := dir.FS.List(dir.Path + "/lost"); c.log.w == nil && lerr == nil && len(names) > 0 {
		from, ferr := dir.FS.Open(dir.Path + "/lost/" + names[len(names)-1])
		if ferr != nil {
			return nil, ferr
		}
		size, _ := from.Size()
		torn := make([]byte, size)
		_, _ = from.ReadAt(torn, 0)
		_, _ = f.Write(torn)
		_ = from.Close()
	}
	return wal.NewWriter(f), nil`,
		}},
		caught: []catch{{
			pkg: "db", test: "TestCrashAtEveryOperation", args: "-crash.states M2 -crash.seed 1 -crash.limit 2000",
			sees: "CLOSED could not be written",
		}},
	},
	{
		id: "B7", what: "the old log is not synced before a synced write goes to the new one", seen: "LevelDB 193, 1081",
		plant: []patch{{
			file: "internal/write/commit/rotate.go",
			old:  "if c.log.w.Unsynced() > 0 {",
			new:  "if false {",
		}},
		caught: []catch{{
			pkg: "internal/work/replay", test: "TestSyncedWritesSurvivePowerLossAndTheRestIsAPrefix",
			sees: "order of operations: rule 2:",
		}, {
			pkg: "db", test: "TestCrashAtEveryOperation", args: "-crash.states M0 -crash.seed 1 -crash.limit 4000",
			sees: "seed 1, M0",
		}},
	},
	{
		id: "B8a", what: "the sequence numbers of replayed records do not count", seen: "Pebble, TestWALReplaySequenceNumBug",
		plant: []patch{{
			file: "internal/work/replay/replay.go",
			old:  "r.lastSeq = max(r.lastSeq, next+r.shift-1)",
			new:  "",
		}},
		caught: []catch{{
			pkg: "db", test: "TestSequenceNumbersOfTablesAndLogsCount",
			sees: "Received unexpected error:",
		}},
	},
	{
		id: "B8b", what: "sequence numbers wrap at the format's limit", seen: "a hostile MANIFEST",
		plant: []patch{{
			file: "internal/write/commit/record.go",
			old:  "if c.log.lastSeq+r.count > base.MaxSeq {",
			new:  "if c.log.lastSeq+r.count > 1<<63 {",
		}},
		caught: []catch{{
			pkg: "db", test: "TestSequenceNumbersRunOutWithAnError",
			sees: "panic: db: a batch of our own making does not decode",
		}},
	},
	{
		id: "B9a", what: "the numbers of files that the MANIFEST does not name are reused", seen: "RocksDB 7621",
		plant: []patch{{
			file: "db/open.go",
			old:  "d.set.MarkUsed(f.Num)",
			new:  "_ = f",
		}},
		caught: []catch{{
			pkg: "internal/work/replay", test: "TestNumbersOfUnlistedFilesAreNotReused",
			sees: "is not greater than",
		}},
	},
	{
		id: "B9b", what: "tables are removed although the edit that names them may be in force", seen: "RocksDB 7621",
		plant: []patch{{
			file: "db/edit.go",
			old:  "if manifest.IsUncertain(err) {",
			new:  "if manifest.IsUncertain(nil) {",
		}},
		caught: []catch{{
			pkg: "db", test: "TestAFailureOfEverySync", args: "-crash.seed 1",
			sees: "the file is missing",
		}},
	},
	{
		id: "B9c", what: "an Open that fails after the renaming of CURRENT removes its tables", seen: "this store",
		plant: []patch{{
			file: "db/recovery.go",
			old:  "uncertain := manifest.IsUncertain(err)",
			new:  "uncertain := false",
		}},
		caught: []catch{{
			pkg: "db", test: "TestAnOpenThatFailsAfterRenamingCurrentKeepsItsTables",
			sees: "the file is missing",
		}},
	},
}
