package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/sievedb/sievedb/cmd/internal/bench"
	"github.com/sievedb/sievedb/db"
)

type planFlags struct{ keys, keySize, valueSize, memory string }

func (p *planFlags) add(f *pflag.FlagSet) {
	f.StringVar(&p.keys, "keys", "1e9", "the number of keys")
	f.StringVar(&p.keySize, "key-size", "16", "bytes of a key")
	f.StringVar(&p.valueSize, "value-size", "100", "bytes of a value")
	f.StringVar(&p.memory, "memory", "", "bytes for filters, such as 512M (default: 10 bits a key)")
}

// plan prints what filters would use and save in a database of some size.
func (a *app) plan(flags *planFlags) error {
	keys, err := parseCount("keys", flags.keys)
	if err != nil {
		return err
	}
	keySize, err := parseSize("key-size", flags.keySize)
	if err != nil {
		return err
	}
	valueSize, err := parseSize("value-size", flags.valueSize)
	if err != nil {
		return err
	}
	memory := keys * 10 / 8
	if flags.memory != "" {
		if memory, err = parseSize("memory", flags.memory); err != nil {
			return err
		}
	}
	p, err := (&db.Options{}).PlanFilters(keys, keySize+valueSize, memory)
	if err != nil {
		return &failure{exitUsage, err}
	}
	return a.out.result(p, func() {
		a.out.printf("%d keys of %d bytes with values of %d: %s before compression\n\n",
			keys, keySize, valueSize, bytesText(float64(keys)*float64(keySize+valueSize)))
		a.printPlan(p)
	})
}

func (a *app) printPlan(p *db.FilterPlan) {
	a.out.printf("blocks read by 1,000 lookups of absent or present keys, with the same bits on every level, or divided by the budget:\n")
	t := a.out.table("filters", "bits a key", "absent, same", "absent, budget", "present, same", "present, budget")
	for _, m := range p.Curve {
		memory := bytesText(m.Bytes)
		if !a.out.people {
			memory = fmt.Sprintf("%.0f", m.Bytes)
		}
		t.row(memory, m.BitsPerKey, 1000*m.Uniform.Miss, 1000*m.Solved.Miss, 1000*m.Uniform.Hit, 1000*m.Solved.Hit)
	}
	t.print()
	a.out.printf("\nwith %s of filters, by level:\n\n", bytesText(p.At.Bytes))
	t = a.out.table("level", "keys", "runs", "same bits", "false positives", "budget bits", "false positives")
	for _, l := range p.Levels {
		t.row(l.Level, fmt.Sprintf("%.0f", l.Keys), fmt.Sprintf("%.0f", l.Runs),
			l.UniformBits, fmt.Sprintf("%.4f %%", 100*l.UniformRate), l.SolvedBits, fmt.Sprintf("%.4f %%", 100*l.SolvedRate))
	}
	t.print()
	m := p.At
	if m.Bytes < 1 {
		a.out.printf("\n1,000 absent keys read %.1f blocks; Options.Filters.Policy: filter.None\n", 1000*m.Uniform.Miss)
		return
	}
	a.out.printf("\n1,000 absent keys read %.1f blocks with the same bits, %.1f with the budget; 1,000 present keys read %.1f and %.1f\n"+
		"Options.Filters.Budget: %.0f (bytes) or Options.Filters.MaxWastedReads: %.3g (for each absent key) makes the store do this\n",
		1000*m.Uniform.Miss, 1000*m.Solved.Miss, 1000*m.Uniform.Hit, 1000*m.Solved.Hit, m.Bytes, m.Solved.Miss)
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
		return 0, misuse("--%s is %q; want a number such as 200, 1e9 or 16M", name, text)
	}
	return uint64(n), nil
}

// bytesText is a size as people read it. Unlike bench.SizeText, it covers estimates of any size.
func bytesText(n float64) string {
	if n < 1<<30 {
		return bench.SizeText(uint64(n))
	}
	unit := -1
	for n >= 1024 && unit < 4 {
		n /= 1024
		unit++
	}
	return fmt.Sprintf("%.1f %s", n, []string{"KiB", "MiB", "GiB", "TiB", "PiB"}[unit])
}
