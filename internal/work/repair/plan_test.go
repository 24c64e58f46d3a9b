package repair_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/test/storetest"
)

// The plan said that tables would stay which the repair merges, and did not list CURRENT.
func TestThePlanOfARepairHasTheFatesOfTheRepair(t *testing.T) {
	fates := func(rep *db.RepairReport) map[string]string {
		m := map[string]string{}
		for _, f := range rep.Files {
			f.LostName = ""
			m[f.Name] = f.String()
		}
		return m
	}
	for name, d := range brokenStores(t) {
		t.Run(name, func(t *testing.T) {
			plan, err := db.PlanRepair("db", storetest.Options(d.FS(t)))
			require.NoError(t, err)
			_, rep, _ := storetest.Repaired(t, d)
			require.Equal(t, fates(rep), fates(plan))
			require.Equal(t, rep.Incomplete, plan.Incomplete)
		})
	}
}

// A table whose bounds an edit has in the wrong order hid the other gaps: every table went to lost/.
func TestRepairFillsGapsBesideATableThatBeginsAfterItsEnd(t *testing.T) {
	d, _ := storetest.Sample(t)
	for _, name := range d.Only(base.FileLog) {
		d[name] = []byte{}
	}
	key := func(k string) []byte { return base.AppendInternalKey(nil, []byte(k), 1, base.KindSet) }
	added := func(level int, num uint64, smallest, largest string) manifest.LevelFile {
		return manifest.LevelFile{Level: level, File: manifest.NewFileMeta(num, 10, key(smallest), key(largest))}
	}
	begin, replaced := d.Edit(t, 1000, 1000, nil), &manifest.Edit{}
	for name, level := range d.Live(t) {
		_, num, _ := base.ParseFileName(name)
		begin.Added = append(begin.Added, added(level, num, "a", "z"))
		replaced.Deleted = append(replaced.Deleted, manifest.DeletedFile{Level: level, Num: num})
	}
	replaced.Added = []manifest.LevelFile{added(6, 500, "a", "z"), added(5, 501, "zz", "b")}
	for _, name := range d.Only(base.FileManifest) {
		delete(d, name)
	}
	want := d.Versions(t).Newest()
	d.AddManifest(t, 900, begin, replaced)
	got, _, _ := storetest.Repaired(t, d)
	require.NotEmpty(t, want)
	require.Equal(t, want, got)
}
