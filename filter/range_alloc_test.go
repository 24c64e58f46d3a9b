//go:build !race

package filter

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The race detector allocates on its own account, so these are counted without it.

func TestAskingARangeAllocatesNothing(t *testing.T) {
	for _, p := range rangePolicies {
		probe, _ := p.NewRangeProbe(makeRangeFilter(t, p, stringKeys("a/b/c/d/e", "b/c/d/e/f")))
		lower, upper := []byte("a/b/c/d/e"), []byte("a/b/c/d/f")
		require.Zero(t, testing.AllocsPerRun(100, func() { probe.RangeMayMatch(lower, upper) }), p.Name())
	}
}
