package upgradetest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/cluster/internal/processtest"
)

// An upgrade replaces the program between the stop and the start. Each node is restarted as docs/cluster.md says: by
// SIGTERM, and the next one when the last one reports no problem.
func TestARollingRestartLosesNoAcknowledgedWrite(t *testing.T) {
	t.Parallel()
	c := processtest.Start(t, processtest.Options{Groups: groups})
	l := startLoad(t, c.Addrs())
	l.progress()
	for _, n := range c.Nodes {
		began := time.Now()
		require.NoError(t, n.Stop(), n.LogText())
		stopped := time.Since(began)
		l.progress() // two nodes serve all groups
		require.NoError(t, n.Start())
		require.NoError(t, processtest.Wait("node "+n.ID, n.Well))
		t.Logf("node %s: stopped after %v, well after %v", n.ID, rounded(stopped), rounded(time.Since(began)))
	}
	require.NoError(t, c.Settle())
	l.progress()
	l.stop()
	l.verify()
	for group := range groups {
		t.Logf("group %d: %d writes are acknowledged, the longest time without one is %v",
			group, l.writes[group], rounded(l.gap[group]))
	}
	for text, times := range l.failures {
		t.Logf("%d calls failed: %s", times, text)
		require.True(t, mayFail(text), text)
	}
}

func rounded(d time.Duration) time.Duration { return d.Round(time.Millisecond) }

// mayFail reports whether a client may get an error while a leadership moves.
func mayFail(text string) bool {
	for _, part := range []string{
		"UNKNOWN", "CLUSTERDOWN", "LOADING", "TRYAGAIN", "MOVED", "EOF", "connection refused", "connection reset", "broken pipe",
		"i/o timeout",
	} {
		if strings.Contains(text, part) {
			return true
		}
	}
	return false
}

// Every node is killed once, one after another, which is a rolling restart without its good manners.
func TestARollingCrashLosesNoAcknowledgedWrite(t *testing.T) {
	t.Parallel()
	c := processtest.Start(t, processtest.Options{Groups: groups})
	l := startLoad(t, c.Addrs())
	for _, n := range c.Nodes {
		l.progress()
		n.Kill()
		l.progress()
		require.NoError(t, n.Start())
		require.NoError(t, processtest.Wait(fmt.Sprintf("node %s", n.ID), n.Well))
	}
	require.NoError(t, c.Settle())
	l.stop()
	l.verify()
	t.Logf("%d writes are acknowledged, the longest times without one in each group are %v", len(l.acknowledged), l.gap)
}
