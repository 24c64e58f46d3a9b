package main

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/pflag"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/base/expiry"
	"github.com/sievedb/sievedb/internal/work/dump"
)

type diffFlags struct {
	rangeFlags
	fromSeq, toSeq int64
	keysOnly       bool
	limit          int
}

func (d *diffFlags) add(f *pflag.FlagSet) {
	d.rangeFlags.add(f)
	f.Int64Var(&d.fromSeq, "from-seq", -1, "of one directory: the state after this sequence number")
	f.Int64Var(&d.toSeq, "to-seq", -1, "of one directory: the state after this sequence number (default: the present)")
	f.BoolVarP(&d.keysOnly, "keys-only", "k", false, "print keys without values")
	f.IntVarP(&d.limit, "limit", "n", 0, "stop after so many differences (0: print all)")
}

// change is a difference: what happened to a key from the first state to the second.
type change struct {
	Change string
	Key    []byte
	Old    []byte
	New    []byte
}

// The kinds of change, with their signs in text.
const (
	added   = "added"
	removed = "removed"
	changed = "changed"
)

var changeSigns = map[string]string{added: "+", removed: "-", changed: "~"}

// differ prints and counts differences.
type differ struct {
	a     *app
	flags *diffFlags
	count map[string]int
	ended bool // by --limit
	lost  bool // entries that the files had
}

// note prints a difference. It returns false after the last one that is wanted.
func (d *differ) note(c change) (more bool, err error) {
	c.Key = d.a.bare(c.Key)
	d.count[c.Change]++
	style := map[string]string{added: styleGood, removed: styleFault}[c.Change]
	out := d.a.out
	var value any = c
	if d.flags.keysOnly {
		value = struct {
			Change string
			Key    []byte
		}{c.Change, c.Key}
	}
	err = out.item(value, func() {
		line := changeSigns[c.Change] + " " + out.key(c.Key)
		for _, v := range [][]byte{c.Old, c.New} {
			if v != nil && !d.flags.keysOnly {
				line += "\t" + out.value(v)
			}
		}
		out.printf("%s\n", out.style(style, line))
	})
	n := d.count[added] + d.count[removed] + d.count[changed]
	d.ended = d.flags.limit > 0 && n >= d.flags.limit
	return !d.ended, err
}

func (a *app) diff(args []string, flags *diffFlags) error {
	bounds, err := flags.bounds(a, nil)
	if err != nil {
		return err
	}
	d := &differ{a: a, flags: flags, count: map[string]int{}}
	switch {
	case flags.limit < 0:
		return misuse("--limit is %d; want 0 or more", flags.limit)
	case len(args) == 1 && flags.fromSeq < 0:
		return misuse("give two directories, or one with --from-seq")
	case len(args) == 1 && a.session != nil && a.session.dir == args[0]:
		return misuse("--from-seq cannot be used in a shell: it needs the database closed")
	case len(args) == 2 && (flags.fromSeq >= 0 || flags.toSeq >= 0):
		return misuse("--from-seq and --to-seq are of one directory, not of two")
	case len(args) == 1:
		err = d.sequences(args[0], bounds)
	default:
		err = a.readKeys(args[0], func(one *db.DB) error {
			// A shell has one of them open already, and the other is opened for itself.
			return a.readKeys(args[1], func(two *db.DB) error { return d.stores(one, two, bounds) })
		})
	}
	if err != nil {
		return err
	}
	end := ""
	if d.ended {
		end = fmt.Sprintf("; there may be more: --limit is %d", flags.limit)
	}
	a.notice("%d added, %d removed, %d changed%s", d.count[added], d.count[removed], d.count[changed], end)
	if len(d.count) > 0 {
		err = ended(exitDifferent)
	}
	if d.lost {
		err = withLosses(err)
	}
	return err
}

// stores compares two databases in one pass over both.
func (d *differ) stores(one, two *db.DB, bounds *db.IterOptions) (err error) {
	bounds.NoFillCache = true
	x, err := one.NewIterator(bounds)
	if err != nil {
		return err
	}
	defer x.Close()
	y, err := two.NewIterator(bounds)
	if err != nil {
		return err
	}
	defer y.Close()
	p := d.a.progressOver("comparing", "key", one, bounds)
	defer p.close()
	x.First()
	y.First()
	for more := true; more && err == nil && (x.Valid() || y.Valid()); p.add(1, 0) {
		if p.done%1024 == 0 && d.a.ctx.Err() != nil {
			return d.a.ctx.Err()
		}
		if x.Err() != nil || y.Err() != nil {
			break
		}
		if x.Valid() {
			p.key = x.Key()
		}
		more, err = d.step(x, y)
	}
	for _, it := range []*db.Iterator{x, y} {
		if err == nil {
			err = it.Err()
		}
	}
	return err
}

