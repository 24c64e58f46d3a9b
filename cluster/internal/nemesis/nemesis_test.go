package nemesis

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// victim is a cluster that faults are done to.
type victim interface {
	// dialer says how clients reach nodes.
	dialer() dialer
	// addrs returns where the present nodes are.
	addrs() []string
	// waitWrites waits until all groups take writes.
	waitWrites()
	// serve is called with the clients before they begin.
	serve(w *Workload)
}

// fault breaks something, waits, and repairs it. It returns what it did.
type fault[V victim] struct {
	name string
	run  func(c V, rnd *rand.Rand) (string, error)
}

// run lets clients work while faults happen, one after the other in a random order, and searches for an order of their
// history. After each fault, the cluster must take writes again. If many operations had unknown ends, as on a busy
// machine, the search may find out nothing; then the clients and the faults begin again, with other tags.
func run[V victim](t *testing.T, c V, dir string, kinds []kind, faults []fault[V]) (h *History, err error) {
	t.Helper()
	const most, roundsOfARun = 3, 1_000_000
	think := 4 * time.Millisecond
	if testing.Short() {
		think *= 2
	}
	for try := range most {
		h = runLoad(t, c, &Workload{Clients: 8, Think: think, Kinds: kinds, round: try * roundsOfARun}, faults)
		if err = h.Check(patience/most, dir); !errors.Is(err, errUndecided) {
			break
		}
		t.Log(err)
	}
	return h, err
}

// runLoad is run with other clients, and leaves the search to the caller.
func runLoad[V victim](t *testing.T, c V, w *Workload, faults []fault[V]) *History {
	t.Helper()
	s := faultSeed(t)
	rnd := rand.New(rand.NewPCG(s, 0))
	w.Seed = s
	w.Dial = c.dialer()
	w.Know(c.addrs())
	c.serve(w)
	w.Start()
	begin := time.Now()
	for round := 0; *longer > 0 && time.Since(begin) < *longer || *longer == 0 && round < *rounds; round++ {
		for _, i := range rnd.Perm(len(faults)) {
			w.Renew()
			from := w.History.now()
			what, err := faults[i].run(c, rnd)
			w.History.Mark(from, faults[i].name+": "+what)
			t.Logf("%6.2fs to %6.2fs %s: %s", float64(from)/1e9, float64(w.History.now())/1e9, faults[i].name, what)
			require.NoError(t, err, faults[i].name)
			c.waitWrites()
			w.Know(c.addrs())
		}
	}
	time.Sleep(heartbeat)
	w.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), recovery)
	defer cancel()
	require.NoError(t, w.ReadAll(ctx))
	t.Log(w.History.Counts())
	return w.History
}

// mustPass runs faults and requires that the history is linearizable, and that clients got the errors they may expect.
func mustPass[V victim](t *testing.T, c V, dir string, faults []fault[V]) Counts {
	t.Helper()
	h, err := run(t, c, dir, chosenKinds(t), faults)
	require.NoError(t, err)
	n := h.Counts()
	require.Zero(t, n.unexpected(), "errors that no client should get")
	require.Greater(t, n.Done, 100)
	require.Positive(t, n.Moved, "no client was redirected")
	return n
}

// In the short form two clusters have a half of the faults each, at the same time.
func TestThreeNodesStayLinearizable(t *testing.T) {
	t.Parallel()
	size := len(threeNodeFaults)
	if testing.Short() {
		size /= 2
	}
	for faults := range slices.Chunk(threeNodeFaults, size) {
		t.Run(faults[0].name, func(t *testing.T) {
			t.Parallel()
			dir := artifacts(t)
			n := mustPass(t, newCluster(t, 3, 3, dir, setup{}), dir, faults)
			require.Positive(t, n.Unknown, "no outcome was unknown")
		})
	}
}

func TestADamagedLogIsReplacedFromOtherNodes(t *testing.T) {
	t.Parallel()
	dir := artifacts(t)
	mustPass(t, newCluster(t, 3, 3, dir, setup{}), dir, []fault[*testCluster]{
		{"bits of a log flip", flipLog}, {"a node fails while another one heals", failDuringHealing},
	})
}

func TestFiveNodesStayLinearizable(t *testing.T) {
	t.Parallel()
	dir := artifacts(t)
	mustPass(t, newCluster(t, 5, 5, dir, setup{}), dir, fiveNodeFaults)
}

func TestMembershipChangesUnderLoadStayLinearizable(t *testing.T) {
	t.Parallel()
	dir := artifacts(t)
	mustPass(t, newCluster(t, 3, 3, dir, setup{}), dir, membershipFaults)
}
