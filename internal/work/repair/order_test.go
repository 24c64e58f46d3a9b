package repair_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/internal/test/damage"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/internal/test/storetest"
	"github.com/sievedb/sievedb/internal/work/repair"
	"github.com/sievedb/sievedb/report"
)

// LevelDB's repair puts every table into level 0, where a greater file number counts as newer. If a
// compaction has written old entries to the greater number, lookups then find an old version.
func TestRepairOrdersBySequenceAndNotByFileNumber(t *testing.T) {
	d := fixture.Dir{
		"000009.ldb": fixture.Table(t, fixture.Put("a", 1, "old"), fixture.Put("b", 9, "new"), fixture.Put("d", 3, "only")),
		"000005.ldb": fixture.Table(t, fixture.Put("a", 20, "new"), fixture.Put("b", 2, "old"), fixture.Put("c", 4, "deleted")),
		"000004.ldb": fixture.Table(t, fixture.Del("c", 30), fixture.Put("x", 31, "alone")),
		"000003.ldb": fixture.Table(t, fixture.Put("z", 5, "far away")),
	}
	want := fixture.Contents{"a": "new", "b": "new", "d": "only", "x": "alone", "z": "far away"}
	got, rep, after := storetest.Repaired(t, d)
	require.Equal(t, want, got)
	require.Equal(t, uint64(31), rep.LastSequence)
	require.Equal(t, report.FileKept, storetest.FateOf(t, rep, "000003.ldb").Fate, "a table that overlaps no other stays")
	require.Equal(t, report.FileRewritten, storetest.FateOf(t, rep, "000004.ldb").Fate)
	require.True(t, rep.MayResurrect)
	for name, level := range after.Live(t) {
		require.Equal(t, version.NumLevels-1, level, name)
	}
}

func TestRepairFixesALevelZeroInTheWrongOrder(t *testing.T) {
	d := fixture.Dir{
		"000009.ldb": fixture.Table(t, fixture.Put("a", 1, "old"), fixture.Put("b", 9, "new")),
		"000005.ldb": fixture.Table(t, fixture.Put("a", 20, "new"), fixture.Put("b", 2, "old")),
		"000003.ldb": fixture.Table(t, fixture.Put("a", 0, "oldest"), fixture.Put("q", 0, "below")),
	}
	d.AddManifest(t, 20, d.Edit(t, 15, 20, map[uint64]int{9: 0, 5: 0, 3: 1}))
	before := storetest.MustOpen(t, &db.Options{FS: d.FS(t), ReadOnly: true})
	storetest.RequireValue(t, before, []byte("a"), []byte("new")) // our lookups do not rely on the order that LevelDB's repair leaves
	require.NoError(t, before.Close())
	got, rep, after := storetest.Repaired(t, d)
	require.False(t, rep.Healthy, "lookups hide the wrong order, so the report must not: %s", rep)
	require.Equal(t, fixture.Contents{"a": "new", "b": "new", "q": "below"}, got)
	require.Equal(t, "MANIFEST-000020", rep.Manifest)
	require.False(t, rep.MayResurrect)
	require.Equal(t, 1, after.Live(t)["000003.ldb"], "the levels below stay")
}

// Ranges of sequence numbers may overlap although no key is in the wrong order. A repair itself leaves such a level 0.
func TestRepairKeepsALevelZeroWhoseKeysAreInOrder(t *testing.T) {
	d := fixture.Dir{
		"000009.ldb": fixture.Table(t, fixture.Put("a", 20, "new"), fixture.Put("b", 2, "two")),
		"000005.ldb": fixture.Table(t, fixture.Put("a", 1, "old"), fixture.Put("c", 9, "three")),
	}
	d.AddManifest(t, 20, d.Edit(t, 15, 20, map[uint64]int{9: 0, 5: 0}))
	got, rep, _ := storetest.Repaired(t, d)
	require.True(t, rep.Healthy, "%s", rep)
	require.Equal(t, fixture.Contents{"a": "new", "b": "two", "c": "three"}, got)
}

