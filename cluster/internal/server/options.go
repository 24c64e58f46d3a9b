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
	// MaxClients is the largest number of connections. Default 10,000, as in Redis.
	MaxClients int
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
}

const redisMaxValue = 512 << 20

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
	number(&o.MaxClients, 10_000)
	number(&o.MaxRequest, 64<<20)
	number(&o.MaxValue, o.MaxRequest)
	number(&o.MaxReply, 128<<20)
	o.MaxValue = min(o.MaxValue, redisMaxValue)
	if o.Logger == nil {
		o.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	return o
}
