package main

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/sievedb/sievedb/db"
)

type followFlags struct {
	interval time.Duration
	count    int
	key      string
	prefix   string
}

func (f *followFlags) add(flags *pflag.FlagSet) {
	flags.DurationVarP(&f.interval, "interval", "i", time.Second, "the time between two looks")
	flags.IntVarP(&f.count, "count", "n", 0, "stop after so many lines (0: at Ctrl-C)")
	flags.StringVar(&f.key, "key", "", "print the value of this key when it changes, instead of figures")
	flags.StringVar(&f.prefix, "prefix", "", "print the entries with this prefix that change, instead of figures")
}

// sample is what 'follow' prints about one moment.
type sample struct {
	Time         time.Time
	LastSequence uint64
	Operations   uint64 // since the last sample
	PerSecond    float64
	Tables       int
	Bytes        size
	Pending      uint64 // operations that the writer has logged meanwhile
}

// follow shows what the writer of a database does, without disturbing it. It works as well if no
// process has the database open.
func (a *app) follow(args []string, flags *followFlags) error {
	switch {
	case flags.interval <= 0:
		return misuse("--interval is %v; want more than 0", flags.interval)
	case flags.count < 0:
		return misuse("--count is %d; want 0 or more", flags.count)
	case flags.key != "" && flags.prefix != "":
		return misuse("--key and --prefix cannot be used together")
	}
	return a.followed(args[0], func(store *db.DB, inUse bool) error {
		if !inUse {
			a.notice("no process has the database open for writing now")
		}
		if flags.key != "" || flags.prefix != "" {
			return a.followEntries(store, flags)
		}
		return a.followFigures(store, flags)
	})
}

// eachMoment calls look at once and after each interval, with the store moved forward, until look
// returns false or the verb is interrupted. What cannot be read may be readable later, so it ends eachMoment only if it
// is damage at the last look.
func (a *app) eachMoment(store *db.DB, interval time.Duration, look func() (more bool, err error)) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	failed := ""
	for {
		unread := store.Refresh(a.ctx)
		if unread != nil && unread.Error() != failed && a.ctx.Err() == nil {
			a.say("the database cannot be read at present: %v", unread)
			failed = unread.Error()
		}
		more, err := look()
		if err == nil {
			err = a.out.w.Flush()
		}
		if err == nil && !more && errors.Is(unread, db.ErrCorruption) {
			return ended(exitFaults)
		}
		if !more || err != nil {
			return err
		}
		select {
		case <-a.ctx.Done():
			return a.ctx.Err()
		case <-tick.C:
		}
	}
}

func (a *app) followFigures(store *db.DB, flags *followFlags) error {
	var last sample
	n := 0
	table := a.out.stream("time", 8, "#last sequence", 14, "#operations", 10, "#per second", 10, "#tables", 6, "#bytes", 10, "#pending", 7)
	return a.eachMoment(store, flags.interval, func() (bool, error) {
		m := store.Metrics()
		tables, bytes := m.AllTables()
		s := sample{Time: a.now().UTC(), LastSequence: m.LastSequence, Tables: tables, Bytes: size(bytes)}
		if lag, err := store.Lag(); err == nil {
			s.Pending = lag.Operations
		}
		if n++; n > 1 && s.LastSequence >= last.LastSequence {
			s.Operations = s.LastSequence - last.LastSequence
			s.PerSecond = float64(s.Operations) / max(s.Time.Sub(last.Time).Seconds(), 1e-3)
		}
		last = s
		err := a.out.item(s, func() {
			table.row(s.Time.Format(time.TimeOnly), s.LastSequence, s.Operations, fmt.Sprintf("%.0f", s.PerSecond), s.Tables, s.Bytes, s.Pending)
		})
		return flags.count == 0 || n < flags.count, err
	})
}

// maxFollowed bounds the entries under a prefix that are kept to see which have changed.
const maxFollowed = 100_000

// followEntries prints the entries of a key or prefix at first, and then what has changed from one look
// to the next. A change of the feed of all changes would also show what is overwritten in between.
func (a *app) followEntries(store *db.DB, flags *followFlags) error {
	prefix, name := flags.prefix, "prefix"
	if flags.key != "" {
		prefix, name = flags.key, "key"
	}
	start, err := a.flagKey(name, prefix)
	if err != nil {
		return err
	}
	bounds := db.PrefixBounds(start)
	if flags.key != "" {
		bounds = &db.IterOptions{LowerBound: start, UpperBound: append(bytes.Clone(start), 0)}
	}
	d := &differ{a: a, flags: &diffFlags{limit: flags.count}, count: map[string]int{}}
	seen, seq := map[string][]byte{}, uint64(0)
	return a.eachMoment(store, flags.interval, func() (bool, error) {
		m := store.Metrics()
		if m.LastSequence == seq && len(seen) > 0 && m.Expiry.Time.IsZero() { // values expire without a write
			return true, nil
		}
		seq = m.LastSequence
		next := map[string][]byte{}
		err := a.each(store, &db.IterOptions{LowerBound: bounds.LowerBound, UpperBound: bounds.UpperBound}, false, func(key, value []byte) (bool, error) {
			if len(next) == maxFollowed {
				return false, fmt.Errorf("sievedb: more than %d keys have this prefix; follow a longer one", maxFollowed)
			}
			next[string(key)] = append([]byte{}, value...)
			return true, nil
		})
		if err != nil {
			return false, err
		}
		more, err := d.maps(seen, next)
		seen = next
		return more, err
	})
}

// maps prints the differences between two maps, in the order of the keys.
func (d *differ) maps(old, new map[string][]byte) (more bool, err error) {
	more = true
	for _, key := range sortedKeys(old, new) {
		was, had := old[key]
		is, has := new[key]
		c := change{Key: []byte(key), Old: was, New: is}
		switch {
		case !had:
			c.Change = added
		case !has:
			c.Change = removed
		case bytes.Equal(was, is):
			continue
		default:
			c.Change = changed
		}
		if more, err = d.note(c); !more || err != nil {
			return more, err
		}
	}
	return more, nil
}
