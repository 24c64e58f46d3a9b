package wire

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// Call calls a method of a node, with a request that is encoded as JSON, and decodes the response
// into response unless that is nil. Errors of the handler are a *RemoteError, and errors.Is finds errors of
// kv in them. Other errors are of the connection: the handler may or may not have run.
func (l *Listener) Call(ctx context.Context, to Target, method string, request, response any) error {
	payload, err := l.encodeRequest(ctx, method, request)
	if err != nil {
		return err
	}
	c := l.pool.get(to)
	if c == nil {
		if c, err = l.dialControl(ctx, to); err != nil {
			return err
		}
	}
	kind, body, err := c.roundTrip(ctx, frameCall, payload)
	if err != nil {
		c.conn.Close()
		return fmt.Errorf("call %s of node %s: %w", method, to, err)
	}
	l.pool.put(to, c)
	switch kind {
	case frameFailure:
		return fmt.Errorf("call %s of node %s: %w", method, to, l.decodeError(body))
	case frameResult:
		if response == nil {
			return nil
		}
		if err := json.Unmarshal(body, response); err != nil {
			return fmt.Errorf("call %s of node %s: decode the response: %w", method, to, err)
		}
		return nil
	}
	return fmt.Errorf("call %s of node %s: the response has type %q", method, to, kind)
}

// CallStream calls a method whose response is bytes. It returns after the first of them, or the error of the
// handler if there are none. The reader returns io.EOF only if the handler has returned without an error; it
// must be closed. ctx ends the stream at any time.
func (l *Listener) CallStream(ctx context.Context, to Target, method string, request any) (io.ReadCloser, error) {
	payload, err := l.encodeRequest(ctx, method, request)
	if err != nil {
		return nil, err
	}
	c, err := l.dialControl(ctx, to)
	if err != nil {
		return nil, err
	}
	s := &streamReader{l: l, c: c, ctx: ctx, method: method, to: to}
	s.stop = context.AfterFunc(ctx, func() { c.conn.Close() })
	err = writeFrame(c.conn, frameStream, payload)
	if err != nil {
		err = s.wrap(err)
	} else {
		err = s.next(true)
	}
	if err != nil && err != io.EOF {
		s.Close()
		return nil, err
	}
	return s, nil
}

func (l *Listener) encodeRequest(ctx context.Context, method string, body any) ([]byte, error) {
	b, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("call %s: encode the request: %w", method, err)
	}
	req := request{Method: method, Body: b}
	if deadline, ok := ctx.Deadline(); ok {
		req.Timeout = max(1, time.Until(deadline).Milliseconds())
	}
	payload, err := json.Marshal(req)
	if err == nil && len(payload) > l.limit {
		err = fmt.Errorf("it has %d bytes, at most %d are supported", len(payload), l.limit)
	}
	if err != nil {
		return nil, fmt.Errorf("call %s: encode the request: %w", method, err)
	}
	return payload, nil
}

// controlConn is a connection for calls, used by one at a time.
type controlConn struct {
	conn   *stallConn
	r      *bufio.Reader
	frames chan frame // of pooled connections: what its reader got
	since  time.Time  // in the pool
}

type frame struct {
	kind    byte
	payload []byte
	err     error
}

func (l *Listener) dialControl(ctx context.Context, to Target) (*controlConn, error) {
	conn, err := l.dialPeer(ctx, to, kindControl, 0)
	if err != nil {
		return nil, err
	}
	conn, ok := l.pool.conns.track(conn)
	if !ok {
		return nil, net.ErrClosed
	}
	c := &stallConn{Conn: conn, timeout: l.o.StallTimeout}
	return &controlConn{conn: c, r: bufio.NewReader(c)}, nil
}

