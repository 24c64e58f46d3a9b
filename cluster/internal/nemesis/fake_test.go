package nemesis

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/cluster/internal/kv"
	"github.com/sievedb/sievedb/cluster/internal/kv/kvtest"
	"github.com/sievedb/sievedb/cluster/internal/server"
)

// fakes is a cluster in memory whose nodes share their state, with real servers.
func fakes(t *testing.T, groups int, wrap func(kv.Cluster) kv.Cluster) (*kvtest.World, []string) {
	t.Helper()
	var listeners []net.Listener
	var infos []kv.NodeInfo
	for _, id := range []kv.NodeID{"a", "b", "c"} {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		listeners = append(listeners, ln)
		infos = append(infos, kv.NodeInfo{ID: id, Addr: ln.Addr().String(), Up: true})
	}
	w := kvtest.NewWorld(groups, infos...)
	var addrs []string
	for i, ln := range listeners {
		s := server.New(wrap(w.Node(infos[i].ID)), server.Options{WriteTimeout: 60 * time.Millisecond})
		served := make(chan error, 1)
		go func() { served <- s.Serve(ln) }()
		t.Cleanup(func() {
			require.NoError(t, s.Close())
			require.ErrorIs(t, <-served, server.ErrClosed)
		})
		addrs = append(addrs, infos[i].Addr)
	}
	return w, addrs
}

// disturb moves leaderships, delays commits and lets proposals fail, until that is enough.
func disturb(w *kvtest.World, leaders []kv.NodeID, enough func(rounds int) bool) {
	for i := 0; !enough(i); i++ {
		group := kv.GroupID(i % 2)
		w.Hold(group)
		time.Sleep(time.Duration(i%4) * 40 * time.Millisecond)
		if i%3 == 0 {
			w.Drop(group, &kv.NotLeaderError{Group: group})
		} else {
			w.Release(group)
		}
		w.SetLeader(group, leaders[i%len(leaders)])
		w.Advance(300 * time.Millisecond)
		time.Sleep(20 * time.Millisecond)
	}
}

// runOnFakes lets clients work on a cluster that is disturbed until their history is enough, and then searches for an
// order of it.
func runOnFakes(
	t *testing.T, wrap func(kv.Cluster) kv.Cluster, enough func(Counts) bool, search time.Duration,
) (*Workload, error) {
	t.Helper()
	world, addrs := fakes(t, 2, wrap)
	w := &Workload{Seed: 1, Clients: 8, Think: time.Millisecond, Dial: dialTCP}
	w.Know(addrs)
	w.Start()
	begin := time.Now()
	disturb(world, []kv.NodeID{"a", "b", "", "c", "a"}, func(rounds int) bool {
		return rounds >= 20 && (enough(w.History.Counts()) || time.Since(begin) > recovery)
	})
	world.SetLeader(0, "a")
	world.SetLeader(1, "b")
	w.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), recovery)
	defer cancel()
	require.NoError(t, w.ReadAll(ctx))
	return w, w.History.Check(search, artifacts(t))
}

func TestTheServerIsLinearizableOverAFakeCluster(t *testing.T) {
	t.Parallel()
	w, err := runOnFakes(t, func(c kv.Cluster) kv.Cluster { return c }, func(n Counts) bool {
		return n.Done > 100 && n.Unknown > 0 && n.Moved > 0 // a busy machine needs longer for that
	}, patience)
	require.NoError(t, err)
	n := w.History.Counts()
	t.Log(n)
	require.Greater(t, n.Done, 100)
	require.Positive(t, n.Unknown, "no outcome was unknown")
	require.Positive(t, n.Moved, "no client was redirected")
	require.Zero(t, n.unexpected())
}

// requireFound fails unless a planted fault is found. A run in which it has no effect is repeated, and one in which the
// search for an order takes long: on a busy machine, many operations have unknown ends.
func requireFound(t *testing.T, plant func(kv.Group) kv.Group) {
	t.Helper()
	var err error
	for tries := 0; (err == nil || errors.Is(err, errUndecided)) && tries < 10; tries++ {
		_, err = runOnFakes(t, func(c kv.Cluster) kv.Cluster { return wrapped{c, plant} },
			func(Counts) bool { return true }, patience/6)
	}
	require.ErrorContains(t, err, "no order explains")
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

func TestFalsePromisesAreFoundOnAFakeCluster(t *testing.T) {
	t.Parallel()
	requireFound(t, func(g kv.Group) kv.Group { return liar{g} })
}
