package server

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sievedb/sievedb/cluster/internal/command"
)

// dispatch evaluates a request, or queues it within MULTI. Its reply is in out, or will be after the replies in out.
func (c *conn) dispatch(args [][]byte) {
	if c.session.skip != skipNext || c.send() != nil {
		c.execute(args)
		return
	}
	c.session.skip = skipThis
	c.execute(args)
	if c.session.skip == skipThis {
		c.flushReads()
		c.settle()
		c.out.Bytes = c.out.Bytes[:0] // only its reply is there
		c.session.skip = skipNone
	}
}

// execute is dispatch without CLIENT REPLY SKIP.
func (c *conn) execute(args [][]byte) {
	c.server.stats.commands.Add(1)
	cmd, ok := command.Find(args[0])
	if !ok {
		c.flushReads()
		c.unknown(args)
		return
	}
	r := request{command: cmd, args: args, begun: c.server.elapsed()}
	c.info.use(r, c)
	if text := c.refuses(cmd, args); text != "" {
		c.flushReads()
		if cmd.Name == "exec" {
			c.session.discard()
			text = "EXECABORT Transaction discarded because of: " + strings.TrimPrefix(text, "ERR ")
		}
		c.refuse(text)
		return
	}
	var err error
	if r.slot, r.keyed, err = cmd.Slot(args); err != nil {
		c.flushReads()
		c.refuse(err.Error())
		return
	}
	// One that has few arguments has few keys.
	if most := c.server.options.MaxKeys; r.keyed && len(args) > most && cmd.KeyCount(args) > most {
		c.flushReads()
		c.refuse(command.TooManyKeys(cmd.KeyCount(args), most))
		return
	}
	switch {
	case c.session.multi && !immediate[cmd.Name]:
		c.enqueue(r)
	case r.keyed && (cmd.Kind == command.Reads || cmd.Kind == command.Writes):
		c.keyed(r)
	default:
		c.flushReads()
		c.session.deferred = false
		c.unkeyed(r)
		if !c.session.deferred {
			c.observe(r, c.server.elapsed())
		}
	}
}

// immediate are the commands that MULTI does not queue.
var immediate = map[string]bool{
	"exec": true, "discard": true, "multi": true, "watch": true, "quit": true, "reset": true,
}

// refuses returns the error of a request that cannot be evaluated, or "".
func (c *conn) refuses(cmd *command.Command, args [][]byte) string {
	switch {
	case !cmd.Accepts(len(args)):
		return command.WrongArity(cmd.Name)
	case !c.session.authenticated && !beforeAuth[cmd.Name]:
		return "NOAUTH Authentication required."
	}
	return cmd.Refuses(args)
}

// beforeAuth are the commands that need no password.
var beforeAuth = map[string]bool{"auth": true, "hello": true, "quit": true, "reset": true}

// refuse replies with an error. Within MULTI, EXEC will fail.
func (c *conn) refuse(text string) {
	c.session.dirty = c.session.multi
	c.out.Error(text)
}

func (c *conn) unknown(args [][]byte) {
	// A browser that an attacker made send a request to this port: the rest of it may be
	// commands. Redis closes such connections too.
	if name := strings.ToLower(string(args[0][:min(len(args[0]), 8)])); name == "post" || name == "host:" {
		c.quit = true
		return
	}
	var given strings.Builder
	for _, arg := range args[1:] {
		if given.Len() >= 128 {
			break
		}
		fmt.Fprintf(&given, "'%.*s' ", 128-given.Len(), arg)
	}
	c.refuse(fmt.Sprintf("ERR unknown command '%.128s', with args beginning with: %s", args[0], given.String()))
}

// unkeyed evaluates a command that does not work on the keys of one slot.
func (c *conn) unkeyed(r request) {
	if r.command.Kind == command.OfNode || r.command.Kind == command.OfOperator {
		c.settle() // the command may read or write every group, so the writes before it must be done
	}
	start := len(c.out.Bytes)
	defer func() {
		if c.out.Missing > 0 {
			c.undo(start)
			c.out.Error(errNoRoom.Error())
		}
	}()
	switch r.command.Kind {
	case command.OfNode:
		timeout := c.server.options.ScanTimeout
		if slices.Contains(r.command.Flags, "write") {
			timeout = c.server.options.WriteTimeout
		}
		ctx, cancel := context.WithTimeout(c.server.ctx, timeout)
		defer cancel()
		c.server.node.Run(ctx, r.command, c.call(r.args))
		c.arrived = time.Time{} // what follows has its own time
	case command.OfOperator:
		result, err := c.server.cluster.Operate(c.server.ctx, r.args)
		if err != nil {
			c.out.Error(c.failure(err, r.slot, true))
			return
		}
		c.out.Any(result)
	default:
		c.local(r)
	}
}

// local evaluates a command that needs no state of a group.
func (c *conn) local(r request) {
	if f, ok := sessionCommands[r.command.Name]; ok {
		f(c, r)
		return
	}
	_ = r.command.Read(c.call(r.args), nil) // a container without a key, which only a reader could make fail
}
