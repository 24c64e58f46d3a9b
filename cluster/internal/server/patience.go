package server

import (
	"errors"
	"os"
	"time"
)

const (
	// minRequestRate is how many bytes of a request must arrive in a second, besides RequestTimeout.
	minRequestRate = 16 << 10
	// idleShrink is how long a connection keeps large buffers that it does not use. It may keep them up to twice as
	// long.
	idleShrink = time.Second
)

// patience is how long a connection waits for its client. To set a deadline is a system call, which a client that sends
// one request after another should not cost each time. So a deadline is set only if it is earlier than the present one.
// When that has passed, the connection checks what is really due.
type patience struct {
	idleTimeout time.Duration // of the present wait; 0: none
	since       time.Time     // when the client connected, until it is authenticated; then zero
	armed       time.Time     // the deadline that is set; zero: none
	fills       int           // waits so far
	quiet       int           // fills when a look at large buffers was ordered; 0: none is ordered

	// begun is when the incomplete request was first waited for, and request its number.
	begun   time.Time
	request int
	// idle is when the wait for a request began. It is set only if there is an idleTimeout.
	idle time.Time
}

// The reasons for which a connection is closed.
var (
	errNotAuthenticated = errors.New("the client did not authenticate in time")
	errSlowRequest      = errors.New("the client did not complete a request in time")
	errIdle             = errors.New("the client sent nothing for too long")
)

// wait begins a wait.
func (p *patience) wait(q *requests, now func() time.Time) {
	p.fills++
	switch partial := q.unread() > 0; {
	case partial && (p.begun.IsZero() || p.request != q.completed):
		p.begun, p.request = now(), q.completed
	case !partial:
		p.begun = time.Time{}
		if p.idleTimeout > 0 {
			p.idle = now()
		}
	}
}

// due returns the earliest time at which something is due, or zero if nothing is. large says that there are large
// buffers.
func (p *patience) due(q *requests, o *Options, large bool, now func() time.Time) (at time.Time, why error) {
	earliest := func(t time.Time, reason error) {
		if at.IsZero() || t.Before(at) {
			at, why = t, reason
		}
	}
	if !p.since.IsZero() {
		earliest(p.since.Add(o.AuthTimeout), errNotAuthenticated)
	}
	switch {
	case !p.begun.IsZero():
		extra := time.Duration(q.unread()) * time.Second / minRequestRate
		earliest(p.begun.Add(o.RequestTimeout+extra), errSlowRequest)
	case p.idleTimeout > 0:
		earliest(p.idle.Add(p.idleTimeout), errIdle)
	}
	if large && p.quiet == 0 {
		p.quiet = p.fills
		earliest(now().Add(o.idleShrink), nil)
	}
	return at, why
}

// fill waits for requests. It returns an error when the connection has to end.
func (c *conn) fill() error {
	p, o, now := &c.patience, &c.server.options, c.server.now
	p.idleTimeout = time.Duration(c.server.live.idleTimeout.Load())
	p.wait(c.in, now)
	c.in.forget() // before it waits for memory
	// If the buffer was full, more had arrived: the rest of a pipeline, whose time is over too.
	if !c.in.filled || !c.late() {
		c.arrived = time.Time{}
	}
	for {
		if err := c.reserve(); err != nil {
			return err
		}
		if at, _ := p.due(c.in, o, c.large(), now); !at.IsZero() && (p.armed.IsZero() || at.Before(p.armed)) {
			c.setDeadline(at)
		}
		err := c.receive()
		if err == nil || !errors.Is(err, os.ErrDeadlineExceeded) || c.isInterrupted() {
			return err
		}
		if err := c.look(); err != nil {
			c.server.stats.timedOut.Add(1)
			c.server.options.Logger.Debug("closed a connection", "remote", c.info.addr, "reason", err)
			return err
		}
	}
}

// look is called when a deadline has come. It returns an error if the client has exceeded a time, and otherwise
// releases buffers that were not used for long.
func (c *conn) look() error {
	p := &c.patience
	c.setDeadline(time.Time{})
	if timeout := time.Duration(c.server.live.idleTimeout.Load()); timeout != p.idleTimeout {
		p.idleTimeout, p.idle = timeout, c.server.now()
	}
	at, why := p.due(c.in, &c.server.options, false, c.server.now)
	if !at.IsZero() && !at.After(c.server.now()) {
		return why
	}
	if p.quiet == p.fills {
		c.shrink()
	}
	p.quiet = 0
	return nil
}

// large reports whether the connection has more memory than one that is idle should have.
func (c *conn) large() bool {
	return c.in.unread() == 0 && (c.in.large() || cap(c.out.Bytes) > initialBuffer)
}

func (c *conn) shrink() {
	if !c.large() {
		return
	}
	c.in.release()
	c.out.Bytes, c.inFlight, c.reads.list = nil, nil, nil
}

// setDeadline sets the deadline for reading; zero is none.
func (c *conn) setDeadline(at time.Time) {
	c.deadline.Lock()
	defer c.deadline.Unlock()
	c.patience.armed = at
	if !c.interrupted {
		_ = c.nc.SetReadDeadline(at)
	}
}

// wake lets all connections look at what is due, because that has changed.
func (s *Server) wake() {
	for _, c := range s.connected() {
		c.deadline.Lock()
		if !c.interrupted {
			_ = c.nc.SetReadDeadline(time.Unix(1, 0))
		}
		c.deadline.Unlock()
	}
}

func (c *conn) isInterrupted() bool {
	c.deadline.Lock()
	defer c.deadline.Unlock()
	return c.interrupted
}

// pause waits for a time, or until the connection or the server ends.
func (c *conn) pause(d time.Duration) { c.server.pause(d, c.gone) }

func pause(d time.Duration, gone <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-gone:
	}
}
