//go:build cgo && lmdb

package cpp

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/cmd/peerbench/engine"
)

func openLMDB(t *testing.T, o engine.Options) engine.Engine {
	t.Helper()
	e, err := driver("lmdb", 0, engine.Driver{}).Open(t.TempDir(), o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	return e
}

// requireValue requires that a Get returns want, or finds nothing if want is empty.
func requireValue(t *testing.T, e engine.Engine, key, want string) {
	t.Helper()
	value, found, err := e.Get(nil, []byte(key))
	require.NoError(t, err)
	require.Equal(t, want != "", found)
	require.Equal(t, want, string(value))
}

// The read transaction of one Get is that of the next one, unless a write came between.
func TestLMDBsGetsSeeTheWritesBeforeThem(t *testing.T) {
	for _, sync := range []bool{false, true} {
		e := openLMDB(t, engine.Options{Sync: sync})
		for i := range 100 {
			key, value := fmt.Sprint("key ", i%10), fmt.Sprint("value ", i)
			requireValue(t, e, "absent", "")
			require.NoError(t, e.Put([]byte(key), []byte(value)))
			requireValue(t, e, key, value)
		}
		require.NoError(t, e.Delete([]byte("key 3")))
		require.NoError(t, e.Delete([]byte("key 3")), "an absent key")
		requireValue(t, e, "key 3", "")
		for _, value := range []string{"first", "second"} {
			require.NoError(t, e.Apply(2000, func(i int) (key, v []byte) {
				return fmt.Append(nil, "batch ", i), fmt.Append(nil, value, i)
			}))
			requireValue(t, e, "batch 1999", value+"1999")
		}
	}
}

func TestLMDBsIteratorsKeepTheirMoment(t *testing.T) {
	e := openLMDB(t, engine.Options{})
	entries := func(it engine.Iterator, first, move func() bool) (all []string) {
		for ok := first(); ok; ok = move() {
			all = append(all, string(it.Key())+"="+string(it.Value()))
		}
		return all
	}
	for i, want := range [][]string{nil, {"a=0"}, {"a=1", "b=1"}, {"a=2", "b=2", "c=2"}} {
		it, err := e.NewIterator(engine.IterOptions{})
		require.NoError(t, err)
		for j := range i + 1 {
			require.NoError(t, e.Put([]byte{byte('a' + j)}, fmt.Append(nil, i)))
		}
		requireValue(t, e, "a", fmt.Sprint(i)) // beside the iterator, which has the first reader
		require.Equal(t, want, entries(it, it.First, it.Next))
		backward := entries(it, it.Last, it.Prev)
		require.Len(t, backward, len(want))
		if i > 0 {
			require.Equal(t, want[0], backward[i-1])
			require.True(t, it.Seek([]byte("Z")))
			require.Equal(t, "a", string(it.Key()))
		}
		require.False(t, it.Seek([]byte("d")))
		require.NoError(t, it.Close())
	}
}

func TestLMDBIsReadConcurrently(t *testing.T) {
	const readers, gets, keys = 16, 500, 100
	e := openLMDB(t, engine.Options{})
	put := func(i, round int) error {
		return e.Put(fmt.Append(nil, "key ", i), fmt.Append(nil, round))
	}
	for i := range keys {
		require.NoError(t, put(i, 0))
	}
	var running sync.WaitGroup
	errs := make([]error, readers+1)
	for r := range readers {
		running.Go(func() {
			last := map[int]string{}
			for n := 0; n < gets && errs[r] == nil; n++ {
				i := (n*7 + r) % keys
				value, found, err := e.Get(nil, fmt.Append(nil, "key ", i))
				if errs[r] = err; err == nil && (!found || len(value) == 0 || string(value) < last[i]) {
					errs[r] = fmt.Errorf("key %d is %q after %q", i, value, last[i])
				}
				last[i] = string(value)
			}
		})
	}
	running.Go(func() {
		for n := 0; n < 9*keys && errs[readers] == nil; n++ {
			errs[readers] = put(n%keys, 1+n/keys)
		}
	})
	running.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
}

// One larger than the caller's buffer is read again, into a larger one.
func TestLMDBReturnsLargeValues(t *testing.T) {
	e := openLMDB(t, engine.Options{})
	large := make([]byte, 100_000)
	for i := range large {
		large[i] = byte(i % 251)
	}
	require.NoError(t, e.Put([]byte("key"), large))
	value, found, err := e.Get(make([]byte, 0, 10), []byte("key"))
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, large, value)
}

func TestLMDBReportsItsErrors(t *testing.T) {
	_, err := driver("lmdb", 0, engine.Driver{}).Open("/nonexistent/folder", engine.Options{})
	require.ErrorContains(t, err, "No such file")
	e := openLMDB(t, engine.Options{})
	require.ErrorContains(t, e.Put(nil, []byte("value")), "MDB_BAD_VALSIZE")
	require.ErrorContains(t, e.Put(make([]byte, 1000), []byte("value")), "MDB_BAD_VALSIZE")
	requireValue(t, e, "absent", "")
}
