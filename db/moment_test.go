package db_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/vfs"
)

func TestALookupIsExplainedAsOfAnOpenSnapshot(t *testing.T) {
	d := openTest(t, testOptions(vfs.NewMem()))
	putAll(t, d, "another", "1")
	before := d.NewSnapshot()
	require.NoError(t, d.Put([]byte("k"), []byte("v"), db.NoSync))
	after := d.NewSnapshot()
	require.Equal(t, []uint64{before.Sequence(), after.Sequence()}, d.OpenSnapshots())
	for s, found := range map[*db.Snapshot]bool{before: false, after: true} {
		x, err := s.Explain([]byte("k"))
		require.NoError(t, err)
		require.Equal(t, found, x.Found)
		at := s.Sequence()
		x, err = d.ExplainAt([]byte("k"), at)
		require.NoError(t, err)
		require.Equal(t, found, x.Found)
		require.NoError(t, s.Close())
		_, err = s.Explain([]byte("k"))
		require.Equal(t, db.ErrClosed, err)
		require.Zero(t, s.Sequence())
		_, err = d.ExplainAt([]byte("k"), at)
		require.ErrorContains(t, err, "OpenSnapshots lists them")
	}
	require.NoError(t, d.Close())
	_, err := d.ExplainAt([]byte("k"), 0)
	require.Equal(t, db.ErrClosed, err)
}

func TestARefreshedIteratorShowsLaterWrites(t *testing.T) {
	d := openTest(t, testOptions(vfs.NewMem()))
	putAll(t, d, "a", "1")
	it, err := d.NewIterator(nil)
	require.NoError(t, err)
	putAll(t, d, "b", "2")
	require.Equal(t, []string{"a"}, walk(t, it, false))
	it.Refresh()
	require.Equal(t, []string{"a", "b"}, walk(t, it, false))
	require.NoError(t, it.Close())
}

func TestABulkTransactionSeesItsWritesAndThoseOfBefore(t *testing.T) {
	d := openTest(t, testOptions(vfs.NewMem()))
	putAll(t, d, "deleted", "1", "kept", "1")
	b := newBulk(t, d)
	require.NoError(t, b.Put([]byte("own"), nil))
	require.NoError(t, b.Delete([]byte("deleted")))
	for key, want := range map[string]bool{"own": true, "kept": true, "deleted": false, "absent": false} {
		has, err := b.Has([]byte(key))
		require.NoError(t, err)
		require.Equal(t, want, has, key)
	}
	b.SetWriteOptions(db.NoSync)
	require.NoError(t, b.Commit())
	requireContent(t, d, "kept", "1", "deleted", "")
	_, err := b.Has([]byte("own"))
	require.Equal(t, db.ErrClosed, err)
	require.Equal(t, db.ErrClosed, b.Delete([]byte("own")))
}

func TestAPlannedRepairChangesNothing(t *testing.T) {
	mem := vfs.NewMem()
	o := testOptions(mem)
	d := openDir(t, "db", o)
	fill(t, d, 0, 100)
	require.NoError(t, d.Close())
	before := readDir(t, mem, "db")
	report, err := db.PlanRepair("db", o)
	require.NoError(t, err)
	require.True(t, report.DryRun)
	before.RequireSame(t, readDir(t, mem, "db"))
	o.ReadOnly = true
	require.ErrorIs(t, db.Repair("db", o), db.ErrReadOnly)
}
