package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/spf13/pflag"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/work/dump"
	"github.com/sievedb/sievedb/report"
	"github.com/sievedb/sievedb/sstable"
)

func (a *app) inspectVerbs() []*verb {
	var sizes sizeFlags
	var check tableFlags
	var dumping dumpFlags
	var diff diffFlags
	var follow followFlags
	var changes changesFlags
	var serve serveFlags
	return []*verb{
		{use: "stats DIR", group: groupInspect, min: 1, max: 1, run: a.stats, short: "Print what a database consists of",
			long: "Print the tables of each level, the sizes of files, and how the directory opened: the MANIFEST,\nthe logs, and what a crash or damage has cost."},
		{use: "size DIR [FROM [TO]]", group: groupInspect, min: 1, max: 3, flags: sizes.add, short: "Print the size of a database or of a range of keys",
			aliases: []string{"sizes"},
			long: "Print the bytes of each kind of file. With a range, estimate the bytes of its keys in tables and memory.\n" +
				"--by-prefix reads all entries, and prints the prefixes that use the most, with the bytes of their keys and values before\n" +
				"compression, and the largest value of each. A namespace is printed as [name].",
			example: "  sievedb size db\n  sievedb size db --by-prefix --depth 2",
			run:     func(args []string) error { return a.size(args, &sizes) }},
		{use: "tables DIR", group: groupInspect, min: 1, max: 1, run: a.tables, short: "List the tables with their filters"},
		{use: "explain DIR KEY", group: groupInspect, min: 2, max: 2, run: a.explain, short: "Show each step of a lookup",
			long: "Show each run that a lookup of KEY consults, its filter's answer, and what is read. The exit code is 3\nif the key has no value."},
		{use: "check DIR", group: groupInspect, min: 1, max: 1, short: "Read everything and report faults",
			long: "Read every block of every table, compare checksums and order, and look each key up through every filter.\nNothing is changed. The exit code is 4 if there are faults, and if damage keeps the database from opening.",
			flags: func(f *pflag.FlagSet) {
				check.add(f)
				f.Lookup("ranges").Usage = "also check these range filters, by name, separated by commas"
			},
			run: func(args []string) error { return a.check(args, &check) }},
		{use: "dump PATH...", group: groupInspect, noDir: true, min: 1, max: -1, flags: dumping.add, short: "Print every field of tables, logs, MANIFEST and CURRENT",
			long: "Print every part of files with its offset and fields, and mark damaged parts. Of a directory it prints CURRENT, the\n" +
				"MANIFESTs and CLOSED; --all adds tables and logs. It changes nothing. The exit code is 4 if\nthere are damaged parts; the torn end of a log is none, unless the database was closed after it.",
			example: "  sievedb dump db\n  sievedb dump --entries db/000005.ldb\n  sievedb dump --all --json db",
			run:     func(args []string) error { return a.dump(args, &dumping) }},
		{use: "diff DIR [DIR2]", group: groupInspect, min: 1, max: 2, flags: diff.add, short: "Print the differences of databases, or of sequence numbers",
			long: "Print what DIR2 has added (+), removed (-) and changed (~) against DIR. With --from-seq, print what has changed in DIR\n" +
				"since that sequence number, as far as its files still have it: a compaction drops old versions. The exit code is 5\nif there are differences.",
			example: "  sievedb diff backup db\n  sievedb diff db --from-seq 1000 --keys-only",
			run:     func(args []string) error { return a.diff(args, &diff) }},
		{use: "follow DIR", group: groupInspect, min: 1, max: 1, flags: follow.add, short: "Watch a database that another process writes",
			long:       "Watch a database without disturbing its writer: print figures at an interval, or the entries of --key or --prefix that\nchange. Ctrl-C ends it.",
			notInShell: "the shell has the database open itself",
			example:    "  sievedb follow db --interval 10s\n  sievedb follow db --prefix user:",
			run:        func(args []string) error { return a.follow(args, &follow) }},
		{use: "changes DIR", group: groupInspect, min: 1, max: 1, flags: changes.add, short: "Print what was written, in its order",
			long: "Print the writes that the directory still has, one on each line, oldest first: those in logs that were not flushed, and\nthose that are kept for readers. " +
				"It does not disturb a writer.",
			notInShell: "the shell has the database open itself",
			example:    "  sievedb changes db --since 1000\n  sievedb changes db --follow --json",
			run:        func(args []string) error { return a.changes(args, &changes) }},
		{use: "serve DIR", group: groupInspect, min: 1, max: 1, flags: serve.add, short: "Serve a web page about the database",
			long: "Serve a web page about the database until Ctrl-C: levels and tables with the verdicts of their filters, rates, memory,\n" +
				"latencies, and the steps of a lookup. Another program may have the database open.",
			notInShell: "the shell has the database open itself",
			example:    "  sievedb serve db\n  sievedb serve db --address 127.0.0.1:0 --show-keys",
			run:        func(args []string) error { return a.serve(args, &serve) }},
		{use: "properties PATH", group: groupInspect, noDir: true, min: 1, max: 1, run: a.properties, short: "Print the properties that tables have of themselves",
			long: "Print the properties that SieveDB stores in each table: entries, deletions, sequence numbers, bytes before compression.\nPATH is a table or a database. Tables of other programs have none. The exit code is 4 if a table\nis damaged, or is being written by another program at the moment."},
	}
}

