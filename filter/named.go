package filter

import "fmt"

// PolicyNamed returns the policy with the given name, as stored in tables. New filters of a BloomPolicy use bitsPerKey
// bits for each key, or DefaultBitsPerKey if it is 0. Those of a FusePolicy have slots of bitsPerKey bits, or 8 if it
// is
// 0. Other policies have no choice. The error for a name that is none of this package's lists those.
func PolicyNamed(name string, bitsPerKey int) (Policy, error) {
	slots := FusePolicy{}
	if bitsPerKey == 0 {
		bitsPerKey = DefaultBitsPerKey
	} else {
		slots = NewFusePolicy(bitsPerKey)
	}
	known := []Policy{NewCacheLineBloomPolicy(bitsPerKey), NewBloomPolicy(bitsPerKey), slots, LegacyBloom, None}
	names := make([]string, len(known))
	for i, p := range known {
		if names[i] = p.Name(); names[i] == name {
			return p, nil
		}
	}
	return nil, fmt.Errorf("filter: %q is not the name of a filter policy of this package; those are %q", name, names)
}
