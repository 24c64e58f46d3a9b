package storetest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/vfs"
)

// Iterable is a store, a snapshot, a transaction or a follower.
type Iterable = interface {
	NewIterator(o *db.IterOptions) (*db.Iterator, error)
}

// Readable is an Iterable with Get.
type Readable = interface {
	NewIterator(o *db.IterOptions) (*db.Iterator, error)
	Get(key []byte) ([]byte, error)
}

// Contents returns what an iterator shows.
func Contents(t testing.TB, r Iterable) fixture.Contents {
	t.Helper()
	it, err := r.NewIterator(nil)
	require.NoError(t, err)
	c := fixture.Contents{}
	for ok := it.First(); ok; ok = it.Next() {
		c[string(it.Key())] = string(it.Value())
	}
	require.NoError(t, it.Err())
	require.NoError(t, it.Close())
	return c
}

// ContentsOf opens the database in "db" read-only, so that no background work moves entries meanwhile, reads all of
// it by iterator and by Get, and closes it.
func ContentsOf(t testing.TB, fsys vfs.FS) fixture.Contents {
	t.Helper()
	o := Options(fsys)
	o.ReadOnly = true
	d, err := db.Open("db", o)
	require.NoError(t, err)
	c := Contents(t, d)
	for key, value := range c {
		RequireValue(t, d, []byte(key), []byte(value))
	}
	require.NoError(t, d.Close())
	return c
}

// RequireContent requires what Get and an iterator show of pairs of a key and its value, "" for an absent key.
func RequireContent(t testing.TB, r Readable, pairs ...string) {
	t.Helper()
	all := Contents(t, r)
	for i := 0; i < len(pairs); i += 2 {
		got, err := r.Get([]byte(pairs[i]))
		if pairs[i+1] == "" {
			require.Equal(t, db.ErrNotFound, err, pairs[i])
			require.NotContains(t, all, pairs[i])
			continue
		}
		require.NoError(t, err, pairs[i])
		require.Equal(t, pairs[i+1], string(got), pairs[i])
		require.Equal(t, pairs[i+1], all[pairs[i]], pairs[i])
	}
}

// RequireAbsent requires that Get finds none of the keys.
func RequireAbsent(t testing.TB, r Readable, keys ...[]byte) {
	t.Helper()
	for _, key := range keys {
		_, err := r.Get(key)
		require.Equal(t, db.ErrNotFound, err, "%q", key)
	}
}

// reader is a store or a snapshot.
type reader interface {
	Iterable
	Get(key []byte) ([]byte, error)
	Has(key []byte) (bool, error)
	MultiGet(keys [][]byte) ([][]byte, error)
}

// RequireAllAgree requires that all read methods of d, and of a snapshot, find want and none of the keys in absent.
func RequireAllAgree(t testing.TB, d *db.DB, want fixture.Contents, absent ...string) {
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
	for _, from := range []reader{d, snapshot} {
		values, err := from.MultiGet(keys)
		require.NoError(t, err)
		for i, key := range keys {
			value, found := want[string(key)]
			require.Equal(t, found, values[i] != nil, "MultiGet of %q", key)
			require.Equal(t, value, string(values[i]), "MultiGet of %q", key)
			got, err := from.Get(key)
			if !found {
				require.Equal(t, db.ErrNotFound, err, "Get of %q", key)
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
		requireWalks(t, from, want)
	}
}

// requireWalks requires that an iterator shows want in both directions, and no key twice.
func requireWalks(t testing.TB, from Iterable, want fixture.Contents) {
	t.Helper()
	it, err := from.NewIterator(nil)
	require.NoError(t, err)
	forward, backward, entries := fixture.Contents{}, fixture.Contents{}, 0
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
