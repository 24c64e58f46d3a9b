package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/sievedb/sievedb/backup"
	"github.com/sievedb/sievedb/db"
)

// The exit codes.
const (
	exitOK       = 0
	exitFailed   = 1 // the command could not be done
	exitUsage    = 2 // the words are wrong
	exitNotFound = 3 // get and explain: the key has no value
	exitFaults   = 4 // check, verify: there are faults
)

// call is one run of a command.
type call struct {
	ctx    context.Context
	dir    string
	args   []string // after the directory
	flags  options
	stdin  io.Reader
	stdout io.Writer
	stderr io.Writer
}

// options are the flags of all commands; each command uses its own.
type options struct {
	hex    bool
	json   bool
	limit  int
	probes int
	ranges string

	filter string // for upgrade-filters, like the next fields
	bits   int
	rate   float64
	dryRun bool

	id, database string        // for backup and restore
	keep         backup.Policy // for prune

	keys, keySize, valueSize, memory string // for plan
}

// command is one word of the tool.
type command struct {
	name, args, help string
	min, max         int // arguments after the directory
	run              func(*call) (int, error)
	dir              string // what the first argument is called; "" if there is none
}

var commands = []command{
	{"get", "KEY", "print the value of KEY", 1, 1, get, "DIR"},
	{"put", "KEY VALUE", "write VALUE under KEY, synced", 2, 2, put, "DIR"},
	{"delete", "KEY", "delete KEY, synced", 1, 1, deleteKey, "DIR"},
	{"load", "", "read sorted lines of KEY, a tab and VALUE from standard input, as scan prints them, and write all or none", 0, 0, load, "DIR"},
	{"ingest", "TABLE...", "add tables made elsewhere, all or none; they are checked as a whole, and linked if nothing overlaps them", 1, math.MaxInt, ingest, "DIR"},
	{"scan", "[FROM [TO]]", "print keys and values from FROM up to TO (excluded)", 0, 2, scan, "DIR"},
	{"explain", "KEY", "show each run that a lookup of KEY consults, its filter's answer, and what is read", 1, 1, explain, "DIR"},
	{"stats", "", "print the tables of each level and how the directory opened", 0, 0, stats, "DIR"},
	{"tables", "", "list the tables with their filters", 0, 0, tables, "DIR"},
	{"filters", "", "measure the filter of each table with absent keys, and say what to do about it", 0, 0, filters, "DIR"},
	{"plan", "", "calculate what filters would use and save in a database of -keys keys, with -memory for filters", 0, 0, plan, ""},
	{"upgrade-filters", "", "give every table new filters (-filter, -bits) without a compaction; -n only reports what that would cost and save", 0, 0, upgradeFilters, "DIR"},
	{"checkpoint", "DEST", "make the directory DEST, which opens as a database with the present content; tables are linked, not copied", 1, 1, checkpoint, "DIR"},
	{"backup", "REPO", "store a backup in the repository REPO, a directory, which the first backup makes; what is stored already is not copied again", 1, 1, makeBackup, "DIR"},
	{"backups", "", "list the backups of a repository, the oldest first", 0, 0, listBackups, "REPO"},
	{"restore", "DEST", "make the directory DEST, which opens as a database, from a backup (-id, or the newest)", 1, 1, restore, "REPO"},
	{"verify", "", "read every byte that the backups of a repository need, and report faults", 0, 0, verify, "REPO"},
	{"prune", "", "remove the backups that -keep-last, -keep-daily and -keep-weekly do not keep; -n only reports them", 0, 0, prune, "REPO"},
	{"check", "", "read everything and report faults", 0, 0, check, "DIR"},
	{"compact", "[FROM [TO]]", "merge the tables that may contain keys from FROM up to TO (excluded); frees the space of deleted and shadowed entries", 0, 2, compact, "DIR"},
	{"repair", "", "rebuild a damaged database from its tables and logs; nothing is deleted", 0, 0, repair, "DIR"},
}

