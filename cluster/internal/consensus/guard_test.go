package consensus

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/cluster/internal/kv"
	"github.com/sievedb/sievedb/cluster/internal/wire"
)

// stranger returns a transport that can send messages in the name of any server.
func (c *cluster) stranger() *transport {
	l, err := wire.Listen(wire.Options{ID: "stranger", Address: "127.0.0.1:0", Bind: c.net.Listen, Dial: c.net.Memory.Dial, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(c.t, err)
	o := Options{Stream: l.Group(testGroup), Timing: Timing{RPC: time.Hour}, Logger: slog.New(slog.DiscardHandler)}
	t := newTransport(&o, newLogStore(raft.NewInmemStore(), nil))
	c.t.Cleanup(func() {
		t.inner.Close()
		l.Close()
	})
	return t
}

func header(n *node) raft.RPCHeader {
	return raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(n.id), Addr: []byte(n.o.Address)}
}

// hashicorp/raft #695: heartbeats that are handled on the transport's goroutine change the term outside the main loop.
func TestHeartbeatsGoThroughTheMainLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		n := c.listen()
		n.o.Stream = n.listener.Group(testGroup)
		o, err := n.o.withDefaults()
		require.NoError(t, err)
		trans := newTransport(&o, newLogStore(o.Logs, func() bool { return false }))
		trans.start()
		defer trans.close()
		trans.SetHeartbeatHandler(func(raft.RPC) { t.Error("a heartbeat arrived at the handler") })

		sent := make(chan error, 1)
		go func() {
			sent <- c.stranger().AppendEntries("a", raft.ServerAddress(n.o.Address),
				&raft.AppendEntriesRequest{RPCHeader: header(n), Term: 1}, &raft.AppendEntriesResponse{})
		}()
		select {
		case rpc := <-trans.Consumer():
			rpc.Respond(&raft.AppendEntriesResponse{}, nil)
		case <-time.After(patience):
			t.Fatal("no heartbeat arrived at the main loop")
		}
		require.NoError(t, <-sent)
	})
}

// stallHandler stops raft's main loop where it logs a message.
type stallHandler struct {
	slog.Handler
	mu      sync.Mutex
	message string
	stalled chan struct{}
	resume  chan struct{}
}

func (h *stallHandler) Enabled(context.Context, slog.Level) bool { return true }

func (h *stallHandler) Handle(_ context.Context, r slog.Record) error {
	h.mu.Lock()
	stop := h.message != "" && strings.Contains(r.Message, h.message)
	if stop {
		h.message = ""
		close(h.stalled)
	}
	h.mu.Unlock()
	if stop {
		<-h.resume
	}
	return nil
}

// stallDuring calls f in another goroutine and reports whether the main loop has stalled. If not, f has ended: on a
// busy machine, a node that led may have lost its place.
func (h *stallHandler) stallDuring(message string, f func() error) bool {
	h.set(message)
	ended := make(chan error, 1)
	go func() { ended <- f() }()
	select {
	case <-h.stalled:
		return true
	case <-ended:
		return h.set("")
	}
}

// set says at which message the main loop stalls next, and reports whether it has stalled at the one before.
func (h *stallHandler) set(message string) (stalled bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.message = message
	select {
	case <-h.stalled:
		return true
	default:
		return false
	}
}

// A leader's main loop stalls when it is about to append an entry, a change of the configuration. The others no longer
// hear it and elect a successor, whose heartbeats reach it. If they change its term there and then, it appends its
// entry with the term of the successor, and two nodes have different entries with the same index and term: raft takes
// them for equal.
func TestADeposedLeaderAppendsNothingInTheTermOfItsSuccessor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		handlers := map[string]*stallHandler{}
		c := startCluster(t, 3, func(o *Options) {
			h := &stallHandler{Handler: slog.DiscardHandler, stalled: make(chan struct{}), resume: make(chan struct{})}
			handlers[o.ID] = h
			o.Logger = slog.New(h)
		})
		c.propose("before")
		c.agree([]string{"before"})
		var old *node
		eventually(t, "a leader stalls", func() bool {
			old = c.leader()
			return handlers[old.id].stallDuring("updating configuration", func() error {
				return old.AddNonvoter(within(t, patience), "x", "127.0.0.1:1")
			})
		})
		for _, n := range c.nodes {
			c.net.hold(requests, old.id, n.id)
		}
		c.propose("a", old)
		successor := c.leader(old)
		for deadline := time.Now().Add(soon); old.Term() < successor.Term() && time.Now().Before(deadline); {
			time.Sleep(time.Millisecond)
		}
		close(handlers[old.id].resume)
		c.net.heal()
		c.propose("b")
		eventually(t, "the deposed leader gets the entries", func() bool {
			entries, _ := old.fsm.state()
			return len(entries) > 0 && entries[len(entries)-1] == "b"
		})
		last, err := successor.store.LastIndex()
		require.NoError(t, err)
		for i := uint64(1); i <= last; i++ {
			var a, b raft.Log
			require.NoError(t, old.store.GetLog(i, &a))
			require.NoError(t, successor.store.GetLog(i, &b))
			require.Equal(t, b.Term, a.Term)
			require.Equal(t, b.Type, a.Type, "entries with the same term and index")
			require.Equal(t, string(b.Data), string(a.Data), "entries with the same term and index")
		}
	})
}

