package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/filter/rangefilter"
)

// read opens the database for reading, runs f and closes it. If another process has the database
// open, it follows that process.
func (a *app) read(dir string, f func(*db.DB) error) error {
	return a.open(dir, &db.Options{ReadOnly: true, ErrorIfMissing: true}, f)
}

// readKeys is read for verbs that only need keys and values, which can be read without the database's comparer.
func (a *app) readKeys(dir string, f func(*db.DB) error) error {
	a.copies = true
	defer func() { a.copies = false }()
	return a.read(dir, f)
}

// write opens the database, runs f and closes it.
func (a *app) write(dir string, f func(*db.DB) error) error {
	return a.open(dir, &db.Options{ErrorIfMissing: true}, f)
}

func (a *app) open(dir string, o *db.Options, f func(*db.DB) error) (err error) {
	a.dir = dir
	if a.session != nil && a.session.dir == dir {
		return f(a.session.store)
	}
	if err := errors.Join(a.addExpiry(o), a.asRecorded(dir, o)); err != nil {
		return err
	}
	if !o.ReadOnly && o.Changes == (db.ChangeRetention{}) && keepsUnrecorded(dir) {
		o.Changes = keptChanges(dir)
	}
	store, cleanup, err := a.openStore(dir, o)
	if err != nil {
		return err
	}
	defer func() {
		for _, end := range []func() error{store.Close, cleanup} {
			if cerr := end(); err == nil {
				err = cerr
			}
		}
	}()
	lost := a.tellLosses(store)
	if err = f(store); lost && o.ReadOnly {
		err = withLosses(err)
	}
	return err
}

// leastChanges is how many bytes of changes a verb that writes leaves, besides what cursors need.
const leastChanges = 1 << 30

// keptChanges lets a verb that writes keep as many changes as there are, and at least leastChanges: the program that
// owns the database knows how many it wants. There may be none, so each verb must not add to them for ever.
func keptChanges(dir string) db.ChangeRetention {
	kept := db.ChangeRetention{Bytes: leastChanges}
	total := int64(0)
	entries, _ := os.ReadDir(changesDir(dir)) // without it, the minimum
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
			total += info.Size()
		}
	}
	kept.Bytes = max(kept.Bytes, total)
	return kept
}

// keepsUnrecorded reports whether a database has changes although it has not recorded how many it keeps, as an earlier
// version wrote it. Otherwise Open keeps them as they are recorded.
func keepsUnrecorded(dir string) bool {
	if !keepsChanges(dir) {
		return false
	}
	r, err := db.RecordedOptions(dir, nil)
	return err == nil && r.Options.Changes == (db.ChangeRetention{})
}

// keepsChanges reports whether a database has a subdirectory of changes. Their history would restart if a verb
// wrote without keeping its changes, and readers and archives of the database could not continue.
func keepsChanges(dir string) bool {
	info, err := os.Lstat(changesDir(dir))
	return err == nil && info.IsDir()
}

func changesDir(dir string) string { return filepath.Join(dir, "changes") }

// addExpiry adds the prefixes of --expiry to the options.
func (a *app) addExpiry(o *db.Options) error {
	for _, word := range a.flags.expiry {
		prefix, err := a.flagBytes("expiry", word)
		if err != nil {
			return err
		}
		o.Expiry.Prefixes = append(o.Expiry.Prefixes, prefix)
	}
	return nil
}

// writers are the verbs that may write tables into a database, and so have recordFlags.
var writers = map[string]bool{
	"put": true, "delete": true, "delete-range": true, "compact": true, "create": true, "flush": true, "repair": true, "upgrade-filters": true,
	"import": true, "load": true, "ingest": true, "shell": true, "archive": true, "serve": true,
}

// addCompression sets the compression of --compression in the options.
func (a *app) addCompression(o *db.Options) error {
	switch word := a.flags.record.compression; word {
	case "":
	case "snappy":
		o.Tables.Compression = db.SnappyCompression
	case "zstd":
		o.Tables.Compression = db.ZstdCompression
	case "none":
		o.Tables.Compression = db.NoCompression
	default:
		return misuse("--compression is %q; want snappy, zstd or none", word)
	}
	return nil
}

// followed runs f on a database that another process may have open, for verbs that wait for its writes.
func (a *app) followed(dir string, f func(store *db.DB, inUse bool) error) error {
	a.dir = dir
	o := &db.Options{ErrorIfMissing: true}
	if err := a.addExpiry(o); err != nil {
		return err
	}
	inUse, lost, err := a.probe(dir, *o)
	var store *db.DB
	if err == nil {
		store, err = db.OpenFollower(dir, o)
	}
	if err != nil {
		if name := customComparer(dir); name != "" {
			return readableOnly(dir, name)
		}
		return explainMissing(dir, err)
	}
	defer store.Close()
	if err = f(store, inUse); lost {
		err = withLosses(err)
	}
	return err
}

