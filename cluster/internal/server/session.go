package server

import (
	"crypto/sha256"
	"crypto/subtle"
	"strconv"
	"time"

	"github.com/sievedb/sievedb/cluster/internal/command"
)

// session is what a client has set for its connection.
type session struct {
	authenticated bool
	// deferred says that the command in progress is counted when its commit is known.
	deferred bool
	silent   bool // CLIENT REPLY OFF: nothing is sent
	skip     skip
	readonly bool
	transaction
}

// skip is the state of CLIENT REPLY SKIP, which lets the command after it have no reply.
type skip byte

const (
	skipNone skip = iota
	skipNext
	skipThis
)

// end releases what the session holds in groups.
func (s *session) end() { s.unwatch() }

// sessionCommands are the commands of kind OfSession.
var sessionCommands map[string]func(c *conn, r request)

func init() { // the functions use dispatch, which uses the map
	sessionCommands = map[string]func(c *conn, r request){
		"ping": ping, "echo": echo, "quit": quit, "reset": reset, "hello": hello, "auth": auth, "select": selectDatabase,
		"client": of(&clientCommands), "readonly": readonly(true), "readwrite": readonly(false), "asking": asking, "wait": wait,
		"multi": multi, "exec": exec, "discard": discard, "watch": watch, "unwatch": unwatch,
		"info": info, "command": describe, "time": clock,
		"config": of(&configCommands), "slowlog": of(&slowlogCommands), "latency": of(&latencyCommands),
	}
}

func ping(c *conn, r request) {
	switch len(r.args) {
	case 1:
		c.out.Status("PONG")
	case 2:
		c.out.Bulk(r.args[1])
	default:
		c.out.Error(command.WrongArity("ping"))
	}
}

func echo(c *conn, r request) { c.out.Bulk(r.args[1]) }

func quit(c *conn, _ request) {
	c.out.OK()
	c.quit = true
}

func reset(c *conn, _ request) {
	c.settle() // their replies are in the old protocol
	c.session.end()
	c.session = session{}
	if c.server.options.Password == "" {
		c.setAuthenticated(true)
	} else {
		c.setAuthenticated(false)
		c.server.expel(c)
	}
	c.info.setName("")
	c.out.RESP3 = false
	c.out.Status("RESET")
}

func asking(c *conn, _ request) { c.out.OK() }

func readonly(on bool) func(*conn, request) {
	return func(c *conn, _ request) {
		c.session.readonly = on
		c.out.OK()
	}
}

func selectDatabase(c *conn, r request) {
	switch n, ok := command.ParseInt(r.args[1]); {
	case !ok:
		c.out.Error("ERR value is not an integer or out of range")
	case n != 0:
		c.out.Error("ERR SELECT is not allowed in cluster mode")
	default:
		c.out.OK()
	}
}

func clock(c *conn, _ request) {
	now := time.Now()
	c.out.Array(2)
	c.out.Text(strconv.FormatInt(now.Unix(), 10))
	c.out.Text(strconv.FormatInt(int64(now.Nanosecond()/1000), 10))
}

func describe(c *conn, r request) { command.Describe(c.call(r.args)) }

const (
	wrongPassword = "WRONGPASS invalid username-password pair or user is disabled."
	tooManyWrong  = "ERR too many wrong passwords came from this address, so that this one was not checked; try again later"
	noPassword    = "ERR AUTH <password> called without any password configured for the default user. " +
		"Are you sure your configuration is correct?"
	helloNeedsAuth = "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> " +
		"AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version " +
		"at the same time"
)

// permits reports whether a user may use this server. The time does not depend on the password.
func (c *conn) permits(user, password []byte) bool {
	want := c.server.options.Password
	got, expected := sha256.Sum256(password), sha256.Sum256([]byte(want))
	equal := subtle.ConstantTimeCompare(got[:], expected[:]) == 1
	return string(user) == "default" && (want == "" || equal)
}