// After a crash during a compaction, both its inputs and its outputs exist.
func TestRepairWritesDuplicateEntriesOnce(t *testing.T) {
	d := fixture.Dir{
		"000003.ldb": fixture.Table(t, fixture.Put("a", 1, "one"), fixture.Put("b", 2, "two")),
		"000004.ldb": fixture.Table(t, fixture.Put("a", 3, "three"), fixture.Del("b", 4)),
		"000005.ldb": fixture.Table(t, fixture.Put("a", 3, "three"), fixture.Put("a", 1, "one"), fixture.Del("b", 4), fixture.Put("b", 2, "two")),
	}
	got, rep, _ := storetest.Repaired(t, d)
	require.Equal(t, fixture.Contents{"a": "three"}, got)
	require.Equal(t, uint64(4), rep.EntriesWritten)
	require.Equal(t, uint64(4), rep.EntriesDuplicate)
	require.Zero(t, rep.EntriesConflicting)

	d["000005.ldb"] = fixture.Table(t, fixture.Put("a", 3, "another three"))
	got, rep, _ = storetest.Repaired(t, d)
	require.Equal(t, fixture.Contents{"a": "three"}, got, "the greater value wins, whichever file it is in")
	require.Equal(t, uint64(1), rep.EntriesConflicting)
}

// The bug: if one entry set a key and another one deleted it with the same sequence number, Repair
// wrote both. It called a table with such a pair healthy, but Check called the table damaged.
func TestRepairKeepsOneEntryPerKeyAndSequenceNumber(t *testing.T) {
	twins := fixture.Table(t, fixture.Put("a", 9, "nine"), fixture.Put("b", 5, "five"), fixture.Del("b", 5), fixture.Put("b", 1, "one"))
	for name, d := range map[string]fixture.Dir{
		"in one table":  {"000003.ldb": twins},
		"in two tables": {"000003.ldb": fixture.Table(t, fixture.Put("a", 9, "nine"), fixture.Put("b", 5, "five")), "000004.ldb": fixture.Table(t, fixture.Del("b", 5), fixture.Put("b", 1, "one"))},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "in one table" { // with a MANIFEST, so that the database is otherwise healthy
				d.AddManifest(t, 20, d.Edit(t, 15, 20, map[uint64]int{3: 1}))
				checked := result.Of(storetest.Open(t, storetest.Options(d.FS(t))).Check(t.Context()))(t)
				require.Len(t, checked.Faults, 1)
				require.Contains(t, checked.Faults[0], "same sequence number")
			}
			got, rep, after := storetest.Repaired(t, d)
			require.Equal(t, fixture.Contents{"a": "nine", "b": "five"}, got)
			require.Equal(t, uint64(1), rep.EntriesConflicting)
			checked := result.Of(storetest.Open(t, storetest.Options(after.FS(t))).Check(t.Context()))(t)
			require.Empty(t, checked.Faults)
		})
	}
}

// The bug: Repair called a table healthy although its mark of the first and last key was wrong, and
// Open then refused the table.
func TestRepairRewritesATableWithAWrongMark(t *testing.T) {
	forge := result.Of(damage.NewForge(fixture.Table(t, fixture.Put("a", 1, "one"), fixture.Put("b", 2, "two"))))(t)
	d := fixture.Dir{"000003.ldb": forge.WithMark([8]byte{1, 2, 3})}
	d.AddManifest(t, 20, d.Edit(t, 15, 20, map[uint64]int{3: 1}))
	require.ErrorIs(t, result.Err(storetest.Open(t, storetest.Options(d.FS(t))).Get([]byte("a"))), db.ErrCorruption)
	got, rep, _ := storetest.Repaired(t, d)
	require.False(t, rep.Healthy)
	require.Equal(t, fixture.Contents{"a": "one", "b": "two"}, got)
}

