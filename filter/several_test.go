package filter

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func kindNames(p Policy) []string {
	names := []string{}
	for _, kind := range Kinds(p) {
		names = append(names, kind.Name())
	}
	return names
}

func TestSeveralKeepsOneOfEachNameInOrder(t *testing.T) {
	lines, bloom := NewCacheLineBloomPolicy(12), NewBloomPolicy(8)
	for _, c := range []struct {
		claim string
		p     Policy
		want  []string
	}{
		{"none", None, []string{}},
		{"nil", nil, []string{}},
		{"one", bloom, []string{bloomName}},
		{"both layouts", NewDualBloomPolicy(10), []string{cacheLineName, bloomName}},
		{"the order is kept", Several(bloom, lines), []string{bloomName, cacheLineName}},
		{"names once", Several(lines, bloom, NewBloomPolicy(30), lines), []string{cacheLineName, bloomName}},
		{"several in several", Several(LegacyBloom, Several(bloom, lines), NewDualBloomPolicy(3)), []string{legacyName, bloomName, cacheLineName}},
		{"nothing in several", Several(nil, None), []string{}},
	} {
		t.Run(c.claim, func(t *testing.T) { require.Equal(t, c.want, kindNames(c.p)) })
	}
	require.Equal(t, []Policy{bloom, lines}, Kinds(Several(bloom, lines, NewBloomPolicy(30))), "the first of a name")
	require.True(t, Several(bloom) == Policy(bloom), "one policy is itself")
	require.True(t, Several() == None)
	require.Equal(t, []Policy{NewCacheLineBloomPolicy(9), NewBloomPolicy(9)}, Kinds(NewDualBloomPolicy(9)))
}

func TestSeveralBehavesLikeItsFirstPolicy(t *testing.T) {
	bloom := NewBloomPolicy(8)
	p := Several(bloom, NewCacheLineBloomPolicy(12))
	require.True(t, p == p && p != Several(bloom, LegacyBloom), "comparable with ==")
	require.Equal(t, bloomName, p.Name())
	filter := p.CreateFilter(nil, words("a", "b"))
	require.Equal(t, bloom.CreateFilter(nil, words("a", "b")), filter)
	require.True(t, p.KeyMayMatch([]byte("a"), filter))
	dual := NewDualBloomPolicy(10)
	require.Equal(t, NewCacheLineBloomPolicy(10).CreateFilter(nil, words("a")), dual.CreateFilter(nil, words("a")))
	require.Equal(t, cacheLineName, dual.Name())
}

func TestKindsReturnsACopy(t *testing.T) {
	p := Several(NewBloomPolicy(8), NewCacheLineBloomPolicy(12))
	Kinds(p)[0] = None
	require.Equal(t, []string{bloomName, cacheLineName}, kindNames(p))
}

// A policy that embeds one of ours but has another name and other bytes is a separate kind.
func TestPolicyEmbeddingOursIsOneKind(t *testing.T) {
	type own struct{ BloomPolicy }
	p := own{NewDualBloomPolicy(10)}
	require.Equal(t, []Policy{p}, Kinds(p))
}

func TestSameHash(t *testing.T) {
	type own struct{ BloomPolicy }
	policies := []Policy{
		NewBloomPolicy(10), NewBloomPolicy(3), LegacyBloom, NewCacheLineBloomPolicy(5), NewDualBloomPolicy(7), FusePolicy{}, NewFusePolicy(5),
		own{NewCacheLineBloomPolicy(5)}, None, nil,
	}
	group := []int{1, 1, 2, 3, 3, 3, 3, 0, 0, 0}
	for i, a := range policies {
		for j, b := range policies {
			same := group[i] != 0 && group[i] == group[j]
			require.Equal(t, same, SameHash(a, b), "%T, %T", a, b)
			for _, key := range goldenKeys(t, "bytes", 40) {
				if same {
					require.Equal(t, a.(HashPolicy).KeyHash(key), b.(HashPolicy).KeyHash(key), "%T, %T", a, b)
				}
			}
		}
	}
}
