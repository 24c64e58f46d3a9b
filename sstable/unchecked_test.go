package sstable

import "github.com/sievedb/sievedb/filter"

// unchecked returns a policy for a Writer whose filters have the bytes and the name of p's. The Writer's check always
// succeeds, because each filter claims to hold every key, so that tables with wrong filters can be made.
func unchecked(p filter.Policy) filter.Policy {
	var kinds []filter.Policy
	for _, kind := range filter.Kinds(p) {
		if gen, ok := kind.(filter.GeneratorPolicy); ok {
			kinds = append(kinds, uncheckedKeys{uncheckedPolicy{kind}, gen})
		} else {
			kinds = append(kinds, uncheckedPolicy{kind})
		}
	}
	return filter.Several(kinds...)
}

type uncheckedPolicy struct{ filter.Policy }

func (uncheckedPolicy) KeyMayMatch(_, _ []byte) bool { return true }

type uncheckedKeys struct {
	uncheckedPolicy
	made filter.GeneratorPolicy
}

func (p uncheckedKeys) NewGenerator() filter.Generator {
	return uncheckedGenerator{p.made.NewGenerator()}
}

type uncheckedGenerator struct{ filter.Generator }

func (g uncheckedGenerator) AppendChecked(dst []byte) (extended []byte, denied int) {
	return g.AppendFilter(dst), 0
}
