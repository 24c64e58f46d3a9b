package nemesis

import (
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
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

var kindNames = map[string]kind{
	"registers": registers, "lists": lists, "counters": counters, "maps": maps, "mortals": mortals, "optimists": optimists,
	"conditions": conditions, "pipelines": pipelines,
}

// chosenKinds are those of the flag.
func chosenKinds(t *testing.T) (chosen []kind) {
	t.Helper()
	if *only == "" {
		return allKinds
	}
	for _, name := range strings.Split(*only, ",") {
		k, found := kindNames[name]
		require.True(t, found, "-nemesis.kinds has %q", name)
		chosen = append(chosen, k)
	}
	return chosen
}
