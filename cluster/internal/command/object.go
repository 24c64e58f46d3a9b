package command

import (
	"github.com/sievedb/sievedb/cluster/internal/kv"
)

var objectArities = map[string]int{"encoding": 3, "freq": 3, "idletime": 3, "refcount": 3, "help": 2}

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
	name, ok := c.Subcommand("object", objectArities)
	if !ok {
		return nil
	}
	if name == "help" {
		c.Help("OBJECT", "ENCODING <key>", "FREQ <key>", "IDLETIME <key>", "REFCOUNT <key>")
		return nil
	}
	v, found, err := r.Get(c.Args[2])
	switch {
	case err != nil:
		return err
	case !found:
		c.Reply.Null()
	case name == "encoding":
		c.Reply.Text(encoding(v.Data))
	case name == "refcount":
		c.Reply.Int(1)
	case name == "freq":
		c.Reply.Error("ERR An LFU maxmemory policy is not selected, access frequency not tracked. " +
			"Please note that when switching between policies at runtime LRU and LFU data will take some time to adjust.")
	case name == "idletime":
		c.Reply.Error("ERR the time of the last use of a key is not tracked")
	}
	return nil
}

var memoryArities = map[string]int{"usage": -3, "help": 2}

// storedOverhead is about what the database keeps for a key besides it and its value: prefixes, number and kind.
const storedOverhead = 16

// memory evaluates MEMORY. r is nil if there is no key.
func memory(c *Call, r kv.Reader) error {
	name, ok := c.Subcommand("memory", memoryArities)
	switch {
	case !ok:
		return nil
	case name == "help":
		c.Help("MEMORY", "USAGE <key> [SAMPLES <count>]")
		return nil
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
