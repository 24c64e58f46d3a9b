package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"

	"github.com/peterh/liner"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sievedb/sievedb/db"
)

// session is the database that a shell has open.
type session struct {
	dir   string
	store *db.DB
	flags globals                                          // of the shell, which its verbs have unless they have their own
	ask   func(question string) (answer string, err error) // nil without a terminal
	pager bool
}

type shellFlags struct {
	write, noHistory, noPager bool
}

func (s *shellFlags) add(f *pflag.FlagSet) {
	f.BoolVarP(&s.write, "write", "w", false, "open the database for writing; without it, another process may have it open")
	f.Bool("read-only", true, "as without --write")
	_ = f.MarkHidden("read-only") // of scripts for earlier versions; it exists
	f.BoolVar(&s.noHistory, "no-history", false, "neither read nor write the history of lines")
	f.BoolVar(&s.noPager, "no-pager", false, "print long output without a pager")
}

// shell reads verbs, one in each line, and runs them on one open database.
func (a *app) shell(args []string, flags *shellFlags) error {
	run := func(store *db.DB) error {
		g := &a.flags
		inherited := globals{
			json: g.json, hex: g.hex, base64: g.base64, raw: g.raw, keyFormat: g.keyFormat, valueFormat: g.valueFormat,
			namespace: g.namespace, color: g.color, quiet: g.quiet, records: g.records,
		}
		a.session = &session{dir: args[0], store: store, flags: inherited}
		defer func() { a.session = nil }()
		in, close, err := a.shellInput(flags)
		if err != nil {
			return err
		}
		defer close()
		return a.shellLines(in)
	}
	if !flags.write {
		return a.readKeys(args[0], run)
	}
	return a.write(args[0], run)
}

// lineSource returns one line after the other, and io.EOF at the end.
type lineSource interface{ ReadLine() (string, error) }

// shellInput returns the lines of a terminal, with history and completion, or of a pipe.
func (a *app) shellInput(flags *shellFlags) (lineSource, func(), error) {
	in, ok := a.stdin.(*os.File)
	if !ok || in != os.Stdin || a.stdout != io.Writer(os.Stdout) || !isTerminal(in) || !isTerminal(a.stdout) {
		input := a.input()
		return &pipeLines{bufio.NewReader(input)}, func() { _ = input.Close() }, nil
	}
	p := newPrompt(a)
	if !flags.noHistory {
		if p.history = openHistory(); p.history != nil {
			for _, line := range p.history.lines {
				p.state.AppendHistory(line)
			}
		}
	}
	a.session.ask = p.ask
	a.session.pager = !flags.noPager
	a.out.prose("sievedb %s on %s; help explains the keys and verbs, and Ctrl-D ends the shell", buildInfo().Version, a.session.dir)
	return p, p.close, a.out.w.Flush()
}

type pipeLines struct{ r *bufio.Reader }

// ReadLine implements lineSource.
func (p *pipeLines) ReadLine() (string, error) {
	line, err := p.r.ReadString('\n')
	if err == io.EOF && line != "" {
		err = nil
	}
	return strings.TrimSuffix(line, "\n"), err
}

// prompt reads lines from a terminal, with history, search and completion.
type prompt struct {
	state   *liner.State
	ctx     context.Context   // its end, as at SIGTERM, ends the waiting for a line
	history *history          // nil: none
	before  liner.ModeApplier // the mode of the terminal without the prompt
}

func newPrompt(a *app) *prompt {
	before, err := liner.TerminalMode()
	p := &prompt{state: liner.NewLiner(), ctx: a.ctx}
	if err == nil {
		p.before = before
	}
	p.state.SetCtrlCAborts(true)
	p.state.SetTabCompletionStyle(liner.TabPrints)
	p.state.SetWordCompleter(a.complete)
	return p
}

// ReadLine implements lineSource. Ctrl-C gives up the line.
func (p *prompt) ReadLine() (string, error) {
	line, err := orEnd(p.ctx, func() (string, error) { return p.state.Prompt("sievedb> ") })
	switch {
	case errors.Is(err, liner.ErrPromptAborted):
		return "", nil
	case err == nil && p.history != nil:
		p.history.add(line)
	}
	if err == nil && strings.TrimSpace(line) != "" {
		p.state.AppendHistory(line)
	}
	return line, err
}

