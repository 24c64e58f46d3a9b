package filter

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAPolicyIsFoundByItsName(t *testing.T) {
	for _, p := range []Policy{NewCacheLineBloomPolicy(7), NewBloomPolicy(7), NewFusePolicy(7), LegacyBloom, None} {
		got, err := PolicyNamed(p.Name(), 7)
		require.NoError(t, err)
		require.Equal(t, p, got)
	}
	got, err := PolicyNamed("sievedb.CacheLineBloom", 0)
	require.NoError(t, err)
	require.Equal(t, NewCacheLineBloomPolicy(DefaultBitsPerKey), got)
	got, err = PolicyNamed("sievedb.BinaryFuse8", 0)
	require.NoError(t, err)
	require.Equal(t, FusePolicy{}, got)
	_, err = PolicyNamed("mine", 10)
	require.ErrorContains(t, err, `"mine" is not the name of a filter policy of this package; those are ["sievedb.CacheLineBloom" `)
}