// run is main without the process: it returns the exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	c := &call{ctx: ctx, stdin: stdin, stdout: stdout, stderr: stderr}
	set := flag.NewFlagSet("sievedb", flag.ContinueOnError)
	set.SetOutput(stderr)
	set.Usage = func() {} // its 60 lines would hide the error
	set.BoolVar(&c.flags.hex, "hex", false, "read keys and values in hexadecimal; get, scan and tables also print them so")
	set.IntVar(&c.flags.limit, "limit", 0, "scan: print at most this many entries (0: all)")
	set.BoolVar(&c.flags.json, "json", false, "filters: print JSON")
	set.StringVar(&c.flags.ranges, "ranges", "", "range filters by name, as filters prints them, separated by commas: new tables get them, and check reads them")
	set.StringVar(&c.flags.filter, "filter", "both", "upgrade-filters: both (cacheline and leveldb), cacheline, leveldb or fuse")
	set.IntVar(&c.flags.bits, "bits", 10, "upgrade-filters, and -ranges: filter bits for each key or prefix; fuse ignores it")
	set.Float64Var(&c.flags.rate, "rate", 0, "upgrade-filters: copy at most this many MiB a second (0: no limit)")
	set.BoolVar(&c.flags.dryRun, "n", false, "upgrade-filters, prune: change nothing, and report what would be done")
	set.BoolVar(&c.flags.dryRun, "dry-run", false, "upgrade-filters, prune: the same as -n")
	set.IntVar(&c.flags.probes, "probes", 4000, "filters: probe each table's filter with this many absent keys")
	set.StringVar(&c.flags.id, "id", "", "restore: the backup to restore, as backups lists it (default: the newest)")
	set.StringVar(&c.flags.database, "database", "", "backup, restore: the name of the database, if the repository has several")
	set.IntVar(&c.flags.keep.KeepLast, "keep-last", 0, "prune: keep so many newest backups of each database")
	set.IntVar(&c.flags.keep.KeepDaily, "keep-daily", 0, "prune: keep the newest backup of so many days")
	set.IntVar(&c.flags.keep.KeepWeekly, "keep-weekly", 0, "prune: keep the newest backup of so many weeks")
	set.StringVar(&c.flags.keys, "keys", "1e9", "plan: the number of keys")
	set.StringVar(&c.flags.keySize, "key-size", "16", "plan: bytes of a key")
	set.StringVar(&c.flags.valueSize, "value-size", "100", "plan: bytes of a value")
	set.StringVar(&c.flags.memory, "memory", "", "plan: bytes for filters, such as 512M (default: 10 bits a key)")
	words, err := parseFlags(set, args)
	if errors.Is(err, flag.ErrHelp) {
		usage(stderr, set)
		return exitOK
	} else if err != nil { // the flag package has printed which
		fmt.Fprintln(stderr, "sievedb: 'sievedb help' lists the flags")
		return exitUsage
	}
	if len(words) == 0 || words[0] == "help" {
		usage(stdout, set)
		return exitOK
	}
	for _, cmd := range commands {
		if cmd.name != words[0] {
			continue
		}
		words = words[1:]
		if cmd.dir != "" && len(words) > 0 {
			c.dir, words = words[0], words[1:]
		}
		if n := len(words); n < cmd.min || n > cmd.max || c.dir == "" && cmd.dir != "" {
			fmt.Fprintf(stderr, "sievedb: usage: %s\n", cmd.usage())
			return exitUsage
		}
		if stray := cmd.stray(set); stray != "" {
			fmt.Fprintf(stderr, "sievedb: %[2]s has no flag -%[1]s; 'sievedb help' lists the flags of each command\n", stray, cmd.name)
			return exitUsage
		}
		c.args = words
		code, err := cmd.run(c)
		if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
			fmt.Fprintln(stderr, "sievedb: interrupted")
		} else if err != nil {
			fmt.Fprintf(stderr, "%v\n", err)
			if errors.Is(err, db.ErrCorruption) && cmd.name != "repair" && cmd.dir != "REPO" {
				fmt.Fprintf(stderr, "sievedb: to rebuild the database from its readable parts, copy the directory, then run 'sievedb repair %s'\n", c.dir)
			}
		}
		return code
	}
	fmt.Fprintf(stderr, "sievedb: unknown command %q; 'sievedb help' lists the commands\n", words[0])
	return exitUsage
}

// parseFlags parses the flags in args, which are before the command or directly after it:
// arguments after a directory may be any key. It returns the other words.
func parseFlags(set *flag.FlagSet, args []string) (words []string, err error) {
	if err := set.Parse(args); err != nil || set.NArg() == 0 {
		return nil, err
	}
	name := set.Arg(0)
	err = set.Parse(set.Args()[1:])
	return append([]string{name}, set.Args()...), err
}

// stray returns the first given flag that belongs to other commands, by the words before the colon of
// its help: 'repair -n', meant as a dry run, must not repair.
func (c command) stray(set *flag.FlagSet) (name string) {
	set.Visit(func(f *flag.Flag) {
		owner, _, _ := strings.Cut(f.Usage, ": ")
		owners := strings.Split(owner, ", ")
		others := !slices.ContainsFunc(owners, func(owner string) bool {
			return !slices.ContainsFunc(commands, func(c command) bool { return c.name == owner })
		})
		if name == "" && !slices.Contains(owners, c.name) && (others || c.dir == "") {
			name = f.Name
		}
	})
	return name
}

func (c command) usage() string {
	return strings.Join(strings.Fields("sievedb [flags] "+c.name+" "+c.dir+" "+c.args), " ")
}

func usage(w io.Writer, set *flag.FlagSet) {
	fmt.Fprintln(w, "sievedb inspects and changes a database directory of SieveDB, LevelDB or goleveldb.")
	for _, c := range commands {
		fmt.Fprintf(w, "\n  %s\n        %s\n", c.usage(), c.help)
	}
	fmt.Fprintln(w, "\nflags, before the command or directly after it:")
	set.SetOutput(w)
	set.PrintDefaults()
	fmt.Fprintf(w, "\nexit codes: %d done, %d failed, %d wrong usage, %d key not found, %d faults found\n",
		exitOK, exitFailed, exitUsage, exitNotFound, exitFaults)
}
