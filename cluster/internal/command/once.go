package command

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"strconv"
	"time"

	"github.com/sievedb/sievedb/cluster/internal/kv"
)

// ONCE id command [arg ...] evaluates a command that writes, and stores its reply under the ID, together with what it
// writes and in the slot of its keys. A second request with the ID gets that reply, so a client may send one again
// whose outcome it does not know. A command that writes nothing is stored as well: the first request may be late, and
// arrive after the second.
const (
	oncePrefix = 2 // arguments before the command
	maxOnceID  = 128
	// maxOnceReply bounds what is stored. Longer replies are those of GETSET, GETDEL and their relatives.
	maxOnceReply = 1 << 20
	// DefaultOnceFor is the default of Limits.OnceFor.
	DefaultOnceFor = 10 * time.Minute

	errOnceID      = "ERR the ID of ONCE has %d bytes, and 1 to %d are possible"
	errOnceCommand = "ERR ONCE is for commands that write keys; '%.64s' is none"
	errOnceOther   = "ERR the ID of this ONCE was used for another command; nothing was done"
)

var errOnceReply = errors.New("the reply of ONCE is too long to be stored; nothing was done")

func init() { commands["once"].write, commands["once"].refuses = once, refuseOnce } // they use the table

// onceSum identifies a command with its arguments.
const onceSum = 16

// nested returns the command within a request for ONCE and its arguments.
func nested(args [][]byte) (*Command, [][]byte, bool) {
	if len(args) <= oncePrefix {
		return nil, nil, false
	}
	inner := args[oncePrefix:]
	cmd, ok := Lookup(inner[0])
	return cmd, inner, ok && cmd.Kind == Writes && !cmd.prefixed
}

// Refuses returns the error of a request that cannot be evaluated whatever the keys hold, or "".
func (c *Command) Refuses(args [][]byte) string {
	if !c.Accepts(len(args)) {
		return WrongArity(c.Name)
	}
	if c.refuses == nil {
		return ""
	}
	return c.refuses(args)
}

func refuseOnce(args [][]byte) string {
	var p Reply
	switch cmd, inner, ok := nested(args); {
	case len(args[1]) == 0 || len(args[1]) > maxOnceID:
		p.Errorf(errOnceID, len(args[1]), maxOnceID)
	case !ok:
		p.Errorf(errOnceCommand, args[oncePrefix])
	default:
		return cmd.Refuses(inner)
	}
	return string(bytes.TrimSpace(p.Bytes[1:]))
}

func once(c *Call, tx kv.Tx) error {
	cmd, inner, _ := nested(c.Args) // Refuses has looked at it
	id, sum, key := c.Args[1], sumOf(cmd.Name, inner), cmd.firstKey(inner)
	stored, err := tx.Outcome(key, id)
	switch {
	case err != nil:
		return err
	case stored == nil:
	case len(stored) < onceSum || !bytes.Equal(stored[:onceSum], sum):
		c.Reply.Error(errOnceOther)
		return nil
	default:
		c.Reply.translate(stored[onceSum:])
		return nil
	}
	reply := Reply{RESP3: true}
	if err := cmd.Evaluate(&Call{Args: inner, Reply: &reply, Limits: c.Limits}, tx); err != nil {
		return err
	}
	if len(reply.Bytes) > maxOnceReply {
		return errOnceReply
	}
	keep := c.Limits.OnceFor
	if keep == 0 {
		keep = DefaultOnceFor
	}
	tx.SetOutcome(key, id, append(sum, reply.Bytes...), tx.Now()+keep.Milliseconds())
	c.Reply.translate(reply.Bytes)
	return nil
}

// firstKey returns the first key among the arguments, nil if there is none.
func (c *Command) firstKey(args [][]byte) (first []byte) {
	_ = c.Keys(args, func(key []byte) error { // the function never fails
		if first == nil {
			first = key
		}
		return nil
	})
	return first
}

// sumOf returns what identifies a command with its arguments, but for the case of its name.
func sumOf(name string, args [][]byte) []byte {
	h := sha256.New()
	h.Write([]byte(name))
	for _, arg := range args[1:] {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(arg))))
		h.Write(arg)
	}
	return h.Sum(nil)[:onceSum]
}

// translate appends replies in RESP3 in the protocol of p. They may consist of statuses, errors, integers, strings,
// arrays and nulls.
func (p *Reply) translate(resp3 []byte) {
	for len(resp3) > 0 {
		end := bytes.IndexByte(resp3, '\n') + 1
		if end == 0 {
			end = len(resp3)
		}
		if resp3[0] == '$' {
			if n, err := strconv.Atoi(string(bytes.TrimSpace(resp3[1:end]))); err == nil && n >= 0 {
				end = min(end+n+len("\r\n"), len(resp3))
			}
		}
		if resp3[0] == '_' {
			p.Null()
		} else {
			p.Bytes = append(p.Bytes, resp3[:end]...)
		}
		resp3 = resp3[end:]
	}
}
