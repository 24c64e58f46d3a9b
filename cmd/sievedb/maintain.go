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

func (a *app) maintainVerbs() []*verb {
	var compact, repair tableFlags
	var ranges rangeFlags
	var yes, dryRun bool
	return []*verb{
		{use: "create DIR", group: groupMaintain, min: 1, max: 1, run: a.create, short: "Make an empty database",
			notInShell: "the shell has another database open"},
		{use: "compact DIR [FROM [TO]]", group: groupMaintain, min: 1, max: 3, short: "Merge tables, which frees the space of deleted entries",
			long:  "Merge the tables that may contain keys from FROM up to TO (excluded). It frees the space of deleted and\nshadowed entries.",
			flags: func(f *pflag.FlagSet) { ranges.add(f); compact.add(f) },
			run:   func(args []string) error { return a.compact(args, &ranges, &compact) }},
		{use: "flush DIR", group: groupMaintain, min: 1, max: 1, run: a.flush, short: "Write the content of the logs as tables"},
		{use: "repair DIR", group: groupMaintain, min: 1, max: 1, short: "Rebuild a damaged database from its tables and logs",
			long:       "Rebuild a damaged database from its tables and logs. Nothing is deleted: files that are not used any more go to\nlost/. Copy the directory first. The exit code is 4 if something is lost or may be an older version;\nthe last line says what.",
			notInShell: "it needs the database closed",
			flags: func(f *pflag.FlagSet) {
				repair.add(f)
				f.BoolVar(&dryRun, "dry-run", false, "only report what a repair would do")
			},
			run: func(args []string) error { return a.repair(args, &repair, dryRun) }},
		{use: "destroy DIR", group: groupMaintain, min: 1, max: 1, short: "Remove a database",
			long:       "Remove the files of a database, and the directory if it is empty then. Without --yes, the name of the directory must\nbe typed on a terminal.",
			notInShell: "it needs the database closed",
			flags:      func(f *pflag.FlagSet) { f.BoolVar(&yes, "yes", false, "do not ask") },
			run:        func(args []string) error { return a.destroy(args, yes) }},
	}
}

type dirResult struct{ Dir string }

func (a *app) create(args []string) error {
	err := a.open(args[0], &db.Options{ErrorIfExists: true}, func(*db.DB) error {
		return a.out.result(dirResult{args[0]}, func() { a.out.printf("created %s\n", args[0]) })
	})
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("sievedb: there is a database in %s already; nothing was changed", args[0])
	}
	return err
}

func (a *app) compact(args []string, r *rangeFlags, flags *tableFlags) error {
	policies, err := flags.policies()
	if err != nil {
		return err
	}
	o := &db.Options{ErrorIfMissing: true, Filters: db.FilterOptions{RangePolicies: policies}}
	return a.open(args[0], o, func(store *db.DB) error {
		bounds, err := r.bounds(a, args)
		if err != nil {
			return err
		}
		tablesBefore, bytesBefore := store.Metrics().AllTables()
		stop := a.waiting("compacting", compacting(store, bounds))
		err = store.Compact(a.ctx, bounds.LowerBound, bounds.UpperBound)
		stop()
		if err != nil {
			return err
		}
		tablesAfter, bytesAfter := store.Metrics().AllTables()
		value := struct {
			TablesBefore, TablesAfter int
			BytesBefore, BytesAfter   size
		}{tablesBefore, tablesAfter, size(bytesBefore), size(bytesAfter)}
		return a.out.result(value, func() {
			a.out.prose("%s of %s became %d of %s", a.out.count(uint64(tablesBefore), "table"), a.out.bytes(bytesBefore), tablesAfter, a.out.bytes(bytesAfter))
		})
	})
}

func (a *app) flush(args []string) error {
	return a.write(args[0], func(store *db.DB) error {
		stop := a.waiting("flushing", nil)
		err := store.Flush()
		stop()
		if err != nil {
			return err
		}
		tables, bytes := store.Metrics().AllTables()
		return a.out.result(struct {
			Tables int
			Bytes  size
		}{tables, size(bytes)}, func() {
			a.out.prose("everything is in %s of %s", a.out.count(uint64(tables), "table"), a.out.bytes(bytes))
		})
	})
}

func (a *app) repair(args []string, flags *tableFlags, dryRun bool) error {
	policies, err := flags.policies()
	if err != nil {
		return err
	}
	o := &db.Options{Filters: db.FilterOptions{RangePolicies: policies}}
	if _, err := os.Stat(args[0]); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("sievedb: there is no database in %s: the directory does not exist", args[0])
	}
	if err := a.asRecorded(args[0], o); err != nil {
		return err
	}
	if _, err := db.RecordedOptions(args[0], nil); err != nil {
		a.notice("not all options that the database has recorded can be read, so new tables may have the tool's defaults: %v", err)
	}
	a.dir = "" // the advice to repair would lead in a circle
	stop := a.waiting("repairing", nil)
	repair := db.RepairWithReport
	if dryRun {
		repair = db.PlanRepair
	}
	report, err := repair(args[0], o)
	stop()
	if name := customComparer(args[0]); err != nil && report == nil && name != "" {
		return fmt.Errorf("sievedb: %s has the custom comparer %q, which this tool does not have; "+
			"a program with that comparer can call Repair", args[0], name)
	}
	if report != nil {
		err = errors.Join(err, a.out.result(report, func() { a.printRepair(report) }))
	}
	if err == nil && report.Incomplete {
		return ended(exitFaults)
	}
	return err
}

// printRepair prints the report, and at its end the key ranges, which the report's text does not have.
func (a *app) printRepair(report *db.RepairReport) {
	text := strings.TrimSuffix(report.String(), "\n")
	for i, k := range report.Ranges {
		sep := "; "
		if i == 0 {
			sep = ": "
		}
		text += sep + a.out.cell(k.First) + " to " + a.out.cell(k.Last)
	}
	a.printLines(text)
}

// destroy removes a database. A wrong path must not cost one, so it asks for the name.
func (a *app) destroy(args []string, yes bool) error {
	if _, err := os.Stat(args[0]); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("sievedb: there is no database in %s: the directory does not exist", args[0])
	} else if err != nil {
		return fmt.Errorf("sievedb: looking for a database: %w", err)
	}
	// An empty directory or one of other files would be reported as removed.
	if entries, err := os.ReadDir(args[0]); err == nil && !slices.ContainsFunc(entries, ofDatabase) {
		err, none := explainMissing(args[0], fs.ErrNotExist), (*noDatabase)(nil)
		if errors.As(err, &none) {
			err = fmt.Errorf("sievedb: there is no database in %s: it has no file of one; nothing was removed", args[0])
		}
		return err // it may have the files of another engine
	}
	if !yes {
		if err := a.confirm("This removes the database.", filepath.Base(filepath.Clean(args[0])), "removed"); err != nil {
			return err
		}
	}
	if err := db.Destroy(args[0], nil); err != nil {
		return err
	}
	return a.out.result(dirResult{args[0]}, func() { a.out.printf("removed %s\n", args[0]) })
}

// ofDatabase reports whether a database has a file of that name.
func ofDatabase(e fs.DirEntry) bool {
	return e.Name() == "LOCK" || dump.KindOf(e.Name()) != dump.Unknown
}
