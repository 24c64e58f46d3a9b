package db

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/vfs"
)

// With NoFillCache a lookup reads its block, verifies it, and leaves the cache as it is. It uses the
// blocks in the cache. The answers are those of GetTo.
func TestGetWithNoFillCacheLeavesTheCacheAlone(t *testing.T) {
	const n = 900
	o := testOptions(vfs.NewMem())
	o.Cache.Size = 8 << 20
	d, seen := openCounting(t, o)
	fill(t, d, 0, n)
	names, err := d.Namespace("n")
	require.NoError(t, err)
	require.NoError(t, names.Put(testKey(7), testValue(8), NoSync))
	require.NoError(t, d.Compact(t.Context(), nil, nil))
	s, tx := d.NewSnapshot(), d.NewTransaction(nil)
	defer s.Close()
	defer tx.Close()
	require.NoError(t, tx.Put(testKey(3), []byte("own")))
	require.NoError(t, tx.Delete(testKey(4)))
	_, err = d.GetTo(nil, []byte("key0000")) // opens a table
	require.Equal(t, ErrNotFound, err)
	for name, r := range map[string]Reader{"DB": d, "snapshot": s, "transaction": tx} {
		noFill, before := &GetOptions{NoFillCache: true}, d.Metrics().Cache.Bytes
		for i := 5; i < n; i += 7 {
			seen.take()
			for range 2 {
				value, err := r.GetWith([]byte("dst "), testKey(i), noFill)
				require.NoError(t, err)
				require.Equal(t, "dst "+string(testValue(i)), string(value))
			}
			_, reads := seen.take()
			require.GreaterOrEqual(t, reads, 2, "%s: nothing is kept", name)
		}
		require.Equal(t, before, d.Metrics().Cache.Bytes, name)
		dst, err := r.GetWith([]byte("dst"), []byte("key00000055"), noFill)
		require.Equal(t, ErrNotFound, err)
		require.Equal(t, "dst", string(dst))
	}
	for _, o := range []*GetOptions{nil, {}, {NoFillCache: true}} { // the first reads, the others use it
		seen.take()
		value, err := d.GetWith(nil, testKey(5), o)
		require.NoError(t, err)
		require.Equal(t, string(testValue(5)), string(value))
		_, reads := seen.take()
		require.Equal(t, o == nil, reads > 0)
		value, err = names.GetWith(nil, testKey(7), o)
		require.NoError(t, err)
		require.Equal(t, string(testValue(8)), string(value))
		value, err = names.In(s).GetWith(nil, testKey(7), o)
		require.NoError(t, err)
		require.Equal(t, string(testValue(8)), string(value))
		value, err = tx.GetWith(nil, testKey(3), o)
		require.NoError(t, err)
		require.Equal(t, "own", string(value))
		_, err = tx.GetWith(nil, testKey(4), o)
		require.Equal(t, ErrNotFound, err)
	}
}

func TestGetWithVerifiesChecksums(t *testing.T) {
	mem := vfs.NewMem()
	o := testOptions(mem)
	d := mustOpen(t, o)
	fill(t, d, 0, 5)
	require.NoError(t, d.Compact(t.Context(), nil, nil))
	require.NoError(t, d.Close())
	table := filepath.Join("db", namesOf(t, mem, base.FileTable)[0])
	data := readFile(t, mem, table)
	data[20] ^= 0x40 // in the first data block
	writeFile(t, mem, table, data)
	d = mustOpen(t, o)
	for _, o := range []*GetOptions{nil, {NoFillCache: true}} {
		_, err := d.GetWith(nil, testKey(0), o)
		require.ErrorIs(t, err, ErrCorruption)
	}
	require.NoError(t, d.Close())
}
