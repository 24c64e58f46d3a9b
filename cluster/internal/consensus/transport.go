package consensus

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// transport is raft's network transport with the guards of this package. It outlives restarts of raft, so it does
// not show raft a method Close.
//
// Another server may use the address of a server by now, without the entries and votes of the first one. So the
// addresses that raft's transport gets contain the ID of the server too: see route. Each connection begins with the ID,
// as those of confirms do, and raft stores it with a vote.
type transport struct {
	raft.Transport
	inner *raft.NetworkTransport
	o     *Options
	acks  *acks
	// replicated has those answers only that came to raft's replication. After a failure that pauses for up to ten
	// seconds, while a server that is back answers heartbeats and questions at once.
	replicated *acks

	logs *logStore
	rpcs chan raft.RPC
	ctx  context.Context // of the group
	done chan struct{}   // closed by close
	wg   sync.WaitGroup

	// servers returns the newest configuration that this server knows.
	servers func() []raft.Server
	// settled returns the newest index that is committed or applied here.
	settled func() uint64
	// installed is called after raft has installed a snapshot, before the leader learns of it.
	installed func(index uint64)
}

func newTransport(o *Options, logs *logStore) *transport {
	config := &raft.NetworkTransportConfig{
		Stream: &guardedStream{Stream: o.Stream, id: o.ID, addr: address(o.Address), timeout: o.Timing.RPC},
		// One for heartbeats, one for entries, one for votes.
		MaxPool: 3, Timeout: o.Timing.RPC, Logger: newLogger(o.Logger),
		// No pipeline: if its decoder ends while a request is sent, the sender waits for ever, and raft cannot be
		// shut down. Raft's own measurements (#541) found hardly a benefit.
		MaxRPCsInFlight: 1,
	}
	inner := raft.NewNetworkTransportWithConfig(config)
	t := &transport{
		Transport: inner, inner: inner, o: o, acks: newAcks(), replicated: newAcks(), logs: logs,
		rpcs: make(chan raft.RPC), done: make(chan struct{}),
	}
	return t
}

// route returns the present address of a server, with its ID.
func (t *transport) route(id raft.ServerID, addr raft.ServerAddress) raft.ServerAddress {
	return raft.ServerAddress(t.o.present(string(id), string(addr)) + "\x00" + string(id))
}

func cutRoute(route string) (addr raft.ServerAddress, id string) {
	a, id, _ := strings.Cut(route, "\x00")
	return raft.ServerAddress(a), id
}

// EncodePeer returns what raft stores as the candidate for which this server has voted.
func (t *transport) EncodePeer(id raft.ServerID, addr raft.ServerAddress) []byte {
	return []byte(t.route(id, addr))
}

// DecodePeer returns the address only.
func (t *transport) DecodePeer(route []byte) raft.ServerAddress {
	addr, _ := cutRoute(string(route))
	return addr
}

// RequestVote implements raft.Transport.
func (t *transport) RequestVote(id raft.ServerID, target raft.ServerAddress, args *raft.RequestVoteRequest, resp *raft.RequestVoteResponse) error {
	return t.inner.RequestVote(id, t.route(id, target), args, resp)
}

// RequestPreVote implements raft.WithPreVote.
func (t *transport) RequestPreVote(id raft.ServerID, target raft.ServerAddress, args *raft.RequestPreVoteRequest, resp *raft.RequestPreVoteResponse) error {
	return t.inner.RequestPreVote(id, t.route(id, target), args, resp)
}

// TimeoutNow implements raft.Transport.
func (t *transport) TimeoutNow(id raft.ServerID, target raft.ServerAddress, args *raft.TimeoutNowRequest, resp *raft.TimeoutNowResponse) error {
	return t.inner.TimeoutNow(id, t.route(id, target), args, resp)
}

// InstallSnapshot implements raft.Transport.
func (t *transport) InstallSnapshot(id raft.ServerID, target raft.ServerAddress, args *raft.InstallSnapshotRequest, resp *raft.InstallSnapshotResponse, data io.Reader) error {
	return t.inner.InstallSnapshot(id, t.route(id, target), args, resp, data)
}

func (t *transport) start() {
	t.wg.Add(1)
	go t.pump()
}

// close ends the transport and its connections, so that calls in progress fail at once.
func (t *transport) close() {
	close(t.done)
	t.inner.Close()
	t.inner.CloseStreams()
	t.wg.Wait()
}

// SetHeartbeatHandler ignores the call: heartbeats take the way of all messages, through raft's main loop.
// Handled on another goroutine, they change the term and the state outside it (hashicorp/raft #695).
func (t *transport) SetHeartbeatHandler(func(raft.RPC)) {}

