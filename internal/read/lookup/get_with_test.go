package lookup_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/internal/test/storetest"
	"github.com/sievedb/sievedb/vfs"
)

// With NoFillCache a lookup reads its block, verifies it, and leaves the cache as it is. It uses the
// blocks in the cache. The answers are those of GetTo.
func TestGetWithNoFillCacheLeavesTheCacheAlone(t *testing.T) {
	const n = 900
	o := storetest.Options(vfs.NewMem())
	o.Cache.Size = 8 << 20
	d, seen := storetest.OpenCounting(t, o)
	storetest.Fill(t, d, 0, n)
	names := result.Of(d.Namespace("n"))(t)
	require.NoError(t, names.Put(fixture.Key(7), fixture.Value(8), db.NoSync))
	require.NoError(t, d.Compact(t.Context(), nil, nil))
	s, tx := d.NewSnapshot(), d.NewTransaction(nil)
	defer s.Close()
	defer tx.Close()
	require.NoError(t, tx.Put(fixture.Key(3), []byte("own")))
	require.NoError(t, tx.Delete(fixture.Key(4)))
	_, err := d.GetTo(nil, []byte("key0000")) // opens a table
	require.Equal(t, db.ErrNotFound, err)
	for name, r := range map[string]db.Reader{"DB": d, "snapshot": s, "transaction": tx} {
		noFill, before := &db.GetOptions{NoFillCache: true}, d.Metrics().Cache.Bytes
		for i := 5; i < n; i += 7 {
			seen.Take()
			for range 2 {
				value := result.Of(r.GetWith([]byte("dst "), fixture.Key(i), noFill))(t)
				require.Equal(t, "dst "+string(fixture.Value(i)), string(value))
			}
			_, reads := seen.Take()
			require.GreaterOrEqual(t, reads, 2, "%s: nothing is kept", name)
		}
		require.Equal(t, before, d.Metrics().Cache.Bytes, name)
		dst, err := r.GetWith([]byte("dst"), []byte("key00000055"), noFill)
		require.Equal(t, db.ErrNotFound, err)
		require.Equal(t, "dst", string(dst))
	}
	for _, o := range []*db.GetOptions{nil, {}, {NoFillCache: true}} { // the first reads, the others use it
		seen.Take()
		value := result.Of(d.GetWith(nil, fixture.Key(5), o))(t)
		require.Equal(t, string(fixture.Value(5)), string(value))
		_, reads := seen.Take()
		require.Equal(t, o == nil, reads > 0)
		value = result.Of(names.GetWith(nil, fixture.Key(7), o))(t)
		require.Equal(t, string(fixture.Value(8)), string(value))
		value = result.Of(names.In(s).GetWith(nil, fixture.Key(7), o))(t)
		require.Equal(t, string(fixture.Value(8)), string(value))
		value = result.Of(tx.GetWith(nil, fixture.Key(3), o))(t)
		require.Equal(t, "own", string(value))
		_, err := tx.GetWith(nil, fixture.Key(4), o)
		require.Equal(t, db.ErrNotFound, err)
	}
}

func TestGetWithVerifiesChecksums(t *testing.T) {
	mem := vfs.NewMem()
	o := storetest.Options(mem)
	storetest.Compacted(t, o, 5)
	table := filepath.Join("db", fixture.Names(t, mem, base.FileTable)[0])
	fixture.ChangeFile(t, mem, table, func(data []byte) { data[20] ^= 0x40 }) // in the first data block
	d := storetest.MustOpen(t, o)
	for _, o := range []*db.GetOptions{nil, {NoFillCache: true}} {
		require.ErrorIs(t, result.Err(d.GetWith(nil, fixture.Key(0), o)), db.ErrCorruption)
	}
	require.NoError(t, d.Close())
}