// roundTrip sends a request and waits for its response. A goroutine reads all frames of the connection until it
// ends, so that the pool notices when the other node closes it.
func (c *controlConn) roundTrip(ctx context.Context, kind byte, payload []byte) (byte, []byte, error) {
	stop := context.AfterFunc(ctx, func() { c.conn.Close() })
	defer stop()
	if c.frames == nil {
		c.frames = make(chan frame, 1)
		go c.read()
	}
	err := writeFrame(c.conn, kind, payload)
	var f frame
	if err == nil {
		var open bool
		if f, open = <-c.frames; !open {
			f.err = io.ErrUnexpectedEOF
		}
		err = noEOF(f.err)
	}
	if err == nil && !stop() {
		err = io.ErrUnexpectedEOF // the connection is closed already
	}
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return f.kind, f.payload, err
}

// read sends what arrives to frames. A frame that no call expects ends the connection.
func (c *controlConn) read() {
	defer close(c.frames)
	for {
		c.conn.mayIdle()
		kind, payload, err := readFrame(c.r)
		select {
		case c.frames <- frame{kind, payload, err}:
		default:
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			c.conn.Close()
			return
		}
	}
}

// fresh reports whether the connection is open and silent.
func (c *controlConn) fresh() bool { return len(c.frames) == 0 && time.Since(c.since) < maxIdle }

const (
	maxIdle     = time.Minute
	maxIdleConn = 4 // per node
)

// pool has the idle connections for calls.
type pool struct {
	conns connSet

	mu   sync.Mutex
	idle map[Target][]*controlConn // the newest is last
}

// get returns an idle connection, or nil.
func (p *pool) get(to Target) *controlConn {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.idle[to]) > 0 {
		n := len(p.idle[to]) - 1
		c := p.idle[to][n]
		p.idle[to] = p.idle[to][:n]
		if c.fresh() {
			return c
		}
		c.conn.Close()
	}
	delete(p.idle, to)
	return nil
}

func (p *pool) put(to Target, c *controlConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.idle == nil {
		p.idle = make(map[Target][]*controlConn)
	}
	if len(p.idle[to]) >= maxIdleConn {
		c.conn.Close()
		return
	}
	c.since = time.Now()
	p.idle[to] = append(p.idle[to], c)
}

// drop closes the idle connections.
func (p *pool) drop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, conns := range p.idle {
		for _, c := range conns {
			c.conn.Close()
		}
	}
	p.idle = nil
}

func (p *pool) close() { p.conns.close() }

// streamReader reads a stream. The first error sticks.
type streamReader struct {
	l      *Listener
	c      *controlConn
	ctx    context.Context
	stop   func() bool
	method string
	to     Target
	data   []byte
	err    error
}

func (s *streamReader) Read(p []byte) (int, error) {
	for len(s.data) == 0 {
		if s.err == nil {
			s.next(false)
		}
		if s.err != nil {
			return 0, s.err
		}
		if len(p) == 0 {
			return 0, nil
		}
	}
	n := copy(p, s.data)
	s.data = s.data[n:]
	return n, nil
}

// next reads the next frame. The first may take as long as the handler needs to prepare.
func (s *streamReader) next(first bool) error {
	if first {
		s.c.conn.mayIdle()
	}
	kind, payload, err := readFrame(s.c.r)
	switch {
	case err != nil:
		s.err = s.wrap(noEOF(err))
	case kind == frameData:
		s.data = payload
	case kind == frameEnd:
		s.err = io.EOF
	case kind == frameFailure:
		s.err = s.wrap(s.l.decodeError(payload))
	default:
		s.err = s.wrap(fmt.Errorf("a frame has type %q", kind))
	}
	return s.err
}

func (s *streamReader) wrap(err error) error {
	if s.ctx.Err() != nil {
		err = context.Cause(s.ctx)
	}
	return fmt.Errorf("call %s of node %s: %w", s.method, s.to, err)
}

// Close ends the stream. It may be called more than once, and while another goroutine reads.
func (s *streamReader) Close() error {
	s.stop()
	return s.c.conn.Close()
}
