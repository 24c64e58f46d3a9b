package wire

import (
	"context"
	"net"

	"github.com/sievedb/sievedb/cluster/internal/kv"
)

// Stream has the connections of raft of one group, and those of a second kind. Closing it closes all its
// connections, in both directions: raft's transport leaves them open.
type Stream struct {
	l        *Listener
	group    kv.GroupID
	queue    *queue
	confirms *queue
	conns    connSet
	// ctx ends dials in progress.
	ctx    context.Context
	cancel context.CancelFunc
}

// Group returns the stream layer of a group. Peers can connect to the group from now until it is closed.
// While it is open, Group returns the same again.
func (l *Listener) Group(id kv.GroupID) *Stream {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.groups[id]; s != nil {
		return s
	}
	s := &Stream{l: l, group: id, queue: newQueue(l.Addr()), confirms: newQueue(l.Addr())}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	if l.isClosed() {
		s.closeConns()
		return s
	}
	l.groups[id] = s
	return s
}

// Accept waits for a connection that another node has dialed by Dial.
func (s *Stream) Accept() (net.Conn, error) { return s.queue.Accept() }

// AcceptConfirm waits for a connection that another node has dialed by DialConfirm.
func (s *Stream) AcceptConfirm() (net.Conn, error) { return s.confirms.Accept() }

// Addr returns the address of the listener.
func (s *Stream) Addr() net.Addr { return s.queue.Addr() }

// Close closes the stream's connections, and refuses further ones.
func (s *Stream) Close() error {
	s.l.mu.Lock()
	if s.l.groups[s.group] == s {
		delete(s.l.groups, s.group)
	}
	s.l.mu.Unlock()
	s.closeConns()
	return nil
}

func (s *Stream) closeConns() {
	s.cancel()
	s.queue.Close()
	s.confirms.Close()
	s.conns.close()
}

// Dial connects to the same group of another node, which must be that of a server of raft; see ParsePeer. Its Accept
// returns the connection.
func (s *Stream) Dial(ctx context.Context, server, addr string) (net.Conn, error) {
	return s.dial(ctx, server, addr, kindRaft)
}

// DialConfirm is as Dial, but AcceptConfirm returns the connection.
func (s *Stream) DialConfirm(ctx context.Context, server, addr string) (net.Conn, error) {
	return s.dial(ctx, server, addr, kindConfirm)
}

func (s *Stream) dial(ctx context.Context, server, addr string, kind byte) (net.Conn, error) {
	peer, err := ParsePeer(server)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	conn, err := s.l.dialPeer(ctx, Target{peer, addr}, kind, s.group)
	if err != nil {
		return nil, err
	}
	conn, ok := s.conns.track(conn)
	if !ok {
		return nil, net.ErrClosed
	}
	return conn, nil
}

func (s *Stream) serve(conn net.Conn, kind byte, gone <-chan struct{}, left func()) {
	conn, ok := s.conns.track(conn)
	switch {
	case !ok:
		left()
	case kind == kindConfirm:
		s.confirms.put(conn, gone, left)
	default:
		s.queue.put(conn, gone, left)
	}
}
