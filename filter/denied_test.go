package filter

import (
	"testing"

	"github.com/sievedb/sievedb/internal/test/filtertest"
)

// deniers are the kinds of filters for keys.
var deniers = []filtertest.Denier{
	{Kind: "LevelDB's bloom", Make: func(keys [][]byte, bits int) func([]byte) bool { return keyMatcher(NewBloomPolicy(bits), keys) }},
	{Kind: "cache lines", Make: func(keys [][]byte, bits int) func([]byte) bool {
		return keyMatcher(NewCacheLineBloomPolicy(bits), keys)
	}},
	{Kind: "binary fuse", Make: func(keys [][]byte, bits int) func([]byte) bool { return keyMatcher(NewFusePolicy(bits), keys) }},
	{Kind: "the old name", Make: func(keys [][]byte, _ int) func([]byte) bool { return keyMatcher(LegacyBloom, keys) }},
}

func keyMatcher(p Policy, keys [][]byte) func([]byte) bool {
	filter := p.CreateFilter(nil, keys)
	h, ok := p.(HashPolicy)
	if !ok {
		return func(key []byte) bool { return p.KeyMayMatch(key, filter) }
	}
	probe := h.NewProbe(filter)
	return func(key []byte) bool { return probe.HashMayMatch(h.KeyHash(key)) }
}

func TestNoFilterDeniesItsKeys(t *testing.T) { filtertest.RequireNoneDenied(t, deniers) }
