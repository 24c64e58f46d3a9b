package filter

// A SeveralPolicy is a Policy whose tables carry a filter of each of several
// policies. As a Policy it is the first of them; whoever writes or reads tables
// asks for all with Kinds.
type SeveralPolicy interface {
	Policy

	// Policies returns the policies, the one that readers ask first in front. The
	// slice is the caller's.
	Policies() []Policy
}

// Several returns a policy whose tables carry a filter of each of the given
// policies, under its own name, so that more readers find one that they know.
// Readers ask the first one that they know and that is not damaged, and load
// only that one; the others cost disk space and the time to make them.
//
// Policies of a name that came before, None and nil are left out, and the
// policies within a SeveralPolicy are taken one by one. Of a single policy it is
// that policy, and of none it is None.
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

func (s *several) Policies() []Policy { return append([]Policy(nil), s.policies...) }

// Kinds returns the policies of the filters that a table written with p carries,
// the one that readers ask first in front: those of a SeveralPolicy, else p
// alone, and nothing for None and nil.
func Kinds(p Policy) []Policy {
	if p == nil || p == None {
		return nil
	}
	if s, ok := p.(SeveralPolicy); ok {
		return s.Policies()
	}
	return []Policy{p}
}
