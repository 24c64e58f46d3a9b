package consensus

import (
	"context"
	"encoding/binary"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/cluster/internal/kv"
)

func TestTheLeaderTellsItsReadIndex(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startSteady(t, 3, nil)
		a := c.leader()
		c.proposeAt(a, "old")
		for i, n := range c.followers() {
			index, _, err := a.Propose([]byte{byte(i)}).Wait(within(t, patience))
			require.NoError(t, err)
			eventually(t, "a follower knows the leader", func() bool {
				got, err := n.AskReadIndex(within(t, patience))
				require.True(t, err != nil || got >= index)
				return err == nil
			})
		}
		_, err := a.AskReadIndex(within(t, patience))
		var not *kv.NotLeaderError
		require.ErrorAs(t, err, &not, "the leader has ReadIndex")
	})
}

// An answer is held back in the network. The question fails in time, and the next one is not taken for it.
func TestAQuestionForTheReadIndexEndsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startSteady(t, 3, nil)
		a := c.leader()
		c.proposeAt(a, "old")
		b := c.followers()[0]
		eventually(t, "a first answer", func() bool { _, err := b.AskReadIndex(within(t, patience)); return err == nil })
		c.net.hold(answers, b.id, a.id)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		_, err := b.AskReadIndex(ctx)
		require.Error(t, err)
		require.Error(t, ctx.Err(), "it waited")
		c.net.heal()
		eventually(t, "another answer", func() bool { _, err := b.AskReadIndex(within(t, patience)); return err == nil })
	})
}

// question asks a node for its read index as another one would, and returns what it answers.
func (c *cluster) question(to *node) <-chan []byte {
	asker := c.nodes[2]
	if asker == to {
		asker = c.nodes[3]
	}
	conn, err := asker.listener.Group(testGroup).DialConfirm(within(c.t, patience), to.id, to.o.Address)
	require.NoError(c.t, err)
	c.t.Cleanup(func() { conn.Close() })
	require.NoError(c.t, want(conn, to.id))
	_, err = conn.Write(binary.BigEndian.AppendUint64(nil, asksIndex|7))
	require.NoError(c.t, err)
	got := make(chan []byte, 1)
	go func() {
		answer, _ := io.ReadAll(io.LimitReader(conn, 16))
		got <- answer
	}()
	return got
}

// A node that was cut off does not know that others have acknowledged more than it has.
func TestADeposedLeaderTellsNoReadIndex(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 5, nil)
		a := c.node("a")
		c.proposeAt(a, "old")
		c.net.isolate(a.id, "c")
		c.propose("new", a)
		select {
		case answer := <-c.question(a):
			require.Empty(t, answer)
		case <-time.After(patience):
			t.Fatal("it neither answers nor closes the connection")
		}
		c.net.heal()
		for _, n := range c.nodes {
			if n != c.leader() {
				require.Empty(t, <-c.question(n), "a follower tells none")
			}
		}
	})
}