// login authenticates the client, and returns "" or an error. A wrong password is answered late, and too many of
// them end the connection.
func (c *conn) login(user, password []byte) string {
	right := c.permits(user, password)
	if c.server.options.Password == "" { // nothing can be guessed
		if !right {
			return wrongPassword
		}
		return ""
	}
	from := source(c.nc)
	for left := maxGuessWait; ; {
		wait := c.server.guesses.judge(from, right, c.server.now())
		if wait <= 0 {
			break
		}
		if left -= wait; left < 0 {
			c.quit, c.failed = true, true
			return tooManyWrong
		}
		c.settle() // the replies before must not wait for longer than their time
		c.pause(wait)
		c.arrived = time.Time{}
	}
	if !right {
		c.server.stats.wrongPasswords.Add(1)
		c.guesses++
		c.quit = c.quit || c.guesses >= maxGuesses
		c.settle()
		c.pause(time.Duration(c.guesses) * guessDelay)
		c.arrived = time.Time{}
		return wrongPassword
	}
	if !c.server.admit(c) {
		c.quit, c.failed = true, true
		return tooManyClients
	}
	c.setAuthenticated(true)
	return ""
}

func auth(c *conn, r request) {
	user, password := []byte("default"), r.args[len(r.args)-1]
	switch {
	case len(r.args) > 3:
		c.out.Error("ERR syntax error")
		return
	case len(r.args) == 3:
		user = r.args[1]
	case c.server.options.Password == "":
		c.out.Error(noPassword)
		return
	}
	if text := c.login(user, password); text != "" {
		c.out.Error(text)
		return
	}
	c.out.OK()
}

// helloOptions are the arguments of HELLO. A nil name is none.
type helloOptions struct {
	protocol       int
	user, password []byte
	name           []byte
}

func (c *conn) parseHello(call *command.Call) (o helloOptions, text string) {
	o.protocol = c.protocol()
	args := call.Args
	if len(args) > 1 {
		n, ok := command.ParseInt(args[1])
		if !ok {
			return o, "ERR Protocol version is not an integer or out of range"
		}
		if n != 2 && n != 3 {
			return o, "NOPROTO unsupported protocol version"
		}
		o.protocol = int(n)
	}
	for i := 2; i < len(args); i++ {
		switch {
		case isWord(args[i], "auth") && i+2 < len(args):
			o.user, o.password = args[i+1], args[i+2]
			i += 2
		case isWord(args[i], "setname") && i+1 < len(args):
			o.name = args[i+1]
			i++
		default:
			return o, "ERR Syntax error in HELLO option '" + string(args[i][:min(len(args[i]), 128)]) + "'"
		}
	}
	return o, ""
}

func hello(c *conn, r request) {
	o, text := c.parseHello(c.call(r.args))
	switch {
	case text != "":
	case o.name != nil && !validName(o.name) && (c.session.authenticated || o.user != nil):
		text = invalidName
	case o.user != nil:
		text = c.login(o.user, o.password)
	case !c.session.authenticated:
		text = helloNeedsAuth
	}
	if text != "" {
		c.out.Error(text)
		return
	}
	if o.name != nil {
		c.info.setName(string(o.name))
	}
	c.settle() // the replies before are in the old protocol
	c.out.RESP3 = o.protocol == 3
	c.out.Map(7)
	c.out.Text("server")
	c.out.Text("redis")
	c.out.Text("version")
	c.out.Text(redisVersion)
	c.out.Text("proto")
	c.out.Int(int64(o.protocol))
	c.out.Text("id")
	c.out.Int(c.info.id)
	c.out.Text("mode")
	c.out.Text("cluster")
	c.out.Text("role")
	c.out.Text("master")
	c.out.Text("modules")
	c.out.Array(0)
}

func (c *conn) protocol() int {
	if c.out.RESP3 {
		return 3
	}
	return 2
}

// wait replies with the number of other replicas that surely have the writes of this connection. They are
// acknowledged, so a majority has them. It does not wait for more.
func wait(c *conn, r request) {
	replicas, ok := command.ParseInt(r.args[1])
	timeout, okTimeout := command.ParseInt(r.args[2])
	switch {
	case !ok || replicas < 0:
		c.out.Error("ERR value is not an integer or out of range")
		return
	case !okTimeout:
		c.out.Error("ERR timeout is not an integer or out of range")
		return
	case timeout < 0:
		c.out.Error("ERR timeout is negative")
		return
	}
	if !c.executing { // EXEC has done that, and replies only after its own commit
		c.settle()
	}
	_, ranges := c.server.cluster.Map()
	others := -1
	for _, r := range ranges {
		if n := len(r.Replicas) / 2; others < 0 || n < others {
			others = n
		}
	}
	c.out.Int(int64(max(others, 0)))
}
