package filtertest

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/sievedb/sievedb/internal/test/testseed"
)

// StatisticsRand returns the random numbers of a test with a statistical criterion: the same on every run.
func StatisticsRand(t testing.TB) *rand.Rand {
	return rand.New(rand.NewPCG(testseed.Statistical(t), 0))
}

// NewRand returns new random numbers, for properties that hold for all of them. The test's log has the seed.
func NewRand(t testing.TB) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}
