package db_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/report"
	"github.com/sievedb/sievedb/vfs"
)

// Tables record the sequence numbers that their entries had, through compactions, filter upgrades
// and repairs. Repair uses them to decide whether a table that no MANIFEST lists is needed.
//
//make:portable
func TestTablesRecordTheSequenceNumbersThatTheyLost(t *testing.T) {
	o := testOptions(vfs.NewMem())
	d := mustOpen(t, o)
	requireRecorded := func(want uint64) {
		t.Helper()
		var largest uint64
		for _, f := range d.State().Version.Levels[db.NumLevels-1].Files {
			require.Zero(t, base.Trailer(f.Smallest)>>8, "the entries lost their sequence numbers")
			r, err := d.TableCache().Ref(f)
			require.NoError(t, err)
			p, ok := r.Properties()
			r.Unref()
			require.True(t, ok)
			largest = max(largest, p.LargestSeq)
		}
		require.Equal(t, want, largest)
	}
	fill(t, d, 0, 50)
	require.NoError(t, d.Compact(t.Context(), nil, nil))
	requireRecorded(50)
	require.NoError(t, d.Compact(t.Context(), nil, nil))
	requireRecorded(50)
	require.NoError(t, d.Close())

	o.Filters.Policy = filter.NewBloomPolicy(12)
	d = mustOpen(t, o)
	report, err := d.UpgradeFilters(t.Context(), nil, nil)
	require.NoError(t, err)
	require.Positive(t, report.Upgraded)
	requireRecorded(50)
	require.NoError(t, d.Close())

	files := readDir(t, o.FS, "db")
	delete(files, base.CurrentName)
	table := files[files.Tables()[0]]
	table[len(table)-1] ^= 1 // its footer, so its entries go to another table
	o.FS = checkOrder(files.FS(t))
	rep, err := db.RepairWithReport("db", o)
	require.NoError(t, err)
	require.EqualValues(t, 50, rep.LastSequence)
	require.Positive(t, rep.TablesWritten)
	d = mustOpen(t, o)
	requireRecorded(50)
	require.EqualValues(t, 50, d.Metrics().LastSequence)
	require.NoError(t, d.Close())
}

// Of two entries without sequence numbers, that of the later table wins, whichever value is greater
// and whichever table is damaged.
//
//make:portable
func TestRepairPrefersTheLaterOfEntriesWithoutSequenceNumbers(t *testing.T) {
	older := craftTable(t, fixture.Put("a", 0, "older"), fixture.Put("b", 0, "b"))
	later := craftTable(t, fixture.Put("a", 0, "later"), fixture.Put("c", 0, "c"))
	want := contents{"a": "later", "b": "b", "c": "c"}
	cut := func(table []byte) []byte { // damages the footer; the entries can be read
		table = slices.Clone(table)
		table[len(table)-1] ^= 1
		return table
	}
	for name, d := range map[string]repairDir{
		"both intact":       {"000005.ldb": older, "000009.ldb": later},
		"the older damaged": {"000005.ldb": cut(older), "000009.ldb": later},
		"the later damaged": {"000005.ldb": older, "000009.ldb": cut(later)},
		"both damaged":      {"000005.ldb": cut(older), "000009.ldb": cut(later)},
	} {
		t.Run(name, func(t *testing.T) {
			got, rep, _ := repaired(t, d)
			require.Equal(t, want, got)
			require.Zero(t, rep.EntriesConflicting)
		})
	}
}

// An intact MANIFEST decides about a table that was to be removed, even if the live tables have
// lost their sequence numbers.
//
//make:portable
func TestRepairDropsEntriesOlderThanThoseWithoutSequenceNumbers(t *testing.T) {
	o := testOptions(vfs.NewMem())
	d := mustOpen(t, o)
	for i := range 2 {
		require.NoError(t, d.Put([]byte("k"), fmt.Appendf(nil, "value %d", i), db.NoSync))
		require.NoError(t, d.Flush())
	}
	before := readDir(t, o.FS, "db")
	require.NoError(t, d.Compact(t.Context(), nil, nil))
	require.Equal(t, []string{"0 value 1"}, readDir(t, d.Directory().FS, "db").Entries(t, "k"))
	require.NoError(t, d.Close())
	d = mustOpen(t, o) // its MANIFEST lists none of the earlier tables
	require.NoError(t, d.Close())
	files := readDir(t, o.FS, "db")
	oldest := slices.Min(before.Tables())
	files["000900.ldb"] = before[oldest] // as if it had been written later
	got, rep, _ := repaired(t, files)
	require.Equal(t, contents{"k": "value 1"}, got, "%s", rep)
	require.Equal(t, report.FileUnused, fateOf(t, rep, "000900.ldb").Fate)
}

// The inputs of a compaction are removed in such an order that those that remain have, at any moment, the newest
// version of each key or the same one as the outputs. A repair without a MANIFEST uses them all.
func TestRepairOfRemainingCompactionInputsGivesTheSameContents(t *testing.T) {
	o := testOptions(vfs.NewMem())
	o.Compaction.L0Trigger = 100
	var mu sync.Mutex
	var removed []uint64 // since the store was opened
	o.EventListener = &db.EventListener{TableRemoved: func(num uint64) {
		mu.Lock()
		defer mu.Unlock()
		removed = append(removed, num)
	}}
	o.Compaction.MaxConcurrent = 1
	d := mustOpen(t, o)
	want := contents{}
	for round := range 4 {
		for i := range 40 {
			if i%4 < round {
				continue
			}
			key, value := string(testKey(i)), fmt.Sprintf("value %d of round %d", i, round)
			if i%5 == 0 && round > 0 {
				require.NoError(t, d.Delete([]byte(key), db.NoSync))
				delete(want, key)
				continue
			}
			require.NoError(t, d.Put([]byte(key), []byte(value), db.NoSync))
			want[key] = value
		}
		if round == 0 {
			require.NoError(t, d.Compact(t.Context(), nil, nil))
		}
		require.NoError(t, d.Flush())
	}
	before := readDir(t, o.FS, "db")
	inputs := map[uint64]bool{}
	d.Set().Current().Files(func(_ int, f *version.FileMeta) { inputs[f.Num] = true })
	require.NoError(t, d.Compact(t.Context(), nil, nil))
	require.NoError(t, d.Close()) // now all inputs are removed
	after := readDir(t, o.FS, "db")
	removed = slices.DeleteFunc(removed, func(num uint64) bool { return !inputs[num] })
	require.Len(t, removed, 4)
	for i := range len(removed) + 1 {
		remaining := after.Clone()
		for _, num := range removed[i:] {
			name := base.FileName(base.FileTable, num)
			remaining[name] = before[name]
		}
		for _, name := range remaining.Only(base.FileManifest, base.FileCurrent) {
			delete(remaining, name)
		}
		got, rep, _ := repaired(t, remaining)
		require.Equal(t, want, got, "%d of %d were removed: %s", i, len(removed), rep)
	}
	for _, f := range d.Set().Current().Levels[version.NumLevels-1].Files {
		require.Zero(t, base.Trailer(f.Smallest)>>8)
	}
}
