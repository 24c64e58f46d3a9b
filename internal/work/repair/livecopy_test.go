package repair_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/wal"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/internal/test/storetest"
	"github.com/sievedb/sievedb/internal/work/repair"
	"github.com/sievedb/sievedb/sstable"
	"github.com/sievedb/sievedb/vfs"
)

// smallOptions lead to many small tables.
func smallOptions(fsys vfs.FS) *db.Options {
	return &db.Options{
		FS: fsys, Memtables: db.MemtableOptions{Size: 4 << 10}, Tables: db.TableOptions{Size: 4 << 10, BlockSize: 512},
		Compaction: db.CompactionOptions{MaxLevelBase: 16 << 10, L0Trigger: 2, MaxConcurrent: 1},
	}
}

// copyByName copies the files of the directory "db" as cp, tar and rsync do: it lists the names, and copies
// file by file in their order. before is called before each file, which it may remove.
func copyByName(t testing.TB, from vfs.FS, before func(name string)) *vfs.Mem {
	t.Helper()
	names := result.Of(from.List("db"))(t)
	slices.Sort(names)
	to := vfs.NewMem()
	require.NoError(t, vfs.MkdirAllSynced(to, "db"))
	for _, name := range names {
		before(name)
		path := filepath.Join("db", name)
		info, err := from.Stat(path)
		if err != nil || info.IsDir() || name == base.LockName {
			continue
		}
		f, err := from.Open(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // just removed
		}
		require.NoError(t, err)
		size := result.Of(f.Size())(t)
		require.NoError(t, vfs.Copy(to, f, size, path))
		require.NoError(t, f.Close())
	}
	return to
}

// written is what the files of a directory have of each key: whether any entry sets it, and the greatest value.
func written(t testing.TB, fsys vfs.FS) map[string]string {
	t.Helper()
	all := map[string]string{}
	add := func(kind base.Kind, key, value []byte) {
		if kind == base.KindSet {
			all[string(key)] = max(all[string(key)], string(value))
		}
	}
	names := result.Of(fsys.List("db"))(t)
	for _, name := range names {
		path := filepath.Join("db", name)
		f := result.Of(fsys.Open(path))(t)
		switch kind, _, _ := base.ParseFileName(name); kind {
		case base.FileTable:
			_, err := sstable.Salvage(f, sstable.ReaderOptions{}, func(ikey, value []byte) error {
				_, kind := base.SplitTrailer(base.Trailer(ikey))
				add(kind, base.UserKey(ikey), value)
				return nil
			})
			require.NoError(t, err)
		case base.FileLog:
			size := result.Of(f.Size())(t)
			log := wal.NewReader(f, size, wal.ReaderOptions{Last: true})
			for record, err := log.Next(); err != io.EOF; record, err = log.Next() {
				require.NoError(t, err)
				require.NoError(t, repair.EachEntry(record, func(_ uint64, kind base.Kind, key, value []byte) error {
					add(kind, key, value)
					return nil
				}))
			}
		}
		require.NoError(t, f.Close())
	}
	return all
}

func repaired(t testing.TB, fsys vfs.FS) *db.RepairReport {
	t.Helper()
	report := storetest.RepairWith(t, "db", smallOptions(fsys))
	again := storetest.RepairWith(t, "db", smallOptions(fsys))
	require.True(t, again.Healthy, "%s\n%s", report, again)
	return report
}

func key(i int) []byte { return fmt.Appendf(nil, "k%05d", i) }

// The bug: a copy whose tables were copied before a compaction, and its MANIFEST afterwards, was emptied by
// Repair. All tables that the MANIFEST names are missing, and Repair moved the others to lost/.
func TestRepairKeepsTablesThatAMissingOneReplaced(t *testing.T) {
	mem := vfs.NewMem()
	d := result.Of(db.Open("db", &db.Options{FS: mem}))(t)
	defer d.Close()
	for i := range 1000 {
		require.NoError(t, d.Put(key(i), key(i), db.NoSync))
		if i%250 == 249 {
			require.NoError(t, d.Flush())
		}
	}
	compacted := false
	copied := copyByName(t, mem, func(name string) {
		if !compacted && name == base.CurrentName {
			require.NoError(t, d.Compact(t.Context(), nil, nil))
			compacted = true
		}
	})
	require.True(t, compacted)
	require.ErrorIs(t, result.Err(db.Open("db", smallOptions(copied))), db.ErrCorruption)
	report := repaired(t, copied)
	require.Len(t, storetest.ContentsOf(t, copied), 1000)
	require.True(t, report.MayResurrect)
	require.EqualValues(t, 1000, report.EntriesFilled)
	require.Contains(t, report.String(), "deleted keys")
}