func TestRepairDoesNotRestoreTablesThatTheManifestRemoved(t *testing.T) {
	live := fixture.Table(t, fixture.Put("b", 5, "live"))
	obsolete := fixture.Table(t, fixture.Put("a", 1, "deleted long ago"))
	base := func(t *testing.T) fixture.Dir {
		d := fixture.Dir{"000004.ldb": obsolete, "000008.ldb": live}
		compacted := d.Edit(t, 3, 5, map[uint64]int{8: 1})
		compacted.Deleted = []version.DeletedFile{{Level: 0, Num: 4}}
		d.AddManifest(t, 2, d.Edit(t, 3, 4, map[uint64]int{4: 0}), compacted)
		return d
	}
	cases := []struct {
		name   string
		damage func(t *testing.T, d fixture.Dir)
	}{
		{"CURRENT lost", func(_ *testing.T, d fixture.Dir) { delete(d, "CURRENT") }},
		{"the first edit damaged", func(_ *testing.T, d fixture.Dir) { d["MANIFEST-000002"][20] ^= 1 }},
		{"a live table missing", func(t *testing.T, d fixture.Dir) { delete(d, "000008.ldb"); d["000009.ldb"] = live }},
		{"a live table damaged", func(_ *testing.T, d fixture.Dir) { d["000008.ldb"][len(live)-60] ^= 1 }},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			d := base(t)
			c.damage(t, d)
			got, rep, after := storetest.Repaired(t, d)
			require.Equal(t, fixture.Contents{"b": "live"}, got, "%s", rep)
			require.Equal(t, report.FileUnused, storetest.FateOf(t, rep, "000004.ldb").Fate)
			require.Equal(t, obsolete, after["lost/000004.ldb"])
		})
	}
}

// The edit that adds a table may be lost with the MANIFEST's end, after the log with the table's entries was removed.
func TestRepairRestoresATableThatIsNewerThanTheManifest(t *testing.T) {
	d := fixture.Dir{
		"000005.ldb": fixture.Table(t, fixture.Put("a", 3, "old"), fixture.Put("b", 2, "kept")),
		"000008.ldb": fixture.Table(t, fixture.Put("a", 7, "new"), fixture.Del("b", 8)),
		"000007.ldb": fixture.Table(t, fixture.Put("a", 3, "old")),
	}
	d.AddManifest(t, 2, d.Edit(t, 6, 3, map[uint64]int{5: 2}))
	delete(d, "000006.log")
	got, rep, after := storetest.Repaired(t, d)
	require.Equal(t, fixture.Contents{"a": "new"}, got)
	require.Equal(t, 2, after.Live(t)["000005.ldb"])
	require.Equal(t, report.FileUnused, storetest.FateOf(t, rep, "000007.ldb").Fate, "an unfinished output has nothing new")
	require.Equal(t, report.FileRewritten, storetest.FateOf(t, rep, "000008.ldb").Fate)
}

// Entries that are put above levels that stay must not hide newer ones there.
func TestRepairDropsEntriesOlderThanTheLevelsThatStay(t *testing.T) {
	d := fixture.Dir{
		"000005.ldb": fixture.Table(t, fixture.Put("a", 9, "newest"), fixture.Put("c", 9, "c")),
		"000006.ldb": fixture.Table(t, fixture.Put("d", 2, "under"), fixture.Put("e", 3, "e")),
		"000007.ldb": fixture.Table(t, fixture.Put("a", 4, "old"), fixture.Put("b", 5, "b"), fixture.Put("d", 6, "over")),
	}
	d.AddManifest(t, 2, d.Edit(t, 20, 9, map[uint64]int{5: 1, 6: 1, 7: 2}))
	d["000007.ldb"][len(d["000007.ldb"])-1] ^= 1 // its footer; all blocks can be read
	got, rep, _ := storetest.Repaired(t, d)
	require.Equal(t, fixture.Contents{"a": "newest", "b": "b", "c": "c", "d": "over", "e": "e"}, got)
	require.Equal(t, uint64(1), rep.EntriesShadowed)
	require.Equal(t, uint64(2), rep.EntriesWritten)
}

