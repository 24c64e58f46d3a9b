//go:build !race

package rangefilter

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The race detector allocates memory itself, so these tests are built without it.

func TestMayMatchAllocatesNothing(t *testing.T) {
	for _, p := range allPolicies {
		probe, _ := p.NewProbe(makeFilter(t, p, stringKeys("a/b/c/d/e", "b/c/d/e/f")))
		lower, upper := []byte("a/b/c/d/e"), []byte("a/b/c/d/f")
		require.Zero(t, testing.AllocsPerRun(100, func() { probe.MayMatch(lower, upper) }), p.Name())
	}
}
