package main

import (
	"context"
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

// waitGroups waits until each group has a number of replicas and a leader, as a node knows it, and so many nodes lead
// groups: the leaders are spread. It returns how many groups each node leads.
func waitGroups(ctx context.Context, n *process.Node, nodes int) (leads map[string]int, err error) {
	err = retry(ctx, "the groups of node "+n.ID, func() error {
		groups, err := n.Groups(ctx)
		leads = map[string]int{}
		for _, g := range groups {
			if len(g.Replicas) < nodes || g.Leader == "" {
				return fmt.Errorf("group %d has the replicas %s and the leader %q",
					g.Number, strings.Join(g.Replicas, ", "), g.Leader)
			}
			leads[g.Leader]++
		}
		if err == nil && len(leads) < nodes {
			err = fmt.Errorf("the leaders are not spread yet: %v", leads)
		}
		return err
	})
	return leads, err
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