// sendSnapshot writes entries and takes snapshots until a successor of a leader that is cut off sends it a snapshot.
// Messages with entries from before would repair the log. It returns the index of the last snapshot.
func (c *cluster) sendSnapshot(old *node) (index uint64) {
	c.t.Helper()
	opened := func() (count int) {
		for _, n := range c.nodes {
			n.fsm.mu.Lock()
			count += n.fsm.opened
			n.fsm.mu.Unlock()
		}
		return count
	}
	// One that was elected after the snapshot believes that the other log continues where its own ends, and sends
	// entries.
	for attempt := 0; attempt < 20 && opened() == 0; attempt++ {
		c.propose("a", old)
		for _, n := range c.nodes {
			if n != old { // each of them may lead later
				c.agree([]string{"a"}, n)
				require.NoError(c.t, n.Snapshot(c.t.Context()))
				index = max(index, n.fsm.metas[0].Index)
			}
		}
		for end := time.Now().Add(time.Second); opened() == 0 && time.Now().Before(end); {
			time.Sleep(time.Millisecond)
		}
	}
	require.Positive(c.t, opened(), "no leader sends a snapshot")
	return index
}

// hashicorp/raft #697. A leader without quorum has appended entries that are not committed. Its successor commits fewer
// entries, takes a snapshot and drops its log. When they can talk again, the follower's log conflicts at the index of
// the snapshot. It installs the snapshot, rejects what follows because its last entry has another term, gets the
// snapshot again, and so on.
func TestASnapshotReplacesALogThatConflicts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, old := patientLeader(t, func(o *Options) {
			o.TrailingLogs, o.Timing.RPC = 1, 100*time.Millisecond
		})
		c.proposeAt(old, "before")
		c.agree([]string{"before"})
		c.net.isolate(old.id)
		var lost []*Future
		for range 200 {
			lost = append(lost, old.Propose([]byte("lost")))
		}
		index := c.sendSnapshot(old)
		last, err := old.store.LastIndex()
		require.NoError(t, err)
		require.Greater(t, last, index, "the old log is longer than the snapshot")

		c.net.heal()
		for _, f := range lost {
			_, _, err := f.Wait(within(t, patience))
			require.ErrorIs(t, err, kv.ErrUnknown)
		}
		proposed := false
		for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
			old.fsm.mu.Lock()
			restored := old.fsm.restored
			old.fsm.mu.Unlock()
			if restored > 0 && !proposed {
				c.propose("b")
				proposed = true
			}
			entries, _ := old.fsm.state()
			if len(entries) > 0 && entries[len(entries)-1] == "b" {
				require.NoError(t, old.WaitReady(within(t, patience)))
				return
			}
			// One suffices, but on a slow machine its answer can be too late, and it is sent again. A livelock does not
			// end.
			require.Less(t, restored, 50, "the follower gets the snapshot again and again")
		}
		t.Fatal("neither an end nor a livelock")
	})
}

func TestALogStoreMustBeMonotonic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		n := c.listen()
		n.o.Stream = n.listener.Group(testGroup)
		n.o.Logs = n.store.InmemStore
		_, err := Start(n.o)
		require.ErrorContains(t, err, "is not monotonic")
	})
}

// A snapshot that was sent long ago arrives at a follower that has more by now.
func TestALateSnapshotChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startSteady(t, 3, nil)
		c.propose("x")
		leader := c.leader()
		require.NoError(t, leader.Snapshot(t.Context()))
		meta, data, err := leader.fsm.Open(leader.fsm.metas[0].ID)
		require.NoError(t, err)
		for range 10 {
			c.propose("y")
		}
		c.agree(nil)
		f := c.followers()[0]
		c.net.isolate(f.id) // so that raft does not see the hole in its log, which is a panic
		before, _ := f.fsm.state()
		var resp raft.InstallSnapshotResponse
		err = c.stranger().InstallSnapshot(raft.ServerID(f.id), raft.ServerAddress(f.o.Address), &raft.InstallSnapshotRequest{
			RPCHeader: header(leader), SnapshotVersion: meta.Version, Term: f.Term(), LastLogIndex: meta.Index, LastLogTerm: meta.Term,
			Configuration: raft.EncodeConfiguration(meta.Configuration), ConfigurationIndex: meta.ConfigurationIndex, Size: meta.Size,
		}, &resp, data)
		require.NoError(t, err)
		require.True(t, resp.Success)
		after, _ := f.fsm.state()
		require.Equal(t, before, after, "the state goes back")
		last, err := f.store.LastIndex()
		require.NoError(t, err)
		require.Greater(t, last, uint64(10))
		c.net.heal()
		c.propose("z")
		c.agree([]string{"z"})
	})
}

