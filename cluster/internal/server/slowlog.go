package server

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/sievedb/sievedb/cluster/internal/command"
)

// The bounds of an entry of the slow log, as in Redis.
const (
	slowArgs     = 32
	slowArgBytes = 128
)

// slowEntry is an entry of the slow log.
type slowEntry struct {
	id, at, micros int64
	args           []string
	addr, name     string
}

// slowLog has the newest commands that took long. Its methods may be called by any goroutine.
type slowLog struct {
	mu sync.Mutex
	// These are guarded by mu. The newest entry is the last one.
	entries []slowEntry
	nextID  int64
	most    int
}

func (l *slowLog) add(c *conn, r request, d time.Duration) {
	e := slowEntry{at: time.Now().Unix(), micros: d.Microseconds(), args: slowArguments(r), addr: c.info.addr,
		name: c.info.getName()}
	l.mu.Lock()
	defer l.mu.Unlock()
	e.id = l.nextID
	l.nextID++
	l.entries = append(l.entries, e)
	l.trim()
}

// trim removes the oldest entries beyond the limit. It needs mu.
func (l *slowLog) trim() {
	if more := len(l.entries) - l.most; more > 0 {
		l.entries = slices.Delete(l.entries, 0, more)
	}
}

func (l *slowLog) setMost(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.most = n
	l.trim()
}

func (l *slowLog) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries = nil
}

func (l *slowLog) len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.entries)
}

// newest returns up to n entries, the newest first.
func (l *slowLog) newest(n int) []slowEntry {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := slices.Clone(l.entries[len(l.entries)-min(n, len(l.entries)):])
	slices.Reverse(list)
	return list
}

// slowArguments returns what the log keeps of the arguments: the first ones, the beginning of each, and no passwords.
func slowArguments(r request) (list []string) {
	secret := len(r.args) // the first argument that may be a password
	switch r.command.Name {
	case "auth":
		secret = 1
	case "hello":
		secret = 2
	}
	for i, arg := range r.args {
		switch {
		case len(r.args) > slowArgs && i == slowArgs-1:
			return append(list, fmt.Sprintf("... (%d more arguments)", len(r.args)-i))
		case i >= secret:
			list = append(list, "(redacted)")
		case len(arg) > slowArgBytes:
			list = append(list, fmt.Sprintf("%s... (%d more bytes)", arg[:slowArgBytes], len(arg)-slowArgBytes))
		default:
			list = append(list, string(arg))
		}
	}
	return list
}

var slowlogCommands = container{Name: "slowlog", Subcommands: []subcommand{
	sub("get", -2, "GET [<count>]", func(c *conn, r request) { c.getSlow(r.args) }),
	sub("len", 2, "LEN", func(c *conn, _ request) { c.out.Int(int64(c.server.slow.len())) }),
	sub("reset", 2, "RESET", func(c *conn, _ request) {
		c.server.slow.reset()
		c.out.OK()
	}),
}}

func (c *conn) getSlow(args [][]byte) {
	count := int64(10)
	if len(args) > 3 {
		c.out.Errorf("ERR unknown subcommand or wrong number of arguments for '%.128s'. Try SLOWLOG HELP.", args[1])
		return
	}
	if len(args) == 3 {
		var ok bool
		if count, ok = command.ParseInt(args[2]); !ok || count < -1 {
			c.out.Error("ERR count should be greater than or equal to -1")
			return
		}
	}
	if count == -1 {
		count = math.MaxInt32
	}
	list := c.server.slow.newest(int(min(count, math.MaxInt32)))
	c.out.Array(len(list))
	for _, e := range list {
		c.out.Array(6)
		c.out.Int(e.id)
		c.out.Int(e.at)
		c.out.Int(e.micros)
		c.out.Array(len(e.args))
		for _, arg := range e.args {
			c.out.Text(arg)
		}
		c.out.Text(e.addr)
		c.out.Text(e.name)
	}
}
