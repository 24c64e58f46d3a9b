// Package command has the commands of Redis that a cluster offers: their names, arities and keys, the
// parsing of their options, and their evaluation on the state of a group.
//
// A command that has keys is a function of a [Call] and of a kv.Reader or a kv.Tx. It appends its reply to Call.Reply
// and changes nothing else, so a server may evaluate it inside kv.Group.Update. An error of the command itself, such as
// "ERR syntax error", is a refusal, which becomes its reply; it has replied and written nothing before. Evaluate and
// Read return other errors: those of the store.
//
// Commands without keys either work on all groups that this node leads ([Node] evaluates them, as well as
// CLUSTER), or they belong to the connection and the server evaluates them.
//
// Replies and error texts are those of Redis 7.0. docs/redis-commands.md has the differences.
package command

import (
	"errors"
	"time"

	"github.com/sievedb/sievedb/cluster/internal/kv"
	"github.com/sievedb/sievedb/cluster/internal/layout"
	"github.com/sievedb/sievedb/cluster/internal/slot"
)

// Limits bound what a command may build.
type Limits struct {
	// MaxValue is the length of the longest value, in bytes.
	MaxValue int
	// MaxReply is the length of the longest reply, in bytes. Commands that would exceed it fail.
	MaxReply int
	// OnceFor is how long the reply of ONCE is kept. Default 10 min.
	OnceFor time.Duration
}

// Call is a command with its arguments. It is used by one goroutine at a time.
type Call struct {
	// Args are the arguments; the first is the name of the command, as the client wrote it.
	Args   [][]byte
	Reply  *Reply
	Limits Limits
}

// Kind is how a command is evaluated.
type Kind byte

// The kinds of commands.
const (
	// OfSession commands belong to the connection; the server evaluates them.
	OfSession Kind = iota
	// OfNode commands work on the groups that this node leads, or describe the cluster; see Node.
	OfNode
	// OfOperator commands go to kv.Cluster.Operate.
	OfOperator
	// Reads commands read the keys of one slot.
	Reads
	// Writes commands change the keys of one slot.
	Writes
)

// Command describes a command as Redis's COMMAND does.
type Command struct {
	Name string // in lower case
	Kind Kind
	// Arity is the number of arguments with the name; if negative, the least number of them.
	Arity int
	Flags []string
	// First, Last and Step give the positions of keys. First is 0 if there are none; a negative Last
	// counts from the end.
	First, Last, Step int
	// Container says that the key is that of a subcommand, such as OBJECT ENCODING, or of a script. COMMAND INFO then
	// gives no positions, as in Redis, and a subcommand such as HELP has no key.
	Container bool
	// Index numbers the commands from 0, those of operators included.
	Index int
	// Group and Summary are for COMMAND DOCS.
	Group, Summary string

	prefixed bool // another command follows, which has the keys: ONCE
	refuses  func(args [][]byte) string

	read  func(c *Call, r kv.Reader) error
	write func(c *Call, tx kv.Tx) error
}

// Lookup returns the command of a name in any case.
func Lookup(name []byte) (*Command, bool) {
	var lower [maxName]byte
	if len(name) > len(lower) {
		return nil, false
	}
	for i, b := range name {
		if 'A' <= b && b <= 'Z' {
			b += 'a' - 'A'
		}
		lower[i] = b
	}
	c, ok := commands[string(lower[:len(name)])]
	return c, ok
}

// Accepts reports whether a request with its number of arguments suits the command.
func (c *Command) Accepts(argCount int) bool {
	if c.Arity < 0 {
		return argCount >= -c.Arity
	}
	return argCount == c.Arity
}

// Keys calls f with each key among the arguments.
func (c *Command) Keys(args [][]byte, f func(key []byte) error) error {
	if c.prefixed {
		if cmd, inner, ok := nested(args); ok {
			return cmd.Keys(inner, f)
		}
		return nil
	}
	if c.First == 0 {
		return nil
	}
	last := c.Last
	if last < 0 {
		last += len(args)
	}
	for i := c.First; i <= last && i < len(args); i += c.Step {
		if err := f(args[i]); err != nil {
			return err
		}
	}
	return nil
}

// The errors of Slot. Their texts are those that clients get.
var (
	ErrCrossSlot = errors.New("CROSSSLOT Keys in request don't hash to the same slot")
	ErrLongKey   = errors.New("ERR the key is too long: at most 1048512 bytes are supported")
)

// KeyCount returns the number of keys among the arguments.
func (c *Command) KeyCount(args [][]byte) (n int) {
	_ = c.Keys(args, func([]byte) error { n++; return nil }) // the function never fails
	return n
}

// Slot returns the slot of all keys among the arguments; found is false if there are none.
func (c *Command) Slot(args [][]byte) (of uint16, found bool, err error) {
	err = c.Keys(args, func(key []byte) error {
		if len(key) > layout.MaxKey {
			return ErrLongKey
		}
		s := slot.Of(key)
		if found && s != of {
			return ErrCrossSlot
		}
		of, found = s, true
		return nil
	})
	return of, found, err
}

// Evaluate evaluates a command of kind Reads or Writes in a transaction.
func (c *Command) Evaluate(call *Call, tx kv.Tx) error {
	if c.read != nil {
		return c.Read(call, tx)
	}
	return call.answer(c.write(call, tx))
}

// Read evaluates a command of kind Reads. r may be nil for a Container without a key.
func (c *Command) Read(call *Call, r kv.Reader) error { return call.answer(c.read(call, r)) }

// onValue returns the function of a command that writes from one that is called with the value of the first key.
func onValue(f func(c *Call, tx kv.Tx, v kv.Value, found bool) error) func(*Call, kv.Tx) error {
	return func(c *Call, tx kv.Tx) error {
		v, found, err := tx.Get(c.Args[1])
		if err != nil {
			return err
		}
		return f(c, tx, v, found)
	}
}

// ofValue is onValue for a command that reads.
func ofValue(f func(c *Call, r kv.Reader, v kv.Value, found bool) error) func(*Call, kv.Reader) error {
	return func(c *Call, r kv.Reader) error {
		v, found, err := r.Get(c.Args[1])
		if err != nil {
			return err
		}
		return f(c, r, v, found)
	}
}
