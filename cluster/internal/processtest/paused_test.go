package processtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) { os.Exit(Run(m)) }

// The planner is paused until another node has replaced it, and goes on. It removed the new node from all groups, by
// its old map; or, if another node had died meanwhile, groups lost their last majority.
func TestAPlannerThatWasPausedUndoesNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("the nodes of 16 groups take their time")
	}
	for _, thirdDies := range []bool{false, true} {
		t.Run(fmt.Sprintf("third node dies=%v", thirdDies), func(t *testing.T) {
			c := Start(t, Options{Groups: 16, Args: []string{"--heartbeat", "300ms", "--gossip", "100ms", "--dead-after", "2s"}})
			paused := planner(t, c)
			var rest []*Node
			for _, n := range c.Nodes {
				if n != paused {
					rest = append(rest, n)
				}
			}
			require.NoError(t, paused.Signal(syscall.SIGSTOP))
			resume := func() { _ = paused.Signal(syscall.SIGCONT) }
			t.Cleanup(resume)
			before := len(paused.LogText())
			c.Nodes[0] = rest[0] // which the new node joins
			fresh, err := c.Add()
			require.NoError(t, err)
			require.NoError(t, Wait("the replacement", func(ctx context.Context) error { return replaced(ctx, rest[0], paused.ID, fresh.ID) }))
			if thirdDies {
				rest[1].Kill()
			}
			resume()
			require.NoError(t, Wait("the groups to serve", func(ctx context.Context) error { return serving(ctx, rest[0], rest[1].Running()) }))
			for line := range strings.Lines(paused.LogText()[before:]) {
				require.False(t, strings.Contains(line, "a step of the placement is done") && strings.Contains(line, "server="+fresh.ID), line)
			}
		})
	}
}

// planner makes node 1 the leader of group 0.
func planner(t *testing.T, c *Cluster) *Node {
	t.Helper()
	n := c.Nodes[0]
	require.NoError(t, Wait("node 1 to plan", func(ctx context.Context) error {
		groups, err := n.Groups(ctx)
		if err != nil || groups[0].Leader == n.ID {
			return err
		}
		_, err = n.Do(ctx, "RAFT.TRANSFER", 0, n.ID)
		return errors.Join(err, errors.New("another node leads group 0"))
	}))
	return n
}

// replaced returns nil once all groups have a replica on one node instead of another.
func replaced(ctx context.Context, n *Node, old, fresh string) error {
	groups, err := n.Groups(ctx)
	for _, g := range groups {
		if slices.Contains(g.Replicas, old) || !slices.Contains(g.Replicas, fresh) || len(g.Replicas) != 3 {
			return fmt.Errorf("group %d has the replicas %v", g.Number, g.Replicas)
		}
	}
	return err
}

// serving returns nil once all groups have a leader, and no problem is left if all nodes run.
func serving(ctx context.Context, n *Node, all bool) error {
	groups, err := n.Groups(ctx)
	if err != nil {
		return err
	}
	for _, g := range groups {
		if g.Leader == "" {
			return fmt.Errorf("group %d has no leader", g.Number)
		}
	}
	if all {
		return n.Well(ctx)
	}
	return nil
}
