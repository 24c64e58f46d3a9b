package manifest_test

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/test/damage"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/internal/test/storetest"
	reports "github.com/sievedb/sievedb/report"
	"github.com/sievedb/sievedb/vfs"
)

// closedAfterALoad returns a database with the given number of loads of ten keys each, its
// MANIFEST's name and the tables of the last load. If closed is false, the database was not closed.
func closedAfterALoad(t testing.TB, loads int, closed bool) (im damage.Image, manifestName string, loaded []string) {
	t.Helper()
	mem := vfs.NewMem()
	d := storetest.MustOpen(t, &db.Options{FS: mem})
	require.NoError(t, d.Put([]byte("before"), []byte("v"), db.Sync))
	for i := range loads {
		before := fixture.Names(t, mem, base.FileTable)
		l := storetest.NewLoader(t, d)
		for k := range 10 {
			require.NoError(t, l.Put(fixture.Key(10*i+k), fixture.Value(10*i+k)))
		}
		require.NoError(t, l.Commit())
		loaded = nil
		for _, name := range fixture.Names(t, mem, base.FileTable) {
			if !strings.Contains(strings.Join(before, " "), name) {
				loaded = append(loaded, name)
			}
		}
	}
	if closed {
		require.NoError(t, d.Close())
		im = fixture.Image(t, mem)
	} else {
		require.NoError(t, storetest.StrayFilesWhenIdle(d, mem)) // otherwise the log before the load may still exist
		im = fixture.Image(t, mem)
		require.NoError(t, d.Close())
	}
	return im, strings.TrimSpace(string(im[base.CurrentName])), loaded
}

// damageStep is how many bytes are between the places at which a MANIFEST ends.
func damageStep() int {
	if testing.Short() {
		return 3
	}
	return 1
}

// The bug: a MANIFEST that had lost its end was accepted after a clean Close, although CLOSED
// vouched for more of it. A committed load was lost, and Open deleted its tables.
//
//make:gates
func TestAManifestThatLostItsEndAfterACleanCloseIsCorruption(t *testing.T) {
	im, name, _ := closedAfterALoad(t, 2, true)
	whole := im[name]
	for n := 0; n < len(whole); n += damageStep() {
		cut, zeroed := whole[:n], append(bytes.Clone(whole[:n]), make([]byte, len(whole)-n)...)
		partly := append(bytes.Clone(whole[:n]), make([]byte, (len(whole)-n+1)/2)...)
		for what, damaged := range map[string][]byte{"cut": cut, "zeroed": zeroed, "cut and zeroed": partly} {
			if bytes.Equal(damaged, whole) {
				continue // it ends with a zero
			}
			mem := fixture.ImageFS(t, im.With(name, damaged))
			for _, o := range []*db.Options{{FS: mem, ReadOnly: true}, {FS: mem}, {FS: mem, Salvage: db.SalvageAll}} {
				_, err := db.Open("db", o)
				require.ErrorIs(t, err, db.ErrCorruption, "%s at %d of %d", what, n, len(whole))
				require.Contains(t, err.Error(), name)
			}
			require.Equal(t, im.With(name, damaged), fixture.Image(t, mem), "nothing is changed")
		}
	}
}

// A repair of such a MANIFEST restores the tables of its lost edits.
func TestRepairRestoresTheTablesOfLostEdits(t *testing.T) {
	im, name, loaded := closedAfterALoad(t, 2, true)
	whole := im[name]
	ends := fixture.RecordEnds(whole)
	for n := ends[0]; n < len(whole); n++ {
		mem := fixture.ImageFS(t, im.With(name, whole[:n]))
		report := storetest.RepairWith(t, "db", &db.Options{FS: mem})
		require.False(t, report.Healthy)
		if n >= ends[len(ends)-2] {
			require.NotEqual(t, reports.FileUnused, storetest.FateOf(t, report, loaded[0]).Fate, "at %d", n)
		}
		d := storetest.Open(t, &db.Options{FS: mem})
		for k := range 20 {
			storetest.RequireValue(t, d, fixture.Key(k), fixture.Value(k))
		}
	}
}

