package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/base"
)

// app is one run of the tool. A shell makes one for each line.
type app struct {
	ctx            context.Context
	stdin          io.Reader
	stdout, stderr io.Writer
	out            *output
	now            func() time.Time

	flags   globals
	session *session // the database that a shell has open, or nil

	dir     string // the database of the verb, once it is known; for advice
	copies  bool   // the verb can read a copy of a database with a custom comparer
	helpErr error  // of printing the help
	started bool   // the words were right and the verb has begun
}

// globals are the flags of all verbs.
type globals struct {
	json, hex, base64, raw bool
	keyFormat, valueFormat string   // words of encodings; "": those of the flags above
	namespace              []string // each in the one before it
	color                  string
	records                bool
	quiet                  bool
	comparer               string
	expiry                 []string
	record                 recordFlags // of verbs that write
}

// verb is one word of the tool.
type verb struct {
	use, short, long string
	example          string
	group            string
	min, max         int // arguments; max -1: any number
	flags            func(*pflag.FlagSet)
	run              func(args []string) error
	noDir            bool // the first argument is not a database
	aliases          []string
	notInShell       string
}

// The groups of verbs in the help.
const (
	groupKeys     = "keys"
	groupInspect  = "inspect"
	groupMaintain = "maintain"
	groupCopies   = "copies"
	groupMove     = "move"
	groupOther    = "other"
)

var groups = []*cobra.Group{
	{ID: groupKeys, Title: "Keys and values:"},
	{ID: groupInspect, Title: "Look into a database:"},
	{ID: groupMaintain, Title: "Maintain a database:"},
	{ID: groupCopies, Title: "Copies and backups:"},
	{ID: groupMove, Title: "Move data in and out:"},
	{ID: groupOther, Title: "Other:"},
}

const rootLong = `sievedb inspects and changes a database directory of SieveDB, LevelDB or goleveldb.

Verbs that only read change nothing. If another process has the database open, they
show what it has written so far.

Keys and values are read as they are printed: text as it is, or quoted as in Go if it has
control characters, is not UTF-8, begins with a quotation mark or is empty. --key-format and
--value-format choose other forms; --hex, --base64 and --raw do so for both. A key that
begins with a dash follows "--". The word "-" stands for standard input.

Tables are aligned on a terminal, and separated by tabs in a pipe. --json prints JSON:
one object, or one for each line for verbs that print many. Colour and progress appear
only on a terminal.`

// globalHint stands in the help of a verb for the flags of all verbs.
const globalHint = "'sievedb help' lists the flags of all verbs, such as --json and --quiet."

// run is main without the process: it returns the exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	a := &app{ctx: ctx, stdin: stdin, stdout: stdout, stderr: stderr, now: time.Now}
	return a.run(args)
}

func (a *app) run(args []string) int {
	root := a.root()
	root.SetArgs(args)
	err := root.ExecuteContext(a.ctx)
	if a.out != nil {
		// A result such as "there are differences" counts only if the output has it.
		if ferr := a.out.w.Flush(); err == nil || isBrokenPipe(ferr) || ferr != nil && isResult(err) {
			err = ferr
		}
	}
	if a.helpErr != nil {
		return a.report(a.helpErr)
	}
	if err != nil && !a.started {
		err = &failure{exitUsage, err}
	}
	return a.report(err)
}

// helpOutput is where cobra prints the help. It keeps the first error, which cobra would print or ignore.
type helpOutput struct{ a *app }

// Write implements io.Writer.
func (h *helpOutput) Write(p []byte) (int, error) {
	if h.a.helpErr == nil {
		_, h.a.helpErr = h.a.stdout.Write(p)
	}
	return len(p), nil
}

// report prints an error with advice, and returns the exit code.
func (a *app) report(err error) int {
	code := codeOf(err)
	if code == exitFailed && a.dir != "" && a.isDamaged(err) {
		code = exitFaults
	}
	switch {
	case err == nil || code == exitBrokenPipe || isResult(err):
	case a.ctx.Err() != nil && errors.Is(err, a.ctx.Err()):
		code = exitInterrupted
		a.say("interrupted")
	default:
		fmt.Fprintln(a.stderr, withName(err.Error()))
		a.advise(err, code)
	}
	return code
}

// withName begins every message with the name of the tool.
func withName(text string) string {
	text = strings.ReplaceAll(inVerbs(text), ": sievedb: ", ": ") // of an error that another one wraps
	if strings.HasPrefix(text, "sievedb: ") {
		return text
	}
	return "sievedb: " + text
}

// say prints a message for people on standard error.
func (a *app) say(format string, args ...any) {
	fmt.Fprintf(a.stderr, "sievedb: "+format+"\n", args...)
}

