package clienttest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/cluster/internal/processtest"
	"github.com/sievedb/sievedb/cluster/internal/slot"
)

// shared is the cluster of all tests, because it needs seconds to start. Each test uses keys of its own, and
// starts the nodes again that it has killed.
var shared struct {
	once    sync.Once
	cluster *processtest.Cluster
	err     error
	failed  bool
}

func TestMain(m *testing.M) {
	os.Exit(processtest.Run(m, func() {
		if shared.cluster != nil {
			shared.cluster.Close(shared.failed, func(text ...any) { fmt.Fprintln(os.Stderr, text...) })
		}
	}))
}

// theCluster returns the cluster, in which all nodes run and there are no keys.
func theCluster(t *testing.T) *processtest.Cluster {
	t.Helper()
	shared.once.Do(func() { shared.cluster, shared.err = processtest.New(processtest.Options{}) })
	t.Cleanup(func() { shared.failed = shared.failed || t.Failed() })
	require.NoError(t, shared.err)
	restart(t, shared.cluster)
	for _, n := range shared.cluster.Nodes { // each deletes what it leads
		_, err := n.Do(t.Context(), "FLUSHDB")
		require.NoError(t, err)
	}
	return shared.cluster
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
	limit := time.Now().Add(time.Minute)
	for {
		err := f()
		if err == nil {
			return failures
		}
		require.True(t, isPassing(err), "%v", err)
		require.True(t, time.Now().Before(limit), "still after a minute: %v", err)
		failures++
		time.Sleep(20 * time.Millisecond)
	}
}
