package main

import (
	"errors"

	"github.com/spf13/pflag"

	"github.com/sievedb/sievedb/db"
)

type changesFlags struct {
	since  int64
	prefix string
	follow bool
	count  int
}

func (f *changesFlags) add(flags *pflag.FlagSet) {
	flags.Int64Var(&f.since, "since", -1, "the position after which to begin; -1: the oldest that is kept")
	flags.StringVar(&f.prefix, "prefix", "", "only entries with this prefix")
	flags.BoolVarP(&f.follow, "follow", "f", false, "wait for further changes until Ctrl-C")
	flags.IntVarP(&f.count, "count", "n", 0, "stop after so many changes (0: no limit)")
}

// changeEntry is one line of 'changes'.
type changeEntry struct {
	Sequence uint64 // the last one of its change
	Change   string // what the change is
	Write    string // put, delete or deleteRange
	Key      []byte // the start of a range; null: no bound
	Value    []byte // the limit of a range; null: no bound
}

var changeNames = map[db.ChangeKind]string{
	db.ChangeBatch: "batch", db.ChangeLoad: "load", db.ChangeIngest: "ingest", db.ChangeDeleteRange: "delete range",
}

// changes prints what was written, in the order in which it was. It disturbs no writer.
func (a *app) changes(args []string, flags *changesFlags) error {
	prefix, err := a.flagKey("prefix", flags.prefix)
	if err != nil {
		return err
	}
	switch {
	case flags.since < -1:
		return misuse("--since is %d; want 0 or more, or -1 for the oldest change that is kept", flags.since)
	case flags.count < 0:
		return misuse("--count is %d; want 0 or more", flags.count)
	}
	return a.followed(args[0], func(store *db.DB, _ bool) error { return a.changesOf(store, prefix, flags) })
}

func (a *app) changesOf(store *db.DB, prefix []byte, flags *changesFlags) (err error) {
	since := uint64(max(flags.since, 0))
	if flags.since < 0 {
		if since, _, err = store.ChangePositions(); err != nil {
			return err
		}
	}
	table := a.out.stream("#sequence", 12, "+change", 12, "write", 11, "~key", 0, "~value", 0)
	n := 0
	for c, err := range store.Changes(a.ctx, since, &db.ChangeOptions{Prefix: prefix, Wait: flags.follow}) {
		if err == nil {
			err = a.printChange(c, table)
		}
		var gone *db.ChangesGoneError
		if errors.As(err, &gone) {
			a.notice("--since %d prints what is left", gone.Oldest)
		}
		if err != nil {
			return err
		}
		if c.Kind != db.ChangeSkipped {
			n++
		}
		if n == flags.count && n > 0 {
			break
		}
	}
	return nil
}

func (a *app) printChange(c db.Change, table *stream) error {
	for e, err := range c.Entries() {
		if err != nil {
			return err
		}
		line := changeEntry{Sequence: c.Last, Change: changeNames[c.Kind], Write: "put", Key: a.bare(e.Key), Value: e.Value}
		switch e.Kind {
		case db.EntryDelete:
			line.Write = "delete"
		case db.EntryDeleteRange:
			line.Write = "deleteRange"
		}
		if err := a.out.item(line, func() { table.row(line.Sequence, line.Change, line.Write, line.Key, valueCell(line.Value)) }); err != nil {
			return err
		}
	}
	return a.out.w.Flush()
}
