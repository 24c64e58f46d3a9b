package db

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/vfs"
)

// coldFS is a file system of whose files nothing is in the page cache until it is requested.
type coldFS struct {
	vfs.FS
	mu     sync.Mutex
	cached map[string]int64 // bytes requested
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
}

func TestLookupsRequestTablesThatTheyReadOften(t *testing.T) {
	c := &coldFS{FS: vfs.NewMem(), cached: map[string]int64{}}
	o := &Options{FS: c, Cache: CacheOptions{Size: -1}}
	d := openTest(t, o)
	for i := range 4000 {
		require.NoError(t, d.Put(testKey(i), make([]byte, 100), NoSync))
	}
	require.NoError(t, d.Flush())
	require.Zero(t, d.Metrics().Tables.Prefetches)
	for i := range 4000 {
		_, err := d.Get(testKey(i))
		require.NoError(t, err)
	}
	m := d.Metrics()
	var requested int64
	for _, n := range c.cached {
		requested += n
	}
	require.NotZero(t, requested)
	require.EqualValues(t, len(c.cached), m.Tables.Prefetches)
	require.EqualValues(t, requested, m.Tables.PrefetchedBytes)
	require.Less(t, requested, int64(m.Total().Bytes))
}
