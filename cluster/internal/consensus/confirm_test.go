package consensus

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"
)

// confirmed reads until a node is connected to both others.
func confirmed(t *testing.T, a *node) {
	t.Helper()
	eventually(t, "a connection to each other server", func() bool {
		_, err := a.ReadIndex(within(t, patience))
		require.NoError(t, err)
		a.confirms.mu.Lock()
		defer a.confirms.mu.Unlock()
		for _, p := range a.confirms.peers {
			if p.conn == nil {
				return false
			}
		}
		return len(a.confirms.peers) == 2
	})
}

// The main loops of the followers wait for their disks, so they answer no message of raft.
func TestReadsDoNotWaitForTheDisksOfFollowers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startSteady(t, 3, nil)
		a := c.leader()
		c.proposeAt(a, "old")
		c.agree([]string{"old"})
		confirmed(t, a)
		disks := make(chan struct{})
		for _, n := range c.followers() {
			stall := func([]*raft.Log) error { <-disks; return nil }
			n.store.before.Store(&stall)
		}
		f := a.Propose([]byte("new"))
		index, err := a.ReadIndex(within(t, patience))
		require.NoError(t, err)
		select {
		case <-f.Done():
			t.Fatal("the write did not wait for a follower's disk")
		default:
		}
		close(disks)
		written, _, err := f.Wait(within(t, patience))
		require.NoError(t, err)
		require.Less(t, index, written)
	})
}

// The others have elected a successor that has acknowledged a write. Its term is in all answers that the old leader
// gets.
func TestANewerTermConfirmsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, a := patientLeader(t, func(*Options) {})
		c.proposeAt(a, "old")
		c.agree([]string{"old"})
		confirmed(t, a)
		c.net.isolate(a.id)
		c.propose("new", a)
		read := make(chan error, 1)
		go func() {
			_, err := a.ReadIndex(within(t, patience))
			read <- err
		}()
		eventually(t, "the question is on its way", func() bool {
			a.confirms.mu.Lock()
			defer a.confirms.mu.Unlock()
			for _, p := range a.confirms.peers {
				if len(p.asked) > 0 {
					return true
				}
			}
			return false
		})
		require.True(t, a.IsLeader(), "it still believes that it leads")
		c.net.heal()
		require.Error(t, <-read)
	})
}

// A read asks the fastest server only. If that one is silent, the read asks the other one.
func TestAReadDoesNotWaitForAServerThatIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startSteady(t, 3, func(o *Options) { o.Timing.RPC = 10 * patience })
		a := c.leader()
		c.proposeAt(a, "old")
		for _, n := range c.followers() {
			confirmed(t, a)
			c.net.isolate(n.id)
			for range 5 {
				_, err := a.ReadIndex(within(t, patience))
				require.NoError(t, err)
			}
			c.net.heal()
		}
	})
}

// A read is confirmed again after the servers that it asks have ended and come back.
func TestReadsContinueAfterServersRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startSteady(t, 3, nil)
		a := c.leader()
		c.proposeAt(a, "old")
		confirmed(t, a)
		for _, n := range c.nodes {
			if n != a {
				require.NoError(t, n.Close())
				c.start(n)
			}
		}
		confirmed(t, a)
	})
}

// recordedConn keeps what is written.
type recordedConn struct {
	net.Conn
	bytes.Buffer
}

func (r *recordedConn) Write(p []byte) (int, error) { return r.Buffer.Write(p) }
func (r *recordedConn) Read([]byte) (int, error)    { return 0, io.EOF }
func (r *recordedConn) Close() error                { return nil }

func TestOnlyAsManyServersAreAskedAsAMajorityNeeds(t *testing.T) {
	g := &Group{o: Options{ID: "a", Timing: Timing{}.withDefaults()}, trans: &transport{acks: newAcks()}}
	c := &confirms{g: g, peers: map[raft.ServerID]*peer{}}
	servers := []raft.Server{{ID: "a"}, {ID: "b"}, {ID: "c"}, {ID: "d"}, {ID: "e"}, {ID: "f", Suffrage: raft.Nonvoter}}
	conns := map[raft.ServerID]*recordedConn{}
	for i, s := range servers[1:] {
		conns[s.ID] = &recordedConn{}
		c.peers[s.ID] = &peer{id: s.ID, conn: conns[s.ID], latency: time.Duration(10-i) * time.Millisecond}
	}
	got := func(number uint64) (ids string) {
		for _, s := range servers[1:] {
			if bytes.HasSuffix(conns[s.ID].Bytes(), binary.BigEndian.AppendUint64(nil, number)) {
				ids += string(s.ID)
			}
		}
		return ids
	}
	c.ask(servers, 3, 1, false)
	require.Equal(t, "de", got(1), "the fastest")
	require.NotContains(t, c.peers, raft.ServerID("f"), "nonvoters confirm nothing")
	c.ask(servers, 3, 1, false)
	require.Equal(t, 8, conns["e"].Len(), "once")
	c.ask(servers, 3, 2, false)
	require.Equal(t, "bc", got(2), "those that owe no answer")
	c.ask(servers, 3, 2, true)
	require.Equal(t, "bcde", got(2))

	require.False(t, c.note(c.peers["e"], conns["e"], 2, 3), "answers come in order")
	require.True(t, c.note(c.peers["e"], conns["e"], 1, 4), "a newer term")
	require.True(t, c.note(c.peers["d"], conns["d"], 1, 2), "an older term")
	ok, _ := g.trans.acks.quorum(servers, "a", 3, 0)
	require.False(t, ok)
	require.True(t, c.note(c.peers["e"], conns["e"], 2, 3))
	ok, _ = g.trans.acks.quorum(servers, "a", 3, 0)
	require.True(t, ok)
	ok, _ = g.trans.acks.quorum(servers, "a", 3, 1)
	require.False(t, ok, "one question is too old")

	for number := uint64(3); number < 3+maxAsked; number++ {
		c.ask(servers, 3, number, true)
	}
	require.LessOrEqual(t, len(c.peers["b"].asked), maxAsked)
	c.ask(servers[:5], 3, 100, true)
	require.Empty(t, got(100), "a server that owes many answers is not asked")
}

// Who comes to an address may not be the server that was there.
func TestAServerConfirmsOnlyInItsOwnName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3, nil)
		b := c.followers()[0]
		for _, test := range []struct {
			name     string
			greeting []byte
			answered bool
		}{
			{"its name", append([]byte{1}, b.id...), true},
			{"another name", []byte{1, 'x'}, false},
			{"no name", []byte{0}, false},
			{"the longest name", append([]byte{maxID}, make([]byte, maxID)...), false},
			{"a longer name", append([]byte{2}, b.id+"b"...), false},
		} {
			conn, err := c.nodes[2].listener.Group(testGroup).DialConfirm(within(t, patience), b.id, b.o.Address)
			require.NoError(t, err)
			_, err = conn.Write(binary.BigEndian.AppendUint64(test.greeting, 42))
			require.NoError(t, err)
			conn.SetReadDeadline(time.Now().Add(patience))
			answer, err := io.ReadAll(io.LimitReader(conn, 16))
			conn.Close()
			if !test.answered {
				require.Empty(t, answer, test.name)
				continue
			}
			require.NoError(t, err)
			require.Equal(t, binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, 42), b.Term()), answer)
		}
	})
}
