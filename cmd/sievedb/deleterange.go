package main

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/sievedb/sievedb/db"
)

type deleteRangeFlags struct {
	rangeFlags
	all, yes, dryRun bool
	given            *pflag.FlagSet
}

func (d *deleteRangeFlags) add(f *pflag.FlagSet) {
	d.rangeFlags.add(f)
	d.given = f
	f.BoolVar(&d.all, "all", false, "delete all keys of the database or of --namespace")
	f.BoolVar(&d.yes, "yes", false, "neither count nor ask")
	f.BoolVarP(&d.dryRun, "dry-run", "n", false, "delete nothing, and count the keys")
}

// deletedRange is the result of 'delete-range'.
type deletedRange struct {
	Deleted bool
	Keys    *uint64 // null: not counted
	Bytes   size    // about, of the tables and memory
}

// deleteRange deletes all keys of a range. It counts them and asks first: a wrong bound must not cost a database.
func (a *app) deleteRange(args []string, flags *deleteRangeFlags) error {
	if err := flags.refuseEmpty(args); err != nil {
		return err
	}
	bounds, err := flags.bounds(a, args)
	if err != nil {
		return err
	}
	given := len(args) > 1 || flags.rangeFlags != (rangeFlags{})
	switch {
	case given && flags.all:
		return misuse("--all cannot be used with a range")
	case (!given || a.isEverything(bounds)) && !flags.all:
		return misuse("give a range or a --prefix; --all deletes all keys")
	case flags.dryRun:
		return a.read(args[0], func(store *db.DB) error { return a.deleteWithin(store, bounds, flags) })
	case !flags.yes && !a.canAsk():
		return misuse("nothing was deleted: without a terminal to ask on, --yes is needed")
	}
	return a.write(args[0], func(store *db.DB) error { return a.deleteWithin(store, bounds, flags) })
}

// refuseEmpty refuses bounds of no characters. Other verbs take them for no bound; here they are most likely a variable
// of a script that is not set, and without the bound the script would delete too much.
func (d *deleteRangeFlags) refuseEmpty(args []string) error {
	if len(args) > 1 && slices.Contains(args[1:], "") {
		return misuse("nothing was deleted: a bound is empty; --from or --to alone gives a range with one bound")
	}
	for _, name := range []string{"from", "to", "prefix"} {
		if f := d.given.Lookup(name); f.Changed && f.Value.String() == "" {
			return misuse("nothing was deleted: --%s is empty; leave it out if there is none", name)
		}
	}
	return nil
}

// isEverything reports whether bounds exclude no key of the database or of --namespace.
func (a *app) isEverything(bounds *db.IterOptions) bool {
	all := a.within(nil, nil)
	return bytes.Equal(bounds.LowerBound, all.LowerBound) && bytes.Equal(bounds.UpperBound, all.UpperBound) &&
		(bounds.UpperBound == nil) == (all.UpperBound == nil)
}

func (a *app) deleteWithin(store *db.DB, bounds *db.IterOptions, flags *deleteRangeFlags) error {
	if o := store.Options(); !flags.dryRun && (o.ReadOnly || store.IsFollower()) {
		return db.ErrReadOnly // of a shell; nobody needs to be asked
	}
	e, err := store.EstimateSize(bounds.LowerBound, bounds.UpperBound)
	if err != nil {
		return err
	}
	result := deletedRange{Deleted: !flags.dryRun, Bytes: size(e.Tables + e.Memtables)}
	keys := "all keys of the range"
	if !flags.yes || flags.dryRun {
		n, err := a.countKeys(store, bounds)
		if err != nil {
			return err
		}
		result.Keys, keys = &n, a.out.count(n, "key")
	}
	done := "would be deleted; run it without --dry-run to do it"
	if !flags.dryRun {
		done = "deleted"
		if !flags.yes {
			err = a.confirm(fmt.Sprintf("This deletes %s, about %s.", keys, sizeText(uint64(result.Bytes))), "yes", "deleted")
		}
		if err == nil {
			err = store.DeleteRange(a.ctx, bounds.LowerBound, bounds.UpperBound, db.Sync)
		}
		if err != nil {
			return err
		}
	}
	return a.out.result(result, func() { a.out.prose("%s, about %s: %s", keys, a.out.bytes(uint64(result.Bytes)), done) })
}

// countKeys counts the keys within bounds.
func (a *app) countKeys(store *db.DB, bounds *db.IterOptions) (n uint64, err error) {
	p := a.progressOver("counting", "key", store, bounds)
	defer p.close()
	keys := *bounds
	keys.KeysOnly = true
	err = a.each(store, &keys, false, func(key, _ []byte) (bool, error) {
		n++
		p.entry(key, nil)
		return true, nil
	})
	return n, err
}

// canAsk reports whether a person can answer a question.
func (a *app) canAsk() bool { return a.session != nil && a.session.ask != nil || isTerminal(a.stdin) }

// confirm asks for a word. done says what has not happened without it.
func (a *app) confirm(question, word, done string) error {
	if !a.canAsk() {
		return misuse("nothing was %s: without a terminal to ask on, --yes is needed", done)
	}
	question += fmt.Sprintf(" Type %s to go on: ", word)
	answer, err := a.ask(question)
	if err == nil && strings.TrimSpace(answer) != word {
		err = misuse("nothing was %s: the answer was not %q", done, word)
	}
	return err
}

// ask returns a line that is typed on the terminal.
func (a *app) ask(question string) (string, error) {
	if a.session != nil && a.session.ask != nil {
		return a.session.ask(question)
	}
	fmt.Fprint(a.stderr, question)
	for line, err := range a.lines() {
		return string(line.text), err
	}
	return "", nil
}
