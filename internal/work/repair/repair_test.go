package repair_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/internal/test/storetest"
	"github.com/sievedb/sievedb/report"
	"github.com/sievedb/sievedb/vfs"
)

func TestRepairOfAHealthyDatabaseChangesNothing(t *testing.T) {
	files, model := storetest.Sample(t)
	got, rep, after := storetest.Repaired(t, files)
	require.True(t, rep.Healthy)
	require.Equal(t, model, got)
	files.RequireSame(t, after)
}

func TestRepairWithoutTheManifestLosesNothing(t *testing.T) {
	files, model := storetest.Sample(t)
	manifestName := files.Only(base.FileManifest)[0]
	cases := []struct {
		name     string
		damage   func(d fixture.Dir)
		readable bool // the MANIFEST can still be read as a whole
	}{
		{"CURRENT missing", func(d fixture.Dir) { delete(d, "CURRENT") }, true},
		{"CURRENT empty", func(d fixture.Dir) { d["CURRENT"] = []byte{} }, true},
		{"CURRENT doubled", func(d fixture.Dir) { d["CURRENT"] = append(d["CURRENT"], d["CURRENT"]...) }, true},
		{"CURRENT large and garbled", func(d fixture.Dir) { d["CURRENT"] = bytes.Repeat([]byte{7}, 5000) }, true},
		{"CURRENT names a missing MANIFEST", func(d fixture.Dir) { d["CURRENT"] = []byte("MANIFEST-999999\n") }, true},
		{"MANIFEST missing", func(d fixture.Dir) { delete(d, manifestName) }, false},
		{"MANIFEST and CURRENT missing", func(d fixture.Dir) { delete(d, manifestName); delete(d, "CURRENT") }, false},
		{"MANIFEST empty", func(d fixture.Dir) { d[manifestName] = []byte{} }, false},
		{"MANIFEST garbled", func(d fixture.Dir) { d[manifestName] = bytes.Repeat([]byte{0xa5, 1, 2}, 400) }, false},
		{"MANIFEST damaged in its first edit", func(d fixture.Dir) { d[manifestName][30] ^= 4 }, false},
		{"MANIFEST damaged in the middle", func(d fixture.Dir) { d[manifestName][len(d[manifestName])/2] ^= 4 }, false},
		{"another MANIFEST begun", func(d fixture.Dir) { delete(d, "CURRENT"); d["MANIFEST-900000"] = []byte{1, 2, 3} }, true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			d := files.Clone()
			c.damage(d)
			got, rep, after := storetest.Repaired(t, d)
			require.False(t, rep.Healthy)
			require.Equal(t, model, got)
			require.Equal(t, c.readable, rep.Manifest != "", "%s", rep)
			require.NotEmpty(t, rep.ManifestProblem)
			if c.readable {
				require.False(t, rep.MayResurrect)
				for name, level := range files.Live(t) {
					require.Equal(t, level, after.Live(t)[name], "levels are kept")
				}
			} else {
				require.True(t, rep.MayResurrect)
			}
		})
	}
}

// A MANIFEST may lose its end at any byte. The tables that it no longer lists are found all the same.
func TestRepairOfATruncatedManifestLosesNothing(t *testing.T) {
	files, model := storetest.Sample(t)
	name := files.Only(base.FileManifest)[0]
	step := 1 + len(files[name])/60
	for n := 0; n < len(files[name]); n += step {
		d := files.Clone()
		d[name] = d[name][:n]
		got, rep, _ := storetest.Repaired(t, d)
		require.Equal(t, model, got, "cut at %d:\n%s", n, rep)
	}
}

func TestRepairSalvagesTheOtherBlocksOfADamagedTable(t *testing.T) {
	files, model := storetest.Sample(t)
	tables := slices.DeleteFunc(slices.Sorted(maps.Keys(files.Live(t))), func(name string) bool {
		return len(files[name]) < 3<<10 // such a small table may have a single block, and then no other
	})
	require.NotEmpty(t, tables)
	for _, name := range tables {
		d := files.Clone()
		d[name][len(d[name])/3] ^= 0x40
		got, rep, _ := storetest.Repaired(t, d)
		line := storetest.FateOf(t, rep, name)
		require.Equal(t, report.FileRewritten, line.Fate)
		require.NotEmpty(t, line.Damage)
		require.Equal(t, name, line.LostName)
		requireWrittenAndFewLost(t, model, got, int(line.BlocksLost)*8)
	}
}

func requireWrittenAndFewLost(t *testing.T, model, got fixture.Contents, most int) {
	t.Helper()
	lost := 0
	for key, value := range model {
		if got[key] != value {
			lost++
		}
	}
	require.LessOrEqual(t, lost, most)
}

