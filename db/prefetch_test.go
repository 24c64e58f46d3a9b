package db_test

import (
	"errors"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/vfs"
)

// coldFS is a file system of whose files nothing is in the page cache until it is requested.
type coldFS struct {
	vfs.FS
	mu     sync.Mutex
	cached map[string]int64 // bytes requested
	panics bool             // each request does
}

type coldFile struct {
	vfs.File
	fs   *coldFS
	name string
}

func (c *coldFS) Open(name string) (vfs.File, error) {
	f, err := c.FS.Open(name)
	return &coldFile{f, c, name}, err
}

func (f *coldFile) Resident(_, n int64) (int64, bool, bool) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	return min(f.fs.cached[f.name], n), false, true
}

func (f *coldFile) Prefetch(_, n int64) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	f.fs.cached[f.name] += n
	if f.fs.panics {
		panic(fixture.Boom)
	}
}

// total returns the number of files and bytes that were requested.
func (c *coldFS) total() (files, bytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range c.cached {
		bytes += n
	}
	return int64(len(c.cached)), bytes
}

// readCold opens a store in c, with several tables, and looks up each key.
func readCold(t *testing.T, c *coldFS) *db.DB {
	o := testOptions(c)
	o.Cache.Size = -1
	d := openDir(t, "db", o)
	for i := range 4000 {
		require.NoError(t, d.Put(testKey(i), make([]byte, 100), db.NoSync))
	}
	require.NoError(t, d.Flush())
	files, _ := c.total()
	require.Zero(t, files)
	for i := range 4000 {
		_, err := d.Get(testKey(i))
		require.NoError(t, err)
	}
	return d
}

func TestLookupsRequestTablesThatTheyReadOften(t *testing.T) {
	c := &coldFS{FS: vfs.NewMem(), cached: map[string]int64{}}
	d := readCold(t, c)
	m := d.Metrics()
	require.NotZero(t, m.Tables.Prefetches)
	eventually(t, func() bool { // another goroutine requests them
		files, bytes := c.total()
		return uint64(files) == m.Tables.Prefetches && uint64(bytes) == m.Tables.PrefetchedBytes
	})
	require.Less(t, m.Tables.PrefetchedBytes, m.Total().Bytes)
	require.NoError(t, d.Close())
}

func TestCloseEndsTheRequestsForTables(t *testing.T) {
	before := runtime.NumGoroutine()
	for range 3 {
		c := &coldFS{FS: vfs.NewMem(), cached: map[string]int64{}}
		d := readCold(t, c)
		require.NoError(t, d.Close())
		_, bytes := c.total()
		runtime.Gosched()
		_, later := c.total()
		require.Equal(t, bytes, later)
	}
	eventually(t, func() bool { return runtime.NumGoroutine() <= before })
}

// The bug: the panic ended the process.
func TestAPanicOfARequestForATableEndsTheWrites(t *testing.T) {
	d := readCold(t, &coldFS{FS: vfs.NewMem(), cached: map[string]int64{}, panics: true})
	other := []byte("another key") // the first writes may be in time
	eventually(t, func() bool { return errors.Is(d.Put(other, nil, db.NoSync), db.ErrReadOnly) })
	require.ErrorContains(t, d.Put(other, nil, db.NoSync), "panic during the request of a table from the system: "+fixture.Boom)
	requireValue(t, d, testKey(1), make([]byte, 100))
	require.ErrorContains(t, d.Close(), fixture.Boom)
}
