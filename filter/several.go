package filter

import "slices"

// Several returns a policy whose tables carry a filter of each of the given policies, under its own name, so that more
// programs find a filter that they know. A reader uses the first filter that it knows and that is not damaged, and
// loads only that one. The others cost disk space and the time to make them.
//
// The Policy methods of the result are those of the first policy; programs that write or read tables get all of them
// from Kinds. Several ignores nil, None, and policies whose name an earlier one has, and flattens the results of
// Several. With a single policy it returns that policy, and with none it returns None.
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

// Kinds returns the policies of the filters in a table written with p, the one that
// readers prefer first. These are the policies that Several or NewDualBloomPolicy
// combined, or p alone. It returns nothing for None and nil. The caller owns the slice.
func Kinds(p Policy) []Policy {
	// By type, because a policy that embeds one of ours would inherit a method unintentionally.
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

// SameHash reports whether KeyHash of a and of b is known to be the same function. It is for policies of one layout,
// and for cache lines and binary fuse filters, which share a hash: a lookup then hashes its key once for both. It
// returns false for policies of other packages.
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

// hashOf switches on the type: a policy that embeds one of ours may hash differently.
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
