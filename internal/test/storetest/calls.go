package storetest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
)

// Compacted makes a database with keys [0, n) in one level, and closes it.
func Compacted(t testing.TB, o *db.Options, n int) {
	t.Helper()
	d := MustOpen(t, o)
	Fill(t, d, 0, n)
	require.NoError(t, d.Compact(t.Context(), nil, nil))
	require.NoError(t, d.Close())
}

// OpenDir opens a database in any directory.
func OpenDir(t testing.TB, dir string, o *db.Options) *db.DB {
	t.Helper()
	d, err := db.Open(dir, o)
	require.NoError(t, err)
	return d
}

// ApplyInTransaction writes a batch by a transaction that reads what it writes.
func ApplyInTransaction(d *db.DB, b *db.Batch, wo *db.WriteOptions) error {
	return d.Update(func(tx *db.Transaction) error {
		tx.SetWriteOptions(wo)
		for _, e := range b.All() {
			if _, err := tx.Get(e.Key); err != nil && err != db.ErrNotFound {
				return err
			}
			if err := PutOrDelete(tx, e); err != nil {
				return err
			}
		}
		return nil
	})
}

// PutOrDelete writes an entry of a batch in a transaction.
func PutOrDelete(tx *db.Transaction, e db.BatchEntry) error {
	switch {
	case e.Kind == db.EntryDelete:
		return tx.Delete(e.Key)
	case e.TTL > 0:
		return tx.PutTTL(e.Key, e.Value, e.TTL)
	}
	return tx.Put(e.Key, e.Value)
}

// Iter returns a new iterator of r.
func Iter(t testing.TB, r db.Reader, o *db.IterOptions) *db.Iterator {
	t.Helper()
	it, err := r.NewIterator(o)
	require.NoError(t, err)
	return it
}

// Explain returns the explanation of a lookup.
func Explain(t testing.TB, d *db.DB, key []byte) *db.Explanation {
	t.Helper()
	x, err := d.Explain(key)
	require.NoError(t, err)
	return x
}

// RepairWith repairs the database in dir with these options.
func RepairWith(t testing.TB, dir string, o *db.Options) *db.RepairReport {
	t.Helper()
	report, err := db.RepairWithReport(dir, o)
	require.NoError(t, err)
	return report
}
