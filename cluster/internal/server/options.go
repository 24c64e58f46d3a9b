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
	// WriteTimeout is how long a write may take until its commit; then the client gets the error UNKNOWN, or another
	// one if it has not begun. In a pipeline it counts from the moment at which the connection turns to what has
	// arrived. It should be less than the time after which clients send a request again. Default 2 s.
	WriteTimeout time.Duration
	// ReadTimeout is how long a read of keys may take. It counts as WriteTimeout does. Default 2 s.
	ReadTimeout time.Duration
	// ScanTimeout is how long a command may take that reads all keys of the node, such as KEYS. Default 5 s,
	// or ReadTimeout if that is more.
	ScanTimeout time.Duration
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
	// ClientBytes bounds the memory of all clients together: of requests that are sent in part or queued by MULTI, of
	// watched keys, and of replies that are not read, beyond 8 KiB for each connection. If it is used up, clients that
	// need more wait, and the one that has stalled with the most is closed. After 5 s, a request gets an error, and if
	// it is incomplete, its connection is closed. Default: 256 MiB, or what the longest request and reply need if that
	// is more.
	ClientBytes int64
	// MaxRequest is the length of the longest request, and of the longest queue of MULTI, in bytes. Default 64 MiB.
	MaxRequest int
	// MaxValue is the length of the longest value that commands such as SETRANGE may build, in bytes.
	// Default MaxRequest; at most 512 MiB.
	MaxValue int
	// MaxReply is the length of the longest reply, in bytes. Default 128 MiB.
	MaxReply int
	// MaxKeys is the largest number of keys of a command. Default 10,000.
	MaxKeys int
	// OnceFor is how long the replies of ONCE are kept. Default 10 min.
	OnceFor time.Duration
	// Logger gets warnings. Default: none.
	Logger *slog.Logger

	idleShrink, roomTime, readPart time.Duration // tests set them
}

const (
	redisMaxValue = 512 << 20
	// DefaultTimeout is the default of WriteTimeout and ReadTimeout. Clients that repeat requests do so after 3 s
	// (go-redis) or later. An election takes about as long, but a node that does not lead says so at once.
	DefaultTimeout = 2 * time.Second
	// DefaultMaxKeys is the default of MaxKeys. DEL of as many keys takes about 60 ms (measured in 2026).
	DefaultMaxKeys = 10_000
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
	duration(&o.WriteTimeout, DefaultTimeout)
	duration(&o.ReadTimeout, DefaultTimeout)
	duration(&o.ScanTimeout, max(5*time.Second, o.ReadTimeout))
	duration(&o.SendTimeout, time.Minute)
	duration(&o.AuthTimeout, 10*time.Second)
	duration(&o.RequestTimeout, 30*time.Second)
	duration(&o.idleShrink, idleShrink)
	duration(&o.roomTime, roomTime)
	duration(&o.readPart, o.ReadTimeout/4)
	number(&o.MaxClients, DefaultMaxClients)
	number(&o.MaxUnauthenticated, DefaultMaxUnauthenticated)
	number(&o.MaxRequest, 64<<20)
	number(&o.MaxValue, o.MaxRequest)
	number(&o.MaxReply, 128<<20)
	number(&o.MaxKeys, DefaultMaxKeys)
	o.MaxValue = min(o.MaxValue, redisMaxValue)
	if o.ClientBytes <= 0 {
		o.ClientBytes = max(256<<20, 2*int64(o.MaxRequest+o.MaxReply))
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	return o
}
