package command

import (
	"sort"
	"strings"

	"github.com/sievedb/sievedb/cluster/internal/kv"
)

// maxName bounds the length of names, so that Lookup needs no memory.
const maxName = 64

// operatorPrefix begins the names of commands that are all for kv.Cluster.Operate.
const operatorPrefix = "raft."

// anyOperator stands for all commands with operatorPrefix.
var anyOperator = &Command{Name: "raft.*", Kind: OfOperator, Arity: -1, Flags: []string{"admin"}, Group: "server",
	Summary: "Operates the cluster"}

// AnyOperator returns the command that stands for all commands with the prefix RAFT.
func AnyOperator() *Command { return anyOperator }

// Find returns the command of a name, or the one for all operators' commands with the prefix RAFT.
func Find(name []byte) (*Command, bool) {
	if c, ok := Lookup(name); ok {
		return c, true
	}
	if len(name) > len(operatorPrefix) && strings.EqualFold(string(name[:len(operatorPrefix)]), operatorPrefix) {
		return anyOperator, true
	}
	return nil, false
}

// commands are all commands by their names.
var commands = func() map[string]*Command {
	all := map[string]*Command{}
	add := func(group string, list []Command) {
		for i := range list {
			list[i].Group = group
			all[list[i].Name] = &list[i]
		}
	}
	add("string", stringCommands())
	add("scripting", []Command{script("eval", "Evaluates the script of a lock"),
		script("evalsha", "Evaluates the script of a lock by its digest")})
	add("bitmap", bitmapCommands())
	add("generic", keyCommands())
	add("generic", expiryCommands())
	add("generic", nodeCommands())
	add("connection", connectionCommands())
	add("transactions", transactionCommands())
	add("server", serverCommands())
	i := 0
	for _, c := range all {
		c.Index = i
		i++
	}
	anyOperator.Index = i
	return all
}()

// All returns the commands in the order of their names.
func All() []*Command {
	list := make([]*Command, 0, len(commands))
	for _, c := range commands {
		list = append(list, c)
	}
	sort.Slice(list, func(i, j int) bool { return list[i].Name < list[j].Name })
	return list
}

// The flags are those of Redis 7.0. TestTheTableIsThatOfRedis compares.
func flags(s string) []string { return strings.Fields(s) }

const (
	writes  = "write denyoom"
	deletes = "write"
	reads   = "readonly"
)

func reading(name string, arity int, flagWords string, last int, read func(*Call, kv.Reader) error, summary string) Command {
	return Command{Name: name, Kind: Reads, Arity: arity, Flags: flags(flagWords), First: 1, Last: last, Step: 1,
		Summary: summary, read: read}
}

func writing(name string, arity int, flagWords string, last int, write func(*Call, kv.Tx) error, summary string) Command {
	return Command{Name: name, Kind: Writes, Arity: arity, Flags: flags(flagWords), First: 1, Last: last, Step: 1,
		Summary: summary, write: write}
}

func withKeysFrom(first int, c Command) Command {
	c.First = first
	return c
}

// containing makes a command a container, whose subcommands may have a key.
func containing(c Command) Command {
	c.Container = true
	return withKeysFrom(2, c)
}

func inPairs(c Command) Command {
	c.Step = 2
	return c
}

func stringCommands() []Command {
	return []Command{
		reading("get", 2, reads+" fast", 1, ofValue(get), "Returns the value of a key"),
		writing("set", -3, writes, 1, set, "Sets the value of a key"),
		writing("setnx", 3, writes+" fast", 1, onValue(setnx), "Sets the value of a key that is absent"),
		writing("setex", 4, writes, 1, setex("setex", inSeconds), "Sets a value that expires after seconds"),
		writing("psetex", 4, writes, 1, setex("psetex", inMillis), "Sets a value that expires after milliseconds"),
		writing("getset", 3, writes+" fast", 1, onValue(getset), "Sets a value and returns the one before"),
		writing("getdel", 2, deletes+" fast", 1, onValue(getdel), "Deletes a key and returns its value"),
		writing("getex", -2, deletes+" fast", 1, getex, "Returns a value and sets its expiry"),
		reading("mget", -2, reads+" fast", -1, mget, "Returns the values of several keys"),
		inPairs(writing("mset", -3, writes, -1, mset, "Sets the values of several keys")),
		inPairs(writing("msetnx", -3, writes, -1, msetnx, "Sets the values of several keys if all are absent")),
		writing("incr", 2, writes+" fast", 1, onValue(incr), "Adds one to a number"),
		writing("decr", 2, writes+" fast", 1, onValue(decr), "Subtracts one from a number"),
		writing("incrby", 3, writes+" fast", 1, onValue(incrby), "Adds to a number"),
		writing("decrby", 3, writes+" fast", 1, onValue(decrby), "Subtracts from a number"),
		writing("incrbyfloat", 3, writes+" fast", 1, onValue(incrbyfloat), "Adds to a number with a fraction"),
		writing("append", 3, writes+" fast", 1, onValue(appendValue), "Appends to a value"),
		reading("strlen", 2, reads+" fast", 1, ofValue(strlen), "Returns the length of a value"),
		reading("getrange", 4, reads, 1, getrange, "Returns a part of a value"),
		reading("substr", 4, reads, 1, getrange, "Returns a part of a value"),
		reading("lcs", -3, reads, 2, lcs, "Finds the longest common subsequence of two values"),
		writing("setrange", 4, writes, 1, setrange, "Overwrites a part of a value"),
		onceCommand(),
		writing("cas", 4, writes+" fast", 1, onValue(cas), "Sets a value if the key has a given one"),
		writing("delifeq", 3, deletes+" fast", 1, onValue(delifeq), "Deletes a key if it has a given value"),
		writing("delex", -2, deletes+" fast", 1, onValue(delex), "Deletes a key on a condition"),
		reading("digest", 2, reads+" fast", 1, ofValue(digest), "Returns the digest of a value"),
	}
}