// ask asks a question between two lines.
func (p *prompt) ask(question string) (string, error) {
	answer, err := orEnd(p.ctx, func() (string, error) { return p.state.Prompt(question) })
	if errors.Is(err, liner.ErrPromptAborted) || err == io.EOF {
		return "", nil
	}
	return answer, err
}

func (p *prompt) close() { _ = p.state.Close() }

// outside runs f with the terminal as other programs expect it.
func (p *prompt) outside(f func()) {
	if p.before == nil {
		f()
		return
	}
	during, err := liner.TerminalMode()
	_ = p.before.ApplyMode() // a terminal that cannot be set stays as it is
	f()
	if err == nil {
		_ = during.ApplyMode()
	}
}

// orEnd returns what read returns, or the error of ctx when that ends first. Then read is left waiting.
func orEnd(ctx context.Context, read func() (string, error)) (string, error) {
	type result struct {
		line string
		err  error
	}
	done := make(chan result, 1)
	go func() {
		line, err := read()
		done <- result{line, err}
	}()
	select {
	case r := <-done:
		return r.line, r.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// shellLines runs the lines. A verb that fails does not end the shell on a terminal; in a pipe, where
// no person can react, it does.
func (a *app) shellLines(in lineSource) error {
	terminal, people := in.(*prompt)
	var own *interrupts
	if people {
		own = ownInterrupts()
	}
	for n := 1; ; n++ {
		line, err := in.ReadLine()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		words, err := splitWords(line)
		if err == nil && len(words) == 0 {
			continue
		}
		if err == nil && (words[0] == "exit" || words[0] == "quit") {
			return nil
		}
		code := exitUsage
		if err != nil {
			a.say("%v", err)
		} else {
			code = a.shellVerb(words, own, terminal)
		}
		if code != exitOK && !people {
			a.say("line %d of the input ended with exit code %d; later lines were not run", n, code)
			return ended(code)
		}
	}
}

// interrupts makes Ctrl-C end the verb that runs in a shell, and not the shell.
type interrupts struct{ ignored chan os.Signal }

// ownInterrupts takes Ctrl-C from the context of the process, which would stay canceled for all later verbs.
func ownInterrupts() *interrupts {
	signal.Reset(os.Interrupt)
	i := &interrupts{make(chan os.Signal, 1)}
	signal.Notify(i.ignored, os.Interrupt)
	return i
}

// during returns a context that the first Ctrl-C cancels. A second one ends the process, until stop is called.
func (i *interrupts) during(ctx context.Context) (verb context.Context, stop func()) {
	verb, end := signal.NotifyContext(ctx, os.Interrupt)
	signal.Stop(i.ignored)
	context.AfterFunc(verb, end)
	return verb, func() {
		signal.Notify(i.ignored, os.Interrupt)
		end()
	}
}

// shellVerb runs one verb, on a terminal with a Ctrl-C of its own and a pager, and returns its exit code.
func (a *app) shellVerb(words []string, own *interrupts, terminal *prompt) (code int) {
	b := &app{ctx: a.ctx, stdin: noInput{}, stdout: a.stdout, stderr: a.stderr, now: a.now, session: a.session, flags: a.session.flags}
	run := func() {
		if own != nil {
			var stop func()
			b.ctx, stop = own.during(a.ctx)
			defer stop()
		}
		_ = a.session.store.Refresh(b.ctx) // a follower shows what was written meanwhile; another store needs no refresh
		code = b.run(b.withDir(words))
	}
	if at := a.verbAt(words); terminal == nil || !a.session.pager || at >= len(words) || !pages[words[at]] {
		run()
		return code
	}
	terminal.outside(func() {
		p := newPager(a.stdout)
		b.stdout = p
		run()
		p.close()
	})
	return code
}

// noInput is the standard input of verbs in a shell, whose own input has its lines. As an empty one,
// it would make 'put KEY -' write an empty value.
type noInput struct{}

// Read implements io.Reader.
func (noInput) Read([]byte) (int, error) {
	return 0, errors.New("sievedb: a verb in a shell has no standard input; run it without the shell")
}

// openFlags are flags about opening the database, which a shell has done.
var openFlags = []string{"expiry", "comparer", "ranges", "bits", "compression", "ignore-record"}

// inShell refuses verbs and flags that need the database opened for them.
func (a *app) inShell(v *verb, flags *pflag.FlagSet) error {
	if a.session == nil {
		return nil
	}
	if v.notInShell != "" {
		return fmt.Errorf("%s cannot be used in a shell: %s", strings.Fields(v.use)[0], v.notInShell)
	}
	for _, name := range openFlags {
		if flags.Changed(name) {
			return fmt.Errorf("--%s cannot be used in a shell, which has the database open already; "+
				"run the verb without the shell, or give --expiry, --comparer and --compression to 'sievedb shell'", name)
		}
	}
	return nil
}

// withDir adds the directory of the session after the verb, unless the verb has none.
func (a *app) withDir(words []string) []string {
	at := a.verbAt(words)
	if at < len(words) {
		if v := a.verbNamed(words[at]); v != nil && !v.noDir {
			return slices.Insert(slices.Clone(words), at+1, a.session.dir)
		}
	}
	return words
}

// verbAt returns where the verb is in a line, which may begin with flags of all verbs.
func (a *app) verbAt(words []string) (at int) {
	flags := a.root().PersistentFlags()
	for ; at < len(words) && strings.HasPrefix(words[at], "-"); at++ {
		f := flags.Lookup(strings.TrimPrefix(words[at], "--"))
		if f != nil && f.NoOptDefVal == "" { // the word after it is its value
			at++
		}
	}
	return at
}

// verbNamed returns the verb with a name; nil if there is none.
func (a *app) verbNamed(name string) *verb {
	for _, v := range a.verbs() {
		if strings.Fields(v.use)[0] == name || slices.Contains(v.aliases, name) {
			return v
		}
	}
	return nil
}

// splitWords divides a line at spaces. Words in quotation marks are as in Go, so that any byte can be typed: "a\x00b".
// If a verb would read the word as quoted, or as standard input, it stays quoted. Words in single quotes are as they
// are.
func splitWords(line string) (words []string, err error) {
	for {
		line = strings.TrimLeft(line, " \t\r")
		if line == "" || line[0] == '#' {
			return words, nil
		}
		var word string
		switch line[0] {
		case '"', '\'':
			word, line, err = quotedWord(line)
			if err != nil {
				return nil, err
			}
		default:
			end := strings.IndexAny(line, " \t\r")
			if end < 0 {
				end = len(line)
			}
			word, line = line[:end], line[end:]
		}
		words = append(words, word)
	}
}

// quotedWord returns the word in quotes at the beginning of line, and what follows it.
func quotedWord(line string) (word, rest string, err error) {
	for end := 1; end < len(line); end++ {
		switch {
		case line[end] == '\\' && line[0] == '"':
			end++
		case line[end] == line[0] && line[0] == '\'':
			return line[1:end], line[end+1:], nil
		case line[end] == line[0]:
			b, err := encText.decode([]byte(line[:end+1]))
			if string(b) == "-" || bytes.HasPrefix(b, []byte{'"'}) {
				b = strconv.AppendQuote(nil, string(b))
			}
			return string(b), line[end+1:], err
		}
	}
	return "", "", fmt.Errorf("the quotation mark %c has no end", line[0])
}

const shellLong = `A shell runs verbs on one open database, which they do not name: 'get KEY'.

Tab completes verbs, flags, keys and paths; a second Tab lists what there is. Arrow keys and Ctrl-R find earlier lines,
Ctrl-C gives up a line or ends a verb, Ctrl-D or 'exit' ends the shell. Words in quotation marks are as in Go:
"a\x00b". Words in single quotes are as they are. Output that is longer than the terminal goes through $PAGER, or less.

Verbs have the flags about keys and output that were given to 'sievedb shell', unless they have their own.`

// shellHelp makes the help that of a shell: its keys, and verbs without the directory.
func (a *app) shellHelp(root *cobra.Command) {
	root.Use, root.Long = "VERB [flags]", paragraphs(shellLong)
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetUsageTemplate(strings.NewReplacer(
		"{{.UseLine}}", "{{.Use}}", "{{if .HasAvailableSubCommands}}\n  {{.CommandPath}} [command]{{end}}", "",
		`Use "{{.CommandPath}} [command] --help" for more information about a command.`, "'help VERB' explains a verb.",
	).Replace(root.UsageTemplate()))
}
