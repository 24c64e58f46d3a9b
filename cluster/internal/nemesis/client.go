package nemesis

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// The patience of clients. A server gives up on a write a little earlier, so that both UNKNOWN and silence occur.
const (
	replyTimeout = 900 * time.Millisecond
	dialTimeout  = 300 * time.Millisecond
	maxAttempts  = 8
)

// fate is what is known of a command after an attempt.
type fate int

const (
	done fate = iota
	notDone
	unknown
)

// client sends commands and records them. It is used by one goroutine.
type client struct {
	id      int
	rnd     *rand.Rand
	dial    dialer
	nodes   func() []string
	history *History
	stays   func() string // the node that it always asks; "": it follows redirections
	pause   func() bool   // waits while clients are paused, and reports whether they were

	conns   map[string]*conn
	leaders map[string]string // of each tag, as far as a reply has shown it
}

func newClient(id int, rnd *rand.Rand, h *History, dial dialer, nodes func() []string) *client {
	return &client{id: id, rnd: rnd, dial: dial, nodes: nodes, history: h, conns: map[string]*conn{}, leaders: map[string]string{}}
}

func (c *client) close() {
	for addr := range c.conns {
		c.drop(addr)
	}
}

func (c *client) drop(addr string) {
	if cn := c.conns[addr]; cn != nil {
		_ = cn.nc.Close()
		delete(c.conns, addr)
	}
}

// target returns the node to ask. Sometimes it is not the leader: a deposed leader that still
// answers is what these tests look for.
func (c *client) target(tag string) string {
	if c.stays != nil {
		if addr := c.stays(); addr != "" {
			return addr
		}
	}
	if leader := c.leaders[tag]; leader != "" && c.rnd.IntN(8) > 0 {
		return leader
	}
	nodes := c.nodes()
	return nodes[c.rnd.IntN(len(nodes))]
}

// send sends requests to a node, and drops the connection if that fails.
func (c *client) send(ctx context.Context, addr string, requests ...[]string) (replies []reply, sent bool, err error) {
	cn := c.conns[addr]
	if cn == nil {
		ctx, cancel := context.WithTimeout(ctx, dialTimeout)
		defer cancel()
		nc, err := c.dial(ctx, addr)
		if err != nil {
			return nil, false, err
		}
		cn = &conn{nc: nc, r: bufio.NewReader(nc), between: c.sleepWalk}
		c.conns[addr] = cn
	}
	replies, sent, err = cn.call(time.Now().Add(replyTimeout), requests...)
	if err != nil {
		c.drop(addr)
	}
	return replies, sent, err
}

// sleepWalk waits while clients are paused. Then half of them notice that their deadline has passed, although the reply
// may be there; the others have slept with their timers, as in a machine that was suspended, and wait for it.
func (c *client) sleepWalk() (deadline time.Time) {
	if c.pause != nil && c.pause() && c.rnd.IntN(2) == 0 {
		return time.Now().Add(replyTimeout)
	}
	return deadline
}

// promises are the first words of errors that promise that nothing was done.
var promises = map[string]bool{"MOVED": true, "CLUSTERDOWN": true, "TRYAGAIN": true, "LOADING": true, "EXECABORT": true, "MISCONF": true}

// judge notes an error reply and returns what it says about its command.
func (c *client) judge(tag, text string) fate {
	word, rest, _ := strings.Cut(text, " ")
	noted := word
	if word == "ERR" {
		noted = text // unexpected, so the test shows all of it
	}
	c.history.count(func(n *Counts) { n.Errors[noted]++ })
	switch {
	case word == "MOVED":
		c.history.count(func(n *Counts) { n.Moved++ })
		if _, addr, ok := strings.Cut(rest, " "); ok {
			c.leaders[tag] = addr
		}
	case promises[word]:
		delete(c.leaders, tag)
	default:
		return unknown
	}
	return notDone
}

// attempt sends an operation to a node.
type attempt func(ctx context.Context, addr string, in input) ([]answer, fate)

// do performs an operation: it tries until something is known, or the tries are used up, or the outcome is
// unknown. It returns the answers if it was done.
func (c *client) do(ctx context.Context, in input, try attempt) (answers []answer, ok bool) {
	begin := c.history.now()
	for i := range maxAttempts {
		addr := c.target(in.tag)
		answers, f := try(ctx, addr, in)
		switch f {
		case done:
			c.leaders[in.tag] = addr
			c.record(begin, in, output{answers: answers})
			return answers, true
		case unknown:
			delete(c.leaders, in.tag)
			c.recordUnknown(begin, in)
			return nil, false
		}
		if ctx.Err() != nil {
			break
		}
		if i > 1 {
			time.Sleep(time.Duration(c.rnd.IntN(20)+5) * time.Millisecond << min(i, 3))
		}
	}
	c.history.count(func(n *Counts) { n.NotDone++ })
	return nil, false
}

func (c *client) record(begin int64, in input, out output) {
	c.history.add(porcupine.Operation{ClientId: c.id, Input: in, Call: begin, Output: out, Return: c.history.now()})
}

