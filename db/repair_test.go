package db

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/vfs"
)

func TestRepairOfAHealthyDatabaseChangesNothing(t *testing.T) {
	files, model := sampleStore(t)
	got, rep, after := files.repaired(t)
	require.True(t, rep.Healthy)
	require.Equal(t, model, got)
	requireSameFiles(t, files, after)
}

func TestRepairWithoutTheManifestLosesNothing(t *testing.T) {
	files, model := sampleStore(t)
	manifestName := files.only(base.FileManifest)[0]
	cases := []struct {
		name     string
		damage   func(d repairDir)
		readable bool // the MANIFEST can still be read as a whole
	}{
		{"CURRENT missing", func(d repairDir) { delete(d, "CURRENT") }, true},
		{"CURRENT empty", func(d repairDir) { d["CURRENT"] = []byte{} }, true},
		{"CURRENT doubled", func(d repairDir) { d["CURRENT"] = append(d["CURRENT"], d["CURRENT"]...) }, true},
		{"CURRENT large and garbled", func(d repairDir) { d["CURRENT"] = bytes.Repeat([]byte{7}, 5000) }, true},
		{"CURRENT names a missing MANIFEST", func(d repairDir) { d["CURRENT"] = []byte("MANIFEST-999999\n") }, true},
		{"MANIFEST missing", func(d repairDir) { delete(d, manifestName) }, false},
		{"MANIFEST and CURRENT missing", func(d repairDir) { delete(d, manifestName); delete(d, "CURRENT") }, false},
		{"MANIFEST empty", func(d repairDir) { d[manifestName] = []byte{} }, false},
		{"MANIFEST garbled", func(d repairDir) { d[manifestName] = bytes.Repeat([]byte{0xa5, 1, 2}, 400) }, false},
		{"MANIFEST damaged in its first edit", func(d repairDir) { d[manifestName][30] ^= 4 }, false},
		{"MANIFEST damaged in the middle", func(d repairDir) { d[manifestName][len(d[manifestName])/2] ^= 4 }, false},
		{"another MANIFEST begun", func(d repairDir) { delete(d, "CURRENT"); d["MANIFEST-900000"] = []byte{1, 2, 3} }, true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			d := files.clone()
			c.damage(d)
			got, rep, after := d.repaired(t)
			require.False(t, rep.Healthy)
			require.Equal(t, model, got)
			require.Equal(t, c.readable, rep.Manifest != "", "%s", rep)
			require.NotEmpty(t, rep.ManifestProblem)
			if c.readable {
				require.False(t, rep.MayResurrect)
				for name, level := range files.live(t) {
					require.Equal(t, level, after.live(t)[name], "levels are kept")
				}
			} else {
				require.True(t, rep.MayResurrect)
			}
		})
	}
}

// A MANIFEST may lose its end at any byte. The tables that it no longer lists are found all the same.
func TestRepairOfATruncatedManifestLosesNothing(t *testing.T) {
	files, model := sampleStore(t)
	name := files.only(base.FileManifest)[0]
	step := 1 + len(files[name])/60
	for n := 0; n < len(files[name]); n += step {
		d := files.clone()
		d[name] = d[name][:n]
		got, rep, _ := d.repaired(t)
		require.Equal(t, model, got, "cut at %d:\n%s", n, rep)
	}
}

func TestRepairSalvagesTheOtherBlocksOfADamagedTable(t *testing.T) {
	files, model := sampleStore(t)
	tables := slices.DeleteFunc(slices.Sorted(maps.Keys(files.live(t))), func(name string) bool {
		return len(files[name]) < 3<<10 // such a small table may have a single block, and then no other
	})
	require.NotEmpty(t, tables)
	for _, name := range tables {
		d := files.clone()
		d[name][len(d[name])/3] ^= 0x40
		got, rep, _ := d.repaired(t)
		line := fateOf(t, rep, name)
		require.Equal(t, FileRewritten, line.Fate)
		require.NotEmpty(t, line.Damage)
		require.Equal(t, name, line.LostName)
		requireWrittenAndFewLost(t, model, got, int(line.BlocksLost)*8)
	}
}

