package consensus

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"time"

	"github.com/hashicorp/raft"

	"github.com/sievedb/sievedb/cluster/internal/kv"
)

// inquiry is the connection by which this server asks the leader for its read index. It has one of its own, because the
// leader asks a majority before it answers, and the questions of confirms must not wait for that.
type inquiry struct {
	g *Group

	mu     kv.Mutex // held while a question is asked
	conn   net.Conn // nil: none
	server string   // at its other end
	number uint64   // of the last question
}

// asksIndex is a bit of the number of a question for the read index, which the listener answers with it instead of its
// term.
const asksIndex = 1 << 63

// errAnswer says that a server answered another question.
var errAnswer = errors.New("a server answered another question than the last one")

// AskReadIndex returns the read index of the leader, as ReadIndex does there: a state machine that has applied it has
// all writes that were acknowledged before the call, wherever that was. It fails if the leader is not known, does not
// answer before ctx ends, or does not lead any more. One question is asked at a time.
func (g *Group) AskReadIndex(ctx context.Context) (uint64, error) {
	q := g.inquiry
	if err := q.mu.LockContext(ctx); err != nil {
		return 0, err
	}
	defer q.mu.Unlock()
	if err := q.connect(ctx); err != nil {
		return 0, err
	}
	stop := context.AfterFunc(ctx, func(conn net.Conn) func() {
		return func() { _ = conn.SetDeadline(time.Unix(1, 0)) }
	}(q.conn))
	index, err := q.ask()
	if !stop() && err == nil {
		err = context.Cause(ctx) // the connection may get the deadline at any time
	}
	if err != nil {
		q.close()
	}
	return index, err
}

// connect connects to the present leader, unless that was done before.
func (q *inquiry) connect(ctx context.Context) error {
	server, addr := q.g.Leader()
	if server != q.server {
		q.close()
	}
	switch {
	case q.conn != nil:
		return nil
	case server == "" || server == q.g.o.ID:
		return &kv.NotLeaderError{Group: q.g.o.Group}
	}
	conn, err := q.g.confirms.connect(ctx, raft.ServerID(server), addr)
	if err == nil {
		q.conn, q.server = conn, server
	}
	return err
}

func (q *inquiry) ask() (index uint64, err error) {
	q.number++
	number := q.number | asksIndex
	if _, err := q.conn.Write(binary.BigEndian.AppendUint64(nil, number)); err != nil {
		return 0, err
	}
	var b [16]byte
	if _, err := io.ReadFull(q.conn, b[:]); err != nil {
		return 0, err
	}
	if binary.BigEndian.Uint64(b[:]) != number {
		return 0, errAnswer
	}
	return binary.BigEndian.Uint64(b[8:]), nil
}

func (q *inquiry) close() {
	if q.conn != nil {
		q.conn.Close()
	}
	q.conn, q.server = nil, ""
}

// answerIndex returns the read index for another server.
func (c *confirms) answerIndex() (uint64, error) {
	ctx, cancel := context.WithTimeout(c.g.ctx, c.g.o.Timing.RPC)
	defer cancel()
	return c.g.ReadIndex(ctx)
}
