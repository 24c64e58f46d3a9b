package server

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/sievedb/sievedb/cluster/internal/command"
	"github.com/sievedb/sievedb/cluster/internal/kv"
)

// The bounds of what a connection collects before it sends replies.
const (
	maxCollected = 1 << 20 // bytes of replies
	maxInFlight  = 1024    // writes
	maxReads     = 1024    // reads that wait for one View
	idleReplies  = 64 << 10
)

// conn is the connection of a client. Its goroutine runs serve; other goroutines use only interrupt,
// and info, which has its own lock.
type conn struct {
	server  *Server
	nc      net.Conn
	in      *requests
	session session
	info    clientInfo
	quit    bool // close after the replies are sent
	failed  bool // it quits because of an error, which the client should get
	// executing is set while EXEC collects replies: the writes in flight must stay as they are.
	executing bool

	// out are the replies that are not sent. The reply of inFlight[i] is a part of it, which becomes an
	// error if the commit fails. The replies of reads follow out.
	out      command.Reply
	inFlight []inFlight
	reads    readBatch
	// arrived is when the connection turned to the requests that it has received. Their time counts from then on, so
	// that a client that sent several need not wait for the time of each. It is zero before the first of them.
	arrived time.Time
	// writeCtx bounds the writes in flight. It is nil if none was begun since settle.
	writeCtx    context.Context
	cancelWrite context.CancelFunc

	patience patience
	memory   memory
	guesses  int           // wrong passwords
	isNew    bool          // it has not completed a request, and needs no password
	gone     chan struct{} // closed when the connection has to end
	hungUp   sync.Once

	deadline sync.Mutex // guards interrupted and the deadline for reading
	// interrupted is set when the server closes, or another connection has the place of this one.
	interrupted bool

	place place // guarded by the server's mu
}

// inFlight is a write whose commit is not known.
type inFlight struct {
	pending    kv.Pending
	group      kv.Group
	request    request
	execution  *execution // of EXEC; otherwise nil
	start, end int        // its reply in out
}

func newConn(s *Server, nc net.Conn, id int64) *conn {
	c := &conn{server: s, nc: nc, in: newRequests(nc, s.options.MaxRequest), gone: make(chan struct{})}
	c.memory.budget = &s.memory
	c.out.Grant = c.grant
	c.isNew = s.options.Password == ""
	c.setAuthenticated(c.isNew)
	c.info.init(id, nc, s.elapsed())
	return c
}

func (c *conn) setAuthenticated(yes bool) {
	c.session.authenticated, c.in.authenticated = yes, yes
	c.patience.since = time.Time{}
	if !yes {
		c.patience.since = c.server.now()
	}
}

// interrupt lets the connection end when it would wait for a request, and ends a wait for another reason.
func (c *conn) interrupt() {
	c.deadline.Lock()
	defer c.deadline.Unlock()
	c.interrupted = true
	_ = c.nc.SetReadDeadline(time.Unix(1, 0))
	c.hungUp.Do(func() { close(c.gone) })
}

// hangUp closes the connection.
func (c *conn) hangUp() {
	c.hungUp.Do(func() { close(c.gone) })
	c.nc.Close()
}

// fail replies with an error after which the connection cannot be used.
func (c *conn) fail(text string) {
	c.out.Error(text)
	c.quit, c.failed = true, true
}

// serve answers the client until the connection has to be closed.
func (c *conn) serve() {
	defer c.memory.force(0)
	defer c.session.end()
	for !c.quit {
		args, err := c.in.Next(c.session.authenticated)
		switch {
		case err != nil:
			c.server.stats.protocolErrors.Add(1)
			c.flushReads()
			c.fail("ERR " + err.Error())
		case args == nil:
			if c.send() != nil || c.fill() != nil {
				return
			}
		default:
			if c.isNew {
				c.isNew = false
				if !c.server.know(c) {
					return
				}
			}
			c.countArgs()
			c.dispatch(args)
			if cap(c.out.Bytes) > max(c.memory.replies, idleReplies) {
				c.account()
			}
			if len(c.inFlight) < maxInFlight && len(c.out.Bytes) < maxCollected {
				continue
			}
			if c.send() != nil {
				return
			}
		}
	}
	if c.send() == nil && c.failed {
		c.farewell()
	}
}

// call returns a call of a command whose reply follows those in out.
func (c *conn) call(args [][]byte) *command.Call { return c.callTo(&c.out, args) }

func (c *conn) callTo(reply *command.Reply, args [][]byte) *command.Call {
	return &command.Call{Args: args, Reply: reply, Limits: c.limits()}
}

func (c *conn) limits() command.Limits {
	o := &c.server.options
	return command.Limits{MaxValue: o.MaxValue, MaxReply: o.MaxReply, OnceFor: o.OnceFor}
}

