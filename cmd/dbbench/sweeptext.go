package main

import (
	"fmt"
	"math"
	"strings"

	"github.com/sievedb/sievedb/cmd/internal/bench"
)

// referenceBits is the number of bits in texts and in the charts by level: the store's default, or
// the closest of --bits.
const referenceBits = 10

func (out *sweep) reference() int {
	best := out.Bits[0]
	for _, b := range out.Bits {
		if max(b-referenceBits, referenceBits-b) < max(best-referenceBits, referenceBits-best) {
			best = b
		}
	}
	return best
}

// referenceRuns returns the stores of each kind with the reference bits.
func (out *sweep) referenceRuns() (runs []*storeRun) {
	for _, r := range out.Stores {
		if r.Bits == 0 || r.Bits == out.reference() {
			runs = append(runs, r)
		}
	}
	return runs
}

func (out *sweep) runOf(kind string) *storeRun {
	for _, r := range out.referenceRuns() {
		if r.Kind == kind {
			return r
		}
	}
	return nil
}

// named returns a kind with its bits, for text.
func (p sweepPoint) named() string {
	k, ok := findSweepKind(p.Kind)
	switch {
	case !ok:
		l := p.peer()
		return l.noun
	case p.Bits == 0:
		return k.noun
	}
	return fmt.Sprintf("%s of %d bits", k.noun, p.Bits)
}

// with returns what the lookups of a peer had, as part of a sentence.
func (p sweepPoint) with() string {
	switch p.Kind {
	case noFilters.name:
		return "blocks without filters"
	case "pebble":
		return "as in Pebble, without filters of the last level"
	}
	return "with " + p.peer().noun
}

// peer returns the layout of a store of Peers.
func (p sweepPoint) peer() filterLayout {
	for _, l := range append([]filterLayout{noFilters}, peerLayouts...) {
		if l.name == p.Kind {
			return l
		}
	}
	return filterLayout{name: ownName, noun: ownNoun + "'s default", what: ownWhat}
}

// finding is one conclusion from the data.
type finding struct{ Head, Text string }

// findings returns sentences that follow from the measurements alone.
func (out *sweep) findings() (all []finding) {
	for _, f := range []func() (finding, bool){out.findReads, out.findTheory, out.findShapes, out.findTime, out.findMaking} {
		if found, ok := f(); ok {
			all = append(all, found)
		}
	}
	return all
}

// findReads compares the default with no filter and with the filters of other stores.
func (out *sweep) findReads() (finding, bool) {
	if len(out.Peers) == 0 {
		return finding{}, false
	}
	var absent, stored []string
	for _, r := range out.Peers {
		absent = append(absent, digits3(r.Absent.readsPerGet())+" "+r.with())
		stored = append(stored, digits3(r.Present.readsPerGet()))
	}
	return finding{"Reads", fmt.Sprintf("On %s, a lookup of an absent key reads %s. "+
		"For a stored key, which must be read once, the numbers are %s.",
		bench.Counted(uint64(len(out.Levels)), "level"), listed(absent), listed(stored))}, true
}

// listed joins parts with commas and a final "and".
func listed(parts []string) string {
	last := len(parts) - 1
	if last < 1 {
		return strings.Join(parts, "")
	}
	return strings.Join(parts[:last], ", ") + " and " + parts[last]
}

// findTheory compares the rates in small tables with the predictions.
func (out *sweep) findTheory() (finding, bool) {
	var parts []string
	for _, k := range out.measuredKinds() {
		agree, all, worst, where := 0, 0, 0.0, ""
		for _, s := range out.Shapes {
			for _, r := range s.Small.Rates {
				if r.Kind != k.name {
					continue
				}
				if all++; r.agrees() {
					agree++
				}
				if excess := r.Rate / max(r.Predicted, 1e-12); excess > worst && r.Low > r.Predicted {
					worst, where = excess, fmt.Sprintf("%d bits on %s", r.Bits, s.Shape)
				}
			}
		}
		if all == 0 {
			continue
		}
		text := fmt.Sprintf("%s %d of %d", k.noun, agree, all)
		if all-agree > all/10 {
			text += fmt.Sprintf(" (up to %s times the prediction, with %s)", digits3(worst), where)
		}
		parts = append(parts, text)
	}
	return finding{"Theory", fmt.Sprintf("In tables of %s keys, the interval of 19 in 20 measured rates should contain the predicted rate. It does for: %s.",
		bench.Grouped(uint64(out.Shapes[len(out.Shapes)-1].Small.TableKeys)), strings.Join(parts, "; "))}, len(parts) > 0
}