func TestRepairRecognizesASwappedTableByItsBounds(t *testing.T) {
	files, model := storetest.Sample(t)
	tables := files.Tables()
	a, b := tables[0], tables[len(tables)-1]
	files[a], files[b] = files[b], files[a]
	got, rep, _ := storetest.Repaired(t, files)
	require.False(t, rep.Healthy)
	require.Equal(t, model, got)
}

func TestRepairCopesWithUnusualNames(t *testing.T) {
	d := fixture.Dir{
		"000007.ldb":                   fixture.Table(t, fixture.Put("b", 2, "b")),
		"000007.sst":                   fixture.Table(t, fixture.Put("c", 3, "c")),
		"4611686018427387000.ldb":      fixture.Table(t, fixture.Put("d", 4, "d")), // close to the largest file number
		"4611686018427387001.log":      {},
		"MANIFEST-4611686018427387002": []byte("x"),
		"000012.dbtmp":                 []byte("half a CURRENT"),
		"a stranger":                   []byte("is left alone"),
		"lost/000007.sst":              []byte("an earlier repair's"),
		"lost/000012.dbtmp":            []byte("as well"),
		"lost/000012.dbtmp.1":          []byte("and this"),
	}
	got, rep, after := storetest.Repaired(t, d)
	require.Equal(t, fixture.Contents{"b": "b", "c": "c", "d": "d"}, got)
	require.Equal(t, "000007.sst.1", storetest.FateOf(t, rep, "000007.sst").LostName)
	require.Equal(t, "000012.dbtmp.2", storetest.FateOf(t, rep, "000012.dbtmp").LostName)
	require.Equal(t, "an earlier repair's", string(after["lost/000007.sst"]))
	require.Equal(t, "is left alone", string(after["a stranger"]))
}

// Overlapping runs are merged in steps if there are more than can be merged at a time.
func TestRepairMergesManyRunsInSteps(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	d := fixture.Dir{}
	v := fixture.Versions{}
	numbers := rnd.Perm(150)
	seq := uint64(0)
	for _, n := range numbers {
		var entries []fixture.Entry
		for k := range 40 {
			if rnd.IntN(3) > 0 {
				continue
			}
			seq++
			e := fixture.Put(fmt.Sprintf("k%02d", k), seq, fmt.Sprint("v", seq))
			if rnd.IntN(4) == 0 {
				e = fixture.Del(e.Key, seq)
			}
			entries = append(entries, e)
			v.Add(e.Seq, e.Kind, []byte(e.Key), []byte(e.Value))
		}
		if len(entries) > 0 {
			d[base.FileName(base.FileTable, uint64(n+1))] = fixture.Table(t, entries...)
		}
	}
	require.Greater(t, len(d), repair.FanIn)
	got, rep, _ := storetest.Repaired(t, d)
	require.Equal(t, v.Newest(), got)
	require.Equal(t, seq, rep.EntriesWritten)
}

// No two tables of a level may share a user key, however many versions it has.
func TestRepairSplitsNoKeyBetweenTables(t *testing.T) {
	var even, odd []fixture.Entry
	for seq := 4000; seq > 0; seq-- {
		e := fixture.Put("k", uint64(seq), fmt.Sprintf("%0100d", seq))
		if seq%2 == 0 {
			even = append(even, e)
		} else {
			odd = append(odd, e)
		}
	}
	for i := range 100 {
		odd = append(odd, fixture.Put(fmt.Sprintf("l%04d", i), uint64(5000+i), fmt.Sprintf("%0500d", i)))
	}
	d := fixture.Dir{"000001.ldb": fixture.Table(t, even...), "000002.ldb": fixture.Table(t, odd...)}
	got, rep, after := storetest.Repaired(t, d)
	require.Len(t, got, 101)
	require.Equal(t, fmt.Sprintf("%0100d", 4000), got["k"])
	require.Greater(t, rep.TablesWritten, uint64(1))
	var holders []string
	for name := range after.Live(t) {
		v := fixture.Versions{}
		v.AddTable(t, after[name])
		if len(v["k"]) > 0 {
			holders = append(holders, name)
		}
	}
	require.Len(t, slices.Compact(holders), 1)
}

