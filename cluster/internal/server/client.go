package server

import (
	"bytes"
	"cmp"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// clientInfo is what CLIENT LIST shows of a connection. Its methods may be called by any goroutine.
type clientInfo struct {
	id          int64
	addr, local string
	since       time.Time

	mu sync.Mutex
	// These are guarded by mu.
	name     string
	last     request // only its command, and the name in full
	lastName string
	lastUse  time.Duration // elapsed
	library  string
	libraryV string
	sizes    clientSizes
}

// clientSizes are what a connection had when it began with its last command.
type clientSizes struct {
	queued      int // commands of MULTI; -1: none
	request     int // bytes
	free, queue int // bytes of the buffer for requests, and of the queue
	resp        int
	readonly    bool
}

func (i *clientInfo) init(id int64, nc net.Conn, now time.Duration) {
	i.id, i.since, i.lastUse = id, time.Now(), now
	i.sizes = clientSizes{queued: -1, resp: 2}
	i.addr, i.local = nc.RemoteAddr().String(), nc.LocalAddr().String()
}

// use is called when a command begins.
func (i *clientInfo) use(r request, c *conn) {
	sizes := clientSizes{
		queued: -1, request: c.in.last, free: len(c.in.buf) - c.in.end, queue: c.session.queueBytes,
		resp: c.protocol(), readonly: c.session.readonly,
	}
	if c.session.multi {
		sizes.queued = len(c.session.queue)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.last, i.lastUse, i.sizes = request{command: r.command}, r.begun, sizes
	if c.server.commands.byIndex[r.command.Index] == nil {
		i.lastName = fullName(r.command, r.args)
	}
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
func (c *conn) line() string {
	i, now := &c.info, c.server.elapsed()
	unsent, held := c.memory.unsent.Load(), c.memory.read()
	i.mu.Lock()
	defer i.mu.Unlock()
	last := "NULL"
	if cmd := i.last.command; cmd != nil {
		if last = cmd.Name; containers[cmd.Name] != nil {
			last = i.lastName
		}
	}
	z, flags, events, pieces := i.sizes, "", "r", 0
	if z.queued >= 0 {
		flags += "x"
	}
	if z.readonly {
		flags += "r"
	}
	if unsent > 0 {
		events, pieces = "w", 1
	}
	return fmt.Sprintf("id=%d addr=%s laddr=%s fd=0 name=%s age=%d idle=%d flags=%s db=0 sub=0 psub=0 ssub=0 multi=%d qbuf=%d "+
		"qbuf-free=%d argv-mem=%d multi-mem=%d rbs=%d rbp=0 obl=0 oll=%d omem=%d tot-mem=%d events=%s cmd=%s user=default "+
		"redir=-1 resp=%d lib-name=%s lib-ver=%s\n",
		i.id, i.addr, i.local, i.name, int(time.Since(i.since).Seconds()), int((now - i.lastUse).Seconds()),
		cmp.Or(flags, "N"),
		z.queued, z.request, z.free, z.request, z.queue, initialBuffer, pieces, unsent, held+2*freeMemory, events,
		last, z.resp,
		i.library, i.libraryV)
}

const invalidName = "ERR Client names cannot contain spaces, newlines or special characters."

// validName reports whether a name fits in a line of CLIENT LIST.
func validName(name []byte) bool {
	return !slices.ContainsFunc(name, func(b byte) bool { return b < '!' || b > '~' })
}

var clientCommands = container{Name: "client", Subcommands: []subcommand{
	sub("getname", 2, "GETNAME", func(c *conn, _ request) {
		if n := c.info.getName(); n != "" {
			c.out.Text(n)
		} else {
			c.out.Null()
		}
	}),
	sub("getredir", 2, "GETREDIR", func(c *conn, _ request) { c.out.Int(-1) }),
	sub("id", 2, "ID", func(c *conn, _ request) { c.out.Int(c.info.id) }),
	sub("info", 2, "INFO", func(c *conn, _ request) { c.out.Verbatim(c.line()) }),
	sub("kill", -3, "KILL <ip:port>\nKILL <option> <value> [<option> <value> ...]: ADDR, LADDR, ID, TYPE, USER, SKIPME, MAXAGE",
		func(c *conn, r request) { c.kill(r.args[2:]) }),
	sub("list", -2, "LIST [ID <id> ...] [TYPE <type>]", func(c *conn, r request) { c.listClients(r.args[2:]) }),
	sub("no-evict", 3, "NO-EVICT (ON|OFF)", func(c *conn, r request) { c.onOff(r.args[2]) }),
	sub("no-touch", 3, "NO-TOUCH (ON|OFF)", func(c *conn, r request) { c.onOff(r.args[2]) }),
	sub("reply", 3, "REPLY (ON|OFF|SKIP)", func(c *conn, r request) { c.setReply(r.args[2]) }),
	sub("setinfo", 4, "SETINFO <option> <value>", func(c *conn, r request) { c.setInfo(r.args[2], r.args[3]) }),
	sub("setname", 3, "SETNAME <name>", func(c *conn, r request) {
		if !validName(r.args[2]) {
			c.out.Error(invalidName)
			return
		}
		c.info.setName(string(r.args[2]))
		c.out.OK()
	}),
}}

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

// setReply is CLIENT REPLY. Replies before it are sent, if there are to be any.
func (c *conn) setReply(arg []byte) {
	on, off, next := isWord(arg, "on"), isWord(arg, "off"), isWord(arg, "skip")
	switch {
	case !on && !off && !next:
		c.out.Error("ERR syntax error")
		return
	case c.executing && !on:
		c.out.Error("ERR CLIENT REPLY OFF and SKIP are not allowed inside a transaction")
		return
	case c.executing:
		c.out.OK()
		return
	}
	if c.send() != nil {
		c.quit = true
		return
	}
	switch {
	case on:
		c.session.silent, c.session.skip = false, skipNone
		c.out.OK()
	case off:
		c.session.silent = true
	case !c.session.silent:
		c.session.skip = skipNext
	}
}

func (c *conn) listClients(args [][]byte) {
	wanted := map[int64]bool{}
	normal := true
	for len(args) > 0 {
		switch {
		case len(args) >= 2 && isWord(args[0], "type"):
			if !clientTypes[strings.ToLower(string(args[1]))] {
				c.out.Errorf("ERR Unknown client type '%.128s'", args[1])
				return
			}
			normal = isWord(args[1], "normal") // all clients are of this type
			args = args[2:]
		case len(args) >= 2 && isWord(args[0], "id"):
			for _, arg := range args[1:] {
				id, err := strconv.ParseInt(string(arg), 10, 64)
				if err != nil {
					c.out.Error("ERR Invalid client ID")
					return
				}
				wanted[id] = true
			}
			args = nil
		default:
			c.out.Error("ERR syntax error")
			return
		}
	}
	var lines strings.Builder
	for _, other := range c.server.connected() {
		if normal && (len(wanted) == 0 || wanted[other.info.id]) {
			lines.WriteString(other.line())
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
	slices.SortFunc(list, func(a, b *conn) int { return cmp.Compare(a.info.id, b.info.id) })
	return list
}
