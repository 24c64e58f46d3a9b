package command

import (
	"bytes"
	"math"
	"math/big"
	"slices"
	"strings"
)

// ParseInt parses a number as Redis's string2ll does: no sign but a minus, no spaces, no leading zeros.
func ParseInt(b []byte) (int64, bool) {
	digits, negative := b, false
	if len(b) > 0 && b[0] == '-' {
		digits, negative = b[1:], true
	}
	if len(digits) == 0 || len(digits) > 19 || digits[0] == '0' && len(b) > 1 {
		return 0, false
	}
	var n uint64 // 19 digits fit
	for _, d := range digits {
		if d < '0' || d > '9' {
			return 0, false
		}
		n = n*10 + uint64(d-'0')
	}
	switch {
	case negative && n <= 1<<63:
		return -int64(n), true
	case !negative && n <= math.MaxInt64:
		return int64(n), true
	}
	return 0, false
}

// integer parses an argument.
func (c *Call) integer(arg int) (int64, error) {
	if n, ok := ParseInt(c.Args[arg]); ok {
		return n, nil
	}
	return 0, refusal(errInteger)
}

// integers parses two arguments.
func (c *Call) integers(arg int) (a, b int64, err error) {
	if a, err = c.integer(arg); err == nil {
		b, err = c.integer(arg + 1)
	}
	return a, b, err
}

// is reports whether an argument is a word, in any case.
func (c *Call) is(arg int, word string) bool {
	return len(c.Args[arg]) == len(word) && bytes.EqualFold(c.Args[arg], []byte(word))
}

// option is one of a command: a word, of which either is sets a flag, or takes is called with the position of the
// argument after it.
type option struct {
	word  string
	is    *bool
	takes func(arg int) error
}

// number is an option whose argument is an integer.
func (c *Call) number(word string, to *int64) option {
	return option{word: word, takes: func(arg int) (err error) { *to, err = c.integer(arg); return err }}
}

// options parses the arguments from one on.
func (c *Call) options(from int, known ...option) error {
	for i := from; i < len(c.Args); i++ {
		k := slices.IndexFunc(known, func(o option) bool { return c.is(i, o.word) })
		switch {
		case k < 0:
			return refusal(errSyntax)
		case known[k].is != nil:
			*known[k].is = true
			continue
		}
		if i++; i == len(c.Args) {
			return refusal(errSyntax)
		}
		if err := known[k].takes(i); err != nil {
			return err
		}
	}
	return nil
}

// INCRBYFLOAT computes with x86's long double: a mantissa of 64 bits, and exponents up to 16384. big.Float
// of this precision rounds in the same way.
const (
	longDoubleBits     = 64
	longDoubleMaxExp   = 16384
	longDoubleMinExp   = -16445   // of the smallest denormal number
	longDoubleMaxChars = 5 * 1024 // as Redis's MAX_LONG_DOUBLE_CHARS
	longDoubleMaxE     = 20_000   // beyond all exponents of a long double, decimal or binary
)

// parseFloat parses a number as Redis's string2ld does. Infinity is a number, NaN is not.
func parseFloat(b []byte) (*big.Float, bool) {
	if len(b) == 0 || len(b) >= longDoubleMaxChars {
		return nil, false
	}
	s := string(b)
	sign, unsigned := 1, s
	if s[0] == '-' || s[0] == '+' {
		unsigned = s[1:]
		if s[0] == '-' {
			sign = -1
		}
	}
	if strings.EqualFold(unsigned, "inf") || strings.EqualFold(unsigned, "infinity") {
		return new(big.Float).SetInf(sign < 0), true
	}
	base := 10
	if len(unsigned) > 2 && strings.EqualFold(unsigned[:2], "0x") {
		base = 0 // that of the prefix
	}
	if base == 10 && !isNumber(unsigned, "eE", "0123456789") ||
		base == 0 && !isNumber(unsigned[2:], "pP", "0123456789abcdefABCDEF") {
		return nil, false
	}
	f, _, err := big.ParseFloat(s, base, longDoubleBits, big.ToNearestEven)
	if err != nil || f.IsInf() || f.MantExp(nil) < longDoubleMinExp || f.MantExp(nil) > longDoubleMaxExp {
		return nil, false
	}
	return f, true
}

// isNumber reports whether s is digits with at most one point, and maybe an exponent of a
// few digits. big.ParseFloat accepts more.
func isNumber(s, exponentMarks, digits string) bool {
	mantissa, exponent, hasExponent := s, "", false
	if i := strings.IndexAny(s, exponentMarks); i >= 0 {
		mantissa, exponent, hasExponent = s[:i], s[i+1:], true
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	if whole+fraction == "" || strings.Trim(whole+fraction, digits) != "" {
		return false
	}
	if !hasExponent {
		return true
	}
	if exponent != "" && (exponent[0] == '-' || exponent[0] == '+') {
		exponent = exponent[1:]
	}
	if exponent == "" || strings.Trim(exponent, "0123456789") != "" {
		return false
	}
	exponent = strings.TrimLeft(exponent, "0")
	e, ok := ParseInt([]byte(exponent))
	return exponent == "" || ok && e <= longDoubleMaxE
}

// formatFloat formats a number as Redis's ld2string does for people: 17 digits, without trailing zeros.
func formatFloat(f *big.Float) string {
	s := f.Text('f', 17)
	s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	if s == "-0" {
		return "0"
	}
	return s
}
