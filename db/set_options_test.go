package db_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/filter/rangefilter"
	"github.com/sievedb/sievedb/vfs"
)

// The bug: what Open was passed, and what Options returned, shared slices with the options in force.
func TestOptionsShareNothingWithTheStore(t *testing.T) {
	o := testOptions(vfs.NewMem())
	change := func(o *db.Options) {
		o.Tables.LevelCompression[0] = 99
		o.Filters.RangePolicies[0] = nil
		o.Expiry.Prefixes[0][0] = 'z'
		o.Expiry.Prefixes[1] = nil
		o.Expiry.Namespaces[0] = "other"
	}
	o.Tables.LevelCompression = []db.Compression{db.NoCompression}
	o.Filters.RangePolicies = []rangefilter.Policy{rangefilter.NewPrefix(rangefilter.FixedPrefix(4), 10)}
	o.Expiry.Prefixes, o.Expiry.Namespaces = [][]byte{[]byte("a"), []byte("b")}, []string{"sessions"}
	d := openTest(t, o)
	was := d.Options()
	change(o)
	require.Equal(t, was, d.Options())
	got := d.Options()
	change(&got)
	require.Equal(t, was, d.Options())
	next := d.Options()
	require.NoError(t, d.SetOptions(&next))
	change(&next)
	require.Equal(t, was, d.Options())
	require.ErrorContains(t, d.SetOptions(nil), "cannot be changed", "the defaults have another file system")
	require.Zero(t, (*db.DB)(nil).Options())
	require.False(t, (*db.DB)(nil).IsFollower())
}

// A default is not changed by its own value, and an empty list not by nil.
func TestExplicitDefaultsAreNoChange(t *testing.T) {
	d := openDir(t, t.TempDir(), nil)
	defer d.Close()
	require.NoError(t, d.SetOptions(&db.Options{
		FS: vfs.OS, FileMode: 0o600, Comparer: db.BytewiseComparer, Filters: db.FilterOptions{Policy: db.DefaultFilter},
		Limits: db.LimitOptions{ManifestSize: db.DefaultMaxManifestSize}, Expiry: db.ExpiryOptions{Prefixes: [][]byte{}},
	}))
	require.NoError(t, d.SetOptions(nil))
}

// pausedOptions are the options of a store whose level 0 is full at four tables.
func pausedOptions(fsys vfs.FS) *db.Options {
	o := testOptions(fsys)
	o.Compaction.L0Trigger, o.Compaction.L0Slowdown, o.Compaction.L0Stop = 2, 3, 4
	return o
}
