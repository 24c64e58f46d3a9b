package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/work/dump"
)

type dumpFlags struct {
	entries bool
	all     bool
	kind    string
}

// dumpKinds are the words for --type.
var dumpKinds = map[string]dump.Kind{
	"": dump.Unknown, "table": dump.Table, "log": dump.Log, "manifest": dump.Manifest, "current": dump.Current, "closed": dump.Closed,
}

func (d *dumpFlags) add(f *pflag.FlagSet) {
	f.BoolVarP(&d.entries, "entries", "e", false, "also print the entries of tables and logs")
	f.BoolVarP(&d.all, "all", "a", false, "of a directory, also print its tables and logs")
	f.StringVar(&d.kind, "type", "", "table, log, manifest, current or closed, for files of other names")
}

// dump prints each part of files. It opens no database: it is for files that nothing else can read.
func (a *app) dump(args []string, flags *dumpFlags) error {
	kind, ok := dumpKinds[flags.kind]
	if !ok {
		return misuse("--type %q; want table, log, manifest, current or closed", flags.kind)
	}
	paths, err := dumpPaths(args, flags.all)
	if err != nil {
		return err
	}
	for _, path := range paths {
		if kind == dump.Unknown && dump.KindOf(path) == dump.Unknown {
			return misuse("%s does not have the name of a table, a log, a MANIFEST, CURRENT or CLOSED; --type says which of them it is", path)
		}
	}
	damaged := false
	for _, path := range paths {
		if !a.out.json && len(paths) > 1 {
			a.out.printf("%s\n", a.out.style(styleHead, path))
		}
		sum, err := dump.File(files, path, dump.Options{Kind: kind, Entries: flags.entries}, func(i *dump.Item) error {
			if err := a.ctx.Err(); err != nil {
				return err
			}
			return a.out.item(dumpItem{path, a.out.format, i}, func() { a.printItem(i) })
		})
		if errors.Is(err, fs.ErrNotExist) && !slices.Contains(args, path) {
			a.notice("%s was removed meanwhile: another process has the database open", path)
			continue
		}
		if err != nil {
			return err
		}
		damaged = damaged || sum.Faults > 0
	}
	for _, path := range args {
		if flags.all && !damaged && a.damagedLog(path) {
			damaged = true
		}
	}
	if damaged {
		return ended(exitFaults)
	}
	return nil
}

// damagedLog says what is wrong with a directory whose files seem sound one by one: that the end of a log is damage and
// not what a crash left, only the rest of the directory shows.
func (a *app) damagedLog(path string) bool {
	info, err := os.Stat(path)
	if err != nil || !info.IsDir() {
		return false
	}
	_, lost, err := a.probe(path, db.Options{ErrorIfMissing: true, Expiry: db.ExpiryOptions{Raw: true}})
	if errors.Is(err, db.ErrCorruption) {
		a.say("%s", strings.TrimPrefix(inVerbs(err.Error()), "sievedb: "))
		return true
	}
	return lost
}

// dumpPaths returns the files to print: of a directory CURRENT, the MANIFESTs and CLOSED, or all.
func dumpPaths(args []string, all bool) (paths []string, err error) {
	for _, path := range args {
		info, err := os.Stat(path)
		if err != nil {
			return nil, fmt.Errorf("sievedb: looking for a database or one of its files: %w", err)
		}
		if !info.IsDir() {
			paths = append(paths, path)
			continue
		}
		entries, err := os.ReadDir(path)
		if err != nil {
			return nil, err
		}
		before := len(paths)
		for _, e := range entries {
			kind := dump.KindOf(e.Name())
			if small := kind == dump.Current || kind == dump.Manifest || kind == dump.Closed; small || all && kind != dump.Unknown {
				paths = append(paths, filepath.Join(path, e.Name()))
			}
		}
		if len(paths) == before {
			return nil, fmt.Errorf("sievedb: there is no database in %s: it has no file to print", path)
		}
	}
	return paths, nil
}

// printItem prints an item in one line.
func (a *app) printItem(i *dump.Item) {
	var line strings.Builder
	fmt.Fprintf(&line, "%#08x +%d  %s", i.Offset, i.Size, a.out.style(styleHead, i.Kind))
	for n, f := range i.Fields {
		sep := ", "
		if n == 0 {
			sep = ": "
		}
		fmt.Fprintf(&line, "%s%s=%s", sep, f.Name, a.out.cell(f.Value))
	}
	switch {
	case i.Torn:
		line.WriteString("  TORN, as a crash leaves: " + i.Fault)
	case i.Fault != "":
		line.WriteString("  " + a.out.style(styleFault, "DAMAGED: "+i.Fault))
	}
	text := line.String()
	if a.out.people {
		text = wrapped(text, a.out.width, 4)
	}
	a.out.printf("%s\n", text)
}

// dumpItem is an item as a line of JSON: an object with the fields of the file in it.
type dumpItem struct {
	path   string
	format format
	item   *dump.Item
}

// MarshalJSON implements json.Marshaler.
func (d dumpItem) MarshalJSON() ([]byte, error) {
	e := jsonEncoder{format: d.format}
	first := true
	e.put("{")
	e.named("file", d.path, &first)
	e.named("offset", d.item.Offset, &first)
	e.named("size", d.item.Size, &first)
	e.named("part", d.item.Kind, &first)
	for _, f := range d.item.Fields {
		e.named(camel(f.Name), f.Value, &first)
	}
	if d.item.Fault != "" {
		e.named("fault", d.item.Fault, &first)
		e.named("torn", d.item.Torn, &first)
	}
	e.put("}")
	return e.dst, nil
}

// camel returns words as a name in JSON: "decoded size" is decodedSize.
func camel(words string) string {
	parts := strings.Fields(words)
	for i, p := range parts[1:] {
		parts[i+1] = strings.ToUpper(p[:1]) + p[1:]
	}
	return strings.Join(parts, "")
}
