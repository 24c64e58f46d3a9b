package command

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/cluster/internal/kv"
	"github.com/sievedb/sievedb/cluster/internal/kv/kvtest"
	"github.com/sievedb/sievedb/cluster/internal/slot"
)

// lateContext ends when its error was asked for a number of times.
type lateContext struct {
	context.Context
	looks int
	err   error
}

func (c *lateContext) Err() error {
	if c.looks--; c.looks < 0 {
		return c.err
	}
	return nil
}

// hostile is a pattern of the longest length that uses the longest time.
var hostile = "*" + strings.Repeat("a", MaxPattern-4) + "?b*"

// putKeys writes keys of the slot of "x".
func putKeys(t *testing.T, n *kvtest.Node, keys ...string) {
	t.Helper()
	groups, _ := n.Local()
	p, err := groups[0].Update(t.Context(), func(tx kv.Tx) error {
		for _, key := range keys {
			tx.Put([]byte(key), kv.Value{})
		}
		return nil
	})
	require.NoError(t, err)
	require.NoError(t, p.Wait(t.Context()))
}

func run(ctx context.Context, n *Node, line string) string {
	args := arguments(line)
	cmd, _ := Find(args[0])
	c := &Call{Args: args, Reply: &Reply{}, Limits: Limits{MaxValue: 1 << 20, MaxReply: 1 << 20}}
	n.Run(ctx, cmd, c)
	return string(c.Reply.Bytes)
}

// 100 kB patterns against 200 kB keys used a core for 40 s, past the deadline, and answered CLUSTERDOWN.
func TestMatchingLongKeysEndsWithTheContext(t *testing.T) {
	n := kvtest.New(1)
	keys := make([]string, 100)
	for i := range keys {
		keys[i] = fmt.Sprint("{x}", i) + strings.Repeat("a", 8<<10)
	}
	putKeys(t, n, keys...)
	node, of := NewNode(n), int(slot.Of([]byte("x")))
	// kvtest looks at the context once, and each slot before that of the key does.
	soon := func(looks int, err error) *lateContext {
		return &lateContext{Context: t.Context(), looks: looks + 3, err: err}
	}
	for _, c := range []struct {
		name, line string
		ctx        *lateContext
	}{
		{"KEYS", "KEYS " + hostile, soon(of, context.DeadlineExceeded)},
		{"SCAN", fmt.Sprint("SCAN ", of, " MATCH "+hostile), soon(0, context.DeadlineExceeded)},
	} {
		require.Equal(t, "-ERR "+c.name+" was stopped because it exceeds the time that this node gives to a read: "+
			"use SCAN with a low COUNT and a short pattern\r\n", run(c.ctx, node, c.line))
		require.Less(t, -c.ctx.looks, 10, "%s continues after the end of its context", c.name)
	}
	require.Contains(t, run(soon(of, context.Canceled), node, "KEYS "+hostile), "-CLUSTERDOWN this node is stopping")
	// A read that is not confirmed in time is another matter.
	unconfirmed := &lateContext{Context: t.Context(), err: context.DeadlineExceeded}
	require.Contains(t, run(unconfirmed, node, "KEYS *"), "-CLUSTERDOWN the read was not confirmed")
}

func TestCountingManyKeysOfASlotEndsWithTheContext(t *testing.T) {
	n := kvtest.New(1)
	keys := make([]string, 3000)
	for i := range keys {
		keys[i] = fmt.Sprint("{x}", i)
	}
	putKeys(t, n, keys...)
	node, of := NewNode(n), int(slot.Of([]byte("x")))
	for line, looks := range map[string]int{
		"DBSIZE": of, "KEYS nothing": of, fmt.Sprint("CLUSTER COUNTKEYSINSLOT ", of): 0, fmt.Sprint("CLUSTER GETKEYSINSLOT ", of, " 10000"): 0,
	} {
		ctx := &lateContext{Context: t.Context(), looks: looks + 2, err: context.DeadlineExceeded}
		require.Contains(t, run(ctx, node, line), "was stopped", line)
	}
}

