package repair_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/storetest"
	"github.com/sievedb/sievedb/vfs"
)

// restored has the files of a database at two moments, and its content at the second.
type restored struct {
	old, new fixture.Dir
	model    map[string]string
}

// makeRestored makes a database, and continues it after an old moment. later is the part of the second.
func makeRestored(t testing.TB, later func(d *db.DB, put func(from, to int))) restored {
	t.Helper()
	mem, r := vfs.NewMem(), restored{model: map[string]string{}}
	generation := 0
	session := func(use func(d *db.DB, put func(from, to int))) {
		d := storetest.MustOpen(t, smallOptions(mem))
		use(d, func(from, to int) {
			for i := from; i < to; i++ {
				generation++
				value := fmt.Sprintf("%010d", generation)
				require.NoError(t, d.Put(key(i), []byte(value), db.NoSync))
				r.model[string(key(i))] = value
			}
		})
		require.NoError(t, d.Close())
	}
	session(func(_ *db.DB, put func(from, to int)) { put(0, 800) })
	r.old = fixture.ReadDir(t, mem, "db")
	session(later)
	r.new = fixture.ReadDir(t, mem, "db")
	return r
}

// The bug: if old files were copied over newer ones, CURRENT named an old MANIFEST although the newer one and
// all its files were there. Repair used the old one, and left out the tables with the missing operations.
func TestRepairUsesTheNewerMANIFESTAfterAPartialRestore(t *testing.T) {
	for name, later := range map[string]func(d *db.DB, put func(from, to int)){
		"operations in a log": func(_ *db.DB, put func(from, to int)) { put(600, 650) },
		"flushed": func(d *db.DB, put func(from, to int)) {
			put(600, 900)
			require.NoError(t, d.Flush())
			put(100, 130)
		},
		"compacted": func(d *db.DB, put func(from, to int)) {
			put(0, 900)
			require.NoError(t, d.Compact(t.Context(), nil, nil))
			put(100, 130)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := makeRestored(t, later)
			mem := r.new.With(r.old).FS(t)
			report := repaired(t, mem)
			require.Equal(t, r.model, storetest.ContentsOf(t, mem), "%s", report)
			require.False(t, report.MayResurrect, "%s", report)
			require.NotContains(t, r.old, report.Manifest)
		})
	}
}

// With the newer MANIFEST gone, tables that the old one does not name have the missing operations.
func TestRepairUsesUnnamedTablesIfOperationsAreMissing(t *testing.T) {
	r := makeRestored(t, func(d *db.DB, put func(from, to int)) {
		put(600, 900)
		require.NoError(t, d.Flush())
		put(100, 130)
	})
	mem := r.new.Without(base.FileManifest).With(r.old).FS(t)
	_, err := db.Open("db", smallOptions(mem))
	require.ErrorContains(t, err, "are missing")
	report := repaired(t, mem)
	require.True(t, report.MayResurrect)
	got := storetest.ContentsOf(t, mem)
	require.Len(t, got, len(r.model), "%s", report)
	for k := 800; k < 900; k++ { // keys that no old file has; others may have an old value
		require.Equal(t, r.model[string(key(k))], got[string(key(k))])
	}
	for k := 100; k < 130; k++ {
		require.Equal(t, r.model[string(key(k))], got[string(key(k))], "the newest operations")
	}
}

// A MANIFEST that was begun and never in force is newer than the one that CURRENT names, and complete. It lacks
// the edits that came after it.
func TestRepairIgnoresANewerMANIFESTThatWasNeverInForce(t *testing.T) {
	mem := vfs.NewMem()
	d := storetest.MustOpen(t, smallOptions(mem))
	require.NoError(t, d.Put([]byte("a"), []byte("1"), nil))
	require.NoError(t, d.Close())
	files := fixture.ReadDir(t, mem, "db")
	files[base.FileName(base.FileManifest, 900)] = files[files.Only(base.FileManifest)[0]]
	healthy := files.FS(t)
	report := storetest.RepairWith(t, "db", smallOptions(healthy))
	require.True(t, report.Healthy, "%s", report)
	require.Equal(t, map[string]string{"a": "1"}, storetest.ContentsOf(t, healthy))
}
