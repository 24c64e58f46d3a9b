package consensus

import (
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"
)

// Raft counts the entries of a message. Those of a follower that was away may be long, and a log store refuses batches
// that are too large.
func TestLongEntriesReachAFollowerInSeveralMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startSteady(t, 3, func(o *Options) { o.Timing.RPC = patience }) // for 16 MiB
		back := c.followers()[0]
		require.NoError(t, back.Close())
		var want []string
		for i := range 20 {
			want = append(want, strings.Repeat(string(rune('a'+i)), 1<<20))
			c.propose(want[i], back)
		}
		var largest atomic.Int64 // bytes of a batch
		measure := func(logs []*raft.Log) error {
			bytes := int64(0)
			for _, l := range logs {
				bytes += int64(len(l.Data))
			}
			largest.Store(max(largest.Load(), bytes))
			return nil
		}
		back.store.before.Store(&measure)
		c.start(back)
		eventually(t, "the follower gets the last entry", func() bool { return back.hasApplied(want[19]) })
		entries, _ := back.fsm.state()
		for i, entry := range want {
			require.True(t, slices.Contains(entries, entry), "entry %d is missing", i)
		}
		require.Greater(t, largest.Load(), int64(1<<20))
		require.LessOrEqual(t, largest.Load(), int64(maxAppendBytes))
	})
}

func TestAMessageHasOneEntryAtLeast(t *testing.T) {
	long := &raft.Log{Data: make([]byte, maxAppendBytes+1)}
	short := &raft.Log{Data: make([]byte, maxAppendBytes/2)}
	require.Empty(t, affordable(nil))
	require.Len(t, affordable([]*raft.Log{long, short}), 1)
	require.Len(t, affordable([]*raft.Log{short, short, short}), 2)
}

// Raft counts the entries of a log. Long ones would fill the disk.
func TestALogOfLongEntriesIsShortened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startSteady(t, 1, func(o *Options) {
			o.MaxLogBytes, o.SnapshotThreshold, o.TrailingLogs = 10<<16, 1000, 1000
		})
		g := c.leader()
		length := func() uint64 {
			first, err := g.store.FirstIndex()
			require.NoError(t, err)
			last, err := g.store.LastIndex()
			require.NoError(t, err)
			return last - first
		}
		require.NoError(t, g.shorten(t.Context()))
		for range 40 {
			c.propose(strings.Repeat("x", 16<<10))
		}
		require.NoError(t, g.shorten(t.Context()))
		require.LessOrEqual(t, length(), uint64(45))
		for range 45 {
			c.propose(strings.Repeat("x", 64<<10))
		}
		require.NoError(t, g.shorten(t.Context()))
		require.LessOrEqual(t, length(), uint64(minTrailing+10), "at 64 KiB each, the fewest remain, and what is too little for a snapshot")
		for range 1000 {
			c.propose("short")
		}
		require.NoError(t, g.shorten(t.Context()))
		require.EqualValues(t, 1000, g.raft.Load().ReloadableConfig().TrailingLogs, "short entries may all remain again")
	})
}