// Consumer returns the channel from which raft takes messages.
func (t *transport) Consumer() <-chan raft.RPC { return t.rpcs }

// AppendEntries sends entries or a heartbeat and notes the acknowledgement for ReadIndex and transfers. An answer with
// the same term acknowledges the leader even if the follower lacks the entries before.
func (t *transport) AppendEntries(id raft.ServerID, target raft.ServerAddress, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	heartbeat := len(args.Entries) == 0 && args.PrevLogEntry == 0 && args.LeaderCommitIndex == 0
	args.Entries = affordable(args.Entries)
	args.LeaderCommitIndex = t.logs.announced(args.LeaderCommitIndex)
	sent, replicated := t.acks.tick(), t.replicated.tick()
	if err := t.inner.AppendEntries(id, t.route(id, target), args, resp); err != nil {
		return err
	}
	if resp.Term == args.Term {
		t.acks.note(id, args.Term, sent)
		if !heartbeat && resp.Success { // after a refusal raft pauses too
			t.replicated.note(id, args.Term, replicated)
		}
	}
	return nil
}

// maxAppendBytes bounds the entries of a message, unless there is one only. A message has a deadline, and the log store
// writes it as one batch, of which it refuses those that are too large: raft, which counts entries only, would send
// the same message again and again.
const maxAppendBytes = 16 << 20

// affordable returns as many of the first entries as fit into a message. Raft sees in its request which entries were
// sent, and continues with the next one.
func affordable(entries []*raft.Log) []*raft.Log {
	bytes := 0
	for i, e := range entries {
		if bytes += len(e.Data); i > 0 && bytes > maxAppendBytes {
			return entries[:i]
		}
	}
	return entries
}

// pump passes messages to raft.
func (t *transport) pump() {
	defer t.wg.Done()
	for {
		select {
		case rpc := <-t.inner.Consumer():
			if err := wellFormed(rpc.Command); err != nil {
				rpc.Respond(nil, err)
				continue
			}
			switch m := rpc.Command.(type) {
			case *raft.InstallSnapshotRequest:
				t.install(rpc, m)
				continue
			case *raft.AppendEntriesRequest:
				// The other leader will count what this server has stored as the leader it was. What raft may still
				// store as a leader after this, the other one cannot have.
				if err := t.logs.waitAll(t.ctx); err != nil {
					rpc.Respond(nil, err)
					continue
				}
			}
			t.admit(rpc.Command)
			t.pass(rpc)
		case <-t.done:
			return
		}
	}
}

// wellFormed returns an error for a message that can be decoded, but on which raft would panic.
func wellFormed(command any) error {
	switch m := command.(type) {
	case *raft.AppendEntriesRequest:
		for i, e := range m.Entries {
			if e == nil {
				return fmt.Errorf("entry %d of a message is missing", i)
			}
			if e.Type == raft.LogConfiguration {
				if err := decodable(e.Data); err != nil {
					return err
				}
			}
		}
	case *raft.InstallSnapshotRequest:
		if m.SnapshotVersion > 0 {
			return decodable(m.Configuration)
		}
	}
	return nil
}

// decodable returns an error if raft.DecodeConfiguration would panic.
func decodable(b []byte) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("a configuration of a message cannot be decoded: %v", r)
		}
	}()
	raft.DecodeConfiguration(b)
	return nil
}

// admit lets raft consider a candidate that is not a voter in the newest configuration of this server, which may be
// older than the candidate's. Raft refuses such candidates, even if their log is newer. So a server that missed a
// change could keep a majority from electing anyone: it refuses the server that has the change, and that one refuses it
// because of its older log. Raft's other conditions are enough: no leader is known, and the candidate's term and log
// are not older. See section 4.2.2 of the Raft dissertation.
func (t *transport) admit(command any) {
	switch m := command.(type) {
	case *raft.RequestVoteRequest:
		m.ID = t.known(m.ID)
	case *raft.RequestPreVoteRequest:
		m.ID = t.known(m.ID)
	}
}

// known returns the ID of a candidate, or that of another voter if the candidate is no voter that this server
// knows. Raft uses it for that check only.
func (t *transport) known(id []byte) []byte {
	voter := id
	for _, s := range t.servers() {
		if s.Suffrage != raft.Voter {
			continue
		}
		if string(s.ID) == string(id) {
			return id
		}
		voter = []byte(s.ID)
	}
	return voter
}

func (t *transport) pass(rpc raft.RPC) bool {
	select {
	case t.rpcs <- rpc:
		return true
	case <-t.done:
		rpc.Respond(nil, raft.ErrTransportShutdown)
		return false
	}
}