func TestRepairWithoutAMissingTableKeepsAllOthers(t *testing.T) {
	files, _ := storetest.Sample(t)
	for _, name := range slices.Sorted(maps.Keys(files.Live(t))) {
		d := files.Clone()
		delete(d, name)
		written := d.Versions(t)
		got, rep, _ := storetest.Repaired(t, d)
		require.Equal(t, report.FileMissing, storetest.FateOf(t, rep, name).Fate)
		require.Equal(t, written.Newest(), got, "the newest remaining versions")
	}
}

func TestRepairOfALogDamagedInTheMiddleKeepsTheRestOfIt(t *testing.T) {
	mem := vfs.NewMem()
	o := storetest.Options(mem)
	o.Memtables.Size = 1 << 20
	d := storetest.MustOpen(t, o)
	model := fixture.Contents{}
	for i := range 1000 {
		require.NoError(t, d.Put(fixture.Key(i), fixture.Value(i), db.NoSync))
		model[string(fixture.Key(i))] = string(fixture.Value(i))
	}
	require.NoError(t, d.Close())
	files := fixture.ReadDir(t, mem, "db")
	log := files.Only(base.FileLog)[0]
	files[log][len(files[log])/2] ^= 1
	_, err := db.Open("db", storetest.Options(files.FS(t)))
	require.ErrorIs(t, err, db.ErrCorruption, "Open refuses such a log")

	got, rep, _ := storetest.Repaired(t, files)
	require.Equal(t, len(model)-1, len(got), "one record is lost")
	for key, value := range got {
		require.Equal(t, model[key], value)
	}
	line := storetest.FateOf(t, rep, log)
	require.Equal(t, uint64(999), line.Entries)
	require.Positive(t, line.BytesLost)
	require.Less(t, line.BytesLost, uint64(300))
	require.NotEmpty(t, line.Damage)
}

func TestRepairOfLogsAloneRestoresAllTheirEntries(t *testing.T) {
	mem := vfs.NewMem()
	o := storetest.Options(mem)
	o.Memtables.Size = 1 << 20
	d := storetest.MustOpen(t, o)
	model := fixture.Contents{}
	for i := range 500 {
		require.NoError(t, d.Put(fixture.Key(i%200), fixture.Value(i), db.NoSync))
		model[string(fixture.Key(i%200))] = string(fixture.Value(i))
	}
	require.NoError(t, d.Delete(fixture.Key(7), nil))
	delete(model, string(fixture.Key(7)))
	require.NoError(t, d.Close())
	files := fixture.ReadDir(t, mem, "db")
	require.Empty(t, files.Tables())
	for _, name := range append(files.Only(base.FileManifest), "CURRENT", "CLOSED", "LOCK") {
		delete(files, name)
	}
	require.Len(t, files, 1)
	got, rep, _ := storetest.Repaired(t, files)
	require.Equal(t, model, got)
	require.Equal(t, uint64(501), rep.LastSequence)
}

// Every crash leaves a torn log. Open does not treat that as damage, but stricter readers do, so a repair leaves none.
func TestRepairDropsTheTornEndOfALog(t *testing.T) {
	files, model := storetest.Sample(t)
	log := files.Only(base.FileLog)[0]
	delete(files, base.ClosedName) // there was a crash
	files[log] = files[log][:len(files[log])-3]
	model[string(fixture.Key(3))] = fmt.Sprintf("value8.%0100d", 3) // the deletion was the last record
	require.Equal(t, model, storetest.ContentsOf(t, files.FS(t)))
	got, rep, after := storetest.Repaired(t, files)
	require.Equal(t, model, got)
	logs := after.Only(base.FileLog)
	require.Len(t, logs, 1)
	require.Empty(t, after[logs[0]])
	require.Positive(t, storetest.FateOf(t, rep, log).BytesLost)
}

func TestRepairReadsTablesUnderTheOldSuffix(t *testing.T) {
	files, model := storetest.Sample(t)
	for _, withManifest := range []bool{true, false} {
		d := files.Clone()
		for _, name := range d.Tables() {
			d[name[:len(name)-len("ldb")]+"sst"] = d[name]
			delete(d, name)
		}
		delete(d, "CURRENT")
		if !withManifest {
			delete(d, d.Only(base.FileManifest)[0])
		}
		got, rep, _ := storetest.Repaired(t, d)
		require.Equal(t, model, got, "%s", rep)
		require.Equal(t, withManifest, rep.Manifest != "")
	}
}

