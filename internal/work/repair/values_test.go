package repair_test

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/internal/test/storetest"
	"github.com/sievedb/sievedb/report"
	"github.com/sievedb/sievedb/vfs"
)

// separatedDir returns a closed database whose values of 100 bytes and more are apart, after overwrites, deletions and
// collections, with its content.
func separatedDir(t *testing.T) (fixture.Dir, fixture.Contents) {
	t.Helper()
	fs := vfs.NewMem()
	o := storetest.Options(fs)
	o.Tables.SeparateValues, o.Memtables.Size, o.Compaction.MaxLevelBase, o.Tables.Size = 100, 32<<10, 32<<10, 32<<10
	d := storetest.MustOpen(t, o)
	want := fixture.Contents{}
	for n := range 2500 {
		i := n * 7919 % 400
		if key := fixture.Key(i); n%11 == 0 {
			require.NoError(t, d.Delete(key, nil))
			delete(want, string(key))
		} else {
			value := bytes.Repeat(fmt.Appendf(nil, "%d.%d ", i, n), 1+n%5*20)
			require.NoError(t, d.Put(key, value, nil))
			want[string(key)] = string(value)
		}
	}
	require.NoError(t, d.Flush())
	storetest.Settle(t, d)
	require.NotZero(t, d.Metrics().Tables.ValueTables)
	require.NoError(t, d.Close())
	return fixture.ReadDir(t, fs, "db"), want
}

func TestRepairKeepsValueTables(t *testing.T) {
	dir, want := separatedDir(t)
	got, rep, after := storetest.Repaired(t, maps.Clone(dir))
	require.True(t, rep.Healthy, "%v", rep)
	require.Equal(t, want, got)
	require.Equal(t, dir.Only(base.FileValues), after.Only(base.FileValues))
	t.Run("without a MANIFEST", func(t *testing.T) {
		dir := dir.WithoutManifest()
		got, rep, after := storetest.Repaired(t, dir)
		require.Zero(t, rep.ValuesLost, "%v", rep)
		require.Equal(t, want, got)
		storetest.RequireNothingDeleted(t, dir, rep, after)
	})
}

// The bug: a value table did not say its ID, which was the number in its name. After a check of a file system the names
// are others.
func TestRepairFindsValuesInTablesWithOtherNames(t *testing.T) {
	dir, want := separatedDir(t)
	exchanged, renamed, allTables := maps.Clone(dir), maps.Clone(dir), maps.Clone(dir)
	allValues, shared := maps.Clone(dir), maps.Clone(dir)
	names := dir.Only(base.FileValues)
	_, num, _ := base.ParseFileName(dir.Only(base.FileTable)[0])
	shared[base.FileName(base.FileValues, num)] = dir[names[0]]
	delete(shared, names[0])
	for i, name := range names {
		exchanged[name] = dir[names[(i+1)%len(names)]]
	}
	for i, name := range append(dir.Only(base.FileTable), names...) {
		kind, _, _ := base.ParseFileName(name)
		named := map[base.FileKind]fixture.Dir{kind: renamed, base.FileTable: allTables, base.FileValues: allValues}
		for kind, to := range named {
			delete(to, name)
			to[base.FileName(kind, uint64(100_000-i))] = dir[name]
		}
	}
	for name, dir := range map[string]fixture.Dir{"exchanged": exchanged, "renamed": renamed, "named as tables": allTables,
		"named as value tables": allValues, "numbered as a table": shared} {
		for _, manifest := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, MANIFEST %t", name, manifest), func(t *testing.T) {
				if !manifest {
					dir = dir.WithoutManifest()
				}
				got, rep, _ := storetest.Repaired(t, dir)
				require.Zero(t, rep.ValuesLost, "%v", rep)
				require.Equal(t, want, got)
			})
		}
	}
}

