package tables_test

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/storetest"
	"github.com/sievedb/sievedb/internal/test/testseed"
	"github.com/sievedb/sievedb/vfs"
)

func TestReadsThroughAFullCacheAgree(t *testing.T) {
	const n = 3000
	seed := testseed.Statistical(t)
	rnd := rand.New(rand.NewPCG(seed, 1))
	o := storetest.Options(vfs.NewMem())
	o.Cache.Size = 150 << 10 // the store has 370 KB
	o.Tables.BlockSize = 4 << 10
	d := storetest.Open(t, o)
	storetest.Fill(t, d, 0, n)
	storetest.Settle(t, d)
	s := d.NewSnapshot()
	defer s.Close()
	var dst []byte
	var held, wanted [100][]byte // the caller owns what Get returned, so it must not change
	for j := range 30_000 {
		i := rnd.IntN(n)
		key, want := fixture.Key(i), fixture.Value(i)
		got, err := d.Get(key)
		require.NoError(t, err)
		require.Equal(t, want, got)
		require.Equal(t, wanted[j%100], held[j%100])
		held[j%100], wanted[j%100] = got, want
		reader := []interface {
			GetTo(dst, key []byte) ([]byte, error)
			Has(key []byte) (bool, error)
		}{d, s}[rnd.IntN(2)]
		dst, err = reader.GetTo(append(dst[:0], "before"...), key)
		require.NoError(t, err)
		require.Equal(t, "before"+string(want), string(dst))
		other := rnd.IntN(2 * n)
		has, err := reader.Has(fixture.Key(other))
		require.NoError(t, err)
		require.Equal(t, other < n, has)
	}
	m := d.Metrics()
	require.Greater(t, m.Cache.CompressedBlocks, m.Cache.Blocks/2)
	require.LessOrEqual(t, m.Cache.CompressedBlocks, m.Cache.Blocks)
	require.LessOrEqual(t, m.Cache.CompressedBytes, m.Cache.Bytes)
	require.LessOrEqual(t, m.Cache.Bytes, m.Cache.Capacity)
}

func TestCompactionsDoNotFillTheBlockCache(t *testing.T) {
	d := storetest.Open(t, storetest.Options(vfs.NewMem()))
	for range 3 {
		storetest.Fill(t, d, 0, 2000)
	}
	storetest.Settle(t, d)
	require.NoError(t, d.Compact(context.Background(), nil, nil))
	m := d.Metrics()
	require.NotZero(t, m.Compactions.Count)
	require.Zero(t, m.Cache.Blocks)
	require.Zero(t, m.Cache.Bytes)
	storetest.RequireValue(t, d, fixture.Key(7), fixture.Value(7))
	require.NotZero(t, d.Metrics().Cache.Blocks, "a lookup fills the cache")
}
