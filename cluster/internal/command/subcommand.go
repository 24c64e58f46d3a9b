package command

import (
	"maps"
	"strings"
)

// Containers returns the subcommands of the containers that this package evaluates, with their arities.
func Containers() map[string]map[string]int {
	return map[string]map[string]int{
		"cluster": maps.Clone(clusterArities), "command": maps.Clone(describeArities),
		"object": maps.Clone(objectArities), "memory": maps.Clone(memoryArities),
	}
}

// Subcommand returns the name of a subcommand, such as KEYSLOT of CLUSTER, in lower case. arities has the
// number of arguments of each, with both names, as Command.Arity. If the call names none of them
// or has a wrong number of arguments, Subcommand replies with the error of Redis.
func (c *Call) Subcommand(container string, arities map[string]int) (name string, ok bool) {
	if len(c.Args[1]) <= maxName {
		name = strings.ToLower(string(c.Args[1]))
	}
	arity, ok := arities[name]
	if !ok {
		c.Reply.Error(UnknownSubcommand(strings.ToUpper(container), c.Args[1]))
		return "", false
	}
	if !(&Command{Arity: arity}).Accepts(len(c.Args)) {
		c.Reply.Error(WrongArity(container + "|" + name))
		return "", false
	}
	return name, true
}

// Help replies with the subcommands of a container.
func (c *Call) Help(container string, lines ...string) {
	c.Reply.Array(len(lines) + 1)
	c.Reply.Status(container + " <subcommand> [<arg> ...]. Subcommands are:")
	for _, line := range lines {
		c.Reply.Status(line)
	}
}
