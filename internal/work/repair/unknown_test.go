package repair_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/storetest"
	"github.com/sievedb/sievedb/report"
)

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
			planned, err := db.PlanRepair("db", storetest.Options(d.FS(t)))
			require.NoError(t, err)
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
