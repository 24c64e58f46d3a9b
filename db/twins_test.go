package db

import (
	"context"
	"fmt"
	"testing"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/stretchr/testify/require"
)

// foreignLevel0 returns a database whose tables are all on level 0, as goleveldb's RecoverFile and
// LevelDB's RepairDB leave them.
func foreignLevel0(t testing.TB, tables map[uint64][]craftedEntry) repairDir {
	t.Helper()
	d, levels, last := repairDir{}, map[uint64]int{}, uint64(0)
	for num, entries := range tables {
		d[base.FileName(base.FileTable, num)] = craftTable(t, entries...)
		levels[num] = 0
		for _, e := range entries {
			last = max(last, e.seq)
		}
	}
	d.addManifest(t, 50, d.edit(t, 40, last, levels))
	return d
}

// readers has the read methods of a DB and of a Snapshot.
type readers interface {
	lookups
	MultiGet(keys [][]byte) ([][]byte, error)
	NewIterator(o *IterOptions) (*Iterator, error)
}

// requireAllAgree requires that all read methods of d find want, and none of the keys in absent.
func requireAllAgree(t testing.TB, d *DB, want contents, absent ...string) {
	t.Helper()
	keys := [][]byte{}
	for key := range want {
		keys = append(keys, []byte(key))
	}
	for _, key := range absent {
		keys = append(keys, []byte(key))
	}
	snapshot := d.NewSnapshot()
	defer func() { require.NoError(t, snapshot.Close()) }()
	for _, from := range []readers{d, snapshot} {
		values, err := from.MultiGet(keys)
		require.NoError(t, err)
		for i, key := range keys {
			value, found := want[string(key)]
			require.Equal(t, found, values[i] != nil, "MultiGet of %q", key)
			require.Equal(t, value, string(values[i]), "MultiGet of %q", key)
			got, err := from.Get(key)
			if !found {
				require.Equal(t, ErrNotFound, err, "Get of %q", key)
			} else {
				require.NoError(t, err)
				require.Equal(t, value, string(got), "Get of %q", key)
			}
			has, err := from.Has(key)
			require.NoError(t, err)
			require.Equal(t, found, has, "Has of %q", key)
			x, err := d.Explain(key)
			require.NoError(t, err)
			require.Equal(t, found, x.Found, "Explain of %q", key)
		}
		it, err := from.NewIterator(nil)
		require.NoError(t, err)
		forward, backward, entries := contents{}, contents{}, 0
		for ok := it.First(); ok; ok = it.Next() {
			forward[string(it.Key())], entries = string(it.Value()), entries+1
		}
		require.Equal(t, len(forward), entries, "no key comes twice")
		for ok := it.Last(); ok; ok = it.Prev() {
			backward[string(it.Key())], entries = string(it.Value()), entries-1
		}
		require.Zero(t, entries, "no key comes twice")
		require.NoError(t, it.Close())
		require.Equal(t, want, forward)
		require.Equal(t, want, backward)
	}
}

// The bug: a compaction treated an internal key in two tables as corruption. goleveldb's
// RecoverFile and LevelDB's RepairDB leave such keys if an input was waiting for its removal. Level
// 0 was never compacted again, and writes ended when it was full.
func TestTwinsWithEqualValuesAreDropped(t *testing.T) {
	for _, level := range []int{0, 5} {
		t.Run(fmt.Sprintf("the other on level %d", level), func(t *testing.T) {
			files := repairDir{
				"000003.ldb": craftTable(t, put("a", 1, "1"), del("b", 4), put("b", 2, "2"), put("d", 0, "0")),
				"000004.ldb": craftTable(t, put("a", 1, "1"), del("b", 4), put("c", 3, "3"), put("d", 0, "0")),
				"000005.ldb": craftTable(t, put("a", 1, "1"), put("e", 5, "5")),
			}
			files.addManifest(t, 50, files.edit(t, 40, 5, map[uint64]int{3: level, 4: 0, 5: 0}))
			d := openTest(t, testOptions(files.fs(t)))
			want := contents{"a": "1", "c": "3", "d": "0", "e": "5"}
			requireAllAgree(t, d, want, "b", "f")
			report, err := d.Check(context.Background())
			require.NoError(t, err)
			require.Empty(t, report.Faults)
			require.Equal(t, uint64(4), report.Twins)
			require.NoError(t, d.Compact(context.Background(), nil, nil))
			requireAllAgree(t, d, want, "b", "f")
			report, err = d.Check(context.Background())
			require.NoError(t, err)
			require.Zero(t, report.Twins)
			require.Equal(t, uint64(4), report.Entries)
		})
	}
}

