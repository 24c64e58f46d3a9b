package clienttest

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/cluster/internal/processtest"
	"github.com/sievedb/sievedb/cluster/internal/slot"
)

func TestMain(m *testing.M) { os.Exit(processtest.Run(m)) }

// newCluster starts a cluster of the test's own: tests kill nodes, and wait most of the time.
func newCluster(t *testing.T) *processtest.Cluster {
	t.Helper()
	t.Parallel()
	return processtest.Start(t, processtest.Options{})
}

// restart starts the nodes that do not run.
func restart(t *testing.T, c *processtest.Cluster) {
	t.Helper()
	for _, n := range c.Nodes {
		if !n.Running() {
			require.NoError(t, n.Start())
		}
	}
	require.NoError(t, c.Settle())
}

func slotOf(key string) int { return int(slot.Of([]byte(key))) }

// transfer gives the leadership of a key's group to another node.
func transfer(t *testing.T, c *processtest.Cluster, key string) (from, to *processtest.Node) {
	t.Helper()
	from, to, err := c.Transfer(slotOf(key))
	require.NoError(t, err)
	return from, to
}

// kill kills the leader of a key's group.
func kill(t *testing.T, c *processtest.Cluster, key string) *processtest.Node {
	t.Helper()
	g, err := c.Group(slotOf(key))
	require.NoError(t, err)
	n := c.Node(g.Leader)
	n.Kill()
	return n
}

// isPassing reports whether an error is one that a client may meet while a leader is replaced. A write may have been
// done.
func isPassing(err error) bool {
	text := strings.ToLower(err.Error())
	for _, part := range []string{
		"unknown", "clusterdown", "tryagain", "eof", "connection refused", "connection reset", "broken pipe", "i/o timeout",
		"server closed the connection",
		"moved ", // to the leader that died, more often than the client follows
	} {
		if strings.Contains(text, part) {
			return true
		}
	}
	return errors.Is(err, context.DeadlineExceeded)
}

// persist calls f until it returns nil, and fails if an error is not one that a client may meet.
func persist(t *testing.T, f func() error) (failures int) {
	t.Helper()
	limit := time.Now().Add(2 * time.Minute)
	for {
		err := f()
		if err == nil {
			return failures
		}
		require.True(t, isPassing(err), "%v", err)
		require.True(t, time.Now().Before(limit), "still after two minutes: %v", err)
		failures++
		time.Sleep(20 * time.Millisecond)
	}
}
