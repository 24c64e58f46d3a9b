package nemesis

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/cluster/internal/kv"
)

// forgetful serves reads from the applied state of a node that led not long ago, without asking a
// majority and without noticing that it does not lead any more.
type forgetful struct {
	kv.Group
	led func() bool
}

// memory is how long a forgetful node believes that it leads.
const memory = 4 * heartbeat

func (g forgetful) View(ctx context.Context, stale bool, f func(kv.Reader) error) error {
	return g.Group.View(ctx, stale || g.led(), f)
}

// forget returns a cluster that is forgetful.
func forget(c kv.Cluster) kv.Cluster {
	var mu sync.Mutex
	last := map[kv.GroupID]time.Time{}
	return wrapped{c, func(g kv.Group) kv.Group {
		return forgetful{g, func() bool {
			mu.Lock()
			defer mu.Unlock()
			if believes(c, g) {
				last[g.ID()] = time.Now()
			}
			return time.Since(last[g.ID()]) < memory
		}}
	}}
}

// believes reports whether a node believes that it leads a group.
func believes(c kv.Cluster, g kv.Group) bool {
	local, leading := c.Local()
	for i, other := range local {
		if other.ID() == g.ID() {
			return leading[i]
		}
	}
	return false
}

// wrapped is a cluster whose groups are wrapped, to plant faults.
type wrapped struct {
	kv.Cluster
	group func(kv.Group) kv.Group
}

func (w wrapped) Group(slot uint16) (kv.Group, bool) {
	g, ok := w.Cluster.Group(slot)
	if ok {
		g = w.group(g)
	}
	return g, ok
}

// eager acknowledges writes before they are committed.
type eager struct{ kv.Group }

func (e eager) Update(ctx context.Context, f func(kv.Tx) error) (kv.Pending, error) {
	_, err := e.Group.Update(ctx, f)
	return settled{}, err
}

type settled struct{}

func (settled) Wait(context.Context) error { return nil }

// liar promises that nothing was done when the outcome is unknown.
type liar struct{ kv.Group }

type lie struct{ kv.Pending }

func (l liar) Update(ctx context.Context, f func(kv.Tx) error) (kv.Pending, error) {
	p, err := l.Group.Update(ctx, f)
	return lie{p}, err
}

func (l lie) Wait(ctx context.Context) error {
	err := l.Pending.Wait(ctx)
	if errors.Is(err, kv.ErrUnknown) {
		return kv.ErrNoQuorum
	}
	return err
}

// planted runs a cluster with a fault until its history has no order. The same faults without the plant
// pass; TestThreeNodesStayLinearizable shows that.
func planted(t *testing.T, faults []fault[*testCluster], p plant) {
	t.Helper()
	plantedUnder(t, faults, p, func() *Workload {
		return &Workload{Clients: 8, Think: 4 * time.Millisecond, Kinds: []kind{registers, lists, counters}}
	})
}

// plantedUnder is planted with other clients.
func plantedUnder(t *testing.T, faults []fault[*testCluster], p plant, load func() *Workload) {
	t.Helper()
	for range 24 { // one or two suffice, except on a busy machine, where a history has fewer operations and a search less time
		err := runPlanted(t, faults, p, load(), patience/12)
		if err != nil && strings.Contains(err.Error(), "no order explains") {
			t.Log(err)
			return
		}
		t.Logf("not found: %v", err) // a search may have no result in time
	}
	require.Fail(t, "the planted fault was not found")
}

// runPlanted runs faults on a new cluster and returns what the checker says.
func runPlanted(t *testing.T, faults []fault[*testCluster], p plant, w *Workload, patience time.Duration) error {
	t.Helper()
	dir := artifacts(t)
	c := newCluster(t, 3, 3, dir, p)
	h := runLoad(t, c, w, faults)
	c.abandon()
	return h.Check(patience, dir)
}

func TestReadsWithoutVerificationAreFound(t *testing.T) {
	t.Parallel()
	planted(t, []fault[*testCluster]{{"the leader hears nothing", deafLeader}, {"leaderships are transferred", transfers}}, plant{wrap: forget})
}

func TestAcknowledgementsBeforeTheCommitAreFound(t *testing.T) {
	t.Parallel()
	planted(t, []fault[*testCluster]{{"the leader is isolated", isolateLeader}}, plant{wrap: func(c kv.Cluster) kv.Cluster {
		return wrapped{c, func(g kv.Group) kv.Group { return eager{g} }}
	}})
}

// A deaf leader's entries reach the others, so that its successor commits what the liar said was not done.
func TestFalsePromisesAreFound(t *testing.T) {
	t.Parallel()
	planted(t, []fault[*testCluster]{{"the leader hears nothing", deafLeader}}, plant{wrap: func(c kv.Cluster) kv.Cluster {
		return wrapped{c, func(g kv.Group) kv.Group { return liar{g} }}
	}})
}