// Tables that compactions replaced, as after a crash, bring nothing back.
func TestRepairOfASoundDatabaseFillsNothing(t *testing.T) {
	dir, want := separatedDir(t)
	stray := maps.Clone(dir)
	n := 0
	for _, name := range dir.Only(base.FileValues) {
		_, num, _ := base.ParseFileName(name)
		stray[base.FileName(base.FileValues, num+100_000)] = dir[name]
		n++
	}
	require.NotZero(t, n)
	got, rep, _ := storetest.Repaired(t, stray)
	require.False(t, rep.MayResurrect, "%v", rep)
	require.Zero(t, rep.EntriesFilled)
	require.Equal(t, want, got)
}

func TestRepairFindsValuesWhoseTableIsDamagedElsewhere(t *testing.T) {
	dir, want := separatedDir(t)
	names := dir.Only(base.FileValues)
	largest := slices.MaxFunc(names, func(a, b string) int { return len(dir[a]) - len(dir[b]) })
	for at := 1; at < 400; at += 7 { // in the footer, the index and the filter
		dir := dir.Flip(largest, -at)
		got, rep, after := storetest.Repaired(t, dir)
		require.Zero(t, rep.ValuesLost, "byte %d from the end: %v", at, rep)
		require.Equal(t, want, got)
		storetest.RequireNothingDeleted(t, dir, rep, after)
	}
}

// valueFates returns what becomes of each value table.
func valueFates(rep *db.RepairReport) map[string]report.FileFate {
	fates := map[string]report.FileFate{}
	for _, f := range rep.Files {
		if strings.HasSuffix(f.Name, ".values") {
			fates[f.Name] = f.Fate
		}
	}
	return fates
}

// flipInUse flips a bit of a value to which a table refers. Which those are depends on how far the compactions came.
func flipInUse(t *testing.T, dir fixture.Dir, name string) {
	t.Helper()
	sound := dir[name]
	for at := len(sound) / 4; at < len(sound)*3/4; at += 30 {
		dir[name] = slices.Clone(sound)
		dir[name][at] ^= 1
		planned := result.Of(db.PlanRepair("db", storetest.Options(dir.FS(t))))(t)
		if planned.ValuesLost > 0 {
			return
		}
	}
	require.Fail(t, "no value of the table is in use")
}

func TestRepairLosesOnlyTheValuesThatAreDamaged(t *testing.T) {
	dir, want := separatedDir(t)
	names := dir.Only(base.FileValues)
	for _, how := range []string{"missing", "a flipped bit", "cut off"} {
		t.Run(how, func(t *testing.T) {
			dir := maps.Clone(dir)
			largest := slices.MaxFunc(names, func(a, b string) int { return len(dir[a]) - len(dir[b]) })
			switch how {
			case "missing":
				delete(dir, largest)
			case "a flipped bit":
				flipInUse(t, dir, largest)
			default:
				dir[largest] = dir[largest][:len(dir[largest])/2]
			}
			planned := result.Of(db.PlanRepair("db", storetest.Options(dir.FS(t))))(t)
			got, rep, after := storetest.Repaired(t, maps.Clone(dir))
			require.NotZero(t, rep.ValuesLost, "%v", rep)
			require.Equal(t, rep.ValuesLost, planned.ValuesLost)
			require.Equal(t, rep.Ranges, planned.Ranges)
			require.NotEmpty(t, rep.Ranges)
			require.True(t, planned.Incomplete)
			require.Equal(t, valueFates(rep), valueFates(planned))
			require.Contains(t, rep.String(), "values are lost")
			require.True(t, rep.Incomplete)
			require.Contains(t, rep.String(), "whose values are lost")
			for key, value := range got {
				i := 0
				require.NoError(t, result.Err(fmt.Sscanf(key, "key%06d", &i)))
				require.True(t, strings.HasPrefix(value, fmt.Sprintf("%d.", i)), "only values of the key itself, possibly older ones")
			}
			lost := 0
			for key, value := range want {
				if got[key] != value {
					lost++
				}
			}
			require.LessOrEqual(t, uint64(lost), rep.ValuesLost)
			if how == "a flipped bit" { // perhaps in a value that a newer one hides: that depends on the compactions
				require.EqualValues(t, 1, rep.ValuesLost)
			} else {
				require.NotZero(t, lost)
			}
			storetest.RequireNothingDeleted(t, dir, rep, after)
			again, rep, _ := storetest.Repaired(t, after)
			require.True(t, rep.Healthy, "%v", rep)
			require.Equal(t, got, again)
		})
	}
}

