package wire

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// handler answers the calls of a method: one of its functions is set.
type handler struct {
	call   func(ctx context.Context, request json.RawMessage) (any, error)
	stream func(ctx context.Context, request json.RawMessage, w io.Writer) error
}

// request is the payload of a frame that begins a call.
type request struct {
	Method string `json:"method"`
	// Timeout is how many milliseconds the caller will wait; 0: unknown.
	Timeout int64           `json:"timeout,omitempty"`
	Body    json.RawMessage `json:"body,omitempty"`
}

// Handle registers the handler of a method's calls. The context ends at the caller's deadline, and when
// the listener is closed. The response is encoded as JSON. Later registrations replace earlier ones.
func (l *Listener) Handle(method string, f func(ctx context.Context, request json.RawMessage) (any, error)) {
	l.handle(method, handler{call: f})
}

// HandleStream registers the handler of a method whose response is bytes. The caller gets the error that f returns,
// also after bytes were written. Writes fail if the caller has gone, or takes nothing for too long.
func (l *Listener) HandleStream(method string, f func(ctx context.Context, request json.RawMessage, w io.Writer) error) {
	l.handle(method, handler{stream: f})
}

func (l *Listener) handle(method string, h handler) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.handlers == nil {
		l.handlers = make(map[string]handler)
	}
	l.handlers[method] = h
}

// serveControl answers the calls of a connection until it ends.
func (l *Listener) serveControl(conn net.Conn) {
	conn, ok := l.control.track(conn)
	if !ok {
		return
	}
	defer conn.Close()
	c := &stallConn{Conn: conn, timeout: l.o.StallTimeout}
	r := bufio.NewReader(c)
	for {
		c.mayIdle()
		kind, payload, err := readFrame(r)
		if err == nil {
			err = l.answer(c, kind, payload)
		}
		if err != nil {
			if err != io.EOF && !l.isClosed() {
				l.o.Logger.Debug("ended a connection of calls", "remote", conn.RemoteAddr().String(), "error", err)
			}
			return
		}
	}
}

// answer runs the handler of a request. It returns errors of the connection only.
func (l *Listener) answer(w io.Writer, kind byte, payload []byte) error {
	var req request
	if err := json.Unmarshal(payload, &req); err != nil {
		return fmt.Errorf("decode a request: %w", err)
	}
	l.mu.Lock()
	h := l.handlers[req.Method]
	l.mu.Unlock()

	ctx := l.ctx
	if req.Timeout > 0 && req.Timeout < int64(24*time.Hour/time.Millisecond) {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(req.Timeout)*time.Millisecond)
		defer cancel()
	}
	switch {
	case kind == frameCall && h.call != nil:
		return l.answerCall(ctx, w, h, req)
	case kind == frameStream && h.stream != nil:
		return l.answerStream(ctx, w, h, req)
	case kind == frameCall || kind == frameStream:
		return writeFrame(w, frameFailure, l.encodeError(fmt.Errorf("%w: %q", ErrUnknownMethod, req.Method)))
	}
	return fmt.Errorf("a request has type %q", kind)
}

func (l *Listener) answerCall(ctx context.Context, w io.Writer, h handler, req request) error {
	response, err := h.call(ctx, req.Body)
	var body []byte
	if err == nil {
		body, err = json.Marshal(response)
	}
	if err == nil && len(body) > l.limit {
		err = fmt.Errorf("the response of %s has %d bytes, at most %d are supported", req.Method, len(body), l.limit)
	}
	if err != nil {
		return writeFrame(w, frameFailure, l.encodeError(err))
	}
	return writeFrame(w, frameResult, body)
}

func (l *Listener) answerStream(ctx context.Context, conn io.Writer, h handler, req request) error {
	w := &streamWriter{w: conn}
	err := h.stream(ctx, req.Body, w)
	switch {
	case w.err != nil:
		return w.err
	case err != nil:
		if err := writeFrame(conn, frameFailure, l.encodeError(err)); err != nil {
			return err
		}
	default:
		if err := writeFrame(conn, frameEnd, nil); err != nil {
			return err
		}
	}
	return nil
}

// streamWriter writes the data of a stream as frames. The first error sticks.
type streamWriter struct {
	w   io.Writer
	err error
}

func (s *streamWriter) Write(p []byte) (int, error) {
	n := 0
	for len(p) > 0 && s.err == nil {
		chunk := p[:min(len(p), chunkSize)]
		if s.err = writeFrame(s.w, frameData, chunk); s.err == nil {
			n += len(chunk)
			p = p[len(chunk):]
		}
	}
	return n, s.err
}

// stallConn fails if the other side neither sends nor takes anything for a time. It is used by one reader
// and one writer.
type stallConn struct {
	net.Conn
	timeout time.Duration
	idle    bool // the next Read waits without limit: nothing has to come
}

func (c *stallConn) mayIdle() { c.idle = true }

func (c *stallConn) Read(p []byte) (int, error) {
	deadline := time.Now().Add(c.timeout)
	if c.idle {
		deadline = time.Time{}
		c.idle = false
	}
	if err := c.Conn.SetReadDeadline(deadline); err != nil {
		return 0, err
	}
	return c.Conn.Read(p)
}

func (c *stallConn) Write(p []byte) (int, error) {
	if err := c.Conn.SetWriteDeadline(time.Now().Add(c.timeout)); err != nil {
		return 0, err
	}
	n, err := c.Conn.Write(p)
	if errors.Is(err, net.ErrClosed) {
		err = io.ErrClosedPipe
	}
	return n, err
}