// explainMissing returns what opening the database says about a directory or file that is missing, which
// is more than err does. It returns other errors as they are.
func explainMissing(dir string, err error) error {
	info, serr := os.Stat(dir)
	if err != nil && (errors.Is(err, fs.ErrNotExist) || serr != nil || !info.IsDir()) {
		store, oerr := db.Open(dir, &db.Options{ReadOnly: true, ErrorIfMissing: true})
		switch {
		case oerr == nil:
			_ = store.Close() // it was opened for its error only
		case !errors.Is(oerr, db.ErrLocked):
			err = oerr
		}
	}
	return namingCreate(dir, err)
}

// namingCreate makes the error of a directory without a database name the verb that makes one, and not the option.
func namingCreate(dir string, err error) error {
	if err != nil && strings.Contains(err.Error(), "there is no database in ") {
		return &noDatabase{dir, err}
	}
	return err
}

// openStore opens a database, and returns what is to be called after closing it.
func (a *app) openStore(dir string, o *db.Options) (*db.DB, func() error, error) {
	store, err := db.Open(dir, o)
	if o.ReadOnly && errors.Is(err, db.ErrLocked) { // what only reads need not wait for the other process
		if store, err = db.OpenFollower(dir, o); err == nil {
			a.notice("another process has the database open; this is what it has written so far")
		}
	}
	if err != nil {
		return a.openCustom(dir, o, namingCreate(dir, err))
	}
	return store, func() error { return nil }, nil
}

// noDatabase is the error of a directory without a database.
type noDatabase struct {
	dir string
	err error
}

func (n *noDatabase) Error() string {
	return fmt.Sprintf("sievedb: there is no database in %s; 'sievedb create' makes one", n.dir)
}

func (n *noDatabase) Unwrap() error { return n.err }

// notice says something that the user should know although nothing failed.
func (a *app) notice(format string, args ...any) {
	if !a.flags.quiet {
		a.say(format, args...)
	}
}

// tableFlags are the flags of verbs that write tables.
type tableFlags struct {
	ranges string
	bits   int
}

func (t *tableFlags) add(f *pflag.FlagSet) {
	f.StringVar(&t.ranges, "ranges", "", "range filters of new tables by name, as 'filters' prints them, separated by commas")
	f.IntVar(&t.bits, "bits", 10, "filter bits for each key or prefix")
}

// policies returns the range filters that --ranges names.
func (t *tableFlags) policies() (policies []rangefilter.Policy, err error) {
	if t.bits < 1 || t.bits > 64 {
		return nil, misuse("--bits is %d; want 1 to 64", t.bits)
	}
	if t.ranges == "" {
		return nil, nil
	}
	for _, name := range strings.Split(t.ranges, ",") {
		p, err := rangefilter.PolicyNamed(name, t.bits)
		if err != nil {
			return nil, misuse("--ranges: %w", err)
		}
		policies = append(policies, p)
	}
	return policies, nil
}

// rangeFlags choose keys.
type rangeFlags struct{ from, to, prefix string }

func (r *rangeFlags) add(f *pflag.FlagSet) {
	f.StringVar(&r.from, "from", "", "the first key (default: the first of the database)")
	f.StringVar(&r.to, "to", "", "the key to stop before (default: none)")
	f.StringVar(&r.prefix, "prefix", "", "only keys that begin with this")
}

// bounds returns the range of the flags, or of the arguments after the directory.
func (r *rangeFlags) bounds(a *app, args []string) (*db.IterOptions, error) {
	words := []string{r.from, r.to}
	if len(args) > 1 {
		if r.from != "" || r.to != "" || r.prefix != "" {
			return nil, misuse("give the range as arguments or as flags, not as both")
		}
		copy(words, args[1:])
	}
	if r.prefix != "" {
		if r.from != "" || r.to != "" {
			return nil, misuse("--prefix cannot be used with --from or --to")
		}
		prefix, err := a.flagKey("prefix", r.prefix)
		if err != nil {
			return nil, err
		}
		return db.PrefixBounds(prefix), nil
	}
	var bounds [2][]byte
	for i, word := range words {
		if word == "" {
			continue
		}
		b, err := a.flagKey([]string{"from", "to"}[i], word)
		if err != nil {
			return nil, err
		}
		bounds[i] = b
	}
	return a.within(bounds[0], bounds[1]), nil
}

// flagBytes decodes the value of a flag.
func (a *app) flagBytes(name, word string) ([]byte, error) {
	b, err := a.out.format.key.decode([]byte(word))
	if err != nil {
		return nil, misuse("%s: %w", name, err)
	}
	return b, nil
}

// nonNil makes a value that is empty different from one that is missing.
func nonNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}