func TestARefusedRepairChangesNothing(t *testing.T) {
	files, _ := storetest.Sample(t)
	t.Run("a missing directory", func(t *testing.T) {
		mem := vfs.NewMem()
		require.ErrorIs(t, db.Repair("db", &db.Options{FS: mem}), fs.ErrNotExist)
		require.ErrorIs(t, result.Err(mem.Stat("db")), fs.ErrNotExist)
	})
	t.Run("an empty directory", func(t *testing.T) {
		mem := vfs.NewMem()
		require.NoError(t, mem.MkdirAll("db"))
		err := db.Repair("db", &db.Options{FS: mem})
		require.ErrorIs(t, err, fs.ErrNotExist)
		require.ErrorContains(t, err, "nothing to repair")
		require.Empty(t, fixture.ReadDir(t, mem, "db"))
	})
	t.Run("an open database", func(t *testing.T) {
		mem := files.FS(t)
		d := storetest.MustOpen(t, storetest.Options(mem))
		require.ErrorIs(t, db.Repair("db", storetest.Options(mem)), db.ErrLocked)
		require.NoError(t, d.Close())
		require.NoError(t, db.Repair("db", storetest.Options(mem)))
	})
	t.Run("a read-only repair", func(t *testing.T) {
		mem := files.FS(t)
		o := storetest.Options(mem)
		o.ReadOnly = true
		require.ErrorIs(t, db.Repair("db", o), db.ErrReadOnly)
		files.RequireSame(t, fixture.ReadDir(t, mem, "db"))
	})
	t.Run("another comparer than the MANIFEST names", func(t *testing.T) {
		o := storetest.Options(nil)
		o.Comparer = &db.Comparer{Name: "test.other", Compare: bytes.Compare}
		for _, damage := range []func(fixture.Dir){
			func(fixture.Dir) {},
			func(d fixture.Dir) { delete(d, "CURRENT") },
		} {
			d := files.Clone()
			damage(d)
			o.FS = d.FS(t)
			err := db.Repair("db", o)
			require.ErrorContains(t, err, `"leveldb.BytewiseComparator"`)
			require.ErrorContains(t, err, "Options.Comparer")
			require.NotErrorIs(t, err, db.ErrCorruption)
			d.RequireSame(t, fixture.ReadDir(t, o.FS, "db"))
		}
		d := files.Clone()
		delete(d, files.Only(base.FileManifest)[0])
		o.FS = d.FS(t)
		require.NoError(t, db.Repair("db", o), "without a MANIFEST the caller's comparer is accepted")
		store := storetest.MustOpen(t, o)
		require.NoError(t, store.Close())
	})
}

// The length of reads is bounded whatever the size of a table, and so is the memory.
func TestRepairReadsTablesInPieces(t *testing.T) {
	mem := vfs.NewMem()
	o := &db.Options{FS: mem, Memtables: db.MemtableOptions{Size: 8 << 20}, Tables: db.TableOptions{Compression: db.NoCompression}}
	d := storetest.MustOpen(t, o)
	value := bytes.Repeat([]byte{'v'}, 3000)
	for i := range 2000 {
		require.NoError(t, d.Put(fixture.Key(i), value, db.NoSync))
	}
	require.NoError(t, d.Flush())
	require.NoError(t, d.Close())
	files := fixture.ReadDir(t, mem, "db")
	table := files.Tables()[0]
	require.Greater(t, len(files[table]), 5<<20)
	for _, damage := range []int{1000, len(files[table]) - 3} {
		bad := files.Clone()
		bad[table][damage] ^= 1
		longest := 0
		o.FS = wrap.NewFaulty(bad.FS(t), func(op wrap.Op) *wrap.Fault {
			if op.Kind == wrap.OpRead {
				longest = max(longest, op.Length)
			}
			return nil
		})
		require.NoError(t, db.Repair("db", o))
		require.LessOrEqual(t, longest, 1<<20, "which opening a table reads at most")
	}
}

func TestRepairReportsAMissingLog(t *testing.T) {
	files, _ := storetest.Sample(t)
	log := files.Only(base.FileLog)[0]
	delete(files, log)
	want := files.Versions(t).Newest()
	got, rep, _ := storetest.Repaired(t, files)
	require.Equal(t, want, got)
	require.Equal(t, report.FileMissing, storetest.FateOf(t, rep, log).Fate)
}

func TestMain(m *testing.M) { os.Exit(fixture.Run(m)) }

// vanishing lists a table that another goroutine removes before Repair examines it.
type vanishing struct{ vfs.FS }

func (v vanishing) List(dir string) ([]string, error) {
	names, err := v.FS.List(dir)
	return append(names, "000099.ldb"), err
}

// The bug: Repair listed the directory of an open store, whose compactions remove tables, and failed
// with "file does not exist" for a table that was removed by then, instead of with ErrLocked.
func TestRepairOfAnOpenStoreReturnsErrLockedWhileTablesVanish(t *testing.T) {
	mem := vfs.NewMem()
	storetest.Open(t, storetest.Options(mem))
	require.ErrorIs(t, db.Repair("db", storetest.Options(vanishing{mem})), db.ErrLocked)
}