// advise prints what to do about an error.
func (a *app) advise(err error, code int) {
	switch {
	case code == exitUsage && !a.started:
		if a.session != nil {
			a.say("'help' lists the verbs, and 'help VERB' explains one")
		} else {
			a.say("'sievedb help' lists the verbs, and 'sievedb VERB --help' explains one")
		}
	case a.dir == "":
	case a.isDamaged(err):
		a.say("to rebuild the database from its readable parts, copy the directory, then run 'sievedb repair %s'", a.dir)
	case errors.Is(err, db.ErrReadOnly) && a.session != nil:
		a.say("'sievedb shell --write' opens a database for writing")
	case errors.Is(err, db.ErrLocked):
		a.say("another process has the database open; end it, or use a verb that only reads")
	}
}

// isDamaged reports whether err is damage in the verb's database, and not in another file.
func (a *app) isDamaged(err error) bool {
	var c *db.CorruptionError
	if strings.Contains(err.Error(), base.WrongComparer) {
		return false // a repair would lose what is there
	}
	if !errors.As(err, &c) {
		return errors.Is(err, db.ErrCorruption)
	}
	dir, derr := filepath.Abs(a.dir)
	file, ferr := filepath.Abs(c.File)
	if derr != nil || ferr != nil || c.File == "" {
		return true
	}
	rest, err := filepath.Rel(dir, file)
	return err == nil && filepath.IsLocal(rest)
}

func (a *app) root() *cobra.Command {
	version := buildInfo()
	root := &cobra.Command{
		Use:   "sievedb",
		Short: "Inspect and change a database of SieveDB, LevelDB or goleveldb",
		Long:  paragraphs(rootLong),
		Args: func(root *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknownVerb(root, args[0])
			}
			return nil
		},
		RunE:              func(cmd *cobra.Command, _ []string) error { a.started = true; return cmd.Help() },
		SilenceErrors:     true,
		SilenceUsage:      true,
		Version:           version.text(),
		DisableAutoGenTag: true,

		SuggestionsMinimumDistance: 2, // transposed or missing letters
	}
	root.SetIn(a.stdin)
	root.SetOut(&helpOutput{a})
	root.SetErr(a.stderr)
	root.SetVersionTemplate("sievedb {{.Version}}\n")
	if a.session != nil {
		a.shellHelp(root)
	}
	before, globals, _ := strings.Cut(root.UsageTemplate(), "{{if .HasAvailableInheritedFlags}}")
	_, after, _ := strings.Cut(globals, "{{end}}")
	before = strings.ReplaceAll(before, ".FlagUsages", fmt.Sprintf(".FlagUsagesWrapped %d", defaultWidth))
	root.SetUsageTemplate(before + "{{if .HasAvailableInheritedFlags}}\n\n" + globalHint + "{{end}}" + after)
	root.SetHelpTemplate("{{with (or .Long .Short)}}{{. | trimTrailingWhitespaces}}\n\n{{end}}{{.UsageString}}")
	root.AddGroup(groups...)
	root.SetHelpCommandGroupID(groupOther)
	root.SetCompletionCommandGroupID(groupOther)
	f := root.PersistentFlags()
	f.BoolVar(&a.flags.json, "json", a.flags.json, "print JSON")
	f.BoolVar(&a.flags.hex, "hex", a.flags.hex, "read and print keys and values in hexadecimal")
	f.BoolVar(&a.flags.base64, "base64", a.flags.base64, "read and print keys and values in base64")
	f.BoolVar(&a.flags.raw, "raw", a.flags.raw, "read and print keys and values as the bytes that they are")
	f.StringVar(&a.flags.keyFormat, "key-format", a.flags.keyFormat, "of keys: text, hex, base64, raw, json, namespace ([name]key)")
	f.StringVar(&a.flags.valueFormat, "value-format", a.flags.valueFormat, "of values: text, hex, base64, raw, json")
	f.StringArrayVar(&a.flags.namespace, "namespace", a.flags.namespace, "of the keys that are given and printed; repeated: one within the other")
	f.BoolVar(&a.flags.records, "record", a.flags.records, "print tables as records: a line for each column, none left out or cut")
	f.StringVar(&a.flags.color, "color", cmp.Or(a.flags.color, "auto"), "use colour: auto, always or never")
	f.BoolVarP(&a.flags.quiet, "quiet", "q", a.flags.quiet, "print no progress and no notices")
	f.StringVar(&a.flags.comparer, "comparer", "", "bytes: read a database of a custom comparer in the order of its keys' bytes")
	f.StringArrayVar(&a.flags.expiry, "expiry", nil, "prefix of keys whose values may expire; repeatable")
	for _, v := range a.verbs() {
		root.AddCommand(a.command(v))
	}
	completeFlags(root)
	root.InitDefaultHelpCmd()
	for _, c := range root.Commands() {
		if c.Name() == "help" {
			c.Args = knownVerb(root)
		}
	}
	root.AddCommand(&cobra.Command{Use: "exit-codes", Short: "The exit codes", Long: "The exit codes:\n\n" + exitTopic})
	return root
}

