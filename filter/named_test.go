package filter

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/test/result"
)

func TestAPolicyIsFoundByItsName(t *testing.T) {
	for _, p := range []Policy{NewCacheLineBloomPolicy(7), NewBloomPolicy(7), NewFusePolicy(7), LegacyBloom, None} {
		got := result.Of(PolicyNamed(p.Name(), 7))(t)
		require.Equal(t, p, got)
	}
	got := result.Of(PolicyNamed("sievedb.CacheLineBloom", 0))(t)
	require.Equal(t, NewCacheLineBloomPolicy(DefaultBitsPerKey), got)
	got = result.Of(PolicyNamed("sievedb.BinaryFuse8", 0))(t)
	require.Equal(t, FusePolicy{}, got)
	_, err := PolicyNamed("mine", 10)
	require.ErrorContains(t, err, `"mine" is not the name of a filter policy of this package; those are ["sievedb.CacheLineBloom" `)
}