// unsound reports whether the filter's false-positive rate is far above its policy's prediction. By
// the rule of DB.Filters, that is if the whole interval is above twice the prediction plus 0.2 %.
func (r *filterRate) unsound() bool { return r.Low > 2*r.AnyKeys+0.002 }

// unsoundShapes returns the shapes on which a kind is unsound with the reference bits, and its
// greatest rate.
func (out *sweep) unsoundShapes(kind string, large bool) (names []string, worst *filterRate) {
	for _, s := range out.Shapes {
		t := &s.Small
		if large {
			t = &s.Large
		}
		for i := range t.Rates {
			r := &t.Rates[i]
			if r.Kind != kind || r.Bits != 0 && r.Bits != out.reference() {
				continue
			}
			if r.unsound() {
				names = append(names, s.Shape)
			}
			if worst == nil || r.Rate > worst.Rate {
				worst = r
			}
		}
	}
	return names, worst
}

func (out *sweep) findShapes() (finding, bool) {
	var parts []string
	for _, k := range out.measuredKinds() {
		names, worst := out.unsoundShapes(k.name, true)
		if worst == nil {
			continue
		}
		if len(names) == 0 {
			parts = append(parts, fmt.Sprintf("With %s at most %s of absent keys pass, on any key shape.",
				worst.named(), rateText(worst.Rate)))
			continue
		}
		_, small := out.unsoundShapes(k.name, false)
		text := fmt.Sprintf("With %s up to %s pass in one large table if keys are written as %s; in small tables at most %s.",
			worst.named(), rateText(worst.Rate), strings.Join(names, ", "), rateText(small.Rate))
		if last := out.rateAtMostBits(k.name); last != nil && last.unsound() && last.Bits > worst.Bits {
			text += fmt.Sprintf(" More bits do not help: with %d bits, %s pass.", last.Bits, rateText(last.Rate))
		}
		parts = append(parts, text)
	}
	return finding{"Key shapes", strings.Join(parts, " ")}, len(parts) > 0
}

// rateAtMostBits returns the rate on the worst shape in a large table, with the most bits.
func (out *sweep) rateAtMostBits(kind string) *filterRate {
	t := &out.worstShape().Large
	return t.of(sweepPoint{Kind: kind, Bits: out.Bits[len(out.Bits)-1]})
}

