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
