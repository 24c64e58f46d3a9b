package server

import (
	"errors"
	"time"

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
	keyed   bool          // slot is that of its keys
	begun   time.Duration // when the server began with it; see elapsed
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
	if size := longest(r.args); size > largeValue {
		c.server.large.note(r.command, r.args, size)
	}
	for c.begins(g, r) {
	}
}

// begins evaluates a command of kind Writes, and adds the commit to those in flight. It returns true if the command has
// to be evaluated again: there was no memory for its reply, but there is now.
func (c *conn) begins(g kv.Group, r request) (again bool) {
	start, begun := len(c.out.Bytes), c.begin()
	pending, err := c.update(g, r, &c.out)
	switch {
	case errors.Is(err, errNoRoom):
		missing := c.undo(start)
		if c.send() != nil {
			c.quit = true
			return false
		}
		c.arrived = begun // the wait is a part of its time
		if c.enlarge(missing, c.timeOf(begun)) {
			return true
		}
		c.out.Error(errNoRoom.Error())
	case err != nil:
		c.out.Bytes = c.out.Bytes[:start]
		c.out.Error(c.failure(err, r.slot, true))
	default:
		c.inFlight = append(c.inFlight, inFlight{pending: pending, group: g, request: r, start: start, end: len(c.out.Bytes)})
	}
	return false
}

// update evaluates a command of kind Writes, which appends its reply.
func (c *conn) update(g kv.Group, r request, reply *command.Reply) (kv.Pending, error) {
	call := c.callTo(reply, r.args)
	return g.Update(c.writing(), func(tx kv.Tx) error {
		if err := r.command.Evaluate(call, tx); err != nil {
			return err
		}
		if reply.Missing > 0 {
			return errNoRoom
		}
		return nil
	})
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
		if values := c.server.large.expect(list[0]); values > 0 && !c.borrow(values) {
			c.out.Error(errNoRoom.Error())
			list = list[1:]
			continue
		}
		done, missing, err := c.view(list)
		c.giveBack()
		if err != nil {
			for _, r := range list {
				c.out.Error(c.failure(err, r.slot, false))
			}
			break
		}
		end := c.server.elapsed()
		for _, r := range list[:done] {
			c.observe(r, end)
		}
		list = list[done:]
		if len(list) > 0 && c.write() != nil {
			c.quit = true
			break
		}
		if missing > 0 && !c.enlarge(missing, c.server.options.roomTime) {
			c.out.Error(errNoRoom.Error())
			list = list[1:]
		}
	}
	clear(c.reads.list)
	c.reads.list = c.reads.list[:0]
}

// readsBetweenLooks is after how many reads of a View the time is looked at.
const readsBetweenLooks = 16

// view evaluates the first of some reads, as many as maxCollected and readPart permit. missing is how much memory the
// reply of the next one needs, if there is too little; otherwise it is 0.
func (c *conn) view(list []request) (done, missing int, err error) {
	ctx, cancel := c.reading()
	defer cancel()
	start := len(c.out.Bytes)
	call := c.call(nil)
	err = c.reads.group.View(ctx, c.session.readonly, func(r kv.Reader) error {
		done, missing, c.out.Bytes = 0, 0, c.out.Bytes[:start]
		end := c.server.elapsed() + c.server.options.readPart
		for done < len(list) && len(c.out.Bytes)-start < maxCollected {
			if done > 0 && c.server.large.expect(list[done]) > 0 {
				return nil // it needs a View of its own, with memory for it
			}
			if done > 0 && done%readsBetweenLooks == 0 && c.server.elapsed() > end {
				return nil // else the time of all could end before the last one: the disk is slow
			}
			at := len(c.out.Bytes)
			call.Args = list[done].args
			if err := list[done].command.Read(call, r); err != nil {
				return err
			}
			c.server.large.learn(list[done], max(len(c.out.Bytes), c.out.Missing-c.out.Loan)-at)
			if c.out.Missing > 0 {
				missing = c.undo(at)
				return nil
			}
			done++
		}
		return nil
	})
	if err != nil {
		c.out.Bytes = c.out.Bytes[:start]
	}
	return done, missing, err
}