func upperFirst(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

func (out *sweep) findTime() (finding, bool) {
	none := out.runOf("none")
	var parts []string
	for _, r := range out.referenceRuns() {
		if r.Kind != "none" {
			parts = append(parts, fmt.Sprintf("%s µs with %s", r.Absent.timeText(), r.named()))
		}
	}
	if none == nil || len(parts) == 0 {
		return finding{}, false
	}
	return finding{"Time", fmt.Sprintf("Learning that a key is absent takes %s µs without filters, %s. The operating system's cache serves these reads.",
		none.Absent.timeText(), strings.Join(parts, ", "))}, true
}

func (out *sweep) findMaking() (finding, bool) {
	var parts []string
	for _, r := range out.referenceRuns() {
		if r.Kind != "none" {
			parts = append(parts, fmt.Sprintf("%s: %s ns per key to build, %s in memory",
				r.named(), digits3(r.MakeNanosPerKey), bench.SizeText(r.FilterBytes)))
		}
	}
	return finding{"Price", upperFirst(strings.Join(parts, "; ")) + "."}, len(parts) > 0
}

// wantedRates are the rows of the table of choices.
var wantedRates = []float64{0.05, 0.01, 0.004, 0.001, 0.0001}

// choice is a row of the table of choices: the bits of each kind for a wanted rate.
type choice struct {
	Wanted string
	Cells  []choiceCell
}

// choiceCell has the bits with which a kind reaches the rate, for the real keys and for every shape
// in tables of either size.
type choiceCell struct {
	Real, Every string
	Best        bool // the fewest bits of all kinds, for every shape
}

func (out *sweep) choices() (rows []choice) {
	for _, wanted := range wantedRates {
		row := choice{Wanted: percentTick(wanted)}
		best, least := -1, math.Inf(1)
		for i, k := range out.measuredKinds() {
			every := out.leastBits(k.name, wanted, out.Shapes)
			row.Cells = append(row.Cells, choiceCell{Real: bitsText(out.leastBits(k.name, wanted, out.Shapes[:1])), Every: bitsText(every)})
			if every < least {
				best, least = i, every
			}
		}
		if best >= 0 {
			row.Cells[best].Best = true
		}
		rows = append(rows, row)
	}
	return rows
}

func bitsText(bits float64) string {
	if math.IsInf(bits, 1) {
		return "–"
	}
	return fmt.Sprintf("%.3g", bits)
}

// leastBits returns the fewest bits with which a kind's rate is at most wanted on all of the shapes,
// as far as the intervals show. It returns infinity if no number of bits suffices.
func (out *sweep) leastBits(kind string, wanted float64, shapes []*shapeRates) float64 {
	least := math.Inf(1)
	for _, p := range sweepPoints([]string{kind}, out.Bits) {
		enough, bits := true, 0.0
		for _, s := range shapes {
			for _, t := range []*tableRates{&s.Small, &s.Large} {
				r := t.of(p)
				// The measured rate alone would be too low or too high by chance in a small sample.
				enough = enough && r.Predicted <= wanted && r.Low <= wanted
				bits = max(bits, r.BitsPerKey)
			}
		}
		if p.Bits > 0 {
			bits = float64(p.Bits)
		}
		if enough {
			least = min(least, bits)
		}
	}
	return least
}

// advice returns which kind to use, and why.
func (out *sweep) advice() string {
	var sound []*storeRun
	var failing []string
	for _, r := range out.referenceRuns() {
		if r.Kind == "none" {
			continue
		}
		if names, _ := out.unsoundShapes(r.Kind, true); len(names) > 0 {
			failing = append(failing, fmt.Sprintf("Avoid %s, unless another program has to read it: in large tables, its hash collides for keys written as %s.",
				r.named(), strings.Join(names, ", ")))
			continue
		}
		sound = append(sound, r)
	}
	if len(sound) == 0 {
		return "None of the measured kinds keeps its rate on every key shape; measure others."
	}
	least, cheapest := sound[0], sound[0]
	for _, r := range sound[1:] {
		if r.Absent.Reads < least.Absent.Reads {
			least = r
		}
		if r.MakeNanosPerKey < cheapest.MakeNanosPerKey {
			cheapest = r
		}
	}
	text := fmt.Sprintf("Use %s", least.named())
	if least != cheapest {
		text += fmt.Sprintf(" if tables are read far more often than they are written: %s disk reads per absent key and %s of memory, against %s and %s with %s. "+
			"Building it takes %s times as long, so use %s if data is rewritten all the time",
			digits3(least.Absent.readsPerGet()), bench.SizeText(least.FilterBytes),
			digits3(cheapest.Absent.readsPerGet()), bench.SizeText(cheapest.FilterBytes), cheapest.named(),
			digits3(least.MakeNanosPerKey/cheapest.MakeNanosPerKey), cheapest.named())
	} else if len(sound) > 1 {
		text += ": of the kinds that keep their rate on every key shape, it reads least and is built fastest"
	}
	text += "."
	return strings.Join(append([]string{text}, failing...), " ")
}
