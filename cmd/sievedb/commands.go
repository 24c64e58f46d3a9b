package main

import (
	"bufio"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/filter/rangefilter"
)

// with opens the database, runs f and closes it.
func (c *call) with(readOnly bool, f func(*db.DB) (int, error)) (code int, err error) {
	return c.withOptions(&db.Options{ReadOnly: readOnly, ErrorIfMissing: true}, f)
}

func (c *call) withOptions(o *db.Options, f func(*db.DB) (int, error)) (code int, err error) {
	ranges, err := c.rangeFilters()
	if err != nil {
		return exitUsage, err
	}
	o.Filters.RangePolicies = ranges
	store, err := db.Open(c.dir, o)
	if o.ReadOnly && errors.Is(err, db.ErrLocked) { // what only reads need not wait for the other process
		if store, err = db.OpenFollower(c.dir, o); err == nil {
			fmt.Fprintln(c.stderr, "sievedb: another process has the database open; this is what it has written so far")
		}
	}
	if err != nil {
		return exitFailed, err
	}
	code, err = f(store)
	if cerr := store.Close(); cerr != nil && err == nil {
		code, err = exitFailed, cerr
	}
	return code, err
}

// rangeFilters returns the policies that -ranges names.
func (c *call) rangeFilters() (policies []rangefilter.Policy, err error) {
	if c.flags.ranges == "" {
		return nil, nil
	}
	for _, name := range strings.Split(c.flags.ranges, ",") {
		p, err := rangefilter.PolicyNamed(name, c.flags.bits)
		if err != nil {
			return nil, fmt.Errorf("sievedb: -ranges: %w", err)
		}
		policies = append(policies, p)
	}
	return policies, nil
}

// bytes reads argument i as the flags say; nil where there is none.
func (c *call) bytes(i int) ([]byte, error) {
	if i >= len(c.args) {
		return nil, nil
	}
	if !c.flags.hex {
		return []byte(c.args[i]), nil
	}
	b, err := hex.DecodeString(c.args[i])
	if err != nil {
		return nil, fmt.Errorf("sievedb: argument %d is not hexadecimal: %w", i+1, err)
	}
	return b, nil
}

// pair reads the first two arguments.
func (c *call) pair() (first, second []byte, err error) {
	if first, err = c.bytes(0); err == nil {
		second, err = c.bytes(1)
	}
	return first, second, err
}

// text prints bytes as the flags say: in hexadecimal, or quoted where a terminal
// could not show them.
func (c *call) text(b []byte) string {
	if c.flags.hex {
		return hex.EncodeToString(b)
	}
	quoted := strconv.Quote(string(b))
	if plain := quoted[1 : len(quoted)-1]; plain == string(b) && plain != "" {
		return plain
	}
	return quoted
}

func get(c *call) (int, error) {
	key, err := c.bytes(0)
	if err != nil {
		return exitUsage, err
	}
	return c.with(true, func(store *db.DB) (int, error) {
		value, err := store.Get(key)
		if errors.Is(err, db.ErrNotFound) {
			return exitNotFound, err
		}
		if err != nil {
			return exitFailed, err
		}
		_, err = fmt.Fprintln(c.stdout, c.text(value))
		return codeOf(err), err
	})
}

func codeOf(err error) int {
	if err != nil {
		return exitFailed
	}
	return exitOK
}

func put(c *call) (int, error) {
	key, value, err := c.pair()
	if err != nil {
		return exitUsage, err
	}
	return c.with(false, func(store *db.DB) (int, error) {
		err := store.Put(key, value, db.Sync)
		return codeOf(err), err
	})
}

func deleteKey(c *call) (int, error) {
	key, err := c.bytes(0)
	if err != nil {
		return exitUsage, err
	}
	return c.with(false, func(store *db.DB) (int, error) {
		err := store.Delete(key, db.Sync)
		return codeOf(err), err
	})
}

func scan(c *call) (int, error) {
	from, to, err := c.pair()
	if err != nil {
		return exitUsage, err
	}
	return c.with(true, func(store *db.DB) (int, error) {
		it, err := store.NewIterator(&db.IterOptions{LowerBound: from, UpperBound: to, NoFillCache: true})
		if err != nil {
			return exitFailed, err
		}
		out := bufio.NewWriter(c.stdout)
		n := 0
		for key, value := range it.All() {
			if c.ctx.Err() != nil || c.flags.limit > 0 && n == c.flags.limit {
				break
			}
			n++
			if _, err = fmt.Fprintf(out, "%s\t%s\n", c.text(key), c.text(value)); err != nil {
				break
			}
		}
		err = errors.Join(err, it.Close(), out.Flush(), c.ctx.Err())
		return codeOf(err), err
	})
}

func explain(c *call) (int, error) {
	key, err := c.bytes(0)
	if err != nil {
		return exitUsage, err
	}
	return c.with(true, func(store *db.DB) (int, error) {
		x, err := store.Explain(key)
		if err != nil {
			return exitFailed, err
		}
		code := exitOK
		if !x.Found {
			code = exitNotFound
		}
		if _, err := fmt.Fprint(c.stdout, x.String()); err != nil {
			return exitFailed, err
		}
		return code, nil
	})
}