// A MANIFEST that CURRENT does not name, and whose tables are missing, was perhaps never in force.
// Its claim that a log is not needed does not count.
func TestRepairReadsLogsDespiteAManifestThatWasNeverInForce(t *testing.T) {
	files, model := storetest.Sample(t)
	table := fixture.Table(t, fixture.Put("a", 1, "never installed"))
	files["000900.ldb"] = table
	stray := files.Edit(t, 901, 1, map[uint64]int{900: 6})
	files.AddManifest(t, 902, stray)
	delete(files, "000900.ldb")
	delete(files, "CURRENT")
	got, rep, _ := storetest.Repaired(t, files)
	require.Equal(t, model, got, "%s", rep)
}

// The bug: a value may contain a log, for example in a backup of another database. If the record
// around it was torn or damaged, a repair used the records in the value as the database's own.
func TestRepairIgnoresALogWithinAValue(t *testing.T) {
	foreign := string(fixture.Log(t, fixture.Batch(1<<40, "foreign", "a", "foreign"), fixture.Batch(1<<40+2, "foreign", "b")))
	whole := fixture.Log(t, fixture.Batch(1, "own", "a", "b"), fixture.Batch(3, foreign, "copy"), fixture.Batch(4, "own", "c"))
	cases := []struct {
		name string
		log  []byte
		want fixture.Contents
	}{
		{"torn", whole[:len(whole)-40], fixture.Contents{"a": "own", "b": "own"}},
		{"damaged", func() []byte { b := append([]byte(nil), whole...); b[50] ^= 1; return b }(), fixture.Contents{"a": "own", "b": "own", "c": "own"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			d := fixture.Dir{base.FileName(base.FileLog, 3): c.log}
			d.AddManifest(t, 2, fixture.EmptyEdit())
			got, rep, _ := storetest.Repaired(t, d)
			require.Equal(t, c.want, got, "%s", rep)
			require.Less(t, rep.LastSequence, uint64(10))
		})
	}
}

// The entries of a record that does not decode count among the operations that may be missing.
func TestRecordsAfterAnInvalidBatchAndDamageAreFound(t *testing.T) {
	bad := fixture.Batch(2, "", make([]string, 200)...)
	bad[len(bad)-1] = 9 // the length of a value that is missing
	whole := fixture.Log(t, fixture.Batch(1, "own", "a"), bad, fixture.Batch(202, "own", "lost"), fixture.Batch(203, "own", "b"))
	whole[len(whole)-40] ^= 1
	d := fixture.Dir{base.FileName(base.FileLog, 3): whole}
	d.AddManifest(t, 2, fixture.EmptyEdit())
	got, rep, _ := storetest.Repaired(t, d)
	require.Equal(t, fixture.Contents{"a": "own", "b": "own"}, got, "%s", rep)

	o := storetest.Options(d.FS(t))
	o.Salvage = db.SalvageAll
	require.Equal(t, got, storetest.Contents(t, storetest.Open(t, o)))
}

