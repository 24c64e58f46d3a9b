package db

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/test/damage"
	"github.com/sievedb/sievedb/internal/work/repair"
)

// LevelDB's repair puts every table into level 0, where a greater file number counts as newer. If a
// compaction has written old entries to the greater number, lookups then find an old version.
func TestRepairOrdersBySequenceAndNotByFileNumber(t *testing.T) {
	d := repairDir{
		"000009.ldb": craftTable(t, put("a", 1, "old"), put("b", 9, "new"), put("d", 3, "only")),
		"000005.ldb": craftTable(t, put("a", 20, "new"), put("b", 2, "old"), put("c", 4, "deleted")),
		"000004.ldb": craftTable(t, del("c", 30), put("x", 31, "alone")),
		"000003.ldb": craftTable(t, put("z", 5, "far away")),
	}
	want := contents{"a": "new", "b": "new", "d": "only", "x": "alone", "z": "far away"}
	got, rep, after := d.repaired(t)
	require.Equal(t, want, got)
	require.Equal(t, uint64(31), rep.LastSequence)
	require.Equal(t, FileKept, fateOf(t, rep, "000003.ldb").Fate, "a table that overlaps no other stays")
	require.Equal(t, FileRewritten, fateOf(t, rep, "000004.ldb").Fate)
	require.True(t, rep.MayResurrect)
	for name, level := range after.live(t) {
		require.Equal(t, manifest.NumLevels-1, level, name)
	}
}

func TestRepairFixesALevelZeroInTheWrongOrder(t *testing.T) {
	d := repairDir{
		"000009.ldb": craftTable(t, put("a", 1, "old"), put("b", 9, "new")),
		"000005.ldb": craftTable(t, put("a", 20, "new"), put("b", 2, "old")),
		"000003.ldb": craftTable(t, put("a", 0, "oldest"), put("q", 0, "below")),
	}
	d.addManifest(t, 20, d.edit(t, 15, 20, map[uint64]int{9: 0, 5: 0, 3: 1}))
	before := mustOpen(t, &Options{FS: d.fs(t), ReadOnly: true})
	requireValue(t, before, []byte("a"), []byte("new")) // our lookups do not rely on the order that LevelDB's repair leaves
	require.NoError(t, before.Close())
	got, rep, after := d.repaired(t)
	require.Equal(t, contents{"a": "new", "b": "new", "q": "below"}, got)
	require.Equal(t, "MANIFEST-000020", rep.Manifest)
	require.False(t, rep.MayResurrect)
	require.Equal(t, 1, after.live(t)["000003.ldb"], "the levels below stay")
}

// Ranges of sequence numbers may overlap although no key is in the wrong order. A repair itself
// leaves such a level 0.
func TestRepairKeepsALevelZeroWhoseKeysAreInOrder(t *testing.T) {
	d := repairDir{
		"000009.ldb": craftTable(t, put("a", 20, "new"), put("b", 2, "two")),
		"000005.ldb": craftTable(t, put("a", 1, "old"), put("c", 9, "three")),
	}
	d.addManifest(t, 20, d.edit(t, 15, 20, map[uint64]int{9: 0, 5: 0}))
	got, rep, _ := d.repaired(t)
	require.True(t, rep.Healthy, "%s", rep)
	require.Equal(t, contents{"a": "new", "b": "two", "c": "three"}, got)
}

// After a crash during a compaction, both its inputs and its outputs exist.
func TestRepairWritesDuplicateEntriesOnce(t *testing.T) {
	d := repairDir{
		"000003.ldb": craftTable(t, put("a", 1, "one"), put("b", 2, "two")),
		"000004.ldb": craftTable(t, put("a", 3, "three"), del("b", 4)),
		"000005.ldb": craftTable(t, put("a", 3, "three"), put("a", 1, "one"), del("b", 4), put("b", 2, "two")),
	}
	got, rep, _ := d.repaired(t)
	require.Equal(t, contents{"a": "three"}, got)
	require.Equal(t, uint64(4), rep.EntriesWritten)
	require.Equal(t, uint64(4), rep.EntriesDuplicate)
	require.Zero(t, rep.EntriesConflicting)

	d["000005.ldb"] = craftTable(t, put("a", 3, "another three"))
	got, rep, _ = d.repaired(t)
	require.Equal(t, contents{"a": "three"}, got, "the greater value wins, whichever file it is in")
	require.Equal(t, uint64(1), rep.EntriesConflicting)
}

