package rangefilter

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/test/filtertest"
	"github.com/stretchr/testify/require"
)

func TestMeasuredRatesOfPrefixFiltersMatchThePrediction(t *testing.T) {
	filtertest.EachCell("prefixes", func(c *filtertest.Cell, s filtertest.RateSize, bits int, key func(uint64) []byte) {
		p := NewPrefix(FixedPrefix(8), bits)
		g := p.NewGenerator()
		for i := range uint64(s.Keys) {
			g.Add(key(2 * i))
		}
		data, denied := g.AppendChecked(nil)
		require.Zero(t, denied)
		probe, ok := p.NewProbe(data)
		require.True(t, ok)
		lines, k := linesOf(p, uint64(s.Keys)), filter.CacheLineHashes(bits)
		rateOfLine := func(keys uint64, k int) float64 { return filter.CacheLineFalsePositiveRate(keys, 1, k) }
		c.OfFilters = filtertest.LinesVariance(uint64(s.Keys), lines, k, rateOfLine) / float64(s.Filters)
		c.Ask(s, p.PredictedRate(uint64(s.Keys)), key, func(k []byte) bool {
			return probe.MayMatch(k[:8], append(k[:8:8], 0xff))
		})
	}).Require(t)
}

// Numbers far from each other; counters have a lower rate (TestGrafiteDistinguishesDenseNumbersExactly).
func TestMeasuredRatesOfGrafiteFiltersMatchThePrediction(t *testing.T) {
	for _, length := range []uint64{1, 32, 500} {
		t.Run(fmt.Sprintf("length=%d", length), func(t *testing.T) {
			filtertest.EachCell("Grafite", func(c *filtertest.Cell, s filtertest.RateSize, bits int, key func(uint64) []byte) {
				if strings.HasSuffix(c.Name, "big-endian") {
					return
				}
				p := NewGrafite(FixedPrefix(0), BigEndian(8), bits)
				require.LessOrEqual(t, p.PredictedRate(length), math.Ldexp(float64(length), 2-bits), "the paper's bound")
				probe := grafiteOf(t, p, s.Keys, key)
				load := math.Ldexp(float64(length), 2-bits)
				zeros := math.Exp(-load)
				c.OfFilters = zeros * (1 - (1+load)*zeros) / ((1 - zeros) * (1 - zeros)) / float64(s.Keys*s.Filters)
				c.Ask(s, p.PredictedRate(length), key, func(k []byte) bool {
					x := binary.BigEndian.Uint64(k)
					return probe.MayMatch(k[:8], counterKey(x+length))
				})
			}).Require(t)
		})
	}
}

func grafiteOf(t *testing.T, p Grafite, keys int, key func(uint64) []byte) Probe {
	g := p.NewGenerator()
	for i := range uint64(keys) {
		g.Add(key(2 * i)[:8])
	}
	filter, denied := g.AppendChecked(nil)
	require.Zero(t, denied)
	require.InDelta(t, keys*p.BitsPerKey()/8, len(filter), 30)
	probe, ok := p.NewProbe(filter)
	require.True(t, ok)
	return probe
}

// deniers are the kinds of range filters, queried for the range of one key.
var deniers = []filtertest.Denier{
	{Kind: "prefixes", Make: func(keys [][]byte, bits int) func([]byte) bool {
		return rangeMatcher(NewPrefix(FixedPrefix(6), bits), keys)
	}},
	{Kind: "Grafite", Make: func(keys [][]byte, bits int) func([]byte) bool {
		// The last eight bytes distinguish the keys of most shapes.
		return rangeMatcher(NewGrafite(FixedPrefix(len(keys[0])-8), BigEndian(8), bits), keys)
	}},
}

func rangeMatcher(p Policy, keys [][]byte) func([]byte) bool {
	g := p.NewGenerator()
	for _, k := range keys {
		g.Add(k)
	}
	filter, _ := g.AppendChecked(nil)
	probe, ok := p.NewProbe(filter)
	if !ok {
		return func([]byte) bool { return false }
	}
	upper := make([]byte, 0, 96)
	return func(key []byte) bool {
		upper = append(append(upper[:0], key...), 0)
		return probe.MayMatch(key, upper)
	}
}

func TestNoRangeFilterDeniesItsKeys(t *testing.T) {
	filtertest.RequireNoneDenied(t, deniers)
}
