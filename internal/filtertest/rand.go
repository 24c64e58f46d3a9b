package filtertest

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/sievedb/sievedb/internal/testseed"
)

// StatisticsRand returns the random numbers of a test that judges by statistics, the same
// on every run.
func StatisticsRand(t testing.TB) *rand.Rand {
	return rand.New(rand.NewPCG(testseed.Statistical(t), 0))
}

// NewRand returns a source of new random numbers, for what holds of all; its seed is in
// the test's log.
func NewRand(t testing.TB) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}
