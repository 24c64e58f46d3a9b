package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/report"
)

// recordFlags are of verbs that write tables into a database.
type recordFlags struct {
	compression string
	ignore      bool
}

func (r *recordFlags) add(f *pflag.FlagSet) {
	f.StringVar(&r.compression, "compression", "", "of new tables: snappy, zstd, none (default: as the database has recorded)")
	f.BoolVar(&r.ignore, "ignore-record", false, "write tables with the defaults of this tool, whatever the database has recorded")
}

// asRecorded completes options with those that the database in dir has recorded. What o has already comes from flags,
// and is in force for this verb alone: the record stays. A database that does not exist yet records what it is made
// with.
func (a *app) asRecorded(dir string, o *db.Options) error {
	r, err := db.RecordedOptions(dir, nil)
	if r == nil || err != nil && o.ReadOnly {
		return a.addCompression(o) // opening it says what is wrong with the directory
	}
	given := *o
	// Changes are given by archive alone, which makes the database keep them from now on.
	o.KeepRecord = given.Changes == (db.ChangeRetention{}) || a.flags.record != (recordFlags{})
	if given.Changes != (db.ChangeRetention{}) && o.KeepRecord && r.Options.Changes == (db.ChangeRetention{}) {
		return misuse("the database would keep changes without having recorded it, and the next opening would end them: " +
			"use the first 'archive' without --compression and --ignore-record")
	}
	if a.flags.record.ignore {
		return a.addCompression(o)
	}
	if err := a.refuseMissing(dir, o, r); err != nil {
		return err
	}
	o.Filters, o.Tables, o.FileMode, o.Limits.DiskReserve = r.Options.Filters, r.Options.Tables, r.Options.FileMode, r.Options.Limits.DiskReserve
	a.overrideFilters(o, &given, r)
	return a.overrideCompression(o, r)
}

// refuseMissing refuses to write with other options than those of the database's owner because the tool does not have
// them. Without such a policy, each table that is written would lose its filter.
func (a *app) refuseMissing(dir string, o *db.Options, r *db.Recorded) error {
	if o.ReadOnly {
		return nil
	}
	for _, m := range r.Missing {
		switch {
		case m.Option == "Comparer": // opening it says so
		case m.Option == "Filters.Policy" && o.Filters.Policy != nil, m.Option == "Filters.RangePolicies" && o.Filters.RangePolicies != nil:
		default:
			return fmt.Errorf("sievedb: %s has recorded an option that this tool does not have (%s: %s), so what it writes would differ; "+
				"nothing was changed; write with the program of the database, or with --ignore-record", dir, m.Option, m.Value)
		}
	}
	return nil
}

// overrideFilters lets filters of flags replace the recorded ones.
func (a *app) overrideFilters(o, given *db.Options, r *db.Recorded) {
	if given.Filters.Policy != nil {
		o.Filters.Policy, o.Filters.ForGoleveldb, o.Filters.Budget, o.Filters.MaxWastedReads = given.Filters.Policy, false, 0, 0
		a.override(r, "--filter", "Filters.Policy", "Filters.Budget", "Filters.MaxWastedReads", "Filters.ForGoleveldb")
	}
	if given.Filters.RangePolicies != nil {
		o.Filters.RangePolicies = given.Filters.RangePolicies
		a.override(r, "--ranges", "Filters.RangePolicies")
	}
}

// overrideCompression lets --compression replace the recorded one on all levels.
func (a *app) overrideCompression(o *db.Options, r *db.Recorded) error {
	if a.flags.record.compression == "" || o.ReadOnly {
		return nil
	}
	o.Tables.LevelCompression = nil
	a.override(r, "--compression", "Tables.Compression", "Tables.LevelCompression")
	return a.addCompression(o)
}

// override says which recorded options a flag replaces.
func (a *app) override(r *db.Recorded, flag string, options ...string) {
	var replaced []string
	for _, name := range options {
		for _, recorded := range append(r.List, r.Missing...) {
			if recorded.Option == name {
				replaced = append(replaced, name+" "+recorded.Value)
			}
		}
	}
	if len(replaced) > 0 {
		a.notice("%s overrides what the database has recorded (%s) for this time; the record stays", flag, strings.Join(replaced, "; "))
	}
}

// recordedResult is the result of the verb options.
type recordedResult struct {
	Comparer       string
	LogDir         string
	ExpiryPrefixes [][]byte
	Options        []report.RecordedOption
	Missing        []report.RecordedOption
}

// options prints what a database has recorded, or ends its history of changes.
func (a *app) options(args []string, endChanges, yes bool) error {
	if endChanges {
		return a.endChanges(args[0], yes)
	}
	r, err := db.RecordedOptions(args[0], nil)
	if r == nil {
		return explainMissing(args[0], err)
	}
	result := recordedResult{r.Comparer, r.LogDir, r.ExpiryPrefixes, r.List, r.Missing}
	return errors.Join(err, a.out.result(result, func() { a.printRecorded(&result) }))
}

func (a *app) printRecorded(r *recordedResult) {
	t := a.out.table("option", "recorded")
	t.row("Comparer", plainName(r.Comparer))
	if r.LogDir != "" {
		t.row("LogDir", plainName(r.LogDir))
	}
	for _, prefix := range r.ExpiryPrefixes {
		t.row("Expiry.Prefixes", prefix)
	}
	for _, option := range r.Options {
		t.row(option.Option, option.Value)
	}
	t.print()
	for _, m := range r.Missing {
		a.notice("this tool does not have %s: %s; verbs that write refuse, unless --ignore-record is given", m.Option, m.Value)
	}
}

// endChanges ends the history of changes, which nothing brings back.
func (a *app) endChanges(dir string, yes bool) error {
	if !yes {
		return misuse("--end-changes removes the history of changes with its cursors, for good; nothing was changed: add --yes to do it")
	}
	if a.session != nil {
		return misuse("--end-changes cannot be used in a shell: it needs the database opened for it")
	}
	r, err := db.RecordedOptions(dir, nil)
	if err != nil {
		return explainMissing(dir, err)
	}
	o := r.Options
	if err := a.refuseMissing(dir, &o, r); err != nil {
		return err
	}
	o.ErrorIfMissing, o.KeepRecord, o.Changes = true, false, db.ChangeRetention{Bytes: -1}
	store, err := db.Open(dir, &o)
	if err != nil {
		return err
	}
	if err := store.Close(); err != nil {
		return err
	}
	return a.out.result(dirResult{dir}, func() { a.out.printf("%s keeps no changes any more\n", dir) })
}
