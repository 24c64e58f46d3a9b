package filter

import "slices"

// Several returns a policy whose tables carry a filter of each of the given
// policies, under its own name, so that more readers find one that they know.
// Readers ask the first one that they know and that is not damaged, and load
// only that one; the others cost disk space and the time to make them.
//
// As a Policy it is the first of them; whoever writes or reads tables asks for all
// with Kinds. Policies of a name that came before, None and nil are left out, and
// those that Several made are taken apart. Of a single policy it is that policy,
// and of none it is None.
func Several(policies ...Policy) Policy {
	var flat []Policy
	names := map[string]bool{}
	for _, p := range policies {
		for _, kind := range Kinds(p) {
			if name := kind.Name(); !names[name] {
				names[name] = true
				flat = append(flat, kind)
			}
		}
	}
	switch len(flat) {
	case 0:
		return None
	case 1:
		return flat[0]
	}
	return &several{Policy: flat[0], policies: flat}
}

// several is used by pointer, so that policies stay comparable with ==.
type several struct {
	Policy
	policies []Policy
}

// Kinds returns the policies of the filters that a table written with p carries,
// the one that readers ask first in front: those that Several or
// NewDualBloomPolicy put together, else p alone, and nothing for None and nil. The
// slice is the caller's.
func Kinds(p Policy) []Policy {
	// By type and not by a method, which a policy that embeds one of ours would
	// have without knowing.
	switch p := p.(type) {
	case nil, nonePolicy:
		return nil
	case *several:
		return slices.Clone(p.policies)
	case BloomPolicy:
		if p.layout == dualLayout {
			return []Policy{BloomPolicy{cacheLineLayout, p.bitsPerKey}, BloomPolicy{levelDBLayout, p.bitsPerKey}}
		}
	}
	return []Policy{p}
}

// SameHash reports whether KeyHash of a and of b is known to be the same function. It
// is for policies of one layout, and for cache lines and binary fuse filters, which
// share theirs: a lookup then hashes its key once for both. Hashes of policies from
// elsewhere are taken for different ones.
func SameHash(a, b Policy) bool {
	h := hashOf(a)
	return h != unknownHash && h == hashOf(b)
}

type keyHash uint8

const (
	unknownHash keyHash = iota
	levelDBHash
	legacyHashes
	xxh3Hash
)

// hashOf goes by type: a policy that embeds one of ours may hash otherwise.
func hashOf(p Policy) keyHash {
	switch p := p.(type) {
	case BloomPolicy:
		if p.layout == levelDBLayout {
			return levelDBHash
		}
		return xxh3Hash
	case FusePolicy:
		return xxh3Hash
	case legacyBloom:
		return legacyHashes
	}
	return unknownHash
}