// Tools ask for INFO every second, so it must not count for long.
func TestTheKeysOfInfoAreEstimatedFromTheSlotsThatThereIsTimeFor(t *testing.T) {
	n := kvtest.New(1)
	keys := make([]string, 1<<16) // each slot has four keys of two bytes
	for i := range keys {
		keys[i] = string([]byte{byte(i >> 8), byte(i)})
	}
	putKeys(t, n, keys...)
	node := NewNode(n)
	count := func(looks int) Keyspace { return countFirst(t, node, looks) }
	require.Equal(t, Keyspace{Keys: 1 << 16}, count(2*kv.SlotCount))
	require.Equal(t, Keyspace{Keys: 1 << 16, Estimated: true}, count(100))
	require.Equal(t, Keyspace{Estimated: true}, count(0))
	require.Positive(t, node.Keyspace(t.Context()).Keys)
	run(t.Context(), node, "FLUSHALL")
	require.Positive(t, node.Keyspace(t.Context()).Keys, "a count is not repeated at once")
}

// countFirst counts until the time was looked at so often.
func countFirst(t *testing.T, n *Node, looks int) Keyspace {
	k, _ := n.count(t.Context(), func(time.Duration) context.Context {
		return &lateContext{Context: t.Context(), looks: looks, err: context.DeadlineExceeded}
	})
	return k
}

// Otherwise a node whose groups answer late for a moment has no keys for exporters, and nothing says so.
func TestInfoSaysThatKeysAreNotCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := kvtest.New(4)
		for key := range 4000 {
			group, _ := n.Group(slot.Of(fmt.Append(nil, key)))
			_, err := group.Update(t.Context(), func(tx kv.Tx) error { tx.Put(fmt.Append(nil, key), kv.Value{}); return nil })
			require.NoError(t, err)
		}
		for fault, atLeast := range map[error]int64{errors.New("no answer"): 3500, &kv.NotLeaderError{}: 2500} {
			node := NewNode(n)
			n.World().SetFaults(3, kvtest.Faults{View: fault})
			k := node.Keyspace(t.Context())
			require.Equal(t, atLeast > 3000, k.Estimated)
			require.InDelta(t, atLeast+500, k.Keys, 500, "%v", fault)
		}
		all := kvtest.New(1)
		all.World().SetFaults(0, kvtest.Faults{View: errors.New("no answer")})
		node := NewNode(all)
		require.Equal(t, Keyspace{Estimated: true}, node.Keyspace(t.Context()))
		all.World().SetFaults(0, kvtest.Faults{})
		require.Eventually(t, func() bool { return !node.Keyspace(t.Context()).Estimated }, time.Minute, time.Millisecond)

		last := make([]string, 3000) // of the last slot
		for i := range last {
			last[i] = fmt.Sprint("{39296}", i)
		}
		putKeys(t, all, last...)
		k := countFirst(t, node, int(slot.Of([]byte("39296")))+1)
		require.True(t, k.Estimated)
		require.Less(t, k.Keys, int64(3000))
	})
}

func TestPatternsThatAreTooLongAreRefused(t *testing.T) {
	node := NewNode(kvtest.New(1))
	long := strings.Repeat("a", MaxPattern+1)
	for _, line := range []string{"KEYS " + long, "SCAN 0 MATCH " + long} {
		require.Equal(t, "-ERR the pattern has 1025 bytes; at most 1024 are supported\r\n", run(t.Context(), node, line))
		require.NotContains(t, run(t.Context(), node, strings.TrimSuffix(line, "a")), "-ERR")
	}
}

// deposed loses its leaderships while its groups are read.
type deposed struct{ *kvtest.Node }

func (d deposed) Local() (groups []kv.Group, leading []bool) {
	groups, leading = d.Node.Local()
	for i, g := range groups {
		groups[i] = deposedGroup{g}
	}
	return groups, leading
}

type deposedGroup struct{ kv.Group }

func (g deposedGroup) View(ctx context.Context, stale bool, f func(kv.Reader) error) error {
	if err := g.Group.View(ctx, stale, f); err != nil {
		return err
	}
	return &kv.NotLeaderError{}
}

func TestWhatANodeFoundBeforeItLostALeadershipDoesNotCount(t *testing.T) {
	n := kvtest.New(1)
	putKeys(t, n, "x", "{x}1")
	require.Equal(t, ":2\r\n", run(t.Context(), NewNode(n), "DBSIZE"))
	node := NewNode(deposed{n})
	require.Equal(t, ":0\r\n", run(t.Context(), node, "DBSIZE"))
	require.Equal(t, "*0\r\n", run(t.Context(), node, "KEYS *"))
	require.Equal(t, "*2\r\n$1\r\n0\r\n*0\r\n", run(t.Context(), node, "SCAN 0"))
	require.Equal(t, "$-1\r\n", run(t.Context(), node, "RANDOMKEY"))
}
