package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/sievedb/sievedb/cluster/internal/process"
)

// newNode returns a node of the demonstration: this program, to be started again.
func newNode(dir, id string) (*process.Node, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return process.New(program, dir, id, "--heartbeat", "500ms", "--gossip", "20ms")
}

// waitReady waits until a node answers and knows a leader for each slot.
func waitReady(ctx context.Context, n *process.Node) error {
	return retry(ctx, fmt.Sprintf("node %s to be ready", n.ID), func() error {
		groups, err := n.Groups(ctx)
		for _, g := range groups {
			if g.Leader == "" {
				err = errors.Join(err, errors.New("a group has no leader"))
			}
		}
		return err
	})
}

// retry calls f until it returns nil.
func retry(ctx context.Context, what string, f func() error) error {
	for {
		err := f()
		if err == nil {
			return nil
		}
		if pause(ctx, 20*time.Millisecond) != nil {
			return fmt.Errorf("waited too long for %s: %w", what, err)
		}
	}
}

// leaders counts the groups that each node leads.
func leaders(ctx context.Context, n *process.Node) (map[string]int, error) {
	groups, err := n.Groups(ctx)
	counts := map[string]int{}
	for _, g := range groups {
		counts[g.Leader]++
	}
	return counts, err
}

// waitReplicated waits until each group has a number of replicas, and the leaders are spread.
func waitReplicated(ctx context.Context, n *process.Node, replicas int) (leads map[string]int, err error) {
	err = retry(ctx, "the replicas", func() error {
		groups, err := n.Groups(ctx)
		if err != nil {
			return err
		}
		leads = map[string]int{}
		for _, g := range groups {
			if len(g.Replicas) != replicas || g.Leader == "" {
				return fmt.Errorf("group %d has the replicas %s and the leader %q",
					g.Number, strings.Join(g.Replicas, ", "), g.Leader)
			}
			leads[g.Leader]++
		}
		if len(leads) < 3 {
			return fmt.Errorf("the leaders are not spread yet: %v", leads)
		}
		return nil
	})
	return leads, err
}