// The bug: if one entry set a key and another one deleted it with the same sequence number, Repair
// wrote both. It called a table with such a pair healthy, but Check called the table damaged.
func TestRepairKeepsOneEntryPerKeyAndSequenceNumber(t *testing.T) {
	twins := craftTable(t, put("a", 9, "nine"), put("b", 5, "five"), del("b", 5), put("b", 1, "one"))
	for name, d := range map[string]repairDir{
		"in one table":  {"000003.ldb": twins},
		"in two tables": {"000003.ldb": craftTable(t, put("a", 9, "nine"), put("b", 5, "five")), "000004.ldb": craftTable(t, del("b", 5), put("b", 1, "one"))},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "in one table" { // with a MANIFEST, so that the database is otherwise healthy
				d.addManifest(t, 20, d.edit(t, 15, 20, map[uint64]int{3: 1}))
				checked, err := openTest(t, testOptions(d.fs(t))).Check(t.Context())
				require.NoError(t, err)
				require.Len(t, checked.Faults, 1)
				require.Contains(t, checked.Faults[0], "same sequence number")
			}
			got, rep, after := d.repaired(t)
			require.Equal(t, contents{"a": "nine", "b": "five"}, got)
			require.Equal(t, uint64(1), rep.EntriesConflicting)
			checked, err := openTest(t, testOptions(after.fs(t))).Check(t.Context())
			require.NoError(t, err)
			require.Empty(t, checked.Faults)
		})
	}
}

// The bug: Repair called a table healthy although its mark of the first and last key was wrong, and
// Open then refused the table.
func TestRepairRewritesATableWithAWrongMark(t *testing.T) {
	forge, err := damage.NewForge(craftTable(t, put("a", 1, "one"), put("b", 2, "two")))
	require.NoError(t, err)
	d := repairDir{"000003.ldb": forge.WithMark([8]byte{1, 2, 3})}
	d.addManifest(t, 20, d.edit(t, 15, 20, map[uint64]int{3: 1}))
	_, err = openTest(t, testOptions(d.fs(t))).Get([]byte("a"))
	require.ErrorIs(t, err, ErrCorruption)
	got, rep, _ := d.repaired(t)
	require.False(t, rep.Healthy)
	require.Equal(t, contents{"a": "one", "b": "two"}, got)
}

func TestRepairDoesNotRestoreTablesThatTheManifestRemoved(t *testing.T) {
	live := craftTable(t, put("b", 5, "live"))
	obsolete := craftTable(t, put("a", 1, "deleted long ago"))
	base := func(t *testing.T) repairDir {
		d := repairDir{"000004.ldb": obsolete, "000008.ldb": live}
		compacted := d.edit(t, 3, 5, map[uint64]int{8: 1})
		compacted.Deleted = []manifest.DeletedFile{{Level: 0, Num: 4}}
		d.addManifest(t, 2, d.edit(t, 3, 4, map[uint64]int{4: 0}), compacted)
		return d
	}
	cases := []struct {
		name   string
		damage func(t *testing.T, d repairDir)
	}{
		{"CURRENT lost", func(_ *testing.T, d repairDir) { delete(d, "CURRENT") }},
		{"the first edit damaged", func(_ *testing.T, d repairDir) { d["MANIFEST-000002"][20] ^= 1 }},
		{"a live table missing", func(t *testing.T, d repairDir) { delete(d, "000008.ldb"); d["000009.ldb"] = live }},
		{"a live table damaged", func(_ *testing.T, d repairDir) { d["000008.ldb"][len(live)-60] ^= 1 }},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			d := base(t)
			c.damage(t, d)
			got, rep, after := d.repaired(t)
			require.Equal(t, contents{"b": "live"}, got, "%s", rep)
			require.Equal(t, FileUnused, fateOf(t, rep, "000004.ldb").Fate)
			require.Equal(t, obsolete, after["lost/000004.ldb"])
		})
	}
}

// The edit that adds a table may be lost with the MANIFEST's end, after the log with the table's
// entries was removed.
func TestRepairRestoresATableThatIsNewerThanTheManifest(t *testing.T) {
	d := repairDir{
		"000005.ldb": craftTable(t, put("a", 3, "old"), put("b", 2, "kept")),
		"000008.ldb": craftTable(t, put("a", 7, "new"), del("b", 8)),
		"000007.ldb": craftTable(t, put("a", 3, "old")),
	}
	d.addManifest(t, 2, d.edit(t, 6, 3, map[uint64]int{5: 2}))
	delete(d, "000006.log")
	got, rep, after := d.repaired(t)
	require.Equal(t, contents{"a": "new"}, got)
	require.Equal(t, 2, after.live(t)["000005.ldb"])
	require.Equal(t, FileUnused, fateOf(t, rep, "000007.ldb").Fate, "an unfinished output has nothing new")
	require.Equal(t, FileRewritten, fateOf(t, rep, "000008.ldb").Fate)
}

// Entries that are put above levels that stay must not hide newer ones there.
func TestRepairDropsEntriesOlderThanTheLevelsThatStay(t *testing.T) {
	d := repairDir{
		"000005.ldb": craftTable(t, put("a", 9, "newest"), put("c", 9, "c")),
		"000006.ldb": craftTable(t, put("d", 2, "under"), put("e", 3, "e")),
		"000007.ldb": craftTable(t, put("a", 4, "old"), put("b", 5, "b"), put("d", 6, "over")),
	}
	d.addManifest(t, 2, d.edit(t, 20, 9, map[uint64]int{5: 1, 6: 1, 7: 2}))
	d["000007.ldb"][len(d["000007.ldb"])-1] ^= 1 // its footer; all blocks can be read
	got, rep, _ := d.repaired(t)
	require.Equal(t, contents{"a": "newest", "b": "b", "c": "c", "d": "over", "e": "e"}, got)
	require.Equal(t, uint64(1), rep.EntriesShadowed)
	require.Equal(t, uint64(2), rep.EntriesWritten)
}

