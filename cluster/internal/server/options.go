package server

import (
	"io"
	"log/slog"
	"time"
)

// Options are the settings of a Server. The zero Options works.
type Options struct {
	// Password is what clients must give by AUTH or HELLO before other commands; "" means that
	// they need none. The name of the user is "default".
	Password string
	// WriteTimeout is how long a write may wait for its commit; then the client gets the error
	// UNKNOWN. In a pipeline it counts from the first write that is waited for. Default 5 s.
	WriteTimeout time.Duration
	// ReadTimeout is how long a read may wait until it is known to be linearizable. Default 5 s.
	ReadTimeout time.Duration
	// SendTimeout is how long a client may take to accept replies before it is disconnected. Default 60 s.
	SendTimeout time.Duration
	// IdleTimeout is how long a client may send nothing; 0 is without limit, as in Redis.
	IdleTimeout time.Duration
	// AuthTimeout is how long a client may take to authenticate. Default 10 s.
	AuthTimeout time.Duration
	// RequestTimeout is how long the rest of a request may take to arrive, and one second more for each 16 KiB that
	// have arrived. Default 30 s.
	RequestTimeout time.Duration
	// MaxClients is the largest number of connections that have authenticated. Default 10,000, as in Redis. Without a
	// password these are all; for a further one, the oldest that has not completed any request is closed.
	MaxClients int
	// MaxUnauthenticated is the largest number of connections that still have to; if there are more, the oldest is
	// closed. For their first second, they may use free places of clients too. Default 512. Without a password there
	// are none.
	MaxUnauthenticated int
	// RequestBytes bounds the memory of all requests that are sent in part or queued by MULTI, and of watched keys,
	// beyond 4 KiB for each connection. A request that exceeds it gets an error, and the connection is closed. Default:
	// 256 MiB, or twice MaxRequest if that is more.
	RequestBytes int64
	// MaxRequest is the length of the longest request, and of the longest queue of MULTI, in bytes.
	// Default 64 MiB.
	MaxRequest int
	// MaxValue is the length of the longest value that commands such as SETRANGE may build, in bytes.
	// Default MaxRequest; at most 512 MiB.
	MaxValue int
	// MaxReply is the length of the longest reply, in bytes. Default 128 MiB.
	MaxReply int
	// Logger gets warnings. Default: none.
	Logger *slog.Logger

	idleShrink time.Duration // tests set it
}

const (
	redisMaxValue = 512 << 20
	// DefaultMaxClients is the default of MaxClients, DefaultMaxUnauthenticated that of MaxUnauthenticated.
	DefaultMaxClients         = 10_000
	DefaultMaxUnauthenticated = 512
)

func (o Options) withDefaults() Options {
	duration := func(d *time.Duration, def time.Duration) {
		if *d <= 0 {
			*d = def
		}
	}
	number := func(n *int, def int) {
		if *n <= 0 {
			*n = def
		}
	}
	duration(&o.WriteTimeout, 5*time.Second)
	duration(&o.ReadTimeout, 5*time.Second)
	duration(&o.SendTimeout, time.Minute)
	duration(&o.AuthTimeout, 10*time.Second)
	duration(&o.RequestTimeout, 30*time.Second)
	duration(&o.idleShrink, idleShrink)
	number(&o.MaxClients, DefaultMaxClients)
	number(&o.MaxUnauthenticated, DefaultMaxUnauthenticated)
	number(&o.MaxRequest, 64<<20)
	number(&o.MaxValue, o.MaxRequest)
	number(&o.MaxReply, 128<<20)
	o.MaxValue = min(o.MaxValue, redisMaxValue)
	if o.RequestBytes <= 0 {
		o.RequestBytes = max(256<<20, 2*int64(o.MaxRequest))
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	return o
}
