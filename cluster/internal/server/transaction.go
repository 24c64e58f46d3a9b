package server

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/sievedb/sievedb/cluster/internal/command"
	"github.com/sievedb/sievedb/cluster/internal/kv"
)

// transaction is what a client has queued after MULTI and watches by WATCH.
type transaction struct {
	multi      bool
	dirty      bool // a command could not be queued, so EXEC fails
	queue      []request
	queueBytes int

	watches    []kv.Watch // all in watchSlot
	watchSlot  uint16
	watchBytes int
}

func (t *transaction) unwatch() {
	for _, w := range t.watches {
		w.Close()
	}
	t.watches, t.watchBytes = nil, 0
}

// discard ends MULTI and WATCH.
func (t *transaction) discard() {
	t.unwatch()
	*t = transaction{}
}

func multi(c *conn, _ request) {
	if c.session.multi {
		c.out.Error("ERR MULTI calls can not be nested") // EXEC will not fail for that, as in Redis
		return
	}
	c.session.multi = true
	c.out.OK()
}

func discard(c *conn, _ request) {
	if !c.session.multi {
		c.out.Error("ERR DISCARD without MULTI")
		return
	}
	c.session.discard()
	c.out.OK()
}

func unwatch(c *conn, _ request) {
	c.session.unwatch()
	c.out.OK()
}

func watch(c *conn, r request) {
	s := &c.session
	if s.multi {
		// Redis does not let EXEC fail after this either.
		c.out.Error("ERR WATCH inside MULTI is not allowed")
		return
	}
	if len(s.watches) > 0 && s.watchSlot != r.slot {
		c.out.Error(command.ErrCrossSlot.Error())
		return
	}
	bytes := s.watchBytes
	for _, key := range r.args[1:] {
		bytes += len(key) + 256 // about what the watch of a key uses besides
	}
	if limit := c.server.options.MaxRequest; bytes > limit {
		c.out.Error(fmt.Sprintf("ERR the watched keys exceed %d bytes", limit))
		return
	}
	g, redirection := c.led(r.slot)
	if redirection != "" {
		c.out.Error(redirection)
		return
	}
	c.settle() // the client means the keys as its writes have left them
	ctx, cancel := c.reading()
	defer cancel()
	w, err := g.Watch(ctx, r.args[1:])
	if err != nil {
		c.out.Error(c.failure(err, r.slot, false))
		return
	}
	s.watches, s.watchSlot, s.watchBytes = append(s.watches, w), r.slot, bytes
	c.out.OK()
}

// led returns the group of a slot if this node leads it, or the error that sends the client elsewhere.
func (c *conn) led(slot uint16) (g kv.Group, redirection string) {
	g, redirection = c.groupOf(slot)
	if redirection != "" {
		return nil, redirection
	}
	switch leader := c.server.cluster.Leader(slot); leader {
	case "":
		return nil, command.NoLeader(slot)
	case c.server.cluster.Self().Addr:
		return g, ""
	default:
		return nil, command.Moved(slot, leader)
	}
}

// notInMulti are the commands of a session that change how replies are written, or who the client is.
var notInMulti = map[string]bool{"hello": true, "auth": true}

// enqueue adds a command to the queue of MULTI. A command for another node is refused now, as in Redis
// Cluster, so that clients find the right node before EXEC.
func (c *conn) enqueue(r request) {
	s := &c.session
	switch {
	case r.command.Kind == command.OfNode || r.command.Kind == command.OfOperator || notInMulti[r.command.Name]:
		c.refuse("ERR Command not allowed inside a transaction")
		return
	case r.keyed && !(s.readonly && r.command.Kind == command.Reads):
		if _, redirection := c.led(r.slot); redirection != "" {
			c.refuse(redirection)
			return
		}
	}
	if s.dirty { // it will not be executed
		c.out.Status("QUEUED")
		return
	}
	for _, arg := range r.args {
		s.queueBytes += len(arg) + 64 // about what the queue uses besides
	}
	if s.queueBytes > c.server.options.MaxRequest {
		s.queue = nil
		c.refuse(fmt.Sprintf("ERR the transaction exceeds %d bytes", c.server.options.MaxRequest))
		return
	}
	args := make([][]byte, len(r.args))
	for i, arg := range r.args {
		args[i] = bytes.Clone(arg)
	}
	r.args = args
	s.queue = append(s.queue, r)
	c.out.Status("QUEUED")
}

