package wire

import (
	"context"
	"net"
	"time"

	"github.com/hashicorp/raft"

	"github.com/sievedb/sievedb/cluster/internal/kv"
)

// stream is the raft.StreamLayer of one group. Closing it closes all its connections, in both directions:
// raft's transport leaves them open.
type stream struct {
	l     *Listener
	group kv.GroupID
	queue *queue
	conns connSet
	// ctx ends dials in progress.
	ctx    context.Context
	cancel context.CancelFunc
}

// Group returns the stream layer of a group. Peers can connect to the group from now until it is closed.
// While it is open, Group returns the same again.
func (l *Listener) Group(id kv.GroupID) raft.StreamLayer {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.groups[id]; s != nil {
		return s
	}
	s := &stream{l: l, group: id, queue: newQueue(l.Addr())}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	if l.isClosed() {
		s.closeConns()
		return s
	}
	l.groups[id] = s
	return s
}

func (s *stream) Accept() (net.Conn, error) { return s.queue.Accept() }

func (s *stream) Addr() net.Addr { return s.queue.Addr() }

func (s *stream) Close() error {
	s.l.mu.Lock()
	if s.l.groups[s.group] == s {
		delete(s.l.groups, s.group)
	}
	s.l.mu.Unlock()
	s.closeConns()
	return nil
}

func (s *stream) closeConns() {
	s.cancel()
	s.queue.Close()
	s.conns.close()
}

// Dial connects to the same group of another node.
func (s *stream) Dial(address raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	ctx := s.ctx
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	conn, err := s.l.dialPeer(ctx, string(address), kindRaft, s.group)
	if err != nil {
		return nil, err
	}
	conn, ok := s.conns.track(conn)
	if !ok {
		return nil, net.ErrClosed
	}
	return conn, nil
}

func (s *stream) serve(conn net.Conn, gone <-chan struct{}) {
	if conn, ok := s.conns.track(conn); ok {
		s.queue.put(conn, gone)
	}
}
