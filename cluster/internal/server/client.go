package server

import (
	"bytes"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sievedb/sievedb/cluster/internal/command"
)

// clientInfo is what CLIENT LIST shows of a connection. Its methods may be called by any goroutine.
type clientInfo struct {
	id          int64
	addr, local string
	since       time.Time

	mu sync.Mutex
	// These are guarded by mu.
	name     string
	last     *command.Command
	lastUse  time.Time
	library  string
	libraryV string
}

func (i *clientInfo) init(id int64, nc net.Conn) {
	i.id, i.since, i.lastUse = id, time.Now(), time.Now()
	i.addr, i.local = nc.RemoteAddr().String(), nc.LocalAddr().String()
}

func (i *clientInfo) use(cmd *command.Command) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.last, i.lastUse = cmd, time.Now()
}

func (i *clientInfo) setName(name string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.name = name
}

func (i *clientInfo) getName() string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.name
}

// line is a line of CLIENT LIST.
func (i *clientInfo) line() string {
	i.mu.Lock()
	defer i.mu.Unlock()
	last := "NULL"
	if i.last != nil {
		last = i.last.Name
	}
	return fmt.Sprintf("id=%d addr=%s laddr=%s fd=0 name=%s age=%d idle=%d flags=N db=0 cmd=%s user=default lib-name=%s lib-ver=%s\n",
		i.id, i.addr, i.local, i.name, int(time.Since(i.since).Seconds()), int(time.Since(i.lastUse).Seconds()), last,
		i.library, i.libraryV)
}

const invalidName = "ERR Client names cannot contain spaces, newlines or special characters."

// validName reports whether a name fits in a line of CLIENT LIST.
func validName(name []byte) bool {
	return !slices.ContainsFunc(name, func(b byte) bool { return b < '!' || b > '~' })
}

var clientArities = map[string]int{
	"id": 2, "info": 2, "list": -2, "getname": 2, "setname": 3, "setinfo": 4, "no-evict": 3, "no-touch": 3, "reply": 3,
	"help": 2,
}

func client(c *conn, r request) {
	name, ok := c.call(r.args).Subcommand("client", clientArities)
	if !ok {
		return
	}
	switch name {
	case "id":
		c.out.Int(c.info.id)
	case "info":
		c.out.Verbatim(c.info.line())
	case "list":
		c.listClients(r.args[2:])
	case "getname":
		if n := c.info.getName(); n != "" {
			c.out.Text(n)
		} else {
			c.out.Null()
		}
	case "setname":
		if !validName(r.args[2]) {
			c.out.Error(invalidName)
			return
		}
		c.info.setName(string(r.args[2]))
		c.out.OK()
	case "setinfo":
		c.setInfo(r.args[2], r.args[3])
	case "no-evict", "no-touch":
		c.onOff(r.args[2])
	case "reply":
		if isWord(r.args[2], "on") {
			c.out.OK()
		} else {
			c.out.Error("ERR only CLIENT REPLY ON is supported")
		}
	case "help":
		c.call(r.args).Help("CLIENT", "GETNAME", "ID", "INFO", "LIST [ID <id> ...]", "SETINFO <option> <value>", "SETNAME <name>")
	}
}

func (c *conn) onOff(arg []byte) {
	if isWord(arg, "on") || isWord(arg, "off") {
		c.out.OK()
	} else {
		c.out.Error("ERR syntax error")
	}
}

func (c *conn) setInfo(option, value []byte) {
	target := map[string]*string{"lib-name": &c.info.library, "lib-ver": &c.info.libraryV}[strings.ToLower(string(option))]
	switch {
	case target == nil:
		c.out.Errorf("ERR Unrecognized option '%.128s'", option)
	case !validName(value):
		c.out.Errorf("ERR %s cannot contain spaces, newlines or special characters.", bytes.ToLower(option))
	default:
		c.info.mu.Lock()
		*target = string(value)
		c.info.mu.Unlock()
		c.out.OK()
	}
}

func (c *conn) listClients(args [][]byte) {
	wanted := map[int64]bool{}
	switch {
	case len(args) == 0:
	case len(args) == 2 && isWord(args[0], "type"): // all clients are of the type normal
		if !isWord(args[1], "normal") {
			c.out.Verbatim("")
			return
		}
	case len(args) >= 2 && isWord(args[0], "id"):
		for _, arg := range args[1:] {
			id, err := strconv.ParseInt(string(arg), 10, 64)
			if err != nil {
				c.out.Error("ERR Invalid client ID")
				return
			}
			wanted[id] = true
		}
	default:
		c.out.Error("ERR syntax error")
		return
	}
	var lines strings.Builder
	for _, other := range c.server.connected() {
		if len(wanted) == 0 || wanted[other.info.id] {
			lines.WriteString(other.info.line())
		}
	}
	c.out.Verbatim(lines.String())
}

// connected returns the connections in the order of their ids.
func (s *Server) connected() []*conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]*conn, 0, len(s.places.all))
	for c := range s.places.all {
		list = append(list, c)
	}
	slices.SortFunc(list, func(a, b *conn) int { return int(a.info.id - b.info.id) })
	return list
}
