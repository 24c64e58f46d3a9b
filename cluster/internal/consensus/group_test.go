package consensus

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/cluster/internal/kv"
)

// steady is for tests in which a busy machine must not cost the leader its place.
func steady(o *Options) {
	o.Timing = Timing{Heartbeat: time.Second, Lease: time.Second, Commit: 5 * time.Millisecond}
}

// startSteady starts n voters whose first one leads, and keeps its place on a busy machine. change may be nil.
func startSteady(t *testing.T, n int, change func(*Options)) *cluster {
	c := startCluster(t, n, func(o *Options) {
		steady(o)
		if change != nil {
			change(o)
		}
	})
	first := c.nodes[0]
	// Otherwise the first election would begin after the heartbeat.
	require.NoError(t, c.stranger().TimeoutNow(raft.ServerID(first.id), raft.ServerAddress(first.o.Address),
		&raft.TimeoutNowRequest{RPCHeader: header(first)}, &raft.TimeoutNowResponse{}))
	return c
}

func TestALeaderReplicatesInTheOrderOfTheCalls(t *testing.T) {
	for _, n := range []int{1, 3, 5} {
		t.Run(fmt.Sprint(n, " nodes"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := startSteady(t, n, nil)
				leader := c.leader()
				var want []string
				var futures []*Future
				for i := range 500 {
					want = append(want, fmt.Sprint(i))
					futures = append(futures, leader.Propose([]byte(want[i])))
				}
				last := uint64(0)
				for i, f := range futures {
					index, response, err := f.Wait(t.Context())
					require.NoError(t, err)
					require.Greater(t, index, last)
					require.Equal(t, i+1, response)
					last = index
				}
				c.agree(want)
				got, _ := leader.fsm.state()
				require.Equal(t, want, got)
				require.Equal(t, "Leader", leader.Stats().State)
				require.Equal(t, 0, leader.Stats().InFlight)
				require.GreaterOrEqual(t, leader.Stats().CommitIndex, last)
			})
		})
	}
}

func TestAFollowerNamesTheLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startSteady(t, 3, nil)
		leader := c.leader()
		for _, n := range c.followers() {
			require.NoError(t, n.WaitReady(within(t, patience)))
			want := &kv.NotLeaderError{Group: testGroup, Leader: leader.o.Address}
			var got *kv.NotLeaderError
			_, _, err := n.Propose([]byte("x")).Wait(t.Context())
			require.ErrorAs(t, err, &got)
			require.Equal(t, want, got)
			_, err = n.ReadIndex(t.Context())
			require.ErrorAs(t, err, &got)
			require.Equal(t, want, got)
			require.ErrorAs(t, n.Barrier(t.Context()), &got)
			require.ErrorAs(t, n.AddVoter(t.Context(), "z", "127.0.0.1:1"), &got)
			require.ErrorAs(t, n.TransferLeadership(t.Context(), leader.id), &got)
		}
		entries, _ := leader.fsm.state()
		require.Empty(t, entries)
	})
}

func TestALeaderWithoutQuorumSaysThatTheOutcomeIsUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startSteady(t, 3, nil)
		leader := c.leader()
		c.net.isolate(leader.id)
		f := leader.Propose([]byte("x"))
		_, _, err := f.Wait(within(t, time.Millisecond))
		require.ErrorIs(t, err, kv.ErrUnknown)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		_, _, err = f.Wait(within(t, patience))
		require.ErrorIs(t, err, kv.ErrUnknown)
		require.ErrorIs(t, err, raft.ErrLeadershipLost)
		_, _, err = leader.Propose([]byte("y")).Wait(t.Context())
		var notLeader *kv.NotLeaderError
		require.ErrorAs(t, err, &notLeader)
		require.Empty(t, notLeader.Leader, "no leader is known")
	})
}

func TestErrorsOfRaftMeanWhatTheTableSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 1, nil)
		g := c.leader().Group
		var notLeader *kv.NotLeaderError
		require.NoError(t, g.proposalError(nil, true))
		require.ErrorAs(t, g.proposalError(raft.ErrNotLeader, false), &notLeader)
		require.ErrorAs(t, g.proposalError(raft.ErrLeadershipTransferInProgress, false), &notLeader)
		require.Equal(t, kv.ErrClosed, g.proposalError(raft.ErrRaftShutdown, false))
		for _, err := range []error{
			raft.ErrRaftShutdown, raft.ErrLeadershipLost, raft.ErrAbortedByRestore, errors.New("disk"), context.DeadlineExceeded,
		} {
			require.ErrorIs(t, g.proposalError(err, true), kv.ErrUnknown)
			require.ErrorIs(t, g.proposalError(err, true), err)
		}
	})
}

func TestProposalsInFlightAreBounded(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Options)
		fit    int
	}{
		"number": {func(o *Options) { o.MaxInFlight = 10 }, 10},
		"bytes":  {func(o *Options) { o.MaxInFlightBytes = 500 }, 5},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cl := startSteady(t, 3, c.change)
				leader := cl.leader()
				cl.net.isolate(leader.id)
				var futures []*Future
				for range 20 {
					futures = append(futures, leader.Propose(make([]byte, 100)))
				}
				for i, f := range futures {
					_, _, err := f.Wait(within(t, patience))
					require.Equal(t, i >= c.fit, errors.Is(err, kv.ErrBusy), "proposal %d: %v", i, err)
				}
				cl.net.heal()
				cl.propose("after")
			})
		})
	}
}

func TestCloseEndsAllThatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3, nil)
		leader := c.leader()
		c.net.isolate(leader.id)
		var futures []*Future
		for range 100 {
			futures = append(futures, leader.Propose([]byte("x")))
		}
		read := make(chan error, 1)
		go func() {
			_, err := leader.ReadIndex(context.Background())
			read <- err
		}()
		require.NoError(t, leader.Close())
		require.NoError(t, leader.Close())
		for _, f := range futures {
			_, _, err := f.Wait(context.Background())
			var notLeader *kv.NotLeaderError
			require.True(t, errors.Is(err, kv.ErrUnknown) || errors.Is(err, kv.ErrClosed) || errors.As(err, &notLeader), err)
		}
		require.Error(t, <-read)
		_, _, err := leader.Propose([]byte("x")).Wait(t.Context())
		require.Error(t, err)
		_, err = leader.ReadIndex(t.Context())
		require.Error(t, err)
		require.ErrorIs(t, leader.Barrier(t.Context()), kv.ErrClosed)
		leader.mu.Lock()
		defer leader.mu.Unlock()
		require.False(t, leader.events[len(leader.events)-1].Leading, "the last event says that it leads no more")
	})
}

func TestLeadershipIsReportedInOrderAndWithItsTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startSteady(t, 3, nil)
		for range 6 {
			c.transfer(c.followers()[0])
		}
		terms := map[uint64]string{}
		for _, n := range c.nodes {
			require.NoError(t, n.Close())
			n.mu.Lock()
			var last Leadership
			for _, e := range n.events {
				require.NotEqual(t, last, e)
				if e.Leading && !e.Ready {
					require.False(t, last.Leading, "a term ends before the next begins: %v", n.events)
					require.Greater(t, e.Term, last.Term)
					require.Empty(t, terms[e.Term], "one leader per term")
					terms[e.Term] = n.id
				} else {
					require.True(t, last.Leading)
					require.Equal(t, last.Term, e.Term)
				}
				last = e
			}
			require.False(t, last.Leading)
			n.mu.Unlock()
		}
		require.GreaterOrEqual(t, len(terms), 7)
	})
}

func TestServersJoinAndLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startSteady(t, 3, nil)
		leader := c.leader()
		leader.propose(t, "before")
		d := c.listen()
		c.start(d)
		ctx := within(t, patience)

		require.NoError(t, leader.AddNonvoter(ctx, d.id, d.o.Address))
		c.agree([]string{"before"}, leader, d)
		require.Contains(t, leader.Configuration(), Server{ID: d.id, Address: d.o.Address})
		require.ErrorContains(t, leader.TransferLeadership(ctx, d.id), "not a voter")

		require.NoError(t, leader.AddVoter(ctx, d.id, d.o.Address))
		require.Contains(t, leader.Configuration(), Server{ID: d.id, Address: d.o.Address, Voter: true})

		require.NoError(t, leader.TransferLeadership(ctx, d.id))
		require.Equal(t, d, c.leader())
		require.NoError(t, d.RemoveServer(ctx, leader.id))
		require.Len(t, d.Configuration(), 3)
		d.propose(t, "after")
		require.NoError(t, d.RemoveServer(ctx, d.id), "a leader removes itself")
		rest := c.leader(leader, d)
		rest.propose(t, "at the end")
		require.Len(t, rest.Configuration(), 2)

		other := rest.Configuration()[0].ID
		if other == rest.id {
			other = rest.Configuration()[1].ID
		}
		require.NoError(t, rest.RemoveServer(ctx, other))
		require.ErrorContains(t, rest.RemoveServer(ctx, rest.id), "change the servers")
		rest.propose(t, "alone")
	})
}

func TestAReadIndexIsReachedWithoutFurtherEntries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startSteady(t, 3, nil)
		check := func(n *node) {
			t.Helper()
			index, err := n.ReadIndex(within(t, patience))
			require.NoError(t, err)
			_, applied := n.fsm.state()
			require.Equal(t, applied, index)
		}
		leader := c.leader()
		check(leader) // after raft's own entries only
		leader.propose(t, "x")
		check(leader)
		require.NoError(t, leader.Barrier(t.Context()))
		check(leader)
		c.transfer(c.followers()[0])
		check(c.leader())
		require.NoError(t, c.leader().Snapshot(t.Context()))
		check(c.leader())
	})
}

func TestAReadJoinsNoRoundThatHasBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startSteady(t, 3, nil)
		leader := c.leader()
		for _, f := range c.followers() {
			c.net.cut(f.id, leader.id) // acknowledgements are late
		}
		first := leader.reads.join()
		eventually(t, "the round begins", func() bool {
			leader.reads.mu.Lock()
			defer leader.reads.mu.Unlock()
			return leader.reads.next == nil
		})
		second, third := leader.reads.join(), leader.reads.join()
		require.NotSame(t, first, second)
		require.Same(t, second, third)
		c.net.heal()
		<-first.done
		<-second.done
	})
}

func TestConcurrentReadsShareRounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startSteady(t, 3, nil)
		leader := c.leader()
		leader.propose(t, "x")
		before := leader.trans.acks.tick()
		for _, f := range c.followers() {
			c.net.cut(f.id, leader.id) // acknowledgements are late
		}
		var wg sync.WaitGroup
		for range 500 {
			wg.Go(func() {
				_, err := leader.ReadIndex(within(t, patience))
				var notLeader *kv.NotLeaderError
				if err != nil && !errors.As(err, &notLeader) {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		c.net.heal()
		wg.Wait()
		require.Less(t, leader.trans.acks.tick()-before, uint64(500), "fewer messages than reads")
	})
}

func TestANewLeaderServesNoReadBeforeItIsReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startSteady(t, 3, nil)
		leader := c.leader()
		leader.leading.mu.Lock()
		leader.leading.now.Ready = false // as before its first entry of the term is committed
		leader.leading.mu.Unlock()
		_, err := leader.ReadIndex(within(t, 50*time.Millisecond))
		require.ErrorIs(t, err, kv.ErrNoQuorum)
	})
}