// unequalTwins returns a database with two values of b at one sequence number.
func unequalTwins(t testing.TB) repairDir {
	t.Helper()
	return foreignLevel0(t, map[uint64][]craftedEntry{
		3: {put("a", 1, "1"), put("b", 2, "2"), put("d", 4, "4")},
		4: {put("b", 2, "another"), put("c", 3, "3")},
		5: {put("x", 9, "9")},
	})
}

// The bug: Check did not notice different values of one internal key, and iterators and compactions
// noticed them only as keys that do not ascend.
func TestTwinsWithUnequalValuesAreCorruption(t *testing.T) {
	d := openTest(t, testOptions(unequalTwins(t).fs(t)))
	report, err := d.Check(context.Background())
	require.NoError(t, err)
	require.Len(t, report.Faults, 1)
	require.Contains(t, report.Faults[0], "000003.ldb and 000004.ldb")
	require.NotContains(t, report.Faults[0], "another")

	for _, move := range []func(*Iterator) bool{
		func(it *Iterator) bool { return it.First() && it.Next() && it.Next() },
		func(it *Iterator) bool { return it.Last() && it.Prev() && it.Prev() && it.Prev() },
		func(it *Iterator) bool { return it.SeekGE([]byte("b")) },
		func(it *Iterator) bool { return it.First() && it.SeekGE([]byte("b")) },
		func(it *Iterator) bool { return it.SeekLT([]byte("c")) },
	} {
		it, err := d.NewIterator(nil)
		require.NoError(t, err)
		require.False(t, move(it))
		require.ErrorIs(t, it.Close(), ErrCorruption)
	}
	err = d.Compact(context.Background(), nil, nil)
	require.ErrorIs(t, err, ErrCorruption)
	require.ErrorContains(t, err, "sequence number 2")
}

// The bug: a step of an iterator forward that met unequal twins panicked, and so did
// Transaction.DeleteRange.
func TestStepsToUnequalTwinsAreCorruption(t *testing.T) {
	d := openTest(t, testOptions(foreignLevel0(t, map[uint64][]craftedEntry{
		3: {put("a", 1, "1"), put("aa", 2, "2"), put("ab", 3, "3"), put("b", 4, "4"), put("c", 5, "5")},
		4: {put("b", 4, "another"), put("d", 6, "6")},
	}).fs(t)))
	it, err := d.NewIterator(nil)
	require.NoError(t, err)
	require.Equal(t, 3, steps(it.Next))
	require.False(t, it.Valid())
	require.False(t, it.Next())
	require.False(t, it.Prev())
	require.ErrorIs(t, it.Close(), ErrCorruption)
	err = d.Update(func(tx *Transaction) error { return tx.DeleteRange(nil, nil) })
	require.ErrorIs(t, err, ErrCorruption)
	require.ErrorIs(t, d.DeleteRange(t.Context(), []byte("aa"), []byte("bb"), nil), ErrCorruption)
}

// The bug: Repair called tables healthy that have different values of one internal key, because
// each of them is intact by itself. Check reported them, and compactions failed.
func TestRepairKeepsOneOfTwoUnequalTwins(t *testing.T) {
	fsys := unequalTwins(t).fs(t)
	report, err := RepairWithReport("db", testOptions(fsys))
	require.NoError(t, err)
	require.False(t, report.Healthy)
	require.EqualValues(t, 1, report.EntriesConflicting)
	d := openTest(t, testOptions(fsys))
	checked, err := d.Check(context.Background())
	require.NoError(t, err)
	require.Empty(t, checked.Faults)
	require.NoError(t, d.Compact(context.Background(), nil, nil))
	value, err := d.Get([]byte("b"))
	require.NoError(t, err)
	require.Contains(t, []string{"2", "another"}, string(value))
	for key, want := range map[string]string{"a": "1", "c": "3", "d": "4", "x": "9"} {
		requireValue(t, d, []byte(key), []byte(want))
	}
}