// settle waits for the writes in flight, and replaces the replies of those that failed by errors. A command that wrote
// nothing, and whose leadership has changed, is evaluated again.
func (c *conn) settle() {
	if c.writeCtx == nil {
		return
	}
	var kept []byte // the replies up to copied, once a write has failed
	copied, failed := 0, false
	for i, w := range c.inFlight {
		err := w.pending.Wait(c.writeCtx)
		c.observe(w.request, c.server.elapsed())
		if err == nil {
			continue
		}
		failed = true
		kept = append(kept, c.out.Bytes[copied:w.start]...)
		reply := command.Reply{Bytes: kept, RESP3: c.out.RESP3}
		if errors.Is(err, kv.ErrDeposed) && w.repeatable() && c.noneDone(c.inFlight[i+1:]) {
			err = c.repeat(w, &reply)
		}
		if err != nil {
			reply.Error(c.failure(err, w.request.slot, true))
		}
		kept, copied = reply.Bytes, w.end
	}
	if failed {
		c.out.Bytes = append(kept, c.out.Bytes[copied:]...)
	}
	c.cancelWrite()
	c.writeCtx = nil
	clear(c.inFlight)
	c.inFlight = c.inFlight[:0]
}

// repeatable reports whether it may be evaluated again: the replies of commands without keys are given.
func (w *inFlight) repeatable() bool {
	return w.execution == nil || !w.execution.transaction.hasUnkeyed()
}

// noneDone waits for writes, and reports whether none of them was done. Otherwise a command before them cannot be
// evaluated any more: it would see what came after it.
func (c *conn) noneDone(writes []inFlight) bool {
	for _, w := range writes {
		if err := w.pending.Wait(c.writeCtx); err == nil || errors.Is(err, kv.ErrUnknown) {
			return false
		}
	}
	return true
}

// repeat evaluates a command again that has written nothing, until it has ended in the term of its evaluation. It
// appends the reply unless it returns an error.
func (c *conn) repeat(w inFlight, reply *command.Reply) error {
	start := len(reply.Bytes)
	for {
		pending, err := c.evaluate(w, reply)
		if err == nil {
			err = pending.Wait(c.writeCtx)
		}
		if err == nil {
			return nil
		}
		reply.Bytes = reply.Bytes[:start]
		if !errors.Is(err, kv.ErrDeposed) || c.writeCtx.Err() != nil {
			return err
		}
	}
}

func (c *conn) evaluate(w inFlight, reply *command.Reply) (kv.Pending, error) {
	if w.execution == nil {
		return c.update(w.group, w.request, reply)
	}
	pending, err := w.execution.propose(w.group)
	if err == nil {
		w.execution.replyTo(reply)
	}
	c.memory.lent = 0
	return pending, err
}

// send completes what is in progress and sends the replies.
func (c *conn) send() error {
	c.flushReads()
	c.settle()
	return c.write()
}

// write sends out, which must be settled.
func (c *conn) write() error {
	if c.session.silent {
		c.out.Bytes = c.out.Bytes[:0]
	}
	if len(c.out.Bytes) == 0 {
		return nil
	}
	if !c.late() {
		c.arrived = time.Time{} // the client may take its time for these replies
	}
	_ = c.nc.SetWriteDeadline(time.Now().Add(c.server.options.SendTimeout))
	err := c.transmit(c.out.Bytes)
	if cap(c.out.Bytes) > idleReplies {
		c.out.Bytes = nil
		c.account()
	}
	c.out.Bytes = c.out.Bytes[:0]
	return err
}

// writing returns the context of the writes in flight.
func (c *conn) writing() context.Context {
	if c.writeCtx == nil {
		c.writeCtx, c.cancelWrite = context.WithDeadline(c.server.ctx, c.begin().Add(c.server.options.WriteTimeout))
	}
	return c.writeCtx
}

func (c *conn) reading() (context.Context, context.CancelFunc) {
	return context.WithDeadline(c.server.ctx, c.begin().Add(c.server.options.ReadTimeout))
}

// late reports whether the time of the present requests is over, and not for long. Those that follow at once fail too.
func (c *conn) late() bool {
	if c.arrived.IsZero() {
		return false
	}
	over := time.Since(c.arrived) - max(c.server.options.WriteTimeout, c.server.options.ReadTimeout)
	return 0 <= over && over < time.Second
}

// begin returns when the connection turned to the present requests.
func (c *conn) begin() time.Time {
	if c.arrived.IsZero() {
		c.arrived = time.Now()
	}
	return c.arrived
}

// failure returns the error that a client gets if a group fails.
func (c *conn) failure(err error, slot uint16, writes bool) string {
	if errors.Is(err, errTooLarge) || errors.Is(err, errNoRoom) {
		return err.Error()
	}
	if text := c.redirected(err, slot); text != "" {
		return text
	}
	return command.Failure(err, slot, writes)
}
