package server

import (
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"
)

// The bounds of wrong passwords. On one connection, each is answered later than the one before. The passwords from one
// address are checked at a bounded rate, however many connections they come on.
const (
	guessDelay     = 100 * time.Millisecond // times the wrong passwords of the connection so far
	maxGuesses     = 10                     // of a connection
	guessInterval  = 100 * time.Millisecond // of an address, once it has had guessBurst
	guessBurst     = 50
	maxGuessWait   = 5 * time.Second // how long a password waits until it is checked
	maxSources     = 4096
	sweepEvery     = time.Second // if there are maxSources
	guessLogEvery  = 10 * time.Second
	sourceBitsIPv6 = 64 // within a network, a machine can have as many addresses as it wants
)

// guesses counts wrong passwords by the address from which they come. Its methods may be called by any goroutine.
type guesses struct {
	logger *slog.Logger

	mu sync.Mutex
	// These are guarded by mu. until is when an address has paid for its wrong passwords, a guessInterval for
	// each. Those beyond maxSources share the entry of the zero address.
	until    map[netip.Addr]time.Time
	swept    time.Time
	logged   time.Time
	unlogged int
}

// source is the address of a connection by which its passwords are counted.
func source(nc net.Conn) netip.Addr {
	tcp, ok := nc.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	addr := tcp.AddrPort().Addr().Unmap().WithZone("")
	if addr.Is6() {
		prefix, _ := addr.Prefix(sourceBitsIPv6)
		addr = prefix.Addr()
	}
	return addr
}

// judge decides about a password. If the address has sent too many wrong ones, it returns how long to wait until it may
// be judged: then the answer does not depend on whether it is right.
func (g *guesses) judge(from netip.Addr, right bool, now time.Time) (wait time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	until, known := g.until[from]
	if !known && len(g.until) >= maxSources {
		if now.Sub(g.swept) >= sweepEvery {
			g.forget(now)
		}
		if len(g.until) >= maxSources {
			from = netip.Addr{}
			until = g.until[from]
		}
	}
	if wait = until.Sub(now.Add(guessBurst * guessInterval)); wait > 0 {
		return wait
	}
	if right {
		return 0
	}
	if until.Before(now) {
		until = now
	}
	if g.until == nil {
		g.until = map[netip.Addr]time.Time{}
	}
	g.until[from] = until.Add(guessInterval)
	if g.unlogged++; now.Sub(g.logged) >= guessLogEvery {
		g.logger.Warn("clients gave wrong passwords", "count", g.unlogged, "last", from)
		g.logged, g.unlogged = now, 0
	}
	return 0
}

// forget removes the addresses that have paid. mu must be held.
func (g *guesses) forget(now time.Time) {
	g.swept = now
	for from, until := range g.until {
		if !until.After(now) {
			delete(g.until, from)
		}
	}
}
