package repair_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/wal"
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
	names, err := from.List("db")
	require.NoError(t, err)
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
		size, err := f.Size()
		require.NoError(t, err)
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
	names, err := fsys.List("db")
	require.NoError(t, err)
	for _, name := range names {
		path := filepath.Join("db", name)
		f, err := fsys.Open(path)
		require.NoError(t, err)
		switch kind, _, _ := base.ParseFileName(name); kind {
		case base.FileTable:
			_, err := sstable.Salvage(f, sstable.ReaderOptions{}, func(ikey, value []byte) error {
				_, kind := base.SplitTrailer(base.Trailer(ikey))
				add(kind, base.UserKey(ikey), value)
				return nil
			})
			require.NoError(t, err)
		case base.FileLog:
			size, err := f.Size()
			require.NoError(t, err)
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
	d, err := db.Open("db", &db.Options{FS: mem})
	require.NoError(t, err)
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
	_, err = db.Open("db", smallOptions(copied))
	require.ErrorIs(t, err, db.ErrCorruption)
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
