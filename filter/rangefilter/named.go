package rangefilter

import (
	"fmt"
	"strings"
)

// PolicyNamed returns the policy with the given name, as stored in tables: a Prefix or a
// Grafite. New filters use bits bits for each prefix or key; existing filters are readable
// whatever bits is. The error for an unknown name has examples of valid names.
func PolicyNamed(name string, bits int) (Policy, error) {
	var p Policy
	if rest, ok := strings.CutPrefix(name, prefixBloomName); ok {
		p = NewPrefix(extractorNamed(rest), bits)
	} else if rest, ok := strings.CutPrefix(name, grafiteName); ok {
		extractor, number, _ := strings.Cut(rest, ".")
		p = NewGrafite(extractorNamed(extractor), numberNamed(number), bits)
	}
	if p == nil || p.Name() != name {
		return nil, fmt.Errorf("rangefilter: %q is not the name of a range filter policy; want a name such as %q or %q",
			name, NewPrefix(SeparatedPrefix('/', 1), bits).Name(),
			NewGrafite(FixedPrefix(8), BigEndian(8), bits).Name())
	}
	return p, nil
}

// extractorNamed returns an arbitrary extractor if name is not the name of one.
func extractorNamed(name string) (e Extractor) {
	if _, err := fmt.Sscanf(name, "upto:%x:%d", &e.separator, &e.n); err == nil {
		return SeparatedPrefix(e.separator, e.n)
	}
	_, _ = fmt.Sscanf(name, "fixed:%d", &e.n) // the caller compares the name
	return FixedPrefix(e.n)
}

func numberNamed(name string) Number {
	width := 0
	if _, err := fmt.Sscanf(name, "dec%d", &width); err == nil {
		return Decimal(width)
	}
	_, _ = fmt.Sscanf(name, "be%d", &width)
	return BigEndian(width)
}
