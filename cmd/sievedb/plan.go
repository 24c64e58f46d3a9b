package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

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
		a.out.prose("%d keys of %d bytes with values of %d: %s before compression\n",
			keys, keySize, valueSize, planBytes(float64(keys)*float64(keySize+valueSize)))
		a.printPlan(p)
	})
}

func (a *app) printPlan(p *db.FilterPlan) {
	a.out.prose("blocks read by 1,000 lookups of absent or present keys, with the same bits on every level, or divided by the budget:")
	t := a.out.table("filters", "bits", "absent, same", "absent, budget", "present, same", "present, budget")
	for _, m := range p.Curve {
		memory := planBytes(m.Bytes)
		if !a.out.people {
			memory = fmt.Sprintf("%.0f", m.Bytes)
		}
		t.row(memory, m.BitsPerKey, 1000*m.Uniform.Miss, 1000*m.Solved.Miss, 1000*m.Uniform.Hit, 1000*m.Solved.Hit)
	}
	t.print()
	a.out.printf("\nwith %s of filters, by level:\n\n", planBytes(p.At.Bytes))
	t = a.out.table("level", "keys", "+runs", "same bits", "false positives", "budget bits", "false positives")
	for _, l := range p.Levels {
		t.row(l.Level, fmt.Sprintf("%.0f", l.Keys), fmt.Sprintf("%.0f", l.Runs),
			l.UniformBits, fmt.Sprintf("%.4f %%", 100*l.UniformRate), l.SolvedBits, fmt.Sprintf("%.4f %%", 100*l.SolvedRate))
	}
	t.print()
	m := p.At
	a.out.printf("\n")
	if m.Bytes < 1 {
		a.out.prose("1,000 absent keys read %.1f blocks without filters", 1000*m.Uniform.Miss)
		return
	}
	a.out.prose("1,000 absent keys read %.1f blocks with the same bits, %.1f with the budget; 1,000 present keys read %.1f and %.1f",
		1000*m.Uniform.Miss, 1000*m.Solved.Miss, 1000*m.Uniform.Hit, 1000*m.Solved.Hit)
	a.out.prose("a program gets this with a filter budget of %.0f bytes, or of at most %.3g wasted reads for each absent key", m.Bytes, m.Solved.Miss)
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

// planBytes is an estimate of bytes as people read it.
func planBytes(n float64) string { return sizeText(uint64(min(n, 1<<63))) }