// onceCommand has the position of the first key of most commands. COMMAND GETKEYS knows that of all.
func onceCommand() Command {
	c := writing("once", -3, writes+" movablekeys", oncePrefix+1, nil, "Evaluates a command once for each ID")
	c.First, c.prefixed = oncePrefix+1, true
	return c
}

// script has the position of the key of the scripts that there are.
func script(name, summary string) Command {
	c := containing(writing(name, -3, "noscript stale skip_monitor no_mandatory_keys movablekeys", scriptKey, evalScript, summary))
	c.First, c.refuses = scriptKey, refuseScript
	return c
}

func bitmapCommands() []Command {
	return []Command{
		writing("setbit", 4, writes, 1, setbit, "Sets a bit of a value and returns the one before"),
		reading("getbit", 3, reads+" fast", 1, getbit, "Returns a bit of a value"),
		reading("bitpos", -3, reads, 1, bitpos, "Finds the first bit that is set or clear"),
		withKeysFrom(2, writing("bitop", -4, writes, -1, bitop, "Stores a combination of the bits of values")),
		writing("bitfield", -2, writes, 1, bitfield, "Reads and changes numbers within a value"),
		reading("bitfield_ro", -2, reads+" fast", 1, bitfieldReadOnly, "Reads numbers within a value"),
		reading("bitcount", -2, reads, 1, ofValue(bitcount), "Counts the ones among the bits of a value"),
	}
}

func keyCommands() []Command {
	return []Command{
		writing("del", -2, deletes, -1, del, "Deletes keys"),
		writing("unlink", -2, deletes+" fast", -1, del, "Deletes keys"),
		reading("exists", -2, reads+" fast", -1, exists, "Counts keys that exist"),
		reading("touch", -2, reads+" fast", -1, exists, "Counts keys that exist"),
		reading("type", 2, reads+" fast", 1, ofValue(typeOf), "Returns the type of a key's value"),
		writing("rename", 3, deletes, 2, rename(false), "Renames a key"),
		writing("renamenx", 3, deletes+" fast", 2, rename(true), "Renames a key if the new name is absent"),
		writing("copy", -3, writes, 2, copyKey, "Copies the value of a key to another"),
		reading("dump", 2, reads, 1, ofValue(dump), "Returns a value in the form that RESTORE accepts"),
		writing("restore", -4, writes, 1, onValue(restore), "Sets a value that DUMP has returned"),
		containing(reading("object", -2, "", 2, object, "Describes how Redis would store a value")),
		containing(reading("memory", -2, "", 2, memory, "Returns how large a key is")),
		reading("range", -3, reads, 2, scanRange(false), "Returns the keys between two bounds within a slot"),
		reading("revrange", -3, reads, 2, scanRange(true), "Returns the keys between two bounds, descending"),
	}
}

func expiryCommands() []Command {
	return []Command{
		writing("expire", -3, deletes+" fast", 1, expire("expire", inSeconds), "Sets the expiry in seconds"),
		writing("pexpire", -3, deletes+" fast", 1, expire("pexpire", inMillis), "Sets the expiry in milliseconds"),
		writing("expireat", -3, deletes+" fast", 1, expire("expireat", atSeconds), "Sets the expiry to a time in seconds"),
		writing("pexpireat", -3, deletes+" fast", 1, expire("pexpireat", atMillis), "Sets the expiry to a time in milliseconds"),
		writing("persist", 2, deletes+" fast", 1, onValue(persist), "Removes the expiry of a key"),
		reading("ttl", 2, reads+" fast", 1, ttl(inSeconds), "Returns the seconds until a key expires"),
		reading("pttl", 2, reads+" fast", 1, ttl(inMillis), "Returns the milliseconds until a key expires"),
		reading("expiretime", 2, reads+" fast", 1, ttl(atSeconds), "Returns the time in seconds at which a key expires"),
		reading("pexpiretime", 2, reads+" fast", 1, ttl(atMillis), "Returns the time in milliseconds at which a key expires"),
	}
}

