package db_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb"
	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/vfs"
)

func TestMisusedNamespaces(t *testing.T) {
	o := testOptions(vfs.NewMem())
	o.Comparer = &sievedb.Comparer{Name: "backward", Compare: func(a, b []byte) int { return -slices.Compare(a, b) }}
	other := openTest(t, o)
	_, err := other.Namespace("a")
	require.ErrorContains(t, err, `"backward"`)

	d := mustOpen(t, testOptions(vfs.NewMem()))
	_, err = d.Namespace("")
	require.ErrorContains(t, err, "the name is empty")
	open, err := d.Namespace("a")
	require.NoError(t, err)
	require.NoError(t, open.Put(nil, []byte("the empty key"), nil))
	value, err := open.Get(nil)
	require.NoError(t, err)
	require.Equal(t, "the empty key", string(value))
	require.NoError(t, d.Close())
	var none *db.Namespace
	for name, n := range map[string]*db.Namespace{"nil": none, "zero": {}, "of a closed DB": open} {
		for method, err := range errorsOfReader(n) {
			require.Equal(t, db.ErrClosed, err, "%s: %s", name, method)
		}
		require.Equal(t, db.ErrClosed, n.Put(nil, nil, nil), name)
		require.Equal(t, db.ErrClosed, n.Delete(nil, nil), name)
		_, err := n.CompareAndSwapTTL(nil, nil, nil, time.Hour, nil)
		require.Equal(t, db.ErrClosed, err, name)
		require.Equal(t, db.ErrClosed, n.Drop(t.Context()), name)
		_, err = n.Namespace("b")
		require.Equal(t, db.ErrClosed, err, name)
		_, err = n.Namespaces()
		require.Equal(t, db.ErrClosed, err, name)
		_ = n.Name()
	}
}

// The bug: the bounds of a zero Namespace were those of the whole database.
func TestBoundsOfNoNamespaceContainNothing(t *testing.T) {
	d := openTest(t, testOptions(vfs.NewMem()))
	putAll(t, d, "", "1", "a", "1")
	for _, n := range []*db.Namespace{nil, {}} {
		for _, o := range []*db.IterOptions{n.Bounds(nil, nil), n.Bounds([]byte("a"), nil), n.Bounds(nil, []byte("z"))} {
			require.NoError(t, d.DeleteRange(t.Context(), o.LowerBound, o.UpperBound, nil))
			requireContent(t, d, "", "1", "a", "1")
		}
	}
}
