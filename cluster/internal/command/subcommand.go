package command

import (
	"slices"
	"strings"
)

// Container is a command with subcommands, such as CLUSTER.
type Container[Run any] struct {
	Name        string // in lower case
	Subcommands []Subcommand[Run]
}

// Subcommand is one of a container.
type Subcommand[Run any] struct {
	Name  string // in lower case
	Arity int    // with both names, as Command.Arity
	Help  string // the lines of it in HELP; "": it is not shown
	Run   Run
}

// Containers returns the names of the subcommands of the containers that this package evaluates.
func Containers() map[string][]string {
	return map[string][]string{
		"cluster": clusterCommands.Names(), "command": describeCommands.Names(),
		"object": objectCommands.Names(), "memory": memoryCommands.Names(),
	}
}

// Names returns the names of the subcommands, with HELP.
func (k *Container[Run]) Names() []string {
	names := []string{"help"}
	for _, s := range k.Subcommands {
		names = append(names, s.Name)
	}
	return names
}

// Find returns what evaluates a call. ok is false if that is done: a call of HELP, or one that names no subcommand or
// has a wrong number of arguments, for which it replies with the error of Redis.
func (k *Container[Run]) Find(c *Call) (run Run, ok bool) {
	s := Subcommand[Run]{Name: "help", Arity: 2}
	name := ""
	if len(c.Args[1]) <= maxName {
		name = strings.ToLower(string(c.Args[1]))
	}
	i := slices.IndexFunc(k.Subcommands, func(s Subcommand[Run]) bool { return s.Name == name })
	if i >= 0 {
		s = k.Subcommands[i]
	}
	switch {
	case name != s.Name:
		c.Reply.Error(UnknownSubcommand(strings.ToUpper(k.Name), c.Args[1]))
	case !(&Command{Arity: s.Arity}).Accepts(len(c.Args)):
		c.Reply.Error(WrongArity(k.Name + "|" + name))
	case i < 0:
		k.help(c.Reply)
	default:
		return s.Run, true
	}
	return run, false
}

func (k *Container[Run]) help(p *Reply) {
	lines := []string{strings.ToUpper(k.Name) + " <subcommand> [<arg> ...]. Subcommands are:"}
	for _, s := range k.Subcommands {
		if s.Help != "" {
			lines = append(lines, strings.Split(s.Help, "\n")...)
		}
	}
	p.Array(len(lines))
	for _, line := range lines {
		p.Status(line)
	}
}
