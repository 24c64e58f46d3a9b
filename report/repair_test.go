package report

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The bug: a report without numbers began with "of these".
func TestTheVerdictNamesAnInterruptedRepair(t *testing.T) {
	const ranges = "ranges that are not known any more\n"
	for want, r := range map[string]RepairReport{
		"nothing was lost\n": {},
		"an earlier repair, which was interrupted, gave up entries in " + ranges: {Interrupted: true, Incomplete: true},
		"7 entries are lost; the numbers include what an earlier repair, which was interrupted, gave up in " + ranges: {
			Interrupted: true, Incomplete: true, EntriesLost: 7,
		},
	} {
		require.Equal(t, want, r.verdict())
	}
}

// What a user reads after a repair: every figure that is not zero is there.
func TestTextOfARepair(t *testing.T) {
	r := RepairReport{
		Dir: "db", ManifestProblem: "CURRENT is missing", Incomplete: true, EntriesFilled: 3, MayResurrect: true,
		TablesWritten: 2, BytesWritten: 900, EntriesWritten: 40, EntriesShadowed: 5, EntriesDuplicate: 4, EntriesConflicting: 1, EntriesTooLarge: 1,
		LastSequence: 77, NewManifest: "MANIFEST-000012", EntriesLost: 7, BytesLost: 30, Ranges: make([]RepairedRange, 2),
		Files: []RepairedFile{
			{Name: "000003.ldb", Fate: FileKept, Level: 2, Bytes: 100, Blocks: 1, Entries: 9},
			{Name: "000004.ldb", Fate: FileRewritten, Level: -1, Reason: "it is damaged", Bytes: 200, Blocks: 3, Entries: 30, BlocksLost: 1, BytesLost: 30,
				Damage: "a checksum", LostName: "000004.ldb"},
			{Name: "000005.ldb", Fate: FileMissing, Level: -1},
			{Name: "000006.log", Fate: FileUnused, Level: -1},
		},
	}
	require.Equal(t, `db: repaired as far as possible
  CURRENT or MANIFEST: CURRENT is missing
  no MANIFEST could be believed: the tables were placed by their contents
  3 entries in the key ranges of missing or damaged tables, read from value tables, or from tables and logs that others had replaced: deleted keys and older values may have come back
  000003.ldb: kept on level 2; 9 entries in 1 block of 100 bytes
  000004.ldb: rewritten, it is damaged; 30 entries in 3 blocks of 200 bytes; lost 1 block, 30 bytes; damage: a checksum; now lost/000004.ldb
  000005.ldb: missing
  000006.log: unused; 0 entries in 0 blocks of 0 bytes
  written: 2 tables, 900 bytes, 40 entries; dropped 5 that a newer version hides; dropped 4 that were there twice; dropped 1 of these with different values; dropped 1 too large for a table
  last sequence 77; new MANIFEST-000012
7 entries are lost; the entries in 30 bytes are lost, unless other files had them; keys in 2 ranges may be missing or old; deleted keys and older values may have come back
`, r.String())

	r = RepairReport{Dir: "db", Manifest: "MANIFEST-000002", MayResurrect: true, NewManifest: "MANIFEST-000003"}
	require.Contains(t, r.String(), "db: repaired\n  the tables in use and their levels are those of MANIFEST-000002\n  which tables were in use, or whose values a damaged value table has, is not known")
	r = RepairReport{Dir: "db", Manifest: "MANIFEST-000002", DryRun: true, Incomplete: true}
	require.Contains(t, r.String(), "this is what a repair would do; nothing was changed\n")
	require.Contains(t, r.String(), "damaged, missing or contradictory entries were left out\n")
	r = RepairReport{Dir: "db", Manifest: "MANIFEST-000002", Healthy: true}
	require.Equal(t, "db: nothing is wrong with it; nothing was changed\n  the tables in use and their levels are those of MANIFEST-000002\n", r.String())
	require.Equal(t, "FileFate(9)", FileFate(9).String())
}
