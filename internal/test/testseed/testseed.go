// Package testseed gives tests that judge by statistics their seed. Only tests import it.
//
// A test that checks what holds for every seed (no key is lost, two readers agree) draws a new seed on each run and
// logs it. A test that a correct implementation fails for some seeds (a measured rate is near the predicted one, a
// share is large enough, a rare case occurs) must not: each run in so many thousands would fail for no fault. Such a
// test does one of two things:
//
//   - It takes its seed from [Statistical], which is the same on every run.
//   - It draws a new seed, and its comment has a line that begins with "False alarms:" and
//     derives how rarely chance breaks it, which is less than once in 10^9 runs.
//
// Make soak runs the first kind with new seeds, too.
package testseed

import (
	"flag"
	"math/rand/v2"
	"testing"
)

var seedFlag = flag.Uint64("statistics.seed", 1, "the seed of tests that judge by statistics; 0 draws a new one for each")

// Statistical returns the seed of a test that judges by statistics: the same on every
// run, or what -statistics.seed says. The test's log has it.
func Statistical(t testing.TB) uint64 {
	t.Helper()
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-statistics.seed=%d", seed)
	return seed
}
