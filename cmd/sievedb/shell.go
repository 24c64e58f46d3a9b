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
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/disk/outfile"
)

// session is the database that a shell has open.
type session struct {
	dir   string
	store *db.DB
	flags globals                                          // of the shell, which its verbs have unless they have their own
	ask   func(question string) (answer string, err error) // nil without a terminal
}

type shellFlags struct {
	write, noHistory bool
}

func (s *shellFlags) add(f *pflag.FlagSet) {
	f.BoolVarP(&s.write, "write", "w", false, "open the database for writing; without it, another process may have it open")
	f.BoolVar(&s.noHistory, "no-history", false, "neither read nor write the history of lines")
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
	if !ok || !isTerminal(in) || !isTerminal(a.stdout) {
		input := a.input()
		return &pipeLines{bufio.NewReader(input)}, func() { _ = input.Close() }, nil
	}
	t := &prompt{ctx: a.ctx, in: in, out: a.stdout.(*os.File)}
	t.Terminal = term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{&keyboard{r: in}, a.stdout}, "sievedb> ")
	t.AutoCompleteCallback = a.complete
	if !flags.noHistory {
		if h := openHistory(); h != nil {
			t.History = h
		}
	}
	a.out.printf("sievedb %s on %s; help lists the verbs, which need no directory here, and Ctrl-D ends the shell\n", buildInfo().Version, a.session.dir)
	return t, func() {}, a.out.w.Flush()
}

// keyboard reads keys, and makes Ctrl-C erase the line: the terminal would take it for the end of
// the input.
type keyboard struct {
	r       io.Reader
	waiting []byte
}

