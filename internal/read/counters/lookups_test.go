package counters

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/disk/version"
)

func TestPathCountsTablesPerLevel(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 3))
	for range 1000 {
		var p Path
		var want [version.NumLevels]uint64
		deepest := 0
		for level := range version.NumLevels {
			for range rnd.IntN(4) {
				if !p.HasRoom(level) {
					require.True(t, want[level] == 3 || level > 0 && want[level] == 1)
					break
				}
				p = p.With(level)
				want[level]++
				deepest = level
			}
		}
		require.Equal(t, deepest, p.last())
		for level := range version.NumLevels {
			require.Equal(t, want[level], p.tables(level))
		}
	}
}

func TestOneLookupIn128IsASample(t *testing.T) {
	for _, step := range []uint64{1, 2, 3, 64, 128, 1000} { // a program that cycles in so many steps
		n, samples := uint64(100000), 0
		for i := range n {
			if IsSample(1 + i*step) {
				samples++
			}
		}
		require.InEpsilon(t, n/SampledOneIn, samples, 0.05, "every %d", step)
	}
}

func TestSamplesOfAGroupAreThoseOfItsLookups(t *testing.T) {
	for before := range uint64(3 * SampledOneIn) {
		bits := SamplesAmong(before, 32)
		for i := range uint64(32) {
			require.Equal(t, IsSample(before+i+1), bits>>i&1 == 1)
		}
		require.Equal(t, bits&0x1f, SamplesAmong(before, 5))
	}
}

func TestOneLookupIsMeasuredOrRecorded(t *testing.T) {
	var s Stripe
	require.Zero(t, s.TakeDue())
	s.SetDue()
	require.EqualValues(t, DueMeasure, s.TakeDue())
	require.Zero(t, s.TakeDue())
	s.SetDueRecord()
	require.EqualValues(t, DueRecord, s.TakeDue())
	require.Zero(t, s.TakeDue())
}
