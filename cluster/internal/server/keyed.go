package server

import (
	"errors"

	"github.com/sievedb/sievedb/cluster/internal/command"
	"github.com/sievedb/sievedb/cluster/internal/kv"
)

// readBatch is reads of one group that follow each other in a pipeline.
type readBatch struct {
	group kv.Group
	slot  uint16 // of the first read
	list  []request
}

// request is a command that is evaluated later.
type request struct {
	command *command.Command
	args    [][]byte
	slot    uint16
	keyed   bool // slot is that of its keys
}

// redirected returns the error of a slot that another node serves, or "" if err is another one.
func (c *conn) redirected(err error, slot uint16) string {
	var notLeader *kv.NotLeaderError
	self := c.server.cluster.Self().Addr
	switch {
	case errors.As(err, &notLeader) && notLeader.Leader == self:
		return "TRYAGAIN the slot is about to get another leader"
	case errors.Is(err, kv.ErrStale):
		if leader := c.server.cluster.Leader(slot); leader != "" && leader != self {
			return command.Moved(slot, leader)
		}
	}
	return ""
}

// groupOf returns the group of a slot, or the error that sends the client elsewhere.
func (c *conn) groupOf(slot uint16) (g kv.Group, redirection string) {
	if g, ok := c.server.cluster.Group(slot); ok {
		return g, ""
	}
	if leader := c.server.cluster.Leader(slot); leader != "" {
		return nil, command.Moved(slot, leader)
	}
	return nil, command.NoLeader(slot)
}

// keyed evaluates a command of kind Reads or Writes.
func (c *conn) keyed(r request) {
	g, redirection := c.groupOf(r.slot)
	if redirection != "" {
		c.flushReads()
		c.out.Error(redirection)
		return
	}
	if r.command.Kind == command.Reads {
		c.read(g, r)
		return
	}
	c.flushReads()
	start := len(c.out.Bytes)
	pending, err := c.update(g, r, &c.out)
	if err != nil {
		c.out.Bytes = c.out.Bytes[:start]
		c.out.Error(c.failure(err, r.slot, true))
		return
	}
	c.inFlight = append(c.inFlight, inFlight{pending: pending, group: g, request: r, start: start, end: len(c.out.Bytes)})
}

// update evaluates a command of kind Writes, which appends its reply.
func (c *conn) update(g kv.Group, r request, reply *command.Reply) (kv.Pending, error) {
	call := c.callTo(reply, r.args)
	return g.Update(c.writing(), func(tx kv.Tx) error { return r.command.Evaluate(call, tx) })
}

// read adds a read to the batch. The writes before it are waited for, so that it sees them.
func (c *conn) read(g kv.Group, r request) {
	c.settle()
	if len(c.reads.list) > 0 && c.reads.group.ID() != g.ID() || len(c.reads.list) >= maxReads {
		c.flushReads()
	}
	if len(c.reads.list) == 0 {
		c.reads.group, c.reads.slot = g, r.slot
	}
	c.reads.list = append(c.reads.list, r)
}

// flushReads evaluates the batch. If its replies become many, it sends them and continues with another View.
func (c *conn) flushReads() {
	list := c.reads.list
	for len(list) > 0 && !c.quit {
		done, err := c.view(list)
		if err != nil {
			for _, r := range list {
				c.out.Error(c.failure(err, r.slot, false))
			}
			break
		}
		list = list[done:]
		if len(list) > 0 && c.write() != nil {
			c.quit = true
		}
	}
	clear(c.reads.list)
	c.reads.list = c.reads.list[:0]
}

// view evaluates the first of some reads, as many as maxCollected permits.
func (c *conn) view(list []request) (done int, err error) {
	ctx, cancel := c.reading()
	defer cancel()
	start := len(c.out.Bytes)
	call := c.call(nil)
	err = c.reads.group.View(ctx, c.session.readonly, func(r kv.Reader) error {
		done, c.out.Bytes = 0, c.out.Bytes[:start]
		for done < len(list) && len(c.out.Bytes)-start < maxCollected {
			call.Args = list[done].args
			if err := list[done].command.Read(call, r); err != nil {
				return err
			}
			done++
		}
		return nil
	})
	if err != nil {
		c.out.Bytes = c.out.Bytes[:start]
	}
	return done, err
}
