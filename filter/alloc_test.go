//go:build !race

package filter

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The race detector allocates memory itself, so these tests are built without it.

func TestLookupsAllocateNothing(t *testing.T) {
	keys := le32Keys(0, 1000)
	for _, p := range []DirectPolicy{NewBloomPolicy(10), LegacyBloom.(DirectPolicy), NewCacheLineBloomPolicy(10), FusePolicy{}, NewFusePolicy(7)} {
		filter := p.CreateFilter(nil, keys)
		probe := p.NewProbe(filter)
		for _, key := range [][]byte{keys[0], []byte("caf\xc3\xa9")} {
			require.Zero(t, testing.AllocsPerRun(100, func() { p.KeyMayMatch(key, filter) }))
			require.Zero(t, testing.AllocsPerRun(100, func() { p.HashMayMatchFilter(p.KeyHash(key), filter) }))
			require.Zero(t, testing.AllocsPerRun(100, func() { probe.HashMayMatch(p.KeyHash(key)) }))
		}
	}
}

func TestMakingAFilterAllocatesAtMostTheFilter(t *testing.T) {
	keys, room := le32Keys(0, 1000), make([]byte, 0, 2000)
	for _, p := range []BloomPolicy{NewBloomPolicy(10), NewCacheLineBloomPolicy(10)} {
		require.Zero(t, testing.AllocsPerRun(100, func() { p.CreateFilter(room, keys) }))
		require.LessOrEqual(t, testing.AllocsPerRun(100, func() { p.CreateFilter(nil, keys) }), 1.0)
	}
}

func TestAUsedGeneratorHasItsMemoryAlready(t *testing.T) {
	keys, room := le32Keys(0, 1000), make([]byte, 0, 4000)
	for _, p := range []GeneratorPolicy{NewBloomPolicy(10), NewCacheLineBloomPolicy(10), FusePolicy{}, NewFusePolicy(7)} {
		g := p.NewGenerator()
		fill := func() {
			addAll(g, keys)
			g.AppendFilter(room)
		}
		fill()
		require.Zero(t, testing.AllocsPerRun(100, fill), p.Name())
	}
}
