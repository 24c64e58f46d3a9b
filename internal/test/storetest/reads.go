package storetest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/test/fixture"
)

// WatchedOptions returns Options for a store in the watch's file system that reads every block from its file.
func WatchedOptions(w *fixture.TableWatch, policy filter.Policy) *db.Options {
	o := Options(w.Counting)
	o.Filters.Policy = policy
	o.Cache.Size = -1
	return o
}

// OpenCounting opens a database with o until the test ends, and counts the reads of its tables.
func OpenCounting(t testing.TB, o *db.Options) (*db.DB, *fixture.TableReads) {
	t.Helper()
	counting := wrap.NewCounting(o.FS)
	counted := *o
	counted.FS = counting
	d := Open(t, &counted)
	r := fixture.NewTableReads()
	counting.Observe(r.Record)
	return d, r
}

// Walk returns the keys of a walk.
func Walk(t testing.TB, it *db.Iterator, backward bool) []string {
	t.Helper()
	var keys []string
	begin, step := it.First, it.Next
	if backward {
		begin, step = it.Last, it.Prev
	}
	for ok := begin(); ok; ok = step() {
		keys = append(keys, string(it.Key()))
	}
	require.NoError(t, it.Err())
	return keys
}
