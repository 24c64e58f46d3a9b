package main

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/sievedb/sievedb/db"
)

func (a *app) moveVerbs() []*verb {
	var copyTables bool
	var exporting exportFlags
	var importing importFlags
	return []*verb{
		{use: "export DIR [FILE]", group: groupMove, min: 1, max: 2, flags: exporting.add, short: "Write entries to a file, as JSON lines or in a binary form",
			long: "Write all entries of one moment to FILE or standard output: as JSON lines, or in a binary form with checksums. FILE\n" +
				"appears under its name when it is complete. After an interruption, --resume continues.",
			example: "  sievedb export db db.jsonl\n  sievedb export db --format binary | ssh host sievedb import copy -",
			run:     func(args []string) error { return a.export(args, &exporting) }},
		{use: "import DIR [FILE]", group: groupMove, min: 1, max: 2, flags: importing.add, short: "Write the entries of a file, in any order",
			long: "Write the entries of FILE or standard input: JSON lines, the binary form of 'export', or lines as 'scan' prints them.\n" +
				"The order does not matter. After an interruption, --resume continues; an import can also be repeated. DIR is made if it\ndoes not exist.",
			run: func(args []string) error { return a.importEntries(args, &importing) }},
		{use: "load DIR", group: groupMove, min: 1, max: 1, run: a.load, short: "Load sorted lines from standard input, all or none",
			long: "Read lines of KEY, a tab and VALUE from standard input, sorted by key, as 'scan' prints them, and write all or none.\n" +
				"They become tables directly. 'import' reads entries in any order. DIR is made if it does not exist.",
			example: "  sievedb scan old | sievedb load new"},
		{use: "ingest DIR TABLE...", group: groupMove, min: 2, max: -1, short: "Add tables made elsewhere, all or none",
			long:  "Add tables made elsewhere, all or none. They are checked as a whole, and linked if nothing overlaps them. \"-\" stands\nfor paths in the lines of standard input. DIR is made if it does not exist.",
			flags: func(f *pflag.FlagSet) { f.BoolVar(&copyTables, "copy", false, "copy tables instead of linking them") },
			run:   func(args []string) error { return a.ingest(args, copyTables) }},
	}
}

// load reads lines as scan prints them, in the order of the keys, and loads all of them or none.
func (a *app) load(args []string) error {
	return a.open(args[0], &db.Options{}, func(store *db.DB) error {
		l, err := store.NewLoader()
		if err != nil {
			return err
		}
		n, err := a.loadLines(l)
		if err == nil {
			err = l.Commit()
		}
		_ = l.Close() // it gives up what is not committed
		if err != nil {
			return err
		}
		return a.out.result(struct{ Entries int }{n}, func() { a.out.prose("%s loaded", a.out.count(uint64(n), "entry")) })
	})
}

// loadLines returns how many lines there were.
func (a *app) loadLines(l *db.Loader) (n int, err error) {
	p := a.progress("loading", "entry")
	defer p.close()
	for line, err := range a.lines() {
		if err != nil {
			return n, err
		}
		n = line.number
		key, value, err := a.parseLine(line.text)
		if err == nil && n%1024 == 0 {
			err = a.ctx.Err()
		}
		if err == nil {
			err = l.Put(a.whole(key), value)
		}
		if err != nil {
			return n, fmt.Errorf("sievedb: line %d: %w", n, err)
		}
		p.add(1, uint64(len(line.text)))
	}
	return n, nil
}

var errLine = errors.New("want a key, a tab and a value, as 'scan' prints them with the same flags")

// parseLine takes a line apart, without its end.
func (a *app) parseLine(line []byte) (key, value []byte, err error) {
	first, second, ok := bytes.Cut(line, []byte("\t")) // a tab within a key or value is quoted
	if !ok {
		return nil, nil, errLine
	}
	if key, err = a.out.format.key.decode(first); err == nil {
		value, err = a.out.format.value.decode(second)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", errLine, err)
	}
	return key, value, nil
}

func (a *app) ingest(args []string, copyTables bool) error {
	var paths []string
	for i, path := range args[1:] {
		if path != "-" {
			paths = append(paths, args[i+1])
			continue
		}
		for line, err := range a.lines() {
			if err != nil {
				return err
			}
			paths = append(paths, string(line.text))
		}
	}
	return a.open(args[0], &db.Options{}, func(store *db.DB) error {
		stop := a.waiting("adding tables", nil)
		info, err := store.Ingest(a.ctx, paths, &db.IngestOptions{Copy: copyTables})
		stop()
		if err != nil {
			return err
		}
		return a.out.result(info, func() {
			a.out.prose("%s; %s linked, %d copied, %d rewritten; last sequence %d", a.out.count(uint64(info.Entries), "entry"),
				a.out.count(uint64(info.Linked), "table"), info.Copied, info.Rewritten, info.Seq)
		})
	})
}
