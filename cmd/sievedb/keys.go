package main

import (
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/spf13/pflag"

	"github.com/sievedb/sievedb/db"
)

func (a *app) keyVerbs() []*verb {
	var put putFlags
	var scan scanFlags
	var deletion deleteRangeFlags
	return []*verb{
		{use: "get DIR KEY...", group: groupKeys, min: 2, max: -1, run: a.get,
			short: "Print the value of a key",
			long: "Print the value of a key. With several keys, and with \"-\" for the lines of standard input,\n" +
				"print each key, a tab and its value. The exit code is 3 if a key has no value.",
			example: "  sievedb get db user:1\n  sievedb get --raw db photo > photo.jpg\n  sievedb get --hex db 00ff\n  cut -f1 list | sievedb get db -"},
		{use: "put DIR KEY VALUE [KEY VALUE]...", group: groupKeys, min: 2, max: -1, run: func(args []string) error { return a.put(args, &put) },
			short: "Write values, synced",
			long: "Write values under keys, all or none, synced: they survive a power cut. The value \"-\" is all of standard input.\n" +
				"'put DIR -' reads lines of a key, a tab and a value, as 'scan' prints them; 'import' is for many.",
			flags: put.add, example: "  sievedb put db user:1 Ada user:2 Grace\n  sievedb put db photo - < photo.jpg\n  sievedb scan old --prefix user: | sievedb put db -"},
		{use: "delete DIR KEY...", group: groupKeys, min: 2, max: -1, run: a.delete,
			short: "Delete keys, synced",
			long:  "Delete keys, all in one batch, synced. \"-\" stands for the lines of standard input. A key\nwithout a value is no error."},
		{use: "delete-range DIR [FROM [TO]]", group: groupKeys, min: 1, max: 3, flags: deletion.add, short: "Delete all keys of a range, synced",
			long: "Delete the keys from FROM up to TO (excluded), or with a prefix, all at once. It counts them and asks first; without a\n" +
				"terminal it needs --yes.",
			example: "  sievedb delete-range db --prefix session: --dry-run\n  sievedb delete-range db --namespace users --all",
			run:     func(args []string) error { return a.deleteRange(args, &deletion) }},
		{use: "namespaces DIR", group: groupKeys, min: 1, max: 1, run: a.namespaces, short: "List the namespaces that have keys",
			long: "List the names of the namespaces that have keys, or with --namespace of those within that one."},
		{use: "has DIR KEY...", group: groupKeys, min: 2, max: -1, run: a.has,
			short: "Report whether keys have values",
			long:  "Report whether keys have values, without reading the values where possible. The exit code is 3\nif a key has none."},
		{use: "scan DIR [FROM [TO]]", group: groupKeys, min: 1, max: 3, run: func(args []string) error { return a.scan(args, &scan) },
			short: "Print keys and values in order",
			long: "Print each key, a tab and its value, in the order of the keys, from FROM up to TO (excluded).\n" +
				"'load' and 'import' read this output.",
			flags: scan.add, example: "  sievedb scan db --prefix user: --limit 10\n  sievedb scan db a b --reverse --keys-only"},
		{use: "count DIR [FROM [TO]]", group: groupKeys, min: 1, max: 3, run: func(args []string) error { return a.count(args, &scan) },
			short: "Count keys and their bytes", flags: scan.rangeFlags.add,
			long: "Count the keys from FROM up to TO (excluded) and the bytes of keys and values. It reads all of them."},
	}
}

// entry is a key with its value, as verbs print it.
type entry struct {
	Key   []byte
	Value []byte
}

type missing struct {
	Key   []byte
	Found bool
}

