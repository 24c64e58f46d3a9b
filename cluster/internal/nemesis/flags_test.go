package nemesis

import (
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var (
	longer = flag.Duration("nemesis.for", 0, "how long each test with faults runs; 0: a few rounds")
	seed   = flag.Uint64("nemesis.seed", 0, "seed of the faults; 0: choose one")
	only   = flag.String("nemesis.kinds", "", "what clients do, separated by commas; empty: everything")
	rounds = flag.Int("nemesis.rounds", 1, "rounds of faults in each test, unless -nemesis.for is set")
)

// patience bounds the search for an order of one tag's operations.
const patience = time.Minute

// faultSeed returns the seed of a test's faults, which it prints.
func faultSeed(t *testing.T) uint64 {
	t.Helper()
	s := *seed
	if s == 0 {
		s = rand.Uint64() >> 1
	}
	t.Logf("seed %d; to repeat the faults: -nemesis.seed=%d", s, s)
	return s
}

// artifacts is where a failing test leaves pictures.
func artifacts(t *testing.T) string {
	t.Helper()
	name := strings.NewReplacer("/", "-", " ", "-").Replace(t.Name())
	dir, err := os.MkdirTemp("", "nemesis-"+name+"-")
	require.NoError(t, err)
	t.Cleanup(func() {
		if !t.Failed() {
			_ = os.RemoveAll(dir)
		}
	})
	return filepath.Join(dir, "")
}

// kindNames are in the order of the kinds.
var kindNames = []string{"registers", "lists", "counters", "maps", "mortals", "optimists", "conditions", "pipelines"}

// chosenKinds are those of the flag.
func chosenKinds(t *testing.T) (chosen []kind) {
	t.Helper()
	if *only == "" {
		return allKinds
	}
	for _, name := range strings.Split(*only, ",") {
		require.Contains(t, kindNames, name, "-nemesis.kinds")
		chosen = append(chosen, kind(slices.Index(kindNames, name)))
	}
	return chosen
}