// keptTable reports whether a table is unchanged in the directory or in lost/.
func keptTable(t testing.TB, fsys vfs.FS, name string, data []byte) bool {
	t.Helper()
	for _, path := range []string{filepath.Join("db", name), filepath.Join("db", manifest.LostDir, name)} {
		if _, err := fsys.Stat(path); err == nil {
			return bytes.Equal(data, fixture.ReadFile(t, fsys, path))
		}
	}
	return false
}

// If nothing vouches for the MANIFEST, one that lost its end may open without a committed load. The
// load's tables are not deleted.
//
//make:gates
func TestTablesOfAManifestThatLostItsEndAreNotDeleted(t *testing.T) {
	for _, closed := range []bool{false, true} {
		im, name, loaded := closedAfterALoad(t, 1, closed)
		im = im.With(base.ClosedName, nil)
		whole := im[name]
		opened := 0
		for n := 0; n < len(whole); n += damageStep() {
			for _, damaged := range [][]byte{
				whole[:n], append(bytes.Clone(whole[:n]), make([]byte, len(whole)-n)...), append(bytes.Clone(whole[:n]), 0),
			} {
				mem := fixture.ImageFS(t, im.With(name, damaged))
				for range 2 { // the second open has no doubt any more
					d, err := db.Open("db", &db.Options{FS: mem})
					if err != nil {
						require.ErrorIs(t, err, db.ErrCorruption)
						require.Equal(t, im.With(name, damaged), fixture.Image(t, mem))
						break
					}
					opened++
					require.NoError(t, d.Close())
					require.True(t, keptTable(t, mem, loaded[0], im[loaded[0]]), "at %d of %d", n, len(whole))
				}
			}
		}
		require.Greater(t, opened, 100/damageStep())
	}
}

// An Open that fails after it has moved tables to lost/ moves them back.
func TestAnOpenThatFailsMovesTablesBack(t *testing.T) {
	im, name, _ := closedAfterALoad(t, 1, false)
	im = im.With(name, im[name][:len(im[name])-3])
	failed := 0
	for n := uint64(0); ; n++ {
		mem := fixture.ImageFS(t, im)
		moved, over := false, false
		var ops uint64
		d, err := db.Open("db", &db.Options{FS: wrap.NewFaulty(mem, func(op wrap.Op) *wrap.Fault {
			moved = moved || op.Kind == wrap.OpRename && strings.Contains(op.NewName, manifest.LostDir)
			if moved && !over && op.NewName == "" { // renames move tables back, or replace CURRENT
				if ops++; ops == n+1 {
					return &wrap.Fault{}
				}
			}
			return nil
		})})
		over = true
		if err == nil {
			require.Len(t, d.OpenReport().TablesSetAside, 1)
			require.NoError(t, d.Close())
			if ops <= n {
				break
			}
			continue
		}
		if !bytes.Equal(fixture.ReadFile(t, mem, "db/CURRENT"), im[base.CurrentName]) {
			continue // it is uncertain whether the new MANIFEST is in force
		}
		require.Equal(t, im, fixture.Image(t, mem))
		failed++
	}
	require.Greater(t, failed, 3)
}

// The files that an ordinary kill leaves of a compaction or a flush are garbage, because an intact
// MANIFEST of SieveDB's leaves no doubt.
func TestFilesLeftByAnOrdinaryKillAreRemoved(t *testing.T) {
	im, name, loaded := closedAfterALoad(t, 1, false)
	table := im[loaded[0]]
	strays := []string{"000900.ldb", "000901.ldb", "000902.sst"}
	im = im.With(strays[0], table).With(strays[1], table[:len(table)/2]).With(strays[2], []byte{})
	mem := fixture.ImageFS(t, im)
	d := storetest.MustOpen(t, &db.Options{FS: mem})
	require.Empty(t, d.OpenReport().TablesSetAside)
	require.NoError(t, d.Close())
	for _, stray := range strays {
		require.False(t, keptTable(t, mem, stray, im[stray]), stray)
	}
	require.Error(t, result.Err(mem.Stat(filepath.Join("db", manifest.LostDir))))

	for what, doubtful := range map[string]damage.Image{
		"torn":               im.With(name, im[name][:len(im[name])-1]),
		"zeros at its end":   im.With(name, append(bytes.Clone(im[name]), 0)),
		"a damaged CLOSED":   im.With(base.ClosedName, []byte("sieveCLS")),
		"a newer MANIFEST":   im.With("MANIFEST-000800", im[name]),
		"a log is missing":   im.With(onlyLog(t, im), nil),
		"another's MANIFEST": im.With(name, foreignManifest(t, im[name])),
	} {
		mem := fixture.ImageFS(t, doubtful)
		d := storetest.MustOpen(t, &db.Options{FS: mem})
		require.GreaterOrEqual(t, len(d.OpenReport().TablesSetAside), len(strays), what)
		require.NoError(t, d.Close())
		for _, stray := range strays {
			require.True(t, keptTable(t, mem, stray, im[stray]), "%s: %s", what, stray)
		}
	}
}