// Read implements io.Reader.
func (k *keyboard) Read(p []byte) (int, error) {
	if len(k.waiting) == 0 {
		var b [256]byte
		n, err := k.r.Read(b[:])
		if n == 0 {
			return 0, err
		}
		const ctrlC, ctrlE, ctrlU = "\x03", "\x05", "\x15"
		k.waiting = bytes.ReplaceAll(b[:n], []byte(ctrlC), []byte(ctrlE+ctrlU))
	}
	n := copy(p, k.waiting)
	k.waiting = k.waiting[n:]
	return n, nil
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

// prompt reads lines from a terminal. The terminal is in raw mode only while a line is typed, so that
// Ctrl-C interrupts a verb that runs.
type prompt struct {
	*term.Terminal
	ctx     context.Context // its end, as at SIGTERM, ends the waiting for a line
	in, out *os.File
}

// ReadLine implements lineSource.
func (p *prompt) ReadLine() (string, error) {
	state, err := term.MakeRaw(int(p.in.Fd()))
	if err != nil {
		return "", err
	}
	defer func() { _ = term.Restore(int(p.in.Fd()), state) }()
	if width, height, err := term.GetSize(int(p.out.Fd())); err == nil && width > 0 && height > 0 {
		_ = p.SetSize(width, height)
	}
	return orEnd(p.ctx, p.Terminal.ReadLine)
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
	_, people := in.(*prompt)
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
			code = a.shellVerb(words, own)
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

// shellVerb runs one verb, on a terminal with a Ctrl-C of its own, and returns its exit code.
func (a *app) shellVerb(words []string, own *interrupts) int {
	ctx := a.ctx
	if own != nil {
		var stop func()
		ctx, stop = own.during(a.ctx)
		defer stop()
	}
	_ = a.session.store.Refresh(ctx) // a follower shows what was written meanwhile; another store needs no refresh
	b := &app{ctx: ctx, stdin: noInput{}, stdout: a.stdout, stderr: a.stderr, now: a.now, session: a.session, flags: a.session.flags}
	return b.run(b.withDir(words))
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
	at := 0
	for at < len(words) && strings.HasPrefix(words[at], "-") {
		if w := words[at]; w == "--color" || w == "--comparer" || w == "--expiry" {
			at++ // the word after it is its value
		}
		at++
	}
	for _, v := range a.verbs() {
		if at < len(words) && strings.Fields(v.use)[0] == words[at] && !v.noDir {
			return slices.Insert(words, at+1, a.session.dir)
		}
	}
	return words
}

// splitWords divides a line at spaces. Words in quotation marks are as in Go, so that any byte can be typed: "a\x00b". If
// a verb would read the word as quoted, or as standard input, it stays quoted. Words in single quotes are as they are.
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

// complete completes the verb and the flags of a line at Tab.
func (a *app) complete(line string, pos int, key rune) (string, int, bool) {
	if key != '\t' {
		return "", 0, false
	}
	begin := strings.LastIndexByte(line[:pos], ' ') + 1
	word := line[begin:pos]
	var matches []string
	for _, c := range a.completions(line[:begin]) {
		if strings.HasPrefix(c, word) {
			matches = append(matches, c)
		}
	}
	if len(matches) == 0 {
		return line, pos, true
	}
	common := matches[0]
	for _, m := range matches[1:] {
		for !strings.HasPrefix(m, common) {
			common = common[:len(common)-1]
		}
	}
	if len(matches) == 1 {
		common += " "
	}
	return line[:begin] + common + line[pos:], begin + len(common), true
}

// completions returns what may follow the beginning of a line: verbs, or flags of its verb.
func (a *app) completions(before string) (all []string) {
	words := strings.Fields(before)
	b := &app{session: a.session}
	root := b.root()
	for _, cmd := range root.Commands() {
		if len(words) == 0 {
			all = append(all, cmd.Name())
			continue
		}
		if cmd.Name() != words[0] {
			continue
		}
		for _, set := range []*pflag.FlagSet{cmd.Flags(), root.PersistentFlags()} {
			set.VisitAll(func(f *pflag.Flag) { all = append(all, "--"+f.Name) })
		}
	}
	if len(words) == 0 {
		all = append(all, "help", "exit", "quit")
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// history keeps the lines of shells in a file, the newest last. It is a term.History.
type history struct {
	path  string
	lines []string
}

// maxHistory is how many lines are kept, and maxHistoryBytes is larger than every file of them.
const (
	maxHistory      = 1000
	maxHistoryBytes = 256 << 20
)

// openHistory reads the history of the user; nil if there is no place for one.
func openHistory() *history {
	dir := os.Getenv("XDG_STATE_HOME")
	if dir == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return nil
		}
		dir = filepath.Join(home, ".local", "state")
	}
	dir = filepath.Join(dir, "sievedb")
	if err := os.MkdirAll(dir, 0o700); err != nil { // the lines have keys and values
		return nil
	}
	h := &history{path: filepath.Join(dir, "history")}
	b, err := outfile.ReadOwn(h.path, maxHistoryBytes)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil // such as the history of another user, whose HOME root has
	}
	h.lines = strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
	if len(b) == 0 {
		h.lines = nil
	}
	if n := len(h.lines); n > maxHistory {
		h.lines = h.lines[n-maxHistory:]
		_ = outfile.Replace(h.path, []byte(strings.Join(h.lines, "\n")+"\n"), 0o600) // a longer file does no harm
	}
	return h
}

// Add implements term.History.
func (h *history) Add(line string) {
	if strings.TrimSpace(line) == "" || strings.Contains(line, "\n") || len(h.lines) > 0 && h.lines[len(h.lines)-1] == line {
		return
	}
	h.lines = append(h.lines, line)
	f, err := outfile.Append(h.path, 0o600)
	if err != nil {
		return // the history of this shell still works
	}
	_, _ = f.WriteString(line + "\n")
	_ = f.Close()
}

// Len implements term.History.
func (h *history) Len() int { return len(h.lines) }

// At implements term.History.
func (h *history) At(i int) string { return h.lines[len(h.lines)-1-i] }
