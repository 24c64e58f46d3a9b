package main

import (
	"container/list"
	"context"
	"net"
	"net/http"
	"sync"
	"time"
)

// maxHTTP is how many connections each of --metrics and --console has.
const maxHTTP = 64

// newHTTPServer returns a server with bounds for all who can reach it: of connections, of the time for a request and
// for its answer, and of the time between two requests.
func newHTTPServer(h http.Handler, connections int) *http.Server {
	b := &httpConns{limit: connections}
	return &http.Server{
		Handler: b.working(h), ConnContext: b.enter, ConnState: b.changed,
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 30 * time.Second, WriteTimeout: time.Minute, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: 16 << 10,
	}
}

// httpConns bounds the connections of a server. If there are too many, the oldest one whose request is not being
// answered is closed: it is idle, or its request has not arrived.
type httpConns struct {
	limit int

	mu  sync.Mutex
	all list.List // guarded by mu: of *httpConn, the oldest in front
}

type httpConn struct {
	net.Conn
	working bool // guarded by the mu of httpConns
}

type httpConnKey struct{}

// enter is called for each new connection.
func (b *httpConns) enter(ctx context.Context, c net.Conn) context.Context {
	b.mu.Lock()
	defer b.mu.Unlock()
	for e := b.all.Front(); e != nil && b.all.Len() >= b.limit; e = e.Next() {
		if old := e.Value.(*httpConn); !old.working {
			b.all.Remove(e)
			_ = old.Close() // nobody waits for it
			break
		}
	}
	if b.all.Len() >= b.limit {
		_ = c.Close() // the server notices
		return ctx
	}
	added := &httpConn{Conn: c}
	b.all.PushBack(added)
	return context.WithValue(ctx, httpConnKey{}, added)
}

// changed is called when the state of a connection changes.
func (b *httpConns) changed(c net.Conn, state http.ConnState) {
	if state != http.StateClosed && state != http.StateHijacked {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for e := b.all.Front(); e != nil; e = e.Next() {
		if e.Value.(*httpConn).Conn == c {
			b.all.Remove(e)
			return
		}
	}
}

// working marks the connections whose requests are being answered.
func (b *httpConns) working(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, ok := r.Context().Value(httpConnKey{}).(*httpConn)
		if !ok {
			return // it is closed
		}
		set := func(working bool) {
			b.mu.Lock()
			c.working = working
			b.mu.Unlock()
		}
		set(true)
		defer set(false)
		h.ServeHTTP(w, r)
	})
}