func (a *app) get(args []string) error {
	alone := len(args) == 2 && args[1] != "-"
	absent := 0
	err := a.readKeys(args[0], func(store *db.DB) error {
		for key, err := range a.keys(args, 1) {
			if err != nil {
				return err
			}
			value, err := store.Get(key)
			key = a.bare(key)
			switch {
			case errors.Is(err, db.ErrNotFound) && alone && !a.out.json:
				return &failure{exitNotFound, errors.New("sievedb: key not found")}
			case errors.Is(err, db.ErrNotFound):
				absent++
				if a.out.json {
					err = a.out.item(missing{Key: key}, nil)
				} else {
					a.notice("key not found: %s", a.out.key(key))
					err = nil
				}
			case err == nil:
				err = a.printEntry(entry{key, nonNil(value)}, alone)
			}
			if err == nil && args[len(args)-1] == "-" {
				err = a.out.w.Flush() // who writes the keys may wait for the answers
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil && absent > 0 {
		return ended(exitNotFound)
	}
	return err
}

// printEntry prints an entry, or its value alone. A raw value alone has no line end: nothing may
// follow the bytes of a file.
func (a *app) printEntry(e entry, alone bool) error {
	return a.out.item(e, func() {
		switch {
		case alone && a.out.format.value == encRaw:
			_, _ = a.out.w.Write(e.Value)
		case alone:
			a.out.printf("%s\n", a.out.value(e.Value))
		default:
			a.out.printf("%s\t%s\n", a.out.key(e.Key), a.out.value(e.Value))
		}
	})
}

type putFlags struct{ ttl time.Duration }

func (p *putFlags) add(f *pflag.FlagSet) {
	f.DurationVar(&p.ttl, "ttl", 0, "let the value expire after this time; needs a recorded prefix or --expiry")
}

// put writes the values of one batch: none, or all of them.
func (a *app) put(args []string, p *putFlags) error {
	if p.ttl != 0 && len(a.flags.expiry) == 0 && a.session == nil {
		if r, err := db.RecordedOptions(args[0], nil); err == nil && len(r.ExpiryPrefixes) == 0 {
			return misuse("--ttl needs a prefix of the key under which values expire: the database has recorded none, so name one with --expiry")
		}
	}
	if len(args)%2 == 0 && !(len(args) == 2 && args[1] == "-") {
		return misuse("the last key, argument %d, has no value", len(args))
	}
	if n := fromStdin(args); n > 1 {
		return misuse("nothing was written: standard input is given as the value of %d keys, but can be that of one; "+
			"'put DIR -' reads lines of keys and values", n)
	}
	var batch db.Batch
	size := 0
	for e, err := range a.pairs(args) {
		if err != nil {
			return err
		}
		size += len(e.Value)
		if p.ttl != 0 {
			batch.PutTTL(e.Key, e.Value, p.ttl)
		} else {
			batch.Put(e.Key, e.Value)
		}
	}
	return a.write(args[0], func(store *db.DB) error {
		err := store.Apply(&batch, db.Sync)
		if len(args) == 3 {
			key, _ := a.keyArg(args, 1) // it was decoded before
			return a.done(err, struct {
				Key   []byte
				Bytes int
			}{a.bare(key), size})
		}
		return a.done(err, struct{ Keys, Bytes int }{batch.Len(), size})
	})
}

// fromStdin returns how many values of the arguments are standard input.
func fromStdin(args []string) (n int) {
	for i := 2; i < len(args); i += 2 {
		if args[i] == "-" {
			n++
		}
	}
	return n
}

// pairs are the keys and values of the arguments after the directory; a lone "-" stands for lines as scan prints them.
func (a *app) pairs(args []string) iter.Seq2[entry, error] {
	if len(args) == 2 {
		return a.linePairs
	}
	return func(yield func(entry, error) bool) {
		for i := 1; i < len(args); i += 2 {
			key, err := a.keyArg(args, i)
			var value []byte
			if err == nil {
				value, err = a.value(args, i+1)
			}
			if !yield(entry{key, value}, err) || err != nil {
				return
			}
		}
	}
}

// linePairs yields the keys and values in the lines of standard input.
func (a *app) linePairs(yield func(entry, error) bool) {
	for line, err := range a.lines() {
		var e entry
		if err == nil {
			if e.Key, e.Value, err = a.parseLine(line.text); err != nil {
				err = fmt.Errorf("sievedb: line %d: %w", line.number, err)
			}
		}
		e.Key = a.whole(e.Key)
		if !yield(e, err) || err != nil {
			return
		}
	}
}

// done ends a verb that prints nothing but JSON.
func (a *app) done(err error, value any) error {
	if err != nil {
		return err
	}
	return a.out.result(value, func() {})
}

func (a *app) delete(args []string) error {
	return a.write(args[0], func(store *db.DB) error {
		var batch db.Batch
		for key, err := range a.keys(args, 1) {
			if err != nil {
				return err
			}
			batch.Delete(key)
		}
		return a.done(store.Apply(&batch, db.Sync), struct{ Keys int }{batch.Len()})
	})
}

func (a *app) has(args []string) error {
	code := exitOK
	err := a.readKeys(args[0], func(store *db.DB) error {
		for key, err := range a.keys(args, 1) {
			if err != nil {
				return err
			}
			found, err := store.Has(key)
			if err != nil {
				return err
			}
			key = a.bare(key)
			if !found {
				code = exitNotFound
			}
			if err := a.out.item(missing{key, found}, func() { a.out.printf("%s\t%t\n", a.out.key(key), found) }); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return ended(code)
}

type scanFlags struct {
	rangeFlags
	reverse, keysOnly bool
	limit             int
}

func (s *scanFlags) add(f *pflag.FlagSet) {
	s.rangeFlags.add(f)
	f.BoolVarP(&s.reverse, "reverse", "r", false, "from the last key to the first")
	f.BoolVarP(&s.keysOnly, "keys-only", "k", false, "print the keys alone")
	f.IntVarP(&s.limit, "limit", "n", 0, "print at most this many entries (0: all)")
}

type keyOnly struct{ Key []byte }

func (a *app) scan(args []string, s *scanFlags) error {
	if s.limit < 0 {
		return misuse("--limit is %d; want 0 or more", s.limit)
	}
	return a.readKeys(args[0], func(store *db.DB) error {
		bounds, err := s.bounds(a, args)
		if err != nil {
			return err
		}
		bounds.KeysOnly = s.keysOnly
		n := 0
		return a.each(store, bounds, s.reverse, func(key, value []byte) (more bool, err error) {
			n++
			key = a.bare(key)
			if s.keysOnly {
				err = a.out.item(keyOnly{key}, func() { a.out.printf("%s\n", a.out.key(key)) })
			} else {
				err = a.printEntry(entry{key, nonNil(value)}, false)
			}
			return s.limit == 0 || n < s.limit, err
		})
	})
}

// each calls f with the entries within bounds until it returns false, or the verb is interrupted.
func (a *app) each(store db.Reader, bounds *db.IterOptions, reverse bool, f func(key, value []byte) (bool, error)) error {
	bounds.NoFillCache = true
	it, err := store.NewIterator(bounds)
	if err != nil {
		return err
	}
	entries := it.All()
	if reverse {
		entries = it.Backward()
	}
	n := 0
	for key, value := range entries {
		if n++; n%256 == 0 && a.ctx.Err() != nil {
			break
		}
		var more bool
		if more, err = f(key, value); !more || err != nil {
			break
		}
	}
	if cerr := it.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = a.ctx.Err()
	}
	return err
}

// count has the result of the verb of that name.
type countResult struct {
	Keys       uint64
	KeyBytes   size
	ValueBytes size
}

func (a *app) count(args []string, s *scanFlags) error {
	return a.readKeys(args[0], func(store *db.DB) error {
		bounds, err := s.bounds(a, args)
		if err != nil {
			return err
		}
		var c countResult
		p := a.progressOver("counting", "key", store, bounds)
		err = a.each(store, bounds, false, func(key, value []byte) (bool, error) {
			c.Keys++
			c.KeyBytes += size(len(key))
			c.ValueBytes += size(len(value))
			p.entry(key, value)
			return true, nil
		})
		p.close()
		if err != nil {
			return err
		}
		return a.out.result(c, func() {
			a.out.pairs("keys", fmt.Sprint(c.Keys), "key bytes", c.KeyBytes, "value bytes", c.ValueBytes)
		})
	})
}