// recordUnknown records the writes of an operation of unknown outcome: its reads say nothing.
func (c *client) recordUnknown(begin int64, in input) {
	writes := input{tag: in.tag}
	for _, cmd := range in.commands {
		if cmd.writes() {
			writes.commands = append(writes.commands, cmd)
		}
	}
	if len(writes.commands) > 0 {
		c.record(begin, writes, output{unknown: true})
	}
}

// one sends an operation that is a single command.
func (c *client) one(ctx context.Context, addr string, in input) ([]answer, fate) {
	cmd := in.commands[0]
	replies, sent, err := c.send(ctx, addr, cmd.args(in.tag))
	switch {
	case err != nil && sent:
		return nil, unknown
	case err != nil:
		return nil, notDone
	case replies[0].err != "":
		return nil, c.judge(in.tag, replies[0].err)
	}
	return []answer{cmd.answer(replies[0])}, done
}

// longKeys is how many keys the first command of a pipeline deletes. They do not exist, but each is looked for.
const longKeys = 400

// pipeline sends a long command on one tag and commands on another at once, and records each of the latter. They are
// evaluated in order, and wait for the end of the first one. It does not follow redirections.
func (c *client) pipeline(ctx context.Context, first, tag string, commands []command) {
	requests := [][]string{{"DEL"}}
	for key := range longKeys {
		requests[0] = append(requests[0], keyOf(first, width+key))
	}
	for _, cmd := range commands {
		requests = append(requests, cmd.args(tag))
	}
	begin, addr := c.history.now(), c.target(tag)
	replies, sent, err := c.send(ctx, addr, requests...)
	if err != nil && !sent {
		c.history.count(func(n *Counts) { n.NotDone++ })
		return
	}
	for i, cmd := range commands {
		in := input{tag, []command{cmd}}
		switch {
		case err != nil:
			c.recordUnknown(begin, in)
		case replies[i+1].err == "":
			c.leaders[tag] = addr
			c.record(begin, in, output{answers: []answer{cmd.answer(replies[i+1])}})
		case c.judge(tag, replies[i+1].err) == unknown:
			c.recordUnknown(begin, in)
		}
	}
}

// transaction sends an operation within MULTI and EXEC.
func (c *client) transaction(ctx context.Context, addr string, in input) ([]answer, fate) {
	requests := [][]string{{"MULTI"}}
	for _, cmd := range in.commands {
		requests = append(requests, cmd.args(in.tag))
	}
	replies, sent, err := c.send(ctx, addr, append(requests, []string{"EXEC"})...)
	switch {
	case err != nil && sent:
		return nil, unknown
	case err != nil:
		return nil, notDone
	}
	exec := replies[len(replies)-1]
	for _, r := range replies[:len(replies)-1] {
		if r.err != "" {
			c.judge(in.tag, r.err) // for the redirection: EXEC decides
		}
	}
	switch {
	case exec.err != "":
		return nil, c.judgeExec(in.tag, exec.err)
	case exec.null || len(exec.array) != len(in.commands):
		return nil, notDone
	}
	answers := make([]answer, len(in.commands))
	for i, cmd := range in.commands {
		answers[i] = cmd.answer(exec.array[i])
	}
	return answers, done
}

// judgeExec is judge, but keeps the leader that a queued command was redirected to.
func (c *client) judgeExec(tag, text string) fate {
	leader := c.leaders[tag]
	f := c.judge(tag, text)
	if strings.HasPrefix(text, "EXECABORT") && leader != "" {
		c.leaders[tag] = leader
	}
	return f
}

// watched reads a key and then writes another one if neither has changed since: WATCH, GET, MULTI, SET, EXEC.
// It records what it finds.
func (c *client) watched(ctx context.Context, tag string, read, write command) {
	addr := c.target(tag)
	begin := c.history.now()
	first, _, err := c.send(ctx, addr, []string{"WATCH", keyOf(tag, read.key), keyOf(tag, write.key)}, read.args(tag))
	if err != nil {
		return
	}
	for _, r := range first {
		if r.err != "" {
			c.judge(tag, r.err)
			c.drop(addr) // a watch would remain
			return
		}
	}
	got := read.answer(first[1])
	answers, f := c.transaction(ctx, addr, input{tag, []command{write}})
	switch f {
	case done:
		c.record(begin, input{tag, []command{read, write}}, output{answers: append([]answer{got}, answers...)})
		return
	case unknown:
		c.recordUnknown(begin, input{tag, []command{write}})
	}
	c.record(begin, input{tag, []command{read}}, output{answers: []answer{got}})
}

// answer returns the model's form of a reply.
func (c command) answer(r reply) answer {
	switch c.verb {
	case doGet, doSet, doSetMort, doSetNX, doSetXX:
		if r.null {
			return absent
		}
		return textAnswer(r.text)
	case doRange, doRev:
		var pairs []string
		for i := 0; i+1 < len(r.array); i += 2 {
			_, key, _ := strings.Cut(r.array[i].text, "}k")
			pairs = append(pairs, key+"="+r.array[i+1].text)
		}
		return answer(strings.Join(pairs, " "))
	}
	if r.null {
		return absent
	}
	return answer(fmt.Sprintf(":%d", r.n))
}