func nodeCommands() []Command {
	return []Command{
		{Name: "randomkey", Kind: OfNode, Arity: 1, Flags: flags(reads), Summary: "Returns a random key of this node"},
		{Name: "scan", Kind: OfNode, Arity: -2, Flags: flags(reads), Summary: "Iterates over the keys of this node"},
		{Name: "keys", Kind: OfNode, Arity: 2, Flags: flags(reads), Summary: "Returns the keys of this node that match a pattern"},
		{Name: "dbsize", Kind: OfNode, Arity: 1, Flags: flags(reads + " fast"), Summary: "Counts the keys of this node"},
		{Name: "flushdb", Kind: OfNode, Arity: -1, Flags: flags("write"), Summary: "Deletes all keys of this node"},
		{Name: "flushall", Kind: OfNode, Arity: -1, Flags: flags("write"), Summary: "Deletes all keys of this node"},
	}
}

const (
	early = "noscript loading stale fast no_auth allow_busy"
	light = "loading stale fast"
)

func connectionCommands() []Command {
	return []Command{
		{Name: "ping", Arity: -1, Flags: flags("fast"), Summary: "Checks the connection"},
		{Name: "echo", Arity: 2, Flags: flags(light), Summary: "Returns its argument"},
		{Name: "quit", Arity: -1, Flags: flags(early), Summary: "Closes the connection"},
		{Name: "reset", Arity: 1, Flags: flags(early), Summary: "Resets the connection"},
		{Name: "hello", Arity: -1, Flags: flags(early), Summary: "Chooses the protocol"},
		{Name: "auth", Arity: -2, Flags: flags(early), Summary: "Authenticates the connection"},
		{Name: "select", Arity: 2, Flags: flags(light), Summary: "Selects database 0"},
		{Name: "client", Arity: -2, Summary: "Describes and configures connections"},
		{Name: "readonly", Arity: 1, Flags: flags(light), Summary: "Permits stale reads from replicas"},
		{Name: "readwrite", Arity: 1, Flags: flags(light), Summary: "Forbids stale reads from replicas"},
		{Name: "asking", Arity: 1, Flags: flags("fast"), Summary: "Is accepted and has no effect"},
		{Name: "wait", Arity: 3, Flags: flags("noscript"), Summary: "Returns how many replicas have the writes before it"},
	}
}

func transactionCommands() []Command {
	return []Command{
		{Name: "multi", Arity: 1, Flags: flags("noscript loading stale fast allow_busy"), Summary: "Begins a transaction"},
		{Name: "exec", Arity: 1, Flags: flags("noscript loading stale skip_slowlog"), Summary: "Executes a transaction"},
		{Name: "discard", Arity: 1, Flags: flags("noscript loading stale fast allow_busy"), Summary: "Discards a transaction"},
		{Name: "watch", Arity: -2, Flags: flags("noscript loading stale fast allow_busy"), First: 1, Last: -1, Step: 1,
			Summary: "Lets the next transaction fail if a key changes before it"},
		{Name: "unwatch", Arity: 1, Flags: flags("noscript loading stale fast allow_busy"), Summary: "Forgets watched keys"},
	}
}

func serverCommands() []Command {
	return []Command{
		{Name: "info", Arity: -1, Flags: flags("loading stale"), Summary: "Describes the node"},
		{Name: "command", Arity: -1, Flags: flags("loading stale"), Summary: "Describes the commands"},
		{Name: "config", Arity: -2, Summary: "Returns and changes settings"},
		{Name: "slowlog", Arity: -2, Summary: "Returns the commands that took long"},
		{Name: "latency", Arity: -2, Summary: "Returns how long commands took"},
		{Name: "time", Arity: 1, Flags: flags(light), Summary: "Returns the clock of this node"},
		{Name: "cluster", Kind: OfNode, Arity: -2, Summary: "Describes the cluster"},
		{Name: "explain", Kind: OfOperator, Arity: 2, Flags: flags(reads), First: 1, Last: 1, Step: 1,
			Summary: "Explains what a read of a key does"},
		{Name: "checkpoint", Kind: OfOperator, Arity: -1, Flags: flags("admin"), Summary: "Makes a checkpoint"},
		{Name: "filters", Kind: OfOperator, Arity: -1, Flags: flags("admin"), Summary: "Describes the filters"},
	}
}
