package main

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/sievedb/sievedb/db"
)

// plan prints what filters would take and save in a database of some size.
func plan(c *call) (int, error) {
	keys, err := parseCount("keys", c.flags.keys)
	if err != nil {
		return exitUsage, err
	}
	keySize, err := parseSize("key-size", c.flags.keySize)
	if err != nil {
		return exitUsage, err
	}
	valueSize, err := parseSize("value-size", c.flags.valueSize)
	if err != nil {
		return exitUsage, err
	}
	memory := keys * 10 / 8
	if c.flags.memory != "" {
		if memory, err = parseSize("memory", c.flags.memory); err != nil {
			return exitUsage, err
		}
	}
	p, err := (&db.Options{}).PlanFilters(keys, keySize+valueSize, memory)
	if err != nil {
		return exitUsage, err
	}
	fmt.Fprintf(c.stdout, "%d keys of %d bytes with values of %d: %s before compression\n\n",
		keys, keySize, valueSize, bytesText(float64(keys)*float64(keySize+valueSize)))
	err = printPlan(c.stdout, p)
	return codeOf(err), err
}

func printPlan(w io.Writer, p *db.FilterPlan) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "blocks read by 1,000 lookups of absent or present keys, with the same bits on every level, or divided by the budget:")
	fmt.Fprintln(t, "filters\tbits a key\tabsent, same\tabsent, budget\tpresent, same\tpresent, budget\t")
	row := func(m db.PlannedMemory) {
		fmt.Fprintf(t, "%s\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t\n", bytesText(m.Bytes), m.BitsPerKey,
			1000*m.Uniform.Miss, 1000*m.Solved.Miss, 1000*m.Uniform.Hit, 1000*m.Solved.Hit)
	}
	for _, m := range p.Curve {
		row(m)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(w, "\nwith %s of filters, by level:\n\n", bytesText(p.At.Bytes))
	fmt.Fprintln(t, "level\tkeys\truns\tsame bits\tfalse positives\tbudget bits\tfalse positives\t")
	for _, l := range p.Levels {
		fmt.Fprintf(t, "%d\t%.0f\t%.0f\t%.1f\t%.4f %%\t%.1f\t%.4f %%\t\n", l.Level, l.Keys, l.Runs,
			l.UniformBits, 100*l.UniformRate, l.SolvedBits, 100*l.SolvedRate)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	m := p.At
	if m.Bytes < 1 {
		_, err := fmt.Fprintf(w, "\n1,000 absent keys read %.1f blocks; Options.Filters.Policy: filter.None\n", 1000*m.Uniform.Miss)
		return err
	}
	_, err := fmt.Fprintf(w, "\n1,000 absent keys read %.1f blocks with the same bits, %.1f with the budget; 1,000 present keys read %.1f and %.1f\n"+
		"Options.Filters.Budget: %.0f (bytes) or Options.Filters.MaxWastedReads: %.3g (for each absent key) makes the store do this\n",
		1000*m.Uniform.Miss, 1000*m.Solved.Miss, 1000*m.Uniform.Hit, 1000*m.Solved.Hit, m.Bytes, m.Solved.Miss)
	return err
}

// parseCount reads a whole number, also as 1e9 or with a suffix of 1000s: 200k, 1M, 5G, 1T.
func parseCount(name, text string) (uint64, error) {
	return parseNumber(name, text, strings.ToUpper(text), 1000)
}

// parseSize reads bytes; suffixes are of 1024s: 64K, 64KiB, 1G, 2TB.
func parseSize(name, text string) (uint64, error) {
	bare := strings.TrimSuffix(strings.ToUpper(text), "B")
	return parseNumber(name, text, strings.TrimSuffix(bare, "I"), 1024)
}

func parseNumber(name, text, bare string, unit float64) (uint64, error) {
	scale := 1.0
	for i, suffix := range []string{"K", "M", "G", "T"} {
		if short, ok := strings.CutSuffix(bare, suffix); ok {
			bare, scale = short, math.Pow(unit, float64(i+1))
			break
		}
	}
	n, err := strconv.ParseFloat(bare, 64)
	if n *= scale; err != nil || !(n >= 0) || n > 1<<60 {
		return 0, fmt.Errorf("sievedb: -%s is %q; want a number such as 200, 1e9 or 16M", name, text)
	}
	return uint64(n), nil
}

// bytesText is a size as people read it.
func bytesText(n float64) string {
	unit := 0
	for n >= 1024 && unit < 5 {
		n /= 1024
		unit++
	}
	return fmt.Sprintf("%.4g %s", n, []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB"}[unit])
}