func requireWrittenAndFewLost(t *testing.T, model, got contents, most int) {
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
	files, _ := sampleStore(t)
	for _, name := range slices.Sorted(maps.Keys(files.live(t))) {
		d := files.clone()
		delete(d, name)
		written := d.versions(t)
		got, rep, _ := d.repaired(t)
		require.Equal(t, FileMissing, fateOf(t, rep, name).Fate)
		require.Equal(t, written.newest(), got, "the newest remaining versions")
	}
}

func TestRepairOfALogDamagedInTheMiddleKeepsTheRestOfIt(t *testing.T) {
	mem := vfs.NewMem()
	o := testOptions(mem)
	o.Memtables.Size = 1 << 20
	d := mustOpen(t, o)
	model := contents{}
	for i := range 1000 {
		require.NoError(t, d.Put(testKey(i), testValue(i), NoSync))
		model[string(testKey(i))] = string(testValue(i))
	}
	require.NoError(t, d.Close())
	files := readDir(t, mem, "db")
	log := files.only(base.FileLog)[0]
	files[log][len(files[log])/2] ^= 1
	_, err := Open("db", testOptions(files.fs(t)))
	require.ErrorIs(t, err, ErrCorruption, "Open refuses such a log")

	got, rep, _ := files.repaired(t)
	require.Equal(t, len(model)-1, len(got), "one record is lost")
	for key, value := range got {
		require.Equal(t, model[key], value)
	}
	line := fateOf(t, rep, log)
	require.Equal(t, uint64(999), line.Entries)
	require.Positive(t, line.BytesLost)
	require.Less(t, line.BytesLost, uint64(300))
	require.NotEmpty(t, line.Damage)
}

func TestRepairOfLogsAloneRestoresAllTheirEntries(t *testing.T) {
	mem := vfs.NewMem()
	o := testOptions(mem)
	o.Memtables.Size = 1 << 20
	d := mustOpen(t, o)
	model := contents{}
	for i := range 500 {
		require.NoError(t, d.Put(testKey(i%200), testValue(i), NoSync))
		model[string(testKey(i%200))] = string(testValue(i))
	}
	require.NoError(t, d.Delete(testKey(7), nil))
	delete(model, string(testKey(7)))
	require.NoError(t, d.Close())
	files := readDir(t, mem, "db")
	require.Empty(t, files.tables())
	for _, name := range append(files.only(base.FileManifest), "CURRENT", "CLOSED", "LOCK") {
		delete(files, name)
	}
	require.Len(t, files, 1)
	got, rep, _ := files.repaired(t)
	require.Equal(t, model, got)
	require.Equal(t, uint64(501), rep.LastSequence)
}

// Every crash leaves a torn log. Open does not treat that as damage, but stricter readers do, so a
// repair leaves none.
func TestRepairDropsTheTornEndOfALog(t *testing.T) {
	files, model := sampleStore(t)
	log := files.only(base.FileLog)[0]
	delete(files, base.ClosedName) // there was a crash
	files[log] = files[log][:len(files[log])-3]
	model[string(testKey(3))] = fmt.Sprintf("value8.%0100d", 3) // the deletion was the last record
	require.Equal(t, model, contentsOf(t, files.fs(t)))
	got, rep, after := files.repaired(t)
	require.Equal(t, model, got)
	logs := after.only(base.FileLog)
	require.Len(t, logs, 1)
	require.Empty(t, after[logs[0]])
	require.Positive(t, fateOf(t, rep, log).BytesLost)
}

func TestRepairReadsTablesUnderTheOldSuffix(t *testing.T) {
	files, model := sampleStore(t)
	for _, withManifest := range []bool{true, false} {
		d := files.clone()
		for _, name := range d.tables() {
			d[name[:len(name)-len("ldb")]+"sst"] = d[name]
			delete(d, name)
		}
		delete(d, "CURRENT")
		if !withManifest {
			delete(d, d.only(base.FileManifest)[0])
		}
		got, rep, _ := d.repaired(t)
		require.Equal(t, model, got, "%s", rep)
		require.Equal(t, withManifest, rep.Manifest != "")
	}
}