// What a table says about its references, and what the MANIFEST counts, is found out again from the entries.
func TestRepairCountsReferencesAgain(t *testing.T) {
	dir, want := separatedDir(t)
	for _, kind := range []base.FileKind{base.FileTable, base.FileManifest} {
		for _, name := range dir.Only(kind) {
			for at := 1; at < min(500, len(dir[name])); at += 11 {
				mem := dir.Flip(name, -at).FS(t)
				rep := storetest.MustRepair(t, mem)
				require.Zero(t, rep.ValuesLost, "%s, byte %d from the end: %v", name, at, rep)
				require.Equal(t, want, storetest.ContentsOf(t, mem), "%s, byte %d from the end: %v", name, at, rep)
				d := storetest.MustOpen(t, storetest.Options(mem))
				storetest.RequireNoFaults(t, d)
				require.NoError(t, d.Close())
			}
		}
	}
}

// loadedTwice returns a database in which the values of two IDs have the same keys, lengths and sequence number: 0,
// since they were loaded before they were separated. The first value table has an older value of "k", and other values
// live in it; the second has the value of "k".
func loadedTwice(t *testing.T) (dir fixture.Dir, older, newer string) {
	t.Helper()
	fs := vfs.NewMem()
	o := storetest.Options(fs)
	o.Tables.SeparateValues = 100
	d := storetest.MustOpen(t, o)
	load := func(value string, keys ...string) {
		l := storetest.NewLoader(t, d)
		for _, key := range keys {
			require.NoError(t, l.Put([]byte(key), bytes.Repeat([]byte(value), 500)))
		}
		require.NoError(t, l.Commit())
		require.NoError(t, d.Compact(t.Context(), nil, nil))
	}
	load("older", "a", "b", "c", "d", "e", "k")
	load("newer", "k")
	require.NoError(t, d.Close())
	dir = fixture.ReadDir(t, fs, "db")
	names := dir.Only(base.FileValues)
	require.Len(t, names, 2)
	return dir, names[0], names[1]
}

// A value of the same key, number and length under another ID is not the value that was lost.
func TestRepairTakesNoValueOfAnotherID(t *testing.T) {
	dir, older, newer := loadedTwice(t)
	want := bytes.Repeat([]byte("older"), 500)
	t.Run("a sound table has it", func(t *testing.T) {
		dir := dir.Flip(newer, 20)
		got, rep, _ := storetest.Repaired(t, dir)
		require.EqualValues(t, 1, rep.ValuesLost, "%v", rep)
		require.NotContains(t, got, "k")
		require.Equal(t, string(want), got["a"])
		require.True(t, rep.Incomplete)
	})
	t.Run("a damaged table has it", func(t *testing.T) {
		dir := dir.Flip(newer, 20).Flip(older, 20)
		got, rep, _ := storetest.Repaired(t, dir)
		require.EqualValues(t, 2, rep.ValuesLost, "%v", rep)
		require.NotContains(t, got, "k")
		require.NotContains(t, got, "a")
		require.Equal(t, string(want), got["b"])
		require.False(t, rep.MayResurrect)
	})
	t.Run("nothing says whose they are", func(t *testing.T) {
		dir := dir.Flip(newer, 20).Flip(older, -5).WithoutManifest()
		got, rep, _ := storetest.Repaired(t, dir)
		require.Equal(t, string(want), got["a"])
		require.True(t, rep.MayResurrect, "%v", rep)
		require.Contains(t, rep.String(), "whose values a damaged value table has, is not known")
	})
}