// errTooLarge is a reason for which EXEC does nothing.
var errTooLarge = errors.New("EXECABORT Transaction discarded because its replies or its values are too large")

func exec(c *conn, r request) {
	t := c.session.transaction
	if !t.multi {
		c.out.Error("ERR EXEC without MULTI")
		return
	}
	defer t.unwatch()
	c.session.transaction = transaction{}
	slot, keyed, err := t.slot()
	if err != nil {
		c.out.Error(err.Error())
		return
	}
	if t.dirty {
		c.out.Error("EXECABORT Transaction discarded because of previous errors.")
		return
	}
	e := &execution{conn: c, request: r, transaction: &t, keyed: make([]command.Reply, len(t.queue)), watches: t.watches}
	defer func() {
		c.memory.lent, e.granted = 0, 0
		c.account()
	}()
	evaluate := e.update
	if keyed && len(t.watches) == 0 && t.onlyReads() {
		c.settle()
		evaluate = e.view
	}
	if !keyed {
		e.reply()
		return
	}
	for err = evaluate(slot); errors.Is(err, errNoRoom) && e.waitForRoom(); {
		err = evaluate(slot)
	}
	if err != nil {
		c.out.Error(c.failure(err, slot, e.mayWrite))
	}
}

// slot returns the slot of all queued commands and watched keys.
func (t *transaction) slot() (slot uint16, keyed bool, err error) {
	slot, keyed = t.watchSlot, len(t.watches) > 0
	for _, r := range t.queue {
		if r.keyed && keyed && r.slot != slot {
			return 0, false, command.ErrCrossSlot
		}
		if r.keyed {
			slot, keyed = r.slot, true
		}
	}
	return slot, keyed, nil
}

func (t *transaction) onlyReads() bool {
	return !slices.ContainsFunc(t.queue, func(r request) bool { return r.command.Kind == command.Writes })
}

func (t *transaction) hasUnkeyed() bool {
	return slices.ContainsFunc(t.queue, func(r request) bool { return !r.keyed })
}

// execution is EXEC. The replies of keyed commands are collected within the transaction; other commands
// follow when it is known that the transaction is done, so that an aborted one changes nothing.
type execution struct {
	conn        *conn
	request     request // EXEC
	transaction *transaction
	keyed       []command.Reply
	watches     []kv.Watch // also after they are closed: then they are dirty
	dirty       bool       // a watched key has changed, so nothing is evaluated
	mayWrite    bool
	missing     int // memory that the replies need, if there was too little
	granted     int // memory that they have, of which the replies have not used unused
	unused      int
}

// waitForRoom waits for the memory that was missing. The replies before this one are sent first.
func (e *execution) waitForRoom() bool {
	c, begun := e.conn, e.conn.begin()
	c.memory.lent = 0
	c.account()
	if c.send() != nil {
		c.quit = true
		return false
	}
	c.memory.lent = e.missing
	most := c.server.options.roomTime
	if e.mayWrite {
		c.arrived, most = begun, c.timeOf(begun) // the wait is a part of its time
	}
	if !c.replyRoom(c.held(c.memory.replies), most) {
		c.memory.lent = 0
		return false
	}
	e.granted = e.missing
	return true
}

func (e *execution) view(slot uint16) error {
	c := e.conn
	g, redirection := c.groupOf(slot)
	if redirection != "" {
		c.out.Error(redirection)
		return nil
	}
	ctx, cancel := c.reading()
	defer cancel()
	err := g.View(ctx, c.session.readonly, func(r kv.Reader) error {
		return e.each(func(q request, call *command.Call) error { return q.command.Read(call, r) })
	})
	if err != nil {
		return err
	}
	e.reply()
	return nil
}

