package tables_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/storetest"
)

// The bug: a compaction treated an internal key in two tables as corruption. goleveldb's
// RecoverFile and LevelDB's RepairDB leave such keys if an input was waiting for its removal. Level
// 0 was never compacted again, and writes ended when it was full.
func TestTwinsWithEqualValuesAreDropped(t *testing.T) {
	for _, level := range []int{0, 5} {
		t.Run(fmt.Sprintf("the other on level %d", level), func(t *testing.T) {
			files := fixture.Dir{
				"000003.ldb": fixture.Table(t, fixture.Put("a", 1, "1"), fixture.Del("b", 4), fixture.Put("b", 2, "2"), fixture.Put("d", 0, "0")),
				"000004.ldb": fixture.Table(t, fixture.Put("a", 1, "1"), fixture.Del("b", 4), fixture.Put("c", 3, "3"), fixture.Put("d", 0, "0")),
				"000005.ldb": fixture.Table(t, fixture.Put("a", 1, "1"), fixture.Put("e", 5, "5")),
			}
			files.AddManifest(t, 50, files.Edit(t, 40, 5, map[uint64]int{3: level, 4: 0, 5: 0}))
			d := storetest.Open(t, storetest.Options(files.FS(t)))
			want := fixture.Contents{"a": "1", "c": "3", "d": "0", "e": "5"}
			storetest.RequireAllAgree(t, d, want, "b", "f")
			report, err := d.Check(context.Background())
			require.NoError(t, err)
			require.Empty(t, report.Faults)
			require.Equal(t, uint64(4), report.Twins)
			require.NoError(t, d.Compact(context.Background(), nil, nil))
			storetest.RequireAllAgree(t, d, want, "b", "f")
			report, err = d.Check(context.Background())
			require.NoError(t, err)
			require.Zero(t, report.Twins)
			require.Equal(t, uint64(4), report.Entries)
		})
	}
}

// The bug: Check did not notice different values of one internal key, and iterators and compactions
// noticed them only as keys that do not ascend.
func TestTwinsWithUnequalValuesAreCorruption(t *testing.T) {
	d := storetest.Open(t, storetest.Options(fixture.UnequalTwins(t).FS(t)))
	report, err := d.Check(context.Background())
	require.NoError(t, err)
	require.Len(t, report.Faults, 1)
	require.Contains(t, report.Faults[0], "000003.ldb and 000004.ldb")
	require.NotContains(t, report.Faults[0], "another")

	for _, move := range []func(*db.Iterator) bool{
		func(it *db.Iterator) bool { return it.First() && it.Next() && it.Next() },
		func(it *db.Iterator) bool { return it.Last() && it.Prev() && it.Prev() && it.Prev() },
		func(it *db.Iterator) bool { return it.SeekGE([]byte("b")) },
		func(it *db.Iterator) bool { return it.First() && it.SeekGE([]byte("b")) },
		func(it *db.Iterator) bool { return it.SeekLT([]byte("c")) },
	} {
		it := storetest.Iter(t, d, nil)
		require.False(t, move(it))
		require.ErrorIs(t, it.Close(), db.ErrCorruption)
	}
	err = d.Compact(context.Background(), nil, nil)
	require.ErrorIs(t, err, db.ErrCorruption)
	require.ErrorContains(t, err, "sequence number 2")
}

// The bug: a step of an iterator forward that met unequal twins panicked, and so did Transaction.DeleteRange.
func TestStepsToUnequalTwinsAreCorruption(t *testing.T) {
	d := storetest.Open(t, storetest.Options(fixture.Level0(t, map[uint64][]fixture.Entry{
		3: {fixture.Put("a", 1, "1"), fixture.Put("aa", 2, "2"), fixture.Put("ab", 3, "3"), fixture.Put("b", 4, "4"), fixture.Put("c", 5, "5")},
		4: {fixture.Put("b", 4, "another"), fixture.Put("d", 6, "6")},
	}).FS(t)))
	it := storetest.Iter(t, d, nil)
	n := 0
	for it.Next() {
		n++
	}
	require.Equal(t, 3, n)
	require.False(t, it.Valid())
	require.False(t, it.Next())
	require.False(t, it.Prev())
	require.ErrorIs(t, it.Close(), db.ErrCorruption)
	err := d.Update(func(tx *db.Transaction) error { return tx.DeleteRange(nil, nil) })
	require.ErrorIs(t, err, db.ErrCorruption)
	require.ErrorIs(t, d.DeleteRange(t.Context(), []byte("aa"), []byte("bb"), nil), db.ErrCorruption)
}

// The bug: Repair called tables healthy that have different values of one internal key, because
// each of them is intact by itself. Check reported them, and compactions failed.
func TestRepairKeepsOneOfTwoUnequalTwins(t *testing.T) {
	fsys := fixture.UnequalTwins(t).FS(t)
	report := storetest.RepairWith(t, "db", storetest.Options(fsys))
	require.False(t, report.Healthy)
	require.EqualValues(t, 1, report.EntriesConflicting)
	d := storetest.Open(t, storetest.Options(fsys))
	checked, err := d.Check(context.Background())
	require.NoError(t, err)
	require.Empty(t, checked.Faults)
	require.NoError(t, d.Compact(context.Background(), nil, nil))
	value, err := d.Get([]byte("b"))
	require.NoError(t, err)
	require.Contains(t, []string{"2", "another"}, string(value))
	for key, want := range map[string]string{"a": "1", "c": "3", "d": "4", "x": "9"} {
		storetest.RequireValue(t, d, []byte(key), []byte(want))
	}
}
