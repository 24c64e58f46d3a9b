//go:build linux

package zoo

var bugsFromB10 = []bug{
	{
		id: "B10a", what: "a compaction drops tombstones although deeper levels hold their keys", seen: "LevelDB 184",
		plant: []patch{{
			file: "internal/work/compact/retention.go",
			old:  "e.stratum == 0 && !e.covers:",
			new:  "e.stratum == 0:",
		}},
		caught: []catch{{
			pkg: "internal/work/compact", test: "TestADeletedKeyStaysDeletedWhileADeeperLevelHoldsIt",
			sees: `{s:"sievedb: not found"}`,
		}, {
			pkg: "internal/test/metamorphic", test: "TestOptionsDoNotChangeAnswers", args: "-meta.seed 1 -meta.seeds 4",
			sees: "option sets differ",
		}},
	},
	{
		id: "B10b", what: "a compaction drops tombstones that hide what a snapshot keeps", seen: "LevelDB 184",
		plant: []patch{{
			file: "internal/work/compact/retention.go",
			old:  "e.stratum == 0 && !e.covers:",
			new:  "!e.covers:",
		}},
		caught: []catch{{
			pkg: "internal/work/compact", test: "TestADeletedKeyStaysDeletedWhileASnapshotShowsIt",
			sees: `{s:"sievedb: not found"}`,
		}},
	},
	{
		id: "B10c", what: "two compactions use the same tables", seen: "RocksDB, by its HISTORY",
		plant: []patch{{
			file: "internal/disk/manifest/pick.go",
			old:  "if anyCompacting(c.Inputs) || anyCompacting(c.Overlaps) {",
			new:  "if len(c.Inputs) == 0 {",
		}},
		caught: []catch{{
			pkg: "internal/disk/manifest", test: "TestPickLeavesTablesInCompactionAlone",
			sees: "Expected nil, but got: &manifest.Compaction",
		}},
	},
	{
		id: "B11a", what: "a compaction's inputs lack the table with the older versions of a key", seen: "LevelDB 320, 376",
		plant: []patch{{
			file: "internal/disk/manifest/pick.go",
			old:  "if v.Cmp.Compare(lo, start) == 0 && v.Cmp.Compare(hi, limit) == 0 {",
			new:  "if len(files) > 0 {",
		}},
		caught: []catch{{
			pkg: "internal/disk/manifest", test: "TestInputsAreClosedOverChainsOfTablesThatShareKeys",
			sees: "Not equal:",
		}},
	},
	{
		id: "B11b", what: "the versions of one key are split between two output tables", seen: "LevelDB 320, 376",
		plant: []patch{{
			file: "internal/work/compact/merger.go",
			old:  "if cut && newKey && open {",
			new:  "if cut && open {",
		}},
		caught: []catch{{
			pkg: "internal/work/compact", test: "TestCompactionSplitsNoKeyBetweenTables",
			sees: "share a key",
		}},
	},
	{
		id: "B12a", what: "a repair treats the greater file number in level 0 as the newer", seen: "LevelDB's repair",
		plant: []patch{{
			file: "internal/work/repair/plan.go",
			old:  "rising = rising && level0[i-1].minSeq > level0[i].maxSeq",
			new:  "rising = rising && level0[i-1].Num > level0[i].Num",
		}},
		caught: []catch{{
			pkg: "internal/work/repair", test: "TestRepairFixesALevelZeroInTheWrongOrder",
			sees: "Not equal:",
		}},
	},
	{
		id: "B12b", what: "a repair puts old entries above newer ones", seen: "LevelDB's repair",
		plant: []patch{{
			file: "internal/work/repair/gaps.go",
			old:  "case !n.found || seq > n.seq && (n.seq > 0 || seq > n.limit):",
			new:  "case !n.found || seq != n.seq:",
		}},
		caught: []catch{{
			pkg: "internal/work/repair", test: "TestRepairDropsEntriesOlderThanTheLevelsThatStay",
			sees: "Not equal:",
		}},
	},
	{
		id: "B13", what: "an iterator does not keep the tables that it reads", seen: "LevelDB's IteratorPinsRef tests for it",
		plant: []patch{{
			file: "db/iterator.go",
			old:  "it := &Iterator{db: d}",
			new:  "s.Version.Unref()\n\tit := &Iterator{db: d}",
		}, {
			file: "internal/read/scan/cursor.go",
			old:  "	version := c.version\n",
			new:  "",
		}, {
			file: "internal/read/scan/cursor.go",
			old:  "	version.Unref()\n",
			new:  "",
		}},
		caught: []catch{{
			pkg: "db", test: "TestAnIteratorKeepsItsFiles",
			sees: "Should NOT be empty",
		}},
	},
	{
		id: "B14", what: "a batch is published before all of it is in the memtable", seen: "the bank tests of Badger and others",
		plant: []patch{{
			file: "internal/write/commit/record.go",
			old:  "	if mem := c.state().Mem; r.group != nil {\n",
			new:  "	c.o.Current.VisibleSeq.Store(c.log.lastSeq)\n	if mem := c.state().Mem; r.group != nil {\n",
		}},
		caught: []catch{{
			pkg: "db", test: "TestABatchIsInvisibleUntilAllOfItIsInTheMemtable",
			sees: "visible too early",
		}},
	},
	{
		id: "B15a", what: "a full disk ends writes permanently", seen: "LevelDB 924, goleveldb 196, RocksDB 11643",
		plant: []patch{{
			file: "internal/write/commit/fulldisk.go",
			old:  "if !base.IsNoSpace(err) {",
			new:  "if !base.IsNoSpace(nil) {",
		}},
		caught: []catch{{
			pkg: "db", test: "TestAFullDiskIsReportedAndWritesContinueOnceThereIsSpace", args: "-crash.seed 1",
			sees: "only a failure while renaming CURRENT is final",
		}},
	},
	{
		id: "B15b", what: "writes continue after a record that a full disk cut short", seen: "LevelDB 1180",
		plant: []patch{{
			file: "internal/write/commit/record.go",
			old:  "if c.log.full != nil {",
			new:  "if false {",
		}, {
			file: "internal/disk/wal/writer.go",
			old:  "w.err = errors.Wrapf(err, \"append of",
			new:  "return errors.Wrapf(err, \"append of",
		}},
		caught: []catch{{
			pkg: "db", test: "TestWritesContinueAfterAFullDisk", part: "write_of_000001.log",
			sees: "rule 5: append of db/",
		}},
	},
	{
		id: "B15c", what: "a table that a full disk cut short is not removed", seen: "Badger 1199",
		plant: []patch{{
			file: "internal/disk/tables/writer.go",
			old:  "t.options.Dir.Remove(t.path(t.num))",
			new:  "_ = t.num",
		}},
		caught: []catch{{
			pkg: "db", test: "TestAFullDiskIsReportedAndWritesContinueOnceThereIsSpace", args: "-crash.seed 1",
			sees: "was not removed although no level has it",
		}},
	},
	{
		id: "B16", what: "files are read through mmap, which crashes if a file becomes shorter", seen: "Badger 1199, 1682, 1801; bbolt",
		plant: []patch{{
			file: "vfs/os.go",
			old:  "{ return o.f.ReadAt(p, off) }",
			new:  "{ return mappedRead(o.f, p, off) }",
		}, {
			file: "vfs/os_unix.go",
			old:  "	\"syscall\"\n\n	\"github.com/sievedb/sievedb/internal/base/errors\"\n)\n",
			new: `	"sync"
	"syscall"

	"github.com/sievedb/sievedb/internal/base/errors"
)

var mappings sync.Map

func mappedRead(f *os.File, p []byte, off int64) (int, error) {
	m, ok := mappings.Load(f)
	if !ok {
		info, err := f.Stat()
		if err != nil || off >= info.Size() {
			return f.ReadAt(p, off)
		}
		b, err := syscall.Mmap(int(f.Fd()), 0, int(info.Size()), syscall.PROT_READ, syscall.MAP_SHARED)
		if err != nil {
			return 0, err
		}
		m, _ = mappings.LoadOrStore(f, b)
	}
	if off+int64(len(p)) > int64(len(m.([]byte))) {
		return f.ReadAt(p, off)
	}
	return copy(p, m.([]byte)[off:]), nil
}
`,
		}},
		caught: []catch{{
			pkg: "internal/disk/tables", test: "TestATableThatChangesUnderAnOpenDatabaseIsAnError",
			sees: "fatal error: fault",
		}},
	},
	{
		id: "B17a", what: "a short read is treated as the end of the file", seen: "LevelDB 1285",
		plant: []patch{{
			file: "vfs/readfull.go",
			old:  "		case n == len(p):\n",
			new:  "		case n == len(p) || got > 0 && err == nil:\n			return n, nil\n",
		}},
		caught: []catch{{
			pkg: "internal/disk/wal", test: "TestShortReadsAreNotTheEnd",
			sees: "Not same:",
		}, {
			pkg: "db", test: "TestShortReadsChangeNoAnswer", args: "-crash.seed 1",
			sees: "corruption in db/",
		}},
	},
	{
		id: "B17b", what: "a failed read is treated as the end of the log", seen: "LevelDB 1285",
		plant: []patch{{
			file: "internal/disk/wal/reader.go",
			old:  "	case err != nil:\n		r.err = err\n",
			new:  "	case err != nil:\n		r.err = io.EOF\n",
		}},
		caught: []catch{{
			pkg: "internal/disk/wal", test: "TestReadErrorsAreReturnedUnchanged",
			sees: "input/output error",
		}, {
			pkg: "db", test: "TestAnErrorAtEveryOperation", args: "-crash.seed 1",
			sees: "EIO at operation",
		}},
	},
	{
		id: "B18a", what: "the MANIFEST ends where an edit is damaged", seen: "Pebble, LevelDB, RocksDB",
		plant: []patch{{
			file: "internal/disk/manifest/load.go",
			old:  "return r.Tail(), base.InFile(err, path, -1)",
			new:  "return r.Tail(), nil",
		}},
		caught: []catch{{
			pkg: "internal/disk/manifest", test: "TestOnlyACutLastEditIsDropped",
			sees: "Expected error with \"sievedb: corruption\"",
		}},
	},
	{
		id: "B18b", what: "a MANIFEST that lost an edit which was in force is believed", seen: "LevelDB, RocksDB",
		plant: []patch{{
			file: "internal/work/replay/check.go",
			old:  "case state.ByGoLevelDB:",
			new:  "case state.LogNum > 0:",
		}},
		caught: []catch{{
			pkg: "db", test: "TestALostEditThatWasInForceIsCorruption",
			sees: "Expected error with \"sievedb: corruption\"",
		}, {
			pkg: "db", test: "TestAManifestCutAfterAnEditIsCorruption",
			sees: "does not contain \"a later edit is lost\"",
		}},
	},
	{
		id: "B18c", what: "Open does not look for the tables that the MANIFEST names", seen: "LevelDB before 1.10",
		plant: []patch{{
			file: "internal/work/replay/check.go",
			old:  "if err := r.checkTables(); err != nil {",
			new:  "if err := error(nil); err != nil {",
		}},
		caught: []catch{{
			pkg: "db", test: "TestMissingAndShortTablesAreReportedByOpen",
			sees: "Expected error with \"sievedb: corruption\"",
		}},
	},
}