// The bug: another program's repair moved a table to lost/ that it could not read. The table was moved back, and
// Repair found nothing wrong: it took the table for one that others had replaced.
func TestRepairUsesTablesThatTheMANIFESTOfAnotherRepairDoesNotKnow(t *testing.T) {
	back := fixture.Table(t, fixture.Put("a", 1, "back"), fixture.Put("b", 1000, "back"))
	kept := fixture.Table(t, fixture.Put("b", 2000, "kept"), fixture.Put("c", 2000, "kept"))
	ours := func(e *manifest.Edit) *manifest.Edit {
		e.PrevLogNum = manifest.Num(0)
		return e
	}
	for name, begin := range map[string]func(d fixture.Dir){
		"it names no table": func(d fixture.Dir) { d.AddManifest(t, 18, d.Edit(t, 19, 0, nil)) },
		"LevelDB's repair":  func(d fixture.Dir) { d.AddManifest(t, 1, d.Edit(t, 0, 0, nil)) },
		"it names another table": func(d fixture.Dir) {
			d["000016.ldb"] = kept
			d.AddManifest(t, 18, d.Edit(t, 19, 2000, map[uint64]int{16: 0}))
		},
		"LevelDB's repair kept another table": func(d fixture.Dir) {
			d["000016.ldb"] = kept
			d.AddManifest(t, 1, d.Edit(t, 0, 2000, map[uint64]int{16: 0}))
		},
		"a table that it names is missing": func(d fixture.Dir) {
			d["000016.ldb"] = kept
			d.AddManifest(t, 18, d.Edit(t, 19, 2000, map[uint64]int{16: 0}))
			delete(d, "000016.ldb")
		},
		"opened by SieveDB after that": func(d fixture.Dir) { d.AddManifest(t, 18, ours(d.Edit(t, 19, 0, nil))) },
	} {
		t.Run(name, func(t *testing.T) {
			d := fixture.Dir{"000015.ldb": back}
			begin(d)
			delete(d, "000000.log")
			want := d.Versions(t).Newest()
			planned := result.Of(db.PlanRepair("db", storetest.Options(d.FS(t))))(t)
			got, rep, _ := storetest.Repaired(t, d)
			require.Equal(t, want, got, "%s", rep)
			require.True(t, rep.MayResurrect, "%s", rep)
			require.True(t, planned.MayResurrect)
			require.NotEqual(t, report.FileUnused, storetest.FateOf(t, rep, "000015.ldb").Fate)
		})
	}
	t.Run("replaced according to SieveDB", func(t *testing.T) {
		d := fixture.Dir{"000015.ldb": back, "000016.ldb": kept}
		d.AddManifest(t, 18, ours(d.Edit(t, 19, 2000, map[uint64]int{16: 0})))
		got, rep, _ := storetest.Repaired(t, d)
		require.True(t, rep.Healthy, "%s", rep)
		require.Equal(t, fixture.Contents{"b": "kept", "c": "kept"}, got)
	})
}

// The bug: a table that was cut between two blocks, or that had the name of one with more keys, lacked nothing.
func TestRepairSaysWhichKeysACutTableLacks(t *testing.T) {
	var all []fixture.Entry
	for i := range 20 {
		all = append(all, fixture.Put(string(fixture.Key(i)), uint64(i+1), "value"))
	}
	whole, fewer := fixture.Table(t, all...), fixture.Table(t, all[5:15]...)
	for n := range len(whole) + len(fewer) {
		d := fixture.Dir{"000015.ldb": whole}
		d.AddManifest(t, 18, d.Edit(t, 19, 20, map[uint64]int{15: 6}))
		if d["000015.ldb"] = whole[:min(n, len(whole))]; n >= len(whole) {
			d["000015.ldb"] = fewer[:n-len(whole)]
		}
		rep := storetest.MustRepair(t, d.FS(t))
		require.False(t, rep.Healthy)
		last := rep.Ranges
		if got := storetest.FateOf(t, rep, "000015.ldb").Entries; got < 20 {
			require.NotEmpty(t, last, "byte %d, %d entries: %s", n, got, rep)
			require.Equal(t, fixture.Key(19), last[len(last)-1].Last, "byte %d, %d entries: %s", n, got, rep)
		}
	}
}
