package server

import (
	"strings"
	"time"

	"github.com/sievedb/sievedb/cluster/internal/command"
)

// clientTypes are those of Redis. Here all clients are normal ones.
var clientTypes = map[string]bool{"normal": true, "master": true, "replica": true, "slave": true, "pubsub": true}

// killFilter says which clients CLIENT KILL closes.
type killFilter struct {
	addr, local  string // "": any
	id           int64  // 0: any
	none         bool   // a type of which there are no clients
	maxAge       time.Duration
	includesSelf bool
}

func (f *killFilter) matches(other, self *conn) bool {
	i := &other.info
	return !f.none && (f.addr == "" || f.addr == i.addr) && (f.local == "" || f.local == i.local) &&
		(f.id == 0 || f.id == i.id) &&
		time.Since(i.since) >= f.maxAge && (f.includesSelf || other != self)
}

// parseKill parses the options of CLIENT KILL, and returns an error or "".
func parseKill(args [][]byte) (f killFilter, text string) {
	if len(args) == 1 {
		return killFilter{addr: string(args[0]), includesSelf: true}, ""
	}
	for ; len(args) > 0; args = args[2:] {
		if len(args) == 1 {
			return f, "ERR syntax error"
		}
		value := args[1]
		switch option := strings.ToLower(string(args[0][:min(len(args[0]), 16)])); option {
		case "addr":
			f.addr = string(value)
		case "laddr":
			f.local = string(value)
		case "id", "maxage":
			n, ok := command.ParseInt(value)
			if !ok || n <= 0 || option == "maxage" && n > int64(100*365*24*time.Hour/time.Second) {
				return f, "ERR client-" + option + " should be greater than 0"
			}
			if option == "id" {
				f.id = n
			} else {
				f.maxAge = time.Duration(n) * time.Second
			}
		case "type":
			if !clientTypes[strings.ToLower(string(value[:min(len(value), 16)]))] {
				return f, "ERR Unknown client type '" + string(value[:min(len(value), 128)]) + "'"
			}
			f.none = !isWord(value, "normal")
		case "user":
			if string(value) != "default" {
				return f, "ERR No such user '" + string(value[:min(len(value), 128)]) + "'"
			}
		case "skipme":
			if f.includesSelf = isWord(value, "no"); !f.includesSelf && !isWord(value, "yes") {
				return f, "ERR syntax error"
			}
		default:
			return f, "ERR syntax error"
		}
	}
	return f, ""
}

// kill is CLIENT KILL.
func (c *conn) kill(args [][]byte) {
	f, text := parseKill(args)
	if text != "" {
		c.out.Error(text)
		return
	}
	killed := c.server.kill(&f, c)
	switch {
	case len(args) > 1:
		c.out.Int(killed)
	case killed == 0:
		c.out.Error("ERR No such client")
	default:
		c.out.OK()
	}
}

// kill closes clients, but self only after its reply.
func (s *Server) kill(f *killFilter, self *conn) (killed int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.places.all {
		if !f.matches(c, self) {
			continue
		}
		killed++
		if c == self {
			c.quit = true
			continue
		}
		s.remove(c)
		c.hangUp()
	}
	return killed
}