// tableProperties are those of a table, or the reason why there are none.
type tableProperties struct {
	Table      string
	Properties *sstable.Properties
	Fault      error
}

func (a *app) properties(args []string) error {
	paths, err := dumpPaths(args, true)
	if err != nil {
		return err
	}
	info, err := os.Stat(args[0])
	if err != nil {
		return err
	}
	var all []tableProperties
	faults := false
	for _, path := range paths {
		if !info.IsDir() || dump.KindOf(path) == dump.Table {
			p := readProperties(path)
			if info.IsDir() && errors.Is(p.Fault, fs.ErrNotExist) {
				continue // the program that has the database open has removed it
			}
			all, faults = append(all, p), faults || p.Fault != nil
		}
	}
	err = a.out.result(struct{ Tables []tableProperties }{append([]tableProperties{}, all...)}, func() {
		t := a.out.table("table", "entries", "+deletions", "+filter keys", "raw key bytes", "raw value bytes", "+data blocks", "data bytes",
			"+smallest seq", "+largest seq", "~fault")
		for _, p := range all {
			fault := ""
			if p.Fault != nil {
				fault = p.Fault.Error()
			}
			v := p.Properties
			if v == nil {
				t.row(p.Table, "?", "?", "?", "?", "?", "?", "?", "?", "?", fault)
				continue
			}
			t.row(p.Table, v.Entries, v.Deletions, v.FilterKeys, size(v.RawKeyBytes), size(v.RawValueBytes), v.DataBlocks, size(v.DataBytes),
				v.SmallestSeq, v.LargestSeq, fault)
		}
		t.print()
	})
	if err == nil && faults {
		return ended(exitFaults)
	}
	return err
}

func readProperties(path string) tableProperties {
	p := tableProperties{Table: filepath.Base(path)}
	f, err := files.Open(path)
	if err != nil {
		p.Fault = err
		return p
	}
	r, err := sstable.Open(f, sstable.ReaderOptions{Name: path})
	if err != nil {
		p.Fault = err
		return p
	}
	defer r.Close()
	v, ok, err := r.CheckProperties()
	p.Fault = err
	if ok {
		p.Properties = &v
	}
	return p
}

type levelResult struct {
	Level  int
	Tables int
	Bytes  size
}

func (a *app) stats(args []string) error {
	return a.read(args[0], func(store *db.DB) error {
		m, r := store.Metrics(), store.OpenReport()
		usage, err := store.DiskUsage()
		if err != nil {
			return err
		}
		var levels []levelResult
		for level, l := range m.Levels {
			if l.Tables > 0 {
				levels = append(levels, levelResult{level, l.Tables, size(l.Bytes)})
			}
		}
		value := struct {
			LastSequence uint64
			Levels       []levelResult
			Files        report.DiskUsage
			Open         report.OpenReport
			Metrics      *db.Metrics
		}{m.LastSequence, levels, usage, r, m}
		return a.out.result(value, func() {
			t := a.out.table("level", "tables", "bytes")
			for _, l := range levels {
				t.row(strconv.Itoa(l.Level), l.Tables, l.Bytes)
			}
			if m.Tables.ValueTables > 0 {
				t.row("values", m.Tables.ValueTables, size(m.Tables.ValueBytes))
			}
			tables, bytes := m.AllTables()
			t.row("all", tables, size(bytes))
			t.print()
			a.out.printf("\n")
			a.printOpening(m.LastSequence, &r, usage)
		})
	})
}