func (e *execution) update(slot uint16) error {
	c := e.conn
	e.mayWrite = true
	g, redirection := c.groupOf(slot)
	if redirection != "" {
		c.out.Error(redirection)
		return nil
	}
	if e.transaction.hasUnkeyed() {
		c.settle() // they may need it, and would move the replies in flight
	}
	start := len(c.out.Bytes)
	pending, err := e.propose(g)
	if err != nil {
		return err
	}
	e.reply()
	e.request.slot, c.session.deferred = slot, true
	w := inFlight{pending: pending, group: g, request: e.request, execution: e, start: start, end: len(c.out.Bytes)}
	c.inFlight = append(c.inFlight, w)
	return nil
}

// propose evaluates the keyed commands, unless a watched key has changed. That counts once it is confirmed too: it says
// that another client has written.
func (e *execution) propose(g kv.Group) (kv.Pending, error) {
	c := e.conn
	return g.Update(c.writing(), func(tx kv.Tx) error {
		e.dirty = slices.ContainsFunc(e.watches, kv.Watch.Dirty)
		if e.dirty {
			return nil
		}
		bounded := &boundedTx{Tx: tx, left: c.server.options.MaxRequest + c.server.options.MaxValue}
		return e.each(func(q request, call *command.Call) error {
			if err := q.command.Evaluate(call, bounded); err != nil {
				return err
			}
			return bounded.err()
		})
	})
}

// each evaluates the keyed commands.
func (e *execution) each(evaluate func(q request, call *command.Call) error) error {
	bytes := 0
	e.conn.memory.lent, e.unused = e.granted, e.granted // not what an earlier call used
	for i, q := range e.transaction.queue {
		e.keyed[i] = command.Reply{RESP3: e.conn.out.RESP3, Grant: e.grant()}
		if !q.keyed {
			continue
		}
		call := &command.Call{Args: q.args, Reply: &e.keyed[i], Limits: e.conn.limits()}
		if err := evaluate(q, call); err != nil {
			return err
		}
		if e.keyed[i].Missing > 0 {
			e.missing = e.conn.memory.lent + e.keyed[i].Missing
			return errNoRoom
		}
		if bytes += len(e.keyed[i].Bytes); bytes > e.conn.server.options.MaxReply {
			return errTooLarge
		}
	}
	return nil
}

// grant returns the Grant of a further reply.
func (e *execution) grant() func(bytes int) bool {
	c, had := e.conn, 0
	return func(bytes int) bool {
		more := bytes - had
		if more <= e.unused {
			e.unused -= more
			had = bytes
			return true
		}
		c.memory.lent += more - e.unused
		if !c.memory.set(c.held(c.memory.replies)) {
			c.memory.lent -= more - e.unused
			return false
		}
		e.unused = 0
		had = bytes
		return true
	}
}

// reply appends the replies of all commands in their order.
func (e *execution) reply() {
	c := e.conn
	c.executing = true
	defer func() { c.executing = false }()
	e.replyTo(&c.out)
}

// replyTo appends the replies to some others. It is the connection's own reply unless all commands are keyed.
func (e *execution) replyTo(reply *command.Reply) {
	if e.dirty {
		reply.NullArray()
		return
	}
	reply.Array(len(e.transaction.queue))
	for i, q := range e.transaction.queue {
		if q.keyed {
			reply.Bytes = append(reply.Bytes, e.keyed[i].Bytes...)
		} else {
			e.conn.local(q)
		}
	}
}

// boundedTx notices a transaction that writes more than its left bytes, such as by many SETRANGE.
type boundedTx struct {
	kv.Tx
	left int
}

func (t *boundedTx) Put(key []byte, v kv.Value) {
	t.left -= len(key) + len(v.Data)
	if t.left >= 0 {
		t.Tx.Put(key, v)
	}
}

func (t *boundedTx) SetOutcome(key, id, outcome []byte, until int64) {
	t.left -= len(id) + len(outcome)
	if t.left >= 0 {
		t.Tx.SetOutcome(key, id, outcome, until)
	}
}

func (t *boundedTx) err() error {
	if t.left < 0 {
		return errTooLarge
	}
	return nil
}

// isWord reports whether an argument is a word, in any case.
func isWord(arg []byte, word string) bool {
	return len(arg) == len(word) && strings.EqualFold(string(arg), word)
}