// step compares the present entries and moves past the smaller key.
func (d *differ) step(x, y *db.Iterator) (more bool, err error) {
	order := 0
	// A value apart from its key is read by Value: if that fails, its iterator has the error and is not Valid.
	before, after := x.Value(), y.Value()
	if x.Err() != nil || y.Err() != nil {
		return false, nil
	}
	switch {
	case !y.Valid():
		order = -1
	case !x.Valid():
		order = 1
	default:
		order = bytes.Compare(x.Key(), y.Key())
	}
	more = true
	switch {
	case order < 0:
		more, err = d.note(change{Change: removed, Key: x.Key(), Old: nonNil(before)})
	case order > 0:
		more, err = d.note(change{Change: added, Key: y.Key(), New: nonNil(after)})
	case !bytes.Equal(before, after):
		more, err = d.note(change{changed, x.Key(), nonNil(before), nonNil(after)})
	}
	if order <= 0 {
		x.Next()
	}
	if order >= 0 {
		y.Next()
	}
	return more, err
}

// sequences compares two states of one database, as far as its files still have the versions. It
// reads all files twice: for the keys that were written in between, and for their older versions.
func (d *differ) sequences(dir string, bounds *db.IterOptions) error {
	from, to := uint64(d.flags.fromSeq), uint64(d.flags.toSeq)
	if d.flags.toSeq >= 0 && to < from {
		return misuse("--to-seq %d is before --from-seq %d", to, from)
	}
	var err error
	if name := customComparer(dir); name != "" {
		err = d.a.byBytes(dir, name)
	} else {
		_, d.lost, err = d.a.probe(dir, db.Options{ErrorIfMissing: true, Expiry: db.ExpiryOptions{Raw: true}})
		err = explainMissing(dir, err)
	}
	if err != nil {
		return err
	}
	temp, err := os.MkdirTemp("", "sievedb-diff-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	newer, err := newVersions(filepath.Join(temp, "new"))
	if err != nil {
		return err
	}
	defer newer.close()
	older, err := newVersions(filepath.Join(temp, "old"))
	if err != nil {
		return err
	}
	defer older.close()
	open := d.envelopes(dir)
	state, err := d.a.history(dir, func(key []byte, v version) error {
		if v.seq <= from || v.seq > to {
			return nil
		}
		return newer.offer(key, open(key, v))
	})
	if err == nil {
		_, err = d.a.history(dir, func(key []byte, v version) error {
			if v.seq > from {
				return nil
			}
			if _, ok, err := newer.get(key); err != nil || !ok {
				return err
			}
			return older.offer(key, open(key, v))
		})
	}
	if err != nil {
		return err
	}
	if from > state.LastSeq {
		d.a.notice("--from-seq %d is after the last sequence number of the database, %d", from, state.LastSeq)
	}
	d.warnOfCompactions(dir, state, from)
	return d.versions(newer, older, bounds)
}

// envelopes returns a function that takes the values of keys that may expire out of their envelopes.
func (d *differ) envelopes(dir string) func(key []byte, v version) version {
	state, _ := dump.ReadState(files, dir) // history reports the error
	prefixes := expiry.New(state.Recorded.Prefixes, nil)
	return func(key []byte, v version) version {
		if _, ok := expiry.Decode(v.value); ok && prefixes.Under(key) {
			v.value = v.value[expiry.HeaderLen:]
		}
		return v
	}
}

// warnOfCompactions says if a table may have lost versions that the comparison needs: a compaction
// drops versions that no reader can see, and sets old sequence numbers to 0.
func (d *differ) warnOfCompactions(dir string, state dump.State, from uint64) {
	for _, name := range state.Tables {
		p := readProperties(filepath.Join(dir, name)).Properties
		if p != nil && p.LargestSeq > from && p.SmallestSeq == 0 {
			d.a.notice("%s was compacted after sequence %d: changes and old values may be missing", name, from)
			return
		}
	}
}

func (d *differ) versions(newer, older *versions, bounds *db.IterOptions) error {
	return d.a.each(newer.store, bounds, false, func(key, b []byte) (bool, error) {
		now := decodeVersion(b)
		was, ok, err := older.get(key)
		if err != nil {
			return false, err
		}
		had := ok && !was.deleted
		switch {
		case now.deleted && !had, !now.deleted && had && bytes.Equal(now.value, was.value):
			return true, nil
		case now.deleted:
			return d.note(change{Change: removed, Key: key, Old: nonNil(was.value)})
		case !had:
			return d.note(change{Change: added, Key: key, New: nonNil(now.value)})
		}
		return d.note(change{changed, key, nonNil(was.value), nonNil(now.value)})
	})
}

// sortedKeys returns the keys of both maps in order.
func sortedKeys(x, y map[string][]byte) []string {
	all := maps.Clone(x)
	maps.Copy(all, y)
	return slices.Sorted(maps.Keys(all))
}
