package command

var describeCommands = Container[func(*Call)]{"command", []Subcommand[func(*Call)]{
	{"count", 2, "COUNT", func(c *Call) { c.Reply.Int(int64(len(commands))) }},
	{"docs", -2, "DOCS [<name> ...]", (*Call).document},
	{"getkeys", -3, "GETKEYS <command> [<arg> ...]", func(c *Call) { c.keysOf(c.Args[2:]) }},
	{"info", -2, "INFO [<name> ...]", (*Call).describeNamed},
	{"list", 2, "LIST", func(c *Call) {
		c.Reply.Array(len(commands))
		for _, cmd := range All() {
			c.Reply.Text(cmd.Name)
		}
	}},
}}

// Describe evaluates COMMAND.
func Describe(c *Call) {
	if len(c.Args) == 1 {
		c.describeAll()
	} else if run, ok := describeCommands.Find(c); ok {
		run(c)
	}
}

func (c *Call) describeAll() {
	c.Reply.Array(len(commands))
	for _, cmd := range All() {
		cmd.describe(c.Reply)
	}
}

func (c *Call) describeNamed() {
	if len(c.Args) == 2 {
		c.describeAll()
		return
	}
	c.Reply.Array(len(c.Args) - 2)
	for _, name := range c.Args[2:] {
		if cmd, ok := Lookup(name); ok {
			cmd.describe(c.Reply)
		} else {
			c.Reply.NullArray()
		}
	}
}

// describe replies with the ten elements that Redis 7.0 gives for a command. The last four (categories
// of ACLs, tips, specifications of keys, subcommands) are empty.
func (c *Command) describe(p *Reply) {
	p.Array(10)
	p.Text(c.Name)
	p.Int(int64(c.Arity))
	p.Set(len(c.Flags))
	for _, f := range c.Flags {
		p.Status(f)
	}
	first, last, step := c.First, c.Last, c.Step
	if c.Container {
		first, last, step = 0, 0, 0
	}
	p.Int(int64(first))
	p.Int(int64(last))
	p.Int(int64(step))
	p.Set(0)
	p.Array(0)
	p.Array(0)
	p.Array(0)
}

func (c *Call) document() {
	list := All()
	if len(c.Args) > 2 {
		list = nil
		for _, name := range c.Args[2:] {
			if cmd, ok := Lookup(name); ok {
				list = append(list, cmd)
			}
		}
	}
	c.Reply.Map(len(list))
	for _, cmd := range list {
		c.Reply.Text(cmd.Name)
		c.Reply.Map(2)
		c.Reply.Text("summary")
		c.Reply.Text(cmd.Summary)
		c.Reply.Text("group")
		c.Reply.Text(cmd.Group)
	}
}

// keysOf replies with the keys of a request.
func (c *Call) keysOf(args [][]byte) {
	cmd, ok := Lookup(args[0])
	switch {
	case !ok:
		c.Reply.Error("ERR Invalid command specified")
		return
	case cmd.First == 0:
		c.Reply.Error("ERR The command has no key arguments")
		return
	case cmd.Refuses(args) != "":
		c.Reply.Error("ERR Invalid number of arguments specified for command")
		return
	}
	m, n := c.Reply.mark(), 0
	_ = cmd.Keys(args, func(key []byte) error { // the function never fails
		c.Reply.Bulk(key)
		n++
		return nil
	})
	c.Reply.arrayAt(m, n)
}
