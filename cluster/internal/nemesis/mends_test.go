package nemesis

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Faults that nodes still have. A test of one requires that the nemesis finds it; once it is mended, the test requires that
// nothing is found, and a test with the mend taken out takes the place of the first.
const (
	confirmsInAnotherTerm = false // what is evaluated in a term is confirmed in any later one
	plansOnOldMaps        = false // a deposed leader of group 0 removes voters of which it does not know
	countsLateAsFresh     = false // a message that arrives late makes stale reads fresh
	createsUnasked        = false // a node without its directory creates a cluster
)

// mostTries is how often a test is repeated that does not always find a fault.
const mostTries = 8

// requireVerdict calls run, whose error says what was found. Nodes with the fault are found after some tries; others pass
// the first one.
func requireVerdict(t *testing.T, faulty bool, run func() error) {
	t.Helper()
	err := run()
	if !faulty {
		require.NoError(t, err)
		return
	}
	for tries := 1; err == nil && tries < mostTries; tries++ {
		err = run()
	}
	require.Error(t, err, "the fault was not found")
	t.Log(err)
}