// patientLeader returns a leader that does not step down for 10 s without a quorum, so that only ReadIndex is
// between it and stale reads.
func patientLeader(t *testing.T, change func(*Options)) (*cluster, *node) {
	c := startCluster(t, 3, func(o *Options) {
		if change != nil {
			change(o)
		}
		if o.ID == "a" {
			o.Timing.Heartbeat, o.Timing.Lease = 10*time.Second, 10*time.Second
		}
	})
	a := c.node("a")
	c.transfer(a)
	return c, a
}

// deposed runs a case in which a leader is replaced and a client reads there, and returns the error of the read. The
// case reports whether that leader still believes that it leads. On a busy machine it may have lost its place before.
func deposed(t *testing.T, run func() (read error, leads bool)) error {
	t.Helper()
	for range 20 {
		if err, leads := run(); leads {
			return err
		}
	}
	t.Fatal("no leader believes that it still leads")
	return nil
}

// The leader and a nonvoter are cut off from the other voters, who elect a successor that acknowledges a write.
func readWithANonvoter(t *testing.T) (read error, leads bool) {
	c, a := patientLeader(t, nil)
	d := c.listen()
	c.start(d)
	c.asLeader(a, func() error { return a.AddNonvoter(within(t, patience), d.id, d.o.Address) })
	c.proposeAt(a, "old")
	c.agree([]string{"old"})
	c.net.isolate(a.id, d.id)
	c.net.isolate(d.id, a.id)
	c.propose("new", a)
	_, err := a.ReadIndex(within(t, soon))
	return err, a.IsLeader()
}

func TestANonvoterDoesNotConfirmALeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		require.Error(t, deposed(t, func() (error, bool) { return readWithANonvoter(t) }), "a stale read")
	})
}

// Acknowledgements are on their way to the leader when it is cut off. The others elect a successor that acknowledges a
// write. Then a client reads at the old leader, and the old acknowledgements arrive, as they do at a process that was
// paused. It returns the result of the read, and whether the old leader still believes that it leads.
func readWithOldAcknowledgements(t *testing.T) (read error, leads bool) {
	c, a := patientLeader(t, nil)
	c.proposeAt(a, "old")
	c.agree([]string{"old"})
	for _, n := range []string{"b", "c"} {
		c.net.hold(answers, "a", n)
	}
	time.Sleep(50 * time.Millisecond) // messages are answered, and the answers are held
	for _, n := range []string{"b", "c"} {
		c.net.hold(requests, "a", n)
		c.net.hold(requests, n, "a")
	}
	c.propose("new", a)
	result := make(chan error, 1)
	go func() {
		_, err := a.ReadIndex(within(t, 300*time.Millisecond))
		result <- err
	}()
	time.Sleep(20 * time.Millisecond) // the read has asked for heartbeats
	for _, n := range []string{"b", "c"} {
		c.net.release(answers, "a", n)
	}
	return <-result, a.IsLeader()
}

func TestAnOldAcknowledgementDoesNotConfirmALeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		require.Error(t, deposed(t, func() (error, bool) { return readWithOldAcknowledgements(t) }), "a stale read")
	})
}

// stuck is a snapshot that never ends.
type stuck struct {
	first io.Reader
	end   chan struct{}
}

func (s *stuck) Read(p []byte) (int, error) {
	if n, err := s.first.Read(p); err == nil {
		return n, nil
	}
	<-s.end
	return 0, io.ErrUnexpectedEOF
}

func TestALeaderThatStallsWithinASnapshotDoesNotBlockTheReceiver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3, nil)
		c.propose("before")
		leader := c.leader()
		f := c.followers()[0]
		data := &stuck{first: bytes.NewReader(make([]byte, 1<<20)), end: make(chan struct{})}
		defer close(data.end)
		s := c.stranger()
		go s.InstallSnapshot(raft.ServerID(f.id), raft.ServerAddress(f.o.Address), &raft.InstallSnapshotRequest{
			RPCHeader: header(leader), SnapshotVersion: 1, Term: f.Term(), LastLogIndex: 1 << 30, LastLogTerm: f.Term(),
			Configuration: raft.EncodeConfiguration(raft.Configuration{}), Size: 1 << 40,
		}, &raft.InstallSnapshotResponse{}, data)
		eventually(t, "the receiver's main loop is busy", func() bool {
			return time.Since(f.LastContact()) > 2*testTiming.Heartbeat
		})
		c.propose("after", f)
		c.agree([]string{"after"})
	})
}
