package db

import (
	"log/slog"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/write/txn"
)

// listenerCalls records the goroutines that run a callback of the listener. Others wait for them, such as the flush or
// the leader of a write group, so a call of Flush or Put there would wait for itself. Calls that would wait return
// ErrInListener instead.
type listenerCalls struct {
	base.Callbacks
	// Open sets them.
	listener *EventListener
	Logger   *slog.Logger

	// observer has the Updates whose functions run and are observed.
	observer txn.Observer
}

// notify calls a callback of the listener, if it is set.
func notify[T any](c *listenerCalls, f func(T), what T) {
	if f != nil {
		_ = c.During(func() error { f(what); return nil })
	}
}
