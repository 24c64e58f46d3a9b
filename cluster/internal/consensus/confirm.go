package consensus

import (
	"cmp"
	"context"
	"encoding/binary"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

// Stream connects the servers of a group. Accept and AcceptConfirm wait for a connection until the stream is closed, as
// all its connections are.
type Stream interface {
	net.Listener
	// Dial connects to the same group of the node of a server, at an address. The connection arrives at its Accept.
	Dial(ctx context.Context, server, addr string) (net.Conn, error)
	// DialConfirm is as Dial, but the connection arrives at AcceptConfirm.
	DialConfirm(ctx context.Context, server, addr string) (net.Conn, error)
	AcceptConfirm() (net.Conn, error)
}

// confirms asks other servers for a linearizable read whether they may have voted for a successor, and answers them.
//
// A server answers with the newest term that it knows. It learns of a term before it votes in it, so an answer that is
// not newer than the leader's term says that it had voted for no successor when the question arrived. If a
// majority answers so, there was no successor when the questions were sent. Answers change nothing, so they
// come from the goroutine of the connection: raft's main loop may be busy with its disk.
//
// Numbers are big-endian. The dialer begins with the server that it wants, since another one may be there by now:
//
//	dialer    length (1) | server ID     once
//	dialer    number (8)                 for each question
//	listener  number (8) | term (8)      for each, in order
//
// If the greatest bit of the number is set, the dialer asks for the read index of a leader, and gets that instead of
// the term. A server that does not lead closes the connection. See inquiry. The handshake (wire.Version) refuses
// nodes that know questions of one kind only: they would answer with their term.
type confirms struct {
	g *Group
	// voter is nil while raft is replaced: the new one can vote before it is known here.
	voter atomic.Pointer[raft.Raft]

	mu    sync.Mutex
	peers map[raft.ServerID]*peer
	// order and buf are scratch of ask.
	order []*peer
	buf   [8]byte
}

// peer is a server that this one asks.
type peer struct {
	id      raft.ServerID
	conn    net.Conn // nil: none
	dialing bool
	retryAt time.Time
	failed  int           // attempts to connect since the last that did not
	latency time.Duration // smoothed; 0: unknown
	last    uint64        // the number of the last question on this connection
	asked   []question    // that were not answered yet, in order
}

type question struct {
	number, term uint64
	at           time.Time
}

const (
	// maxAsked bounds the questions that a peer has not answered, so that a Write never waits for it.
	maxAsked = 64
	// redialAfter is the time between attempts to connect to a peer, at first. It doubles four times.
	redialAfter = 100 * time.Millisecond
)

func newConfirms(g *Group) *confirms {
	c := &confirms{g: g, peers: make(map[raft.ServerID]*peer)}
	c.voter.Store(g.raft.Load())
	g.wg.Add(1)
	go c.accept()
	return c
}

func (c *confirms) accept() {
	defer c.g.wg.Done()
	for {
		conn, err := c.g.o.Stream.AcceptConfirm()
		if err != nil {
			return // the stream is closed
		}
		c.g.wg.Add(1)
		go c.answer(conn)
	}
}

// answer answers the questions of a connection until it ends.
func (c *confirms) answer(conn net.Conn) {
	defer c.g.wg.Done()
	defer conn.Close()
	if conn.SetReadDeadline(time.Now().Add(c.g.o.Timing.RPC)) != nil || !wanted(conn, c.g.o.ID) {
		return
	}
	if conn.SetReadDeadline(time.Time{}) != nil {
		return
	}
	var b [16]byte
	for {
		if _, err := io.ReadFull(conn, b[:8]); err != nil {
			return
		}
		answer, ok := c.answerTo(binary.BigEndian.Uint64(b[:8]))
		if !ok {
			return
		}
		binary.BigEndian.PutUint64(b[8:], answer)
		if _, err := conn.Write(b[:]); err != nil {
			return
		}
	}
}

// answerTo returns the answer to the question of a number, if there is one.
func (c *confirms) answerTo(number uint64) (answer uint64, ok bool) {
	if number&asksIndex != 0 {
		index, err := c.answerIndex()
		return index, err == nil
	}
	r := c.voter.Load()
	if r == nil {
		return 0, false
	}
	return r.CurrentTerm(), true
}

// ask sends a question to as many other voters as a majority needs, the fastest first. With all, it sends it to each
// voter. It skips those that have the question already, and those that are not connected yet.
func (c *confirms) ask(servers []raft.Server, term, number uint64, all bool) {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	voters, need := 0, 1
	c.order = c.order[:0]
	for _, s := range servers {
		if s.Suffrage != raft.Voter {
			continue
		}
		voters++
		if string(s.ID) == c.g.o.ID {
			need = 0 // this server is one of the majority
			continue
		}
		if p := c.peerLocked(s, now); p.conn != nil {
			c.order = append(c.order, p)
		}
	}
	c.forgetLocked(servers, voters)
	need += voters / 2
	slices.SortStableFunc(c.order, func(a, b *peer) int { return a.rank(number).compare(b.rank(number)) })
	for _, p := range c.order {
		if need <= 0 && !all {
			return
		}
		if p.last == number || c.sendLocked(p, question{number, term, now}) {
			need--
		}
	}
}

// rank says which peers get a question first.
type rank struct {
	class   int // 0: it has the question; 1: it has answered all others; 2: it has not
	latency time.Duration
}

func (p *peer) rank(number uint64) rank {
	switch {
	case p.last == number:
		return rank{0, 0}
	case len(p.asked) == 0:
		return rank{1, p.latency}
	}
	return rank{2, p.latency}
}

func (a rank) compare(b rank) int {
	return cmp.Or(cmp.Compare(a.class, b.class), cmp.Compare(a.latency, b.latency))
}

// sendLocked sends a question, unless the peer owes too many answers. It reports whether the peer has it.
func (c *confirms) sendLocked(p *peer, q question) bool {
	if len(p.asked) >= maxAsked {
		return false
	}
	if _, err := p.conn.Write(binary.BigEndian.AppendUint64(c.buf[:0], q.number)); err != nil {
		c.dropLocked(p)
		return false
	}
	p.asked, p.last = append(p.asked, q), q.number
	return true
}

// peerLocked returns a server to ask, and begins to connect to it if necessary.
func (c *confirms) peerLocked(s raft.Server, now time.Time) *peer {
	p := c.peers[s.ID]
	if p == nil {
		p = &peer{id: s.ID}
		c.peers[s.ID] = p
	}
	if len(p.asked) > 0 && now.Sub(p.asked[0].at) > c.g.o.Timing.RPC {
		c.dropLocked(p) // its process may be paused, or the network loses what is sent
	}
	if p.conn == nil && !p.dialing && !now.Before(p.retryAt) && c.g.ctx.Err() == nil {
		p.dialing = true
		c.g.wg.Add(1)
		go c.dial(p, string(s.Address))
	}
	return p
}

// forgetLocked closes the connections to servers that are no voters any more.
func (c *confirms) forgetLocked(servers []raft.Server, voters int) {
	if len(c.peers) < voters {
		return
	}
	for id, p := range c.peers {
		if !slices.ContainsFunc(servers, func(s raft.Server) bool { return s.ID == id && s.Suffrage == raft.Voter }) {
			c.dropLocked(p)
			delete(c.peers, id)
		}
	}
}

// dropLocked closes the connection to a peer. Its questions are not answered any more.
func (c *confirms) dropLocked(p *peer) {
	if p.conn == nil {
		return
	}
	p.conn.Close()
	p.conn, p.asked, p.last = nil, nil, 0
	c.retryLocked(p)
}

// retryLocked wakes a waiting round after a while, so that it connects again.
func (c *confirms) retryLocked(p *peer) {
	after := redialAfter << min(p.failed, 4)
	p.retryAt = time.Now().Add(after)
	time.AfterFunc(after, c.g.trans.acks.wake)
}

// dial connects to a peer and reads its answers.
func (c *confirms) dial(p *peer, addr string) {
	defer c.g.wg.Done()
	conn, err := c.connect(c.g.ctx, p.id, addr)
	c.mu.Lock()
	p.dialing = false
	if c.peers[p.id] != p && err == nil { // it was forgotten meanwhile
		conn.Close()
		err = net.ErrClosed
	}
	if err != nil {
		p.failed++
		c.retryLocked(p)
		c.mu.Unlock()
		return
	}
	p.conn, p.failed = conn, 0
	c.mu.Unlock()
	c.g.trans.acks.wake() // a round may wait for a peer
	c.read(p, conn)
}

func (c *confirms) connect(ctx context.Context, id raft.ServerID, addr string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, c.g.o.Timing.RPC)
	defer cancel()
	conn, err := c.g.o.Stream.DialConfirm(ctx, string(id), c.g.o.present(string(id), addr))
	if err != nil {
		return nil, err
	}
	if err := want(conn, string(id)); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// read notes the answers of a peer until the connection ends.
func (c *confirms) read(p *peer, conn net.Conn) {
	var b [16]byte
	for {
		_, err := io.ReadFull(conn, b[:])
		if err != nil || !c.note(p, conn, binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])) {
			break
		}
	}
	c.mu.Lock()
	if p.conn == conn {
		c.dropLocked(p)
	}
	c.mu.Unlock()
	conn.Close()
	c.g.trans.acks.wake() // another peer may answer
}