// knownVerb refuses words that name no verb. Without it, the help of such a word is that of the tool.
func knownVerb(root *cobra.Command) cobra.PositionalArgs {
	return func(_ *cobra.Command, words []string) error {
		if c, _, err := root.Find(words); len(words) > 0 && (err != nil || c == root) {
			return unknownVerb(root, words[0])
		}
		return nil
	}
}

// unknownVerb is the error of a word that names no verb. It names verbs that look like it.
func unknownVerb(root *cobra.Command, word string) error {
	err := fmt.Errorf("unknown verb %q", word)
	if like := root.SuggestionsFor(word); len(like) > 0 {
		err = fmt.Errorf("%w; did you mean %s?", err, strings.Join(like, " or "))
	}
	return err
}

// verbs are all verbs, in the order of the groups.
func (a *app) verbs() (all []*verb) {
	for _, group := range [][]*verb{
		a.keyVerbs(), a.inspectVerbs(), a.filterVerbs(), a.maintainVerbs(), a.copyVerbs(), a.moveVerbs(), a.otherVerbs(),
	} {
		all = append(all, group...)
	}
	return all
}

func (a *app) command(v *verb) *cobra.Command {
	use, example := v.use, v.example
	if a.session != nil {
		example = "" // it has the directory, and what only another shell understands
		if !v.noDir {
			use = strings.Replace(use, " DIR", "", 1)
		}
	}
	cmd := &cobra.Command{
		Use: use + " [flags]", DisableFlagsInUseLine: true, Hidden: a.session != nil && v.notInShell != "",
		Short: v.short, Long: paragraphs(v.long), Example: example, GroupID: v.group, Aliases: v.aliases,
		ValidArgsFunction: completePaths,
	}
	if v.long == "" {
		cmd.Long = v.short + "."
	}
	if v.flags != nil {
		v.flags(cmd.Flags())
	}
	if writers[strings.Fields(v.use)[0]] {
		a.flags.record.add(cmd.Flags())
	}
	cmd.Args = func(_ *cobra.Command, args []string) error {
		if n := len(args); n < v.min || v.max >= 0 && n > v.max {
			if a.session != nil {
				return fmt.Errorf("usage: %s", use)
			}
			return fmt.Errorf("usage: sievedb %s", use)
		}
		return nil
	}
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		if strings.Contains(err.Error(), "shorthand") {
			return fmt.Errorf("%w (flags have two dashes, such as --hex; a key that begins with a dash follows \"--\")", err)
		}
		return err
	})
	completeFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := a.inShell(v, cmd.Flags()); err != nil {
			return err
		}
		if err := a.begin(v, args); err != nil {
			return err
		}
		a.started = true
		return v.run(args)
	}
	return cmd
}

// begin checks the flags of all verbs and makes the output.
func (a *app) begin(v *verb, args []string) error {
	format, prefix, err := a.flags.format()
	if err != nil {
		return err
	}
	if a.flags.comparer != "" && a.flags.comparer != "bytes" {
		return fmt.Errorf("--comparer %q; want bytes", a.flags.comparer)
	}
	width := terminalWidth(a.stdout)
	people := width > 0
	color := people
	switch a.flags.color {
	case "auto":
		color = color && !noColor()
	case "always":
		color = true
	case "never":
		color = false
	default:
		return fmt.Errorf("--color %q; want auto, always or never", a.flags.color)
	}
	a.out = &output{
		w: bufio.NewWriterSize(a.stdout, 64<<10), format: format, prefix: prefix, json: a.flags.json,
		people: people, width: width, record: a.flags.records, color: color,
	}
	if !v.noDir && len(args) > 0 {
		a.dir = args[0]
	}
	return nil
}

// flagWords are the values of flags that have few.
var flagWords = map[string][]string{
	"color": {"auto", "always", "never"}, "comparer": {"bytes"}, "filter": slices.Sorted(maps.Keys(filterKinds)),
	"format": {formAuto, formJSON, formBinary, formLines}, "key-format": slices.Sorted(maps.Keys(encodings)),
	"value-format": slices.DeleteFunc(slices.Sorted(maps.Keys(encodings)), func(word string) bool { return word == "namespace" }),
	"type":         {"table", "log", "manifest", "current", "closed"},
}

func completeFlags(cmd *cobra.Command) {
	for name, words := range flagWords {
		if cmd.Flags().Lookup(name) != nil || cmd.PersistentFlags().Lookup(name) != nil {
			_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)) // it exists
		}
	}
}

// completePaths completes file names: the first argument of most verbs is a directory.
func completePaths(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return nil, cobra.ShellCompDirectiveFilterDirs
	}
	return nil, cobra.ShellCompDirectiveDefault
}
