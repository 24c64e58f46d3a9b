package rangefilter

import (
	"fmt"
	"strings"
)

// PolicyNamed returns the policy whose Name is name, as tables have it: that of a Prefix or
// of a Grafite. New filters use bits for each prefix or key; existing filters are read
// whatever bits is. The error says what a name looks like.
func PolicyNamed(name string, bits int) (Policy, error) {
	var p Policy
	if rest, ok := strings.CutPrefix(name, prefixBloomName); ok {
		p = NewPrefix(extractorNamed(rest), bits)
	} else if rest, ok := strings.CutPrefix(name, grafiteName); ok {
		extractor, number, _ := strings.Cut(rest, ".")
		p = NewGrafite(extractorNamed(extractor), numberNamed(number), bits)
	}
	if p == nil || p.Name() != name {
		return nil, fmt.Errorf("rangefilter: %q is the name of no filter of ranges; want one such as %q or %q", name,
			NewPrefix(SeparatedPrefix('/', 1), bits).Name(), NewGrafite(FixedPrefix(8), BigEndian(8), bits).Name())
	}
	return p, nil
}

// extractorNamed returns some extractor for what is no name of one.
func extractorNamed(name string) (e Extractor) {
	if _, err := fmt.Sscanf(name, "upto:%x:%d", &e.separator, &e.n); err == nil {
		return SeparatedPrefix(e.separator, e.n)
	}
	_, _ = fmt.Sscanf(name, "fixed:%d", &e.n) // its name is compared
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