// Every key that a file of a copy has is there after a repair, unless the database had deleted it. So
// Repair never returns fewer keys than a repair that ignores the MANIFEST.
func TestRepairOfALiveCopyKeepsEveryKeyOfItsFiles(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	runs := 60
	if testing.Short() {
		runs = 15
	}
	filled, old, keys := 0, 0, 0
	for run := range runs {
		rnd := rand.New(rand.NewPCG(seed, uint64(run)))
		mem := vfs.NewMem()
		d := storetest.MustOpen(t, smallOptions(mem))
		deleted := map[string]bool{}
		generation := 0
		step := func(n int) {
			for range n {
				k := key(rnd.IntN(400))
				if rnd.IntN(8) == 0 && k[len(k)-1] < '4' {
					require.NoError(t, d.Delete(k, db.NoSync))
					deleted[string(k)] = true
					continue
				}
				generation++
				require.NoError(t, d.Put(k, fmt.Appendf(nil, "%08d%032d", generation, 0), db.NoSync))
			}
			switch rnd.IntN(12) {
			case 0:
				require.NoError(t, d.Flush())
			case 1:
				first := key(rnd.IntN(400))
				require.NoError(t, d.Compact(t.Context(), first, append(first, 'z')))
			case 2:
				require.NoError(t, d.Compact(t.Context(), nil, nil))
			}
		}
		for range 10 + rnd.IntN(20) {
			step(60)
		}
		pace := 1 + rnd.IntN(60)
		copied := copyByName(t, mem, func(string) { step(rnd.IntN(pace)) })
		require.NoError(t, d.Close())
		want := written(t, copied)
		report := repaired(t, copied)
		if report.EntriesFilled > 0 {
			filled++
		}
		got := storetest.ContentsOf(t, copied)
		for k, v := range want {
			if !deleted[k] {
				require.Contains(t, got, k, "run %d: %s", run, report)
				if got[k] != v { // sequence numbers of the files that fill a range may be 0, and then nothing tells which is newer
					require.Less(t, got[k], v, "run %d: %s", run, report)
					require.True(t, report.MayResurrect, "run %d: %s", run, report)
					old++
				}
				keys++
			}
		}
	}
	require.Less(t, old, keys/10, "of %d keys", keys)
	t.Logf("%d of %d copies had gaps; %d of %d keys have older values", filled, runs, old, keys)
}

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
	require.ErrorContains(t, result.Err(db.Open("db", smallOptions(mem))), "are missing")
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

// crashesInACommit returns the directory as a crash would leave it before and after the renames that give a load's
// tables their names, one by one, and the acknowledged contents. Every entry of the load would hide or add one.
func crashesInACommit(t *testing.T, valueSize int) (states []fixture.Dir, model fixture.Contents) {
	t.Helper()
	mem := vfs.NewMem()
	o := storetest.Options(wrap.NewFaulty(mem, func(op wrap.Op) *wrap.Fault {
		switch op.Kind {
		case wrap.OpRename: // only the goroutine of the test renames tables
			if kind, _, _ := base.ParseFileName(filepath.Base(op.NewName)); kind == base.FileTable {
				states = append(states, fixture.ReadDir(t, mem, "db"))
			}
		case wrap.OpSyncDir: // after the last rename
			if n := len(states); n > 0 && len(states[n-1].Only(base.FileTemp)) == 1 {
				states = append(states, fixture.ReadDir(t, mem, "db"))
			}
		}
		return nil
	}))
	o.Tables.Compression, o.Compaction.L0Trigger = db.NoCompression, 100
	d := storetest.Open(t, o)
	model = fixture.Contents{}
	write := func(i int, value string) {
		require.NoError(t, d.Put(fixture.Key(i), []byte(value), db.NoSync))
		model[string(fixture.Key(i))] = value
	}
	for i := range 100 {
		write(2*i, "flushed")
	}
	require.NoError(t, d.Flush())
	l := storetest.NewLoader(t, d)
	for i := range 60_000 / valueSize {
		require.NoError(t, l.Put(fixture.Key(i), fmt.Appendf(nil, "loaded %0*d", valueSize, i)))
	}
	for i := range 10 {
		write(3*i, "written during the load")
	}
	require.NoError(t, l.Commit())
	require.Greater(t, len(states), 3)
	require.Empty(t, states[len(states)-1].Only(base.FileTemp))
	return states, model
}