func TestARefusedRepairChangesNothing(t *testing.T) {
	files, _ := sampleStore(t)
	t.Run("a missing directory", func(t *testing.T) {
		mem := vfs.NewMem()
		require.ErrorIs(t, Repair("db", &Options{FS: mem}), fs.ErrNotExist)
		_, err := mem.Stat("db")
		require.ErrorIs(t, err, fs.ErrNotExist)
	})
	t.Run("an empty directory", func(t *testing.T) {
		mem := vfs.NewMem()
		require.NoError(t, mem.MkdirAll("db"))
		err := Repair("db", &Options{FS: mem})
		require.ErrorIs(t, err, fs.ErrNotExist)
		require.ErrorContains(t, err, "nothing to repair")
		require.Empty(t, readDir(t, mem, "db"))
	})
	t.Run("an open database", func(t *testing.T) {
		mem := files.fs(t)
		d := mustOpen(t, testOptions(mem))
		require.ErrorIs(t, Repair("db", testOptions(mem)), ErrLocked)
		require.NoError(t, d.Close())
		require.NoError(t, Repair("db", testOptions(mem)))
	})
	t.Run("a read-only repair", func(t *testing.T) {
		mem := files.fs(t)
		o := testOptions(mem)
		o.ReadOnly = true
		require.ErrorIs(t, Repair("db", o), ErrReadOnly)
		requireSameFiles(t, files, readDir(t, mem, "db"))
	})
	t.Run("another comparer than the MANIFEST names", func(t *testing.T) {
		o := testOptions(nil)
		o.Comparer = &Comparer{Name: "test.other", Compare: bytes.Compare}
		for _, damage := range []func(repairDir){
			func(repairDir) {},
			func(d repairDir) { delete(d, "CURRENT") },
		} {
			d := files.clone()
			damage(d)
			o.FS = d.fs(t)
			err := Repair("db", o)
			require.ErrorContains(t, err, `"leveldb.BytewiseComparator"`)
			require.ErrorContains(t, err, "Options.Comparer")
			require.NotErrorIs(t, err, ErrCorruption)
			requireSameFiles(t, d, readDir(t, o.FS, "db"))
		}
		d := files.clone()
		delete(d, files.only(base.FileManifest)[0])
		o.FS = d.fs(t)
		require.NoError(t, Repair("db", o), "without a MANIFEST the caller's comparer is accepted")
		db, err := Open("db", o)
		require.NoError(t, err)
		require.NoError(t, db.Close())
	})
}

// The length of reads is bounded whatever the size of a table, and so is the memory.
func TestRepairReadsTablesInPieces(t *testing.T) {
	mem := vfs.NewMem()
	o := &Options{FS: mem, Memtables: MemtableOptions{Size: 8 << 20}, Tables: TableOptions{Compression: NoCompression}}
	d := mustOpen(t, o)
	value := bytes.Repeat([]byte{'v'}, 3000)
	for i := range 2000 {
		require.NoError(t, d.Put(testKey(i), value, NoSync))
	}
	require.NoError(t, d.Flush())
	require.NoError(t, d.Close())
	files := readDir(t, mem, "db")
	table := files.tables()[0]
	require.Greater(t, len(files[table]), 5<<20)
	for _, damage := range []int{1000, len(files[table]) - 3} {
		bad := files.clone()
		bad[table][damage] ^= 1
		longest := 0
		o.FS = wrap.NewFaulty(bad.fs(t), func(op wrap.Op) *wrap.Fault {
			if op.Kind == wrap.OpRead {
				longest = max(longest, op.Length)
			}
			return nil
		})
		require.NoError(t, Repair("db", o))
		require.LessOrEqual(t, longest, 256<<10)
	}
}

func TestRepairReportsAMissingLog(t *testing.T) {
	files, _ := sampleStore(t)
	log := files.only(base.FileLog)[0]
	delete(files, log)
	want := files.versions(t).newest()
	got, rep, _ := files.repaired(t)
	require.Equal(t, want, got)
	require.Equal(t, FileMissing, fateOf(t, rep, log).Fate)
}