func stats(c *call) (int, error) {
	return c.with(true, func(store *db.DB) (int, error) {
		m, r := store.Metrics(), store.OpenReport()
		t := tabwriter.NewWriter(c.stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintln(t, "level\ttables\tbytes\t")
		for level, l := range m.Levels {
			if l.Tables > 0 {
				fmt.Fprintf(t, "%d\t%d\t%d\t\n", level, l.Tables, l.Bytes)
			}
		}
		total := m.Total()
		fmt.Fprintf(t, "all\t%d\t%d\t\n", total.Tables, total.Bytes)
		if err := t.Flush(); err != nil {
			return exitFailed, err
		}
		fmt.Fprintf(c.stdout, "last sequence %d; %s", m.LastSequence, r.Manifest)
		if r.ManifestBytesDropped > 0 {
			fmt.Fprintf(c.stdout, " (%d bytes of a torn last edit dropped)", r.ManifestBytesDropped)
		}
		if r.ClosedCleanly {
			fmt.Fprint(c.stdout, "; closed cleanly")
		}
		fmt.Fprintln(c.stdout)
		for _, l := range r.Logs {
			fmt.Fprintf(c.stdout, "%s: %d records, %d entries, end %s", l.Name, l.Records, l.Entries, l.Tail)
			if l.BytesDropped > 0 {
				fmt.Fprintf(c.stdout, ", %d bytes dropped: %s", l.BytesDropped, l.Reason)
			}
			fmt.Fprintln(c.stdout)
		}
		return exitOK, nil
	})
}

func tables(c *call) (int, error) {
	return c.with(true, func(store *db.DB) (int, error) {
		infos, err := store.Tables()
		t := tabwriter.NewWriter(c.stdout, 0, 0, 2, ' ', 0)
		fmt.Fprintln(t, "level\ttable\tbytes\tentries\tdeletions\tfilter\tpolicy\tfilter bytes\tsmallest\tlargest")
		for _, i := range infos {
			fmt.Fprintf(t, "%d\t%s\t%d\t%s\t%s\t%s\t%s\t%d\t%s\t%s\n", i.Level, i.Name, i.Bytes, count(i.Entries), count(i.Deletions),
				i.Filter, i.FilterPolicy, i.FilterBytes, c.text(i.Smallest), c.text(i.Largest))
		}
		err = errors.Join(err, t.Flush())
		return codeOf(err), err
	})
}

func count(n int64) string {
	if n < 0 {
		return "?"
	}
	return strconv.FormatInt(n, 10)
}

func check(c *call) (int, error) {
	return c.with(true, func(store *db.DB) (int, error) {
		r, err := store.Check(c.ctx)
		if err != nil {
			return exitFailed, err
		}
		for _, f := range r.Faults {
			fmt.Fprintln(c.stdout, f)
		}
		if r.Twins > 0 {
			fmt.Fprintf(c.stdout, "%d entries are in two tables, as another program's repair leaves them; a compaction drops one of each\n", r.Twins)
		}
		fmt.Fprintf(c.stdout, "%d tables, %d entries, %d bytes read; %d faults\n", r.Tables, r.Entries, r.Bytes, len(r.Faults))
		if len(r.Faults) > 0 {
			return exitFaults, nil
		}
		return exitOK, nil
	})
}

func checkpoint(c *call) (int, error) {
	return c.with(true, func(store *db.DB) (int, error) {
		info, err := store.Checkpoint(c.ctx, c.args[0], nil)
		if err != nil {
			return exitFailed, err
		}
		_, err = fmt.Fprintf(c.stdout, "%d tables and %d logs; %d bytes linked, %d copied; last sequence %d\n",
			info.Tables, info.Logs, info.BytesLinked, info.BytesCopied, info.Seq)
		return codeOf(err), err
	})
}

func ingest(c *call) (int, error) {
	return c.withOptions(&db.Options{}, func(store *db.DB) (int, error) {
		info, err := store.Ingest(c.ctx, c.args, nil)
		if err != nil {
			return exitFailed, err
		}
		_, err = fmt.Fprintf(c.stdout, "%d entries; %d tables linked, %d copied, %d rewritten; last sequence %d\n",
			info.Entries, info.Linked, info.Copied, info.Rewritten, info.Seq)
		return codeOf(err), err
	})
}

func compact(c *call) (int, error) {
	from, to, err := c.pair()
	if err != nil {
		return exitUsage, err
	}
	return c.with(false, func(store *db.DB) (int, error) {
		before := store.Metrics().Total()
		if err := store.Compact(c.ctx, from, to); err != nil {
			return exitFailed, err
		}
		after := store.Metrics().Total()
		_, err := fmt.Fprintf(c.stdout, "%d tables of %d bytes became %d of %d\n", before.Tables, before.Bytes, after.Tables, after.Bytes)
		return codeOf(err), err
	})
}

func repair(c *call) (int, error) {
	ranges, err := c.rangeFilters()
	if err != nil {
		return exitUsage, err
	}
	report, err := db.RepairWithReport(c.dir, &db.Options{Filters: db.FilterOptions{RangePolicies: ranges}})
	if report != nil {
		fmt.Fprint(c.stdout, report.String())
	}
	return codeOf(err), err
}