// note notes an answer. It returns false if that is not the next one of this connection.
func (c *confirms) note(p *peer, conn net.Conn, number, term uint64) bool {
	c.mu.Lock()
	if p.conn != conn || len(p.asked) == 0 || p.asked[0].number != number {
		c.mu.Unlock()
		return false
	}
	q := p.asked[0]
	p.asked = append(p.asked[:0], p.asked[1:]...)
	took := time.Since(q.at)
	if p.latency == 0 {
		p.latency = took
	}
	p.latency += (took - p.latency) / 8
	c.mu.Unlock()
	if term <= q.term {
		c.g.trans.acks.note(p.id, q.term, q.number)
	}
	return true
}

// lateness notices a round of questions that is not answered soon, so that all voters get its question. One timer
// serves all rounds: starting one for each would cost more than the questions.
type lateness struct {
	late func() // called once for such a round

	mu    sync.Mutex
	armed bool
	began time.Time // of the present round; zero: none
	told  bool
}

// askAllAfter is how long a round waits for the fastest servers at least, and at most twice as long.
const askAllAfter = 3 * time.Millisecond

func (l *lateness) begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.began, l.told = time.Now(), false
	if !l.armed {
		l.armed = true
		time.AfterFunc(askAllAfter, l.look)
	}
}

func (l *lateness) end() {
	l.mu.Lock()
	l.began = time.Time{}
	l.mu.Unlock()
}

func (l *lateness) isLate() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.told
}

func (l *lateness) look() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.began.IsZero() {
		l.armed = false
		return
	}
	time.AfterFunc(askAllAfter, l.look)
	if !l.told && time.Since(l.began) >= askAllAfter {
		l.told = true
		l.late()
	}
}