func TestRepairRecognizesASwappedTableByItsBounds(t *testing.T) {
	files, model := sampleStore(t)
	tables := files.tables()
	a, b := tables[0], tables[len(tables)-1]
	files[a], files[b] = files[b], files[a]
	got, rep, _ := files.repaired(t)
	require.False(t, rep.Healthy)
	require.Equal(t, model, got)
}

func TestRepairCopesWithUnusualNames(t *testing.T) {
	d := repairDir{
		"000007.ldb":                   craftTable(t, put("b", 2, "b")),
		"000007.sst":                   craftTable(t, put("c", 3, "c")),
		"4611686018427387000.ldb":      craftTable(t, put("d", 4, "d")), // close to the largest file number
		"4611686018427387001.log":      {},
		"MANIFEST-4611686018427387002": []byte("x"),
		"000012.dbtmp":                 []byte("half a CURRENT"),
		"a stranger":                   []byte("is left alone"),
		"lost/000007.sst":              []byte("an earlier repair's"),
		"lost/000012.dbtmp":            []byte("as well"),
		"lost/000012.dbtmp.1":          []byte("and this"),
	}
	got, rep, after := d.repaired(t)
	require.Equal(t, contents{"b": "b", "c": "c", "d": "d"}, got)
	require.Equal(t, "000007.sst.1", fateOf(t, rep, "000007.sst").LostName)
	require.Equal(t, "000012.dbtmp.2", fateOf(t, rep, "000012.dbtmp").LostName)
	require.Equal(t, "an earlier repair's", string(after["lost/000007.sst"]))
	require.Equal(t, "is left alone", string(after["a stranger"]))
}

// Overlapping runs are merged in steps if there are more than can be merged at a time.
func TestRepairMergesManyRunsInSteps(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	d := repairDir{}
	v := versions{}
	numbers := rnd.Perm(150)
	seq := uint64(0)
	for _, n := range numbers {
		var entries []craftedEntry
		for k := range 40 {
			if rnd.IntN(3) > 0 {
				continue
			}
			seq++
			e := put(fmt.Sprintf("k%02d", k), seq, fmt.Sprint("v", seq))
			if rnd.IntN(4) == 0 {
				e = del(e.key, seq)
			}
			entries = append(entries, e)
			v.add(e.seq, e.kind, []byte(e.key), []byte(e.value))
		}
		if len(entries) > 0 {
			d[base.FileName(base.FileTable, uint64(n+1))] = craftTable(t, entries...)
		}
	}
	require.Greater(t, len(d), repair.FanIn)
	got, rep, _ := d.repaired(t)
	require.Equal(t, v.newest(), got)
	require.Equal(t, seq, rep.EntriesWritten)
}

// No two tables of a level may share a user key, however many versions it has.
func TestRepairSplitsNoKeyBetweenTables(t *testing.T) {
	var even, odd []craftedEntry
	for seq := 4000; seq > 0; seq-- {
		e := put("k", uint64(seq), fmt.Sprintf("%0100d", seq))
		if seq%2 == 0 {
			even = append(even, e)
		} else {
			odd = append(odd, e)
		}
	}
	for i := range 100 {
		odd = append(odd, put(fmt.Sprintf("l%04d", i), uint64(5000+i), fmt.Sprintf("%0500d", i)))
	}
	d := repairDir{"000001.ldb": craftTable(t, even...), "000002.ldb": craftTable(t, odd...)}
	got, rep, after := d.repaired(t)
	require.Len(t, got, 101)
	require.Equal(t, fmt.Sprintf("%0100d", 4000), got["k"])
	require.Greater(t, rep.TablesWritten, uint64(1))
	var holders []string
	for name := range after.live(t) {
		v := versions{}
		v.addTable(t, after[name])
		if len(v["k"]) > 0 {
			holders = append(holders, name)
		}
	}
	require.Len(t, slices.Compact(holders), 1)
}

// A MANIFEST that CURRENT does not name, and whose tables are missing, was perhaps never in force.
// Its claim that a log is not needed does not count.
func TestRepairReadsLogsDespiteAManifestThatWasNeverInForce(t *testing.T) {
	files, model := sampleStore(t)
	table := craftTable(t, put("a", 1, "never installed"))
	files["000900.ldb"] = table
	stray := files.edit(t, 901, 1, map[uint64]int{900: 6})
	files.addManifest(t, 902, stray)
	delete(files, "000900.ldb")
	delete(files, "CURRENT")
	got, rep, _ := files.repaired(t)
	require.Equal(t, model, got, "%s", rep)
}