// apart returns a closed database with 100 keys whose values are apart, and its content.
func apart(t *testing.T) (fixture.Dir, fixture.Contents) {
	t.Helper()
	mem := vfs.NewMem()
	o := storetest.Options(mem)
	o.Tables.SeparateValues = 100
	d := storetest.MustOpen(t, o)
	want := fixture.Contents{}
	for round := range 2 {
		for i := range 100 {
			value := bytes.Repeat([]byte{'a' + byte(round)}, 150+i)
			require.NoError(t, d.Put(fixture.Key(i), value, nil))
			want[string(fixture.Key(i))] = string(value)
		}
		require.NoError(t, d.Flush())
	}
	require.NoError(t, d.Compact(t.Context(), nil, nil)) // references get sequence number 0
	require.NoError(t, d.Put(fixture.Key(0), []byte("small"), nil))
	require.NoError(t, d.Delete(fixture.Key(1), nil))
	want[string(fixture.Key(0))] = "small"
	delete(want, string(fixture.Key(1)))
	require.NoError(t, d.Flush())
	require.NoError(t, d.Close())
	return fixture.ReadDir(t, mem, "db"), want
}

// The bug: goleveldb's RecoverFile deletes tables whose entries refer to values. The values were all there, with their
// keys, and Repair used none.
func TestRepairUsesValueTablesWithoutReferences(t *testing.T) {
	dir, all := apart(t)
	for i := range 2 { // the newest entry of these keys is gone
		all[string(fixture.Key(i))] = strings.Repeat("b", 150+i)
	}
	bare := dir.WithoutManifest().Without(base.FileTable, base.FileLog)
	recovered := bare.Clone()
	recovered.AddManifest(t, 1, recovered.Edit(t, 90, 0, nil)) // as RecoverFile leaves it
	opened := recovered.Clone()
	t.Run("after an opening", func(t *testing.T) {
		for _, readOnly := range []bool{true, false} {
			mem := recovered.FS(t)
			o := storetest.Options(mem)
			o.ReadOnly = readOnly
			d := storetest.MustOpen(t, o)
			losses := d.OpenReport().Losses
			require.Len(t, losses, len(bare.Only(base.FileValues)))
			require.Contains(t, losses[0], bare.Only(base.FileValues)[0])
			require.Contains(t, losses[0], "Repair")
			require.NoError(t, d.Close())
			opened = fixture.ReadDir(t, mem, "db")
		}
	})
	for _, name := range bare.Only(base.FileValues) { // moved back
		require.Contains(t, opened, "lost/"+name)
		opened[name] = opened["lost/"+name]
		delete(opened, "lost/"+name)
	}
	for name, d := range map[string]fixture.Dir{
		"without a MANIFEST": bare, "after RecoverFile": recovered, "after an opening": opened,
		"without the tables": dir.Without(base.FileTable),
	} {
		t.Run(name, func(t *testing.T) {
			planned := result.Of(db.PlanRepair("db", storetest.Options(d.FS(t))))(t)
			got, rep, _ := storetest.Repaired(t, d)
			require.Equal(t, all, got, "%s", rep)
			require.True(t, rep.MayResurrect, "%s", rep)
			require.True(t, planned.MayResurrect)
			require.Equal(t, valueFates(rep), valueFates(planned))
			require.Equal(t, rep.ValuesLost, planned.ValuesLost)
		})
	}
	t.Run("a damaged one", func(t *testing.T) {
		name := bare.Only(base.FileValues)[0]
		got, rep, _ := storetest.Repaired(t, bare.Flip(name, len(bare[name])/2))
		require.Less(t, len(got), 100)
		require.EqualValues(t, 100-len(got), rep.EntriesLost, "%s", rep)
	})
}

// Values whose references were in a damaged block fill its range; newer entries of other tables hide them.
func TestRepairFillsGapsFromValueTables(t *testing.T) {
	dir, want := apart(t)
	for _, name := range dir.Tables() {
		got, rep, _ := storetest.Repaired(t, dir.Flip(name, 20))
		require.NotZero(t, rep.EntriesLost+rep.BytesLost, "%s", rep)
		newer := 0
		for key, value := range want {
			if got[key] != value {
				newer++ // its newest entry was in the block
			}
		}
		require.LessOrEqual(t, newer, 1, "%s", rep)
	}
}
