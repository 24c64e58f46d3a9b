package bench

import (
	"fmt"
	"strconv"
	"strings"
)

// Grouped formats n with commas between groups of three digits.
func Grouped(n uint64) string {
	s := strconv.FormatUint(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// SizeText formats a number of bytes with a suitable unit.
func SizeText(n uint64) string {
	switch {
	case n < 10<<10:
		return Grouped(n) + " B"
	case n < 1<<20:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	case n < 1<<30:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	f, unit := float64(n)/(1<<30), 0
	for ; f >= 1024 && unit < 3; unit++ {
		f /= 1024
	}
	return fmt.Sprintf("%.1f %s", f, [...]string{"GiB", "TiB", "PiB", "EiB"}[unit])
}

// Counted formats n with its noun, in the plural unless n is 1.
func Counted(n uint64, noun string) string {
	switch {
	case n == 1:
	case strings.HasSuffix(noun, "y") && !strings.HasSuffix(noun, "ey"):
		noun = noun[:len(noun)-1] + "ies"
	case strings.HasSuffix(noun, "x"):
		noun += "es"
	default:
		noun += "s"
	}
	return Grouped(n) + " " + noun
}

// SplitList splits s at commas, trims spaces, and drops empty parts.
func SplitList(s string) []string {
	var list []string
	for part := range strings.SplitSeq(s, ",") {
		if part = strings.TrimSpace(part); part != "" {
			list = append(list, part)
		}
	}
	return list
}