func onlyLog(t testing.TB, im damage.Image) string {
	t.Helper()
	var logs []string
	for name := range im {
		if fixture.KindName(name) == "log" {
			logs = append(logs, name)
		}
	}
	require.Len(t, logs, 1)
	return logs[0]
}

// foreignManifest adds an edit before those of a MANIFEST, as LevelDB begins one: a snapshot without numbers.
func foreignManifest(t testing.TB, ours []byte) []byte {
	snapshot := &manifest.Edit{Comparer: base.Bytewise.Name}
	out := fixture.Log(t, snapshot.Encode(nil))
	return append(out, ours...)
}

// A table that an edit removed is deleted, even if the MANIFEST has lost its end.
func TestATableThatAnEditRemovedIsDeletedDespiteALostEnd(t *testing.T) {
	mem := vfs.NewMem()
	d := storetest.Open(t, &db.Options{FS: mem})
	require.NoError(t, d.Put([]byte("k"), []byte("v"), db.Sync))
	require.NoError(t, d.Flush())
	dead := fixture.Names(t, mem, base.FileTable)[0]
	data := fixture.ReadFile(t, mem, filepath.Join("db", dead))
	require.NoError(t, d.Put([]byte("k"), []byte("w"), db.Sync))
	require.NoError(t, d.Flush())
	require.NoError(t, d.Compact(t.Context(), nil, nil))
	require.NoError(t, storetest.StrayFilesWhenIdle(d, mem))
	im := fixture.Image(t, mem)
	require.NotContains(t, im, dead)
	name := strings.TrimSpace(string(im[base.CurrentName]))
	im = im.With(dead, data).With("000900.ldb", data).With(name, append(bytes.Clone(im[name]), 1, 2, 3))
	after := fixture.ImageFS(t, im)
	again := storetest.Open(t, &db.Options{FS: after})
	require.Equal(t, []string{filepath.Join(manifest.LostDir, "000900.ldb")}, again.OpenReport().TablesSetAside)
	require.False(t, keptTable(t, after, dead, data))
	storetest.RequireValue(t, again, []byte("k"), []byte("w"))
}

// The bug: CURRENT could name an older MANIFEST, of which a copy remained, although CLOSED vouched
// for a newer one. Open trusted CURRENT and removed the newer MANIFEST and its tables.
func TestACurrentThatNamesAnOlderManifestThanWasClosedIsCorruption(t *testing.T) {
	old, oldName, _ := closedAfterALoad(t, 1, true)
	mem := fixture.ImageFS(t, old)
	d := storetest.MustOpen(t, &db.Options{FS: mem})
	storetest.Fill(t, d, 100, 110)
	require.NoError(t, d.Flush())
	require.NoError(t, d.Close())
	im := fixture.Image(t, mem)
	name := strings.TrimSpace(string(im[base.CurrentName]))
	require.NotEqual(t, name, oldName)
	im = im.With(oldName, old[oldName]).With(base.CurrentName, old[base.CurrentName])
	for file, data := range old { // its log, too
		if _, there := im[file]; !there {
			im = im.With(file, data)
		}
	}
	mem = fixture.ImageFS(t, im)
	_, err := db.Open("db", &db.Options{FS: mem})
	require.ErrorIs(t, err, db.ErrCorruption)
	require.ErrorContains(t, err, oldName)
	require.ErrorContains(t, err, name)
	require.Equal(t, im, fixture.Image(t, mem))
	_ = storetest.RepairWith(t, "db", &db.Options{FS: mem})
	d = storetest.Open(t, &db.Options{FS: mem})
	for k := range 10 {
		storetest.RequireValue(t, d, fixture.Key(k), fixture.Value(k))
		storetest.RequireValue(t, d, fixture.Key(100+k), fixture.Value(100+k))
	}
}
