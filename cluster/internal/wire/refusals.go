package wire

import (
	"errors"
	"net"
	"sync"
	"time"
)

func (l *Listener) logRefusal(raw net.Conn, err error) {
	if l.noteVersion(err, false, raw.RemoteAddr().String()) {
		return
	}
	attrs := []any{"remote", raw.RemoteAddr().String(), "error", err}
	if !errors.Is(err, ErrRefused) || errors.Is(err, ErrSelf) { // clients that went away, scanners of ports, --join
		l.o.Logger.Debug("refused a connection", attrs...)
		return
	}
	unlogged, ok := l.refusals.next(time.Now())
	if !ok {
		return
	}
	if unlogged > 0 {
		attrs = append(attrs, "unlogged", unlogged)
	}
	l.o.Logger.Warn("refused a connection", attrs...)
}

// The refusals that are logged at most: strangers cannot fill a disk.
const (
	loggedRefusals = 10
	refusalsWithin = 10 * time.Second
)

// refusals bounds the rate of a log line.
type refusals struct {
	mu       sync.Mutex
	began    time.Time
	count    int // since began
	unlogged int // since the last line
}

// next reports whether a refusal is logged, and how many before it were not.
func (r *refusals) next(now time.Time) (unlogged int, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Sub(r.began) >= refusalsWithin {
		r.began, r.count = now, 0
	}
	if r.count++; r.count > loggedRefusals {
		r.unlogged++
		return 0, false
	}
	unlogged, r.unlogged = r.unlogged, 0
	return unlogged, true
}