// printOpening prints how a database opened. Space that the log of an open database has reserved does not count.
func (a *app) printOpening(last uint64, r *report.OpenReport, usage report.DiskUsage) {
	manifest := r.Manifest
	if r.ManifestBytesDropped > 0 {
		manifest += fmt.Sprintf(" (%s of a torn last edit dropped)", a.out.bytes(uint64(r.ManifestBytesDropped)))
	}
	pairs := []any{"last sequence", last, "manifest", manifest, "closed cleanly", yesNo(r.ClosedCleanly),
		"log bytes", size(usage.Logs - usage.LogsReserved), "total bytes", size(usage.Total - usage.LogsReserved)}
	if r.MissingLog != "" {
		pairs = append(pairs, "missing log", a.out.style(styleFault, r.MissingLog))
	}
	if usage.Lost > 0 {
		pairs = append(pairs, "bytes in lost/", size(usage.Lost))
	}
	for _, l := range r.Logs {
		text := fmt.Sprintf("%s, %s, end %s", a.out.count(l.Records, "record"), a.out.count(l.Entries, "entry"), l.Tail)
		if l.BytesDropped > 0 {
			text += fmt.Sprintf(", %s dropped: %s", a.out.bytes(uint64(l.BytesDropped)), l.Reason)
		}
		if l.GapBefore > 0 {
			text += fmt.Sprintf(", %s missing before it", a.out.count(l.GapBefore, "operation"))
		}
		pairs = append(pairs, l.Name, text)
	}
	a.out.pairs(pairs...)
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func (a *app) size(args []string, r *sizeFlags) error {
	if r.byPrefix {
		return a.prefixes(args, r)
	}
	return a.read(args[0], func(store *db.DB) error {
		bounds, err := r.bounds(a, args)
		if err != nil {
			return err
		}
		if bounds.LowerBound != nil || bounds.UpperBound != nil {
			e, err := store.EstimateSize(bounds.LowerBound, bounds.UpperBound)
			if err != nil {
				return err
			}
			return a.out.result(e, func() { a.out.pairs("tables", size(e.Tables), "memtables", size(e.Memtables)) })
		}
		u, err := store.DiskUsage()
		if err != nil {
			return err
		}
		return a.out.result(u, func() {
			a.out.pairs("tables", size(u.Tables), "unlisted tables", size(u.UnlistedTables), "logs", size(u.Logs),
				"reserved in logs", size(u.LogsReserved), "manifest", size(u.Manifest), "lost", size(u.Lost), "changes", size(u.Changes), "other", size(u.Other), "total", size(u.Total))
		})
	})
}

func (a *app) tables(args []string) error {
	return a.read(args[0], func(store *db.DB) error {
		infos, err := store.Tables()
		if infos == nil {
			infos = []db.TableInfo{}
		}
		values, verr := store.ValueTables()
		perr := a.out.result(struct {
			Tables      []db.TableInfo
			ValueTables []db.ValueTableInfo `json:",omitempty"`
		}{infos, values}, func() {
			t := a.out.table("level", "table", "bytes", "entries", "+deletions", "+filter", "+policy", "+filter bytes", "~smallest", "~largest")
			for _, i := range infos {
				t.row(i.Level, i.Name, size(i.Bytes), known(i.Entries), known(i.Deletions), i.Filter, plainName(i.FilterPolicy),
					size(i.FilterBytes), i.Smallest, i.Largest)
			}
			t.print()
			if len(values) == 0 {
				return
			}
			t = a.out.table("value table", "bytes", "values", "in use")
			for _, v := range values {
				t.row(v.Name, size(v.Bytes), size(v.ValueBytes), size(v.LiveBytes))
			}
			t.print()
		})
		return errors.Join(err, verr, perr)
	})
}

// known is "?" for numbers that are not known, which are negative.
func known(n int64) string {
	if n < 0 {
		return "?"
	}
	return strconv.FormatInt(n, 10)
}

func (a *app) explain(args []string) error {
	key, err := a.keyArg(args, 1)
	if err != nil {
		return err
	}
	code := exitOK
	err = a.read(args[0], func(store *db.DB) error {
		x, err := store.Explain(key)
		if err != nil {
			return err
		}
		if !x.Found {
			code = exitNotFound
		}
		return a.out.result(x, func() { a.printLines(x.String()) })
	})
	if err != nil {
		return err
	}
	return ended(code)
}

// printLines prints the lines of a report.
func (a *app) printLines(text string) {
	if a.out.people {
		text = forPeople(text)
	}
	for line := range strings.Lines(text) {
		a.out.prose("%s", strings.TrimSuffix(line, "\n"))
	}
}

func (a *app) check(args []string, flags *tableFlags) error {
	policies, err := flags.policies()
	if err != nil {
		return err
	}
	var read atomic.Uint64
	o := &db.Options{FS: countingFS{files, &read}, ReadOnly: true, ErrorIfMissing: true, Filters: db.FilterOptions{RangePolicies: policies}}
	code := exitOK
	err = a.open(args[0], o, func(store *db.DB) error {
		stop := a.waiting("checking", checking(store, &read))
		r, err := store.Check(a.ctx)
		stop()
		if err != nil {
			return err
		}
		if len(r.Faults) > 0 {
			code = exitFaults
		}
		return a.out.result(r, func() { a.printCheck(r) })
	})
	if err != nil {
		return err
	}
	return ended(code)
}

func (a *app) printCheck(r *db.CheckReport) {
	for _, f := range r.Faults {
		a.out.printf("%s\n", a.out.style(styleFault, f))
	}
	if r.Twins > 0 {
		a.out.prose("%s in two tables, as another program's repair leaves them; a compaction drops one of each", a.out.count(uint64(r.Twins), "entry"))
	}
	verdict := a.out.count(uint64(len(r.Faults)), "fault")
	if len(r.Faults) == 0 {
		verdict = a.out.style(styleGood, verdict)
	}
	if r.Unread > 0 {
		verdict = a.out.count(r.Unread, "entry") + " unreadable; " + verdict
	}
	a.out.printf("%s, %s, %s read; %s\n", a.out.count(uint64(r.Tables), "table"), a.out.count(r.Entries, "entry"), a.out.bytes(r.Bytes), verdict)
}
