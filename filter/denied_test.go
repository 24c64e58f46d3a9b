package filter

import (
	"testing"

	"github.com/sievedb/sievedb/internal/filtertest"
)

// deniers are the kinds of filters for keys.
var deniers = []filtertest.Denier{
	{Kind: "LevelDB's bloom", Make: func(keys [][]byte, bits int) func([]byte) bool { return asking(NewBloomPolicy(bits), keys) }},
	{Kind: "cache lines", Make: func(keys [][]byte, bits int) func([]byte) bool { return asking(NewCacheLineBloomPolicy(bits), keys) }},
	{Kind: "binary fuse", Make: func(keys [][]byte, _ int) func([]byte) bool { return asking(FusePolicy{}, keys) }},
	{Kind: "the old name", Make: func(keys [][]byte, _ int) func([]byte) bool { return asking(LegacyBloom, keys) }},
}

func asking(p Policy, keys [][]byte) func([]byte) bool {
	filter := p.CreateFilter(nil, keys)
	h, ok := p.(HashPolicy)
	if !ok {
		return func(key []byte) bool { return p.KeyMayMatch(key, filter) }
	}
	probe := h.NewProbe(filter)
	return func(key []byte) bool { return probe.HashMayMatch(h.KeyHash(key)) }
}

func TestNoKindOfFilterDeniesAKeyThatWentIn(t *testing.T) { filtertest.RequireNoneDenied(t, deniers) }