// The bug: if a Commit was interrupted, a repair used the tables of the load that already had their names, because they
// have the latest entries of all. But a load must be there as a whole or not at all.
func TestRepairRestoresNoPartOfAnUncommittedLoad(t *testing.T) {
	damages := map[string]func(t *testing.T, d fixture.Dir){
		"a crash alone":  func(*testing.T, fixture.Dir) {},
		"CURRENT lost":   func(_ *testing.T, d fixture.Dir) { delete(d, base.CurrentName) },
		"a table broken": func(t *testing.T, d fixture.Dir) { breakIndex(t, d) },
	}
	for _, valueSize := range []int{100, 10 << 10} { // many entries per table, and one
		states, model := crashesInACommit(t, valueSize)
		for name, damage := range damages {
			t.Run(fmt.Sprintf("%s, values of %d bytes", name, valueSize), func(t *testing.T) {
				for named, state := range states {
					d := state.Clone()
					damage(t, d)
					c, rep, _ := storetest.Repaired(t, d)
					require.Equal(t, model, c, "%d tables have their names:\n%s", named, rep)
					require.False(t, rep.MayResurrect, "%s", rep)
				}
			})
		}
	}
}

// breakIndex damages the index of each live table. The data blocks can still be read.
func breakIndex(t *testing.T, d fixture.Dir) {
	t.Helper()
	for name := range d.Live(t) {
		d[name][len(d[name])-60] ^= 1
	}
}

// If the MANIFEST has lost its end, a lost edit may have committed a load.
func TestRepairRestoresALoadThatALostEditMayHaveCommitted(t *testing.T) {
	table := fixture.Table(t, fixture.Put("a", 1<<32, "loaded"), fixture.Put("b", 1<<32, "loaded"))
	for name, damage := range map[string]func(d fixture.Dir){
		"the last edit cut off": func(d fixture.Dir) { d["MANIFEST-000002"] = append(d["MANIFEST-000002"], 1, 2, 3) },
		"the log missing":       func(d fixture.Dir) { delete(d, "000006.log") },
		"the MANIFEST missing":  func(d fixture.Dir) { delete(d, "MANIFEST-000002") },
		"and a compaction was interrupted": func(d fixture.Dir) {
			d["MANIFEST-000002"] = append(d["MANIFEST-000002"], 1, 2, 3)
			d["000007.ldb"] = fixture.Table(t, fixture.Put("a", 3, "old"))
		},
		"and an index damaged": func(d fixture.Dir) {
			d["MANIFEST-000002"] = append(d["MANIFEST-000002"], 1, 2, 3)
			table := slices.Clone(d["000008.ldb"])
			table[len(table)-60] ^= 1
			d["000008.ldb"] = table
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := fixture.Dir{"000005.ldb": fixture.Table(t, fixture.Put("a", 3, "old")), "000008.ldb": table}
			d.AddManifest(t, 2, d.Edit(t, 6, 3, map[uint64]int{5: 2}))
			damage(d)
			got, rep, _ := storetest.Repaired(t, d)
			require.Equal(t, fixture.Contents{"a": "loaded", "b": "loaded"}, got, "%s", rep)
		})
	}
}

// The bug: if a crash cut off the edit of a deletion, a repair used its tombstones, but not that it removed a table.
func TestRepairUsesNoPartOfAChangeWhoseEditIsCutOff(t *testing.T) {
	for name, tables := range map[string][2][]byte{
		"a deletion of a range": {fixture.Table(t, fixture.Del("b", 1<<20)), fixture.Table(t, fixture.Put("d", 1<<20+2, "own"))},
		"an ingest":             {fixture.Table(t, fixture.Put("b", 1<<28, "new")), fixture.Table(t, fixture.Put("d", 1<<40, "of another store"))},
	} {
		t.Run(name, func(t *testing.T) {
			d := fixture.Dir{
				"000004.ldb": fixture.Table(t, fixture.Put("a", 2, "removed")), "000005.ldb": fixture.Table(t, fixture.Put("b", 3, "old")),
				"000008.ldb": tables[0], "000009.ldb": tables[1],
			}
			d.AddManifest(t, 2, d.Edit(t, 6, 3, map[uint64]int{4: 2, 5: 2}))
			d["MANIFEST-000002"] = append(d["MANIFEST-000002"], 1, 2, 3)
			got, rep, _ := storetest.Repaired(t, d)
			require.Equal(t, fixture.Contents{"a": "removed", "b": "old"}, got, "%s", rep)
			require.False(t, rep.Incomplete, "%s", rep)
			d["000006.log"] = append(fixture.Log(t, fixture.Batch(4, "v", "k")), 1, 2, 3, 4, 5, 6, 7, 8, 9)
			got, rep, _ = storetest.Repaired(t, d) // a table may have what the log has lost
			delete(got, "k")
			require.True(t, rep.MayResurrect || maps.Equal(got, fixture.Contents{"a": "removed", "b": "old"}), "%s", rep)
		})
	}
}