// install passes a snapshot to raft, unless it is late, and reports its end before the leader gets the answer. Other
// messages wait until then, since raft's main loop is busy with the snapshot anyway.
func (t *transport) install(rpc raft.RPC, m *raft.InstallSnapshotRequest) {
	leader, answers := rpc.RespChan, make(chan raft.RPCResponse, 1)
	// Raft reads on its main loop. So the answer does not change until it has decided.
	data := &snapshotReader{r: rpc.Reader, late: func() bool { return m.LastLogIndex <= t.settled() }}
	rpc.RespChan, rpc.Reader = answers, data
	if !t.pass(rpc) {
		return
	}
	var answer raft.RPCResponse
	select {
	case answer = <-answers:
	case <-t.done:
		leader <- raft.RPCResponse{Error: raft.ErrTransportShutdown}
		return
	}
	resp, ok := answer.Response.(*raft.InstallSnapshotResponse)
	switch {
	case ok && data.err == errLateSnapshot:
		// This replica has all that is in it, so the leader can continue from there.
		t.wg.Add(1)
		go func() {
			defer t.wg.Done()
			_, err := io.Copy(io.Discard, data.r)
			leader <- raft.RPCResponse{
				Response: &raft.InstallSnapshotResponse{RPCHeader: resp.RPCHeader, Term: resp.Term, Success: err == nil}, Error: err,
			}
		}()
		return
	case ok && resp.Success:
		t.installed(m.LastLogIndex)
	}
	leader <- answer
}

var errLateSnapshot = errors.New("a snapshot arrived late: newer entries are committed here")

// snapshotReader is the data of a snapshot. Its first Read fails if the snapshot is late.
type snapshotReader struct {
	r    io.Reader
	late func() bool // nil after the first Read
	err  error
}

func (s *snapshotReader) Read(p []byte) (int, error) {
	if late := s.late; late != nil {
		s.late = nil
		if late() {
			s.err = errLateSnapshot
		}
	}
	if s.err != nil {
		return 0, s.err
	}
	return s.r.Read(p)
}

// guardedStream is a raft.StreamLayer that has the address that others use, and whose connections are for a server
// of an ID. Accepted ones do not stall within a message.
type guardedStream struct {
	Stream
	id      string
	addr    address
	timeout time.Duration
}

func (s *guardedStream) Addr() net.Addr { return s.addr }

func (s *guardedStream) Accept() (net.Conn, error) {
	conn, err := s.Stream.Accept()
	if err != nil {
		return nil, err
	}
	return &impatientConn{Conn: conn, id: s.id, timeout: s.timeout}, nil
}

// Dial connects to a server by its route.
func (s *guardedStream) Dial(route raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	addr, id := cutRoute(string(route))
	ctx := context.Background()
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	conn, err := s.Stream.Dial(ctx, id, string(addr))
	if err != nil {
		return nil, err
	}
	if err := want(conn, id); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// want says which server a connection is for.
func want(conn net.Conn, id string) error {
	_, err := conn.Write(append([]byte{byte(len(id))}, id...))
	return err
}

// wanted reports whether a connection is for a server.
func wanted(conn net.Conn, id string) bool {
	var b [1 + maxID]byte
	if _, err := io.ReadFull(conn, b[:1]); err != nil {
		return false
	}
	got := b[1 : 1+int(b[0])]
	_, err := io.ReadFull(conn, got)
	return err == nil && string(got) == id
}

type address string

func (address) Network() string  { return "tcp" }
func (a address) String() string { return string(a) }

// impatientConn has a deadline for reads within a message. Raft's transport has none, so a leader that stops while
// it sends a snapshot would hold up the receiver's main loop until TCP gives up, and for ever if its process is only
// paused. Each message is answered by a Write; so a Read that follows a Write begins a message and may wait, and a
// Read that follows a Read continues one. It ends at once if it is for another server. Used by one goroutine.
type impatientConn struct {
	net.Conn
	id      string
	timeout time.Duration
	wanted  bool
	within  bool
}

func (c *impatientConn) Read(p []byte) (int, error) {
	if !c.wanted {
		if err := c.Conn.SetReadDeadline(time.Now().Add(c.timeout)); err != nil {
			return 0, err
		}
		if !wanted(c.Conn, c.id) {
			return 0, io.EOF
		}
		c.wanted = true
	}
	deadline := time.Time{}
	if c.within {
		deadline = time.Now().Add(c.timeout)
	}
	if err := c.Conn.SetReadDeadline(deadline); err != nil {
		return 0, err
	}
	n, err := c.Conn.Read(p)
	c.within = true
	return n, err
}

func (c *impatientConn) Write(p []byte) (int, error) {
	c.within = false
	if err := c.Conn.SetWriteDeadline(time.Now().Add(c.timeout)); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}
