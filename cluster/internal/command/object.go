package command

import (
	"github.com/sievedb/sievedb/cluster/internal/kv"
)

type objectCommand = Subcommand[func(*Call, kv.Value)]

var objectCommands = Container[func(*Call, kv.Value)]{"object", []objectCommand{
	{"encoding", 3, "ENCODING <key>", func(c *Call, v kv.Value) { c.Reply.Text(encoding(v.Data)) }},
	{"freq", 3, "FREQ <key>", func(c *Call, _ kv.Value) {
		c.Reply.Error("ERR An LFU maxmemory policy is not selected, access frequency not tracked. " +
			"Please note that when switching between policies at runtime LRU and LFU data will take some time to adjust.")
	}},
	{"idletime", 3, "IDLETIME <key>", func(c *Call, _ kv.Value) {
		c.Reply.Error("ERR the time of the last use of a key is not tracked")
	}},
	{"refcount", 3, "REFCOUNT <key>", func(c *Call, _ kv.Value) { c.Reply.Int(1) }},
}}

// longestEmbedded is the length of the longest string whose encoding Redis calls embstr.
const longestEmbedded = 44

// encoding is what Redis says of a value that SET has stored.
func encoding(data []byte) string {
	if _, ok := ParseInt(data); ok {
		return "int"
	}
	if len(data) <= longestEmbedded {
		return "embstr"
	}
	return "raw"
}

// object evaluates OBJECT. r is nil if there is no key; then no subcommand but HELP has its arguments.
func object(c *Call, r kv.Reader) error {
	run, ok := objectCommands.Find(c)
	if !ok {
		return nil
	}
	v, found, err := r.Get(c.Args[2])
	switch {
	case err != nil:
		return err
	case !found:
		c.Reply.Null()
	default:
		run(c, v)
	}
	return nil
}

// storedOverhead is about what the database keeps for a key besides it and its value: prefixes, number and kind.
const storedOverhead = 16

var memoryCommands = Container[func(*Call, kv.Reader) error]{"memory", []Subcommand[func(*Call, kv.Reader) error]{
	{"usage", -3, "USAGE <key> [SAMPLES <count>]", memoryUsage},
}}

// memory evaluates MEMORY. r is nil if there is no key.
func memory(c *Call, r kv.Reader) error {
	if run, ok := memoryCommands.Find(c); ok {
		return run(c, r)
	}
	return nil
}

func memoryUsage(c *Call, r kv.Reader) error {
	switch {
	case len(c.Args) != 3 && !(len(c.Args) == 5 && c.is(3, "samples")):
		return refusal(errSyntax)
	case len(c.Args) == 5:
		if n, err := c.integer(4); err != nil {
			return err
		} else if n < 0 {
			return refusal(errSyntax)
		}
	}
	v, found, err := r.Get(c.Args[2])
	switch {
	case err != nil:
		return err
	case !found:
		c.Reply.Null()
	default:
		c.Reply.Int(int64(len(c.Args[2]) + len(v.Data) + storedOverhead))
	}
	return nil
}
