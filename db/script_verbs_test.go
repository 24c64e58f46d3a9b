package db_test

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/test/fixture"
)

// scriptVerbs are the statements of scripts, by their verbs. An error that one returns is shown.
var scriptVerbs = map[string]func(s *script, c *statement) error{
	// The store.
	"open":   func(s *script, c *statement) error { s.begin(); return s.open(c) },
	"reopen": (*script).reopen, // with the same options but for those of the statement
	"crash":  func(s *script, c *statement) error { s.use(s.mem.Crash()); return s.reopen(c) },
	"set": func(s *script, c *statement) error {
		before := s.d.Options()
		o := before
		setOptions(&o, c)
		err := s.d.SetOptions(&o)
		if err != nil {
			require.Equal(s, fmt.Sprintf("%+v", before), fmt.Sprintf("%+v", s.d.Options()))
		}
		return err
	},
	"readonly": func(s *script, _ *statement) error { return s.d.SetReadOnly() },
	"flush":    func(s *script, _ *statement) error { return s.d.Flush() },
	"compact":  func(s *script, c *statement) error { from, to := c.bounds(); return s.d.Compact(s.Context(), from, to) },
	"look": func(s *script, _ *statement) error { // at the time, and at what is due
		s.d.Metrics()
		o := s.d.Options()
		return s.d.SetOptions(&o)
	},
	"upgrade": func(s *script, _ *statement) error {
		r, err := s.d.UpgradeFilters(s.Context(), nil, nil)
		s.show("%d tables have new filters", r.Upgraded)
		return err
	},
	"repair": func(s *script, _ *statement) error {
		_ = s.d.Close()
		o := s.o
		o.ReadOnly = false
		r, err := db.RepairWithReport("db", &o)
		if err == nil {
			s.show("healthy is %v %s", r.Healthy, r.ManifestProblem)
		}
		return err
	},
	"destroy": func(s *script, _ *statement) error { return db.Destroy("db", &s.o) },
	"write": func(s *script, c *statement) error { // files
		for _, e := range s.entries(c) {
			if err := s.mem.MkdirAll("db"); err != nil {
				return err
			}
			writeFile(s, s.mem, filepath.Join("db", string(e.key)), e.value)
		}
		return nil
	},
	"damage": func(s *script, c *statement) error { // a bit of a file
		at, path := c.number("at", 0), s.first(c)
		data := readFile(s, s.mem, path)
		data[at] ^= 1
		writeFile(s, s.mem, path, data)
		return nil
	},
	"cut": func(s *script, c *statement) error { // takes the last byte of a file away
		path := s.first(c)
		whole := readFile(s, s.mem, path)
		writeFile(s, s.mem, path, whole[:len(whole)-1])
		return nil
	},
	"remove": func(s *script, c *statement) error { // files
		for _, name := range sure(s.mem.List("db")) {
			if sure(filepath.Match(c.name(), name)) {
				require.NoError(s, s.mem.Remove(filepath.Join("db", name)))
			}
		}
		return nil
	},
	"earlier": func(s *script, c *statement) error { // makes the MANIFEST one of a version that recorded less
		setEarlierRecord(s, s.o.FS, c.take("time", "") == "recorded")
		return nil
	},
	"disk": func(s *script, c *statement) error { s.full.Store(c.name() == "full"); return nil }, // for new tables
	"hold": func(s *script, c *statement) error { // the next operation such as "create *.ldb", until "release"
		s.release = make(chan struct{})
		s.held.Store(&held{c.name(), c.args[1].Key, s.release})
		return nil
	},
	"release": func(s *script, _ *statement) error { close(s.release); return nil },
	"sleep":   func(_ *script, c *statement) error { time.Sleep(sure(time.ParseDuration(c.name()))); return nil },
	"clock": func(s *script, c *statement) error {
		s.ahead.Add(int64(sure(time.ParseDuration(c.name()))))
		return nil
	},

	// What has a name. "close" without one closes the store.
	"close": func(s *script, c *statement) error {
		if len(c.args) == 0 {
			start := time.Now()
			err := s.d.Close()
			require.Zero(s, time.Since(start), "Close waits")
			return err
		}
		return s.named[c.name()].(io.Closer).Close()
	},
	"snapshot": func(s *script, c *statement) error { s.named[c.name()] = s.d.NewSnapshot(); return nil },
	"txn":      func(s *script, c *statement) error { s.named[c.name()] = s.d.NewTransaction(nil); return nil },
	"commit":   func(s *script, c *statement) error { return s.named[c.name()].(*db.Transaction).Commit() },
	"iter": func(s *script, c *statement) (err error) {
		s.named[c.name()], err = s.in(c).(db.Reader).NewIterator(nil)
		return err
	},
	"namespace": func(s *script, c *statement) (err error) {
		in := s.in(c).(interface {
			Namespace(string) (*db.Namespace, error)
		})
		s.named[c.name()], err = in.Namespace(c.name())
		return err
	},
	"follow": func(s *script, c *statement) (err error) {
		f, err := db.OpenFollower("db", &s.o)
		require.Equal(s, err == nil, f.IsFollower())
		s.named[c.name()] = f
		return err
	},
	"refresh": func(s *script, c *statement) error { return s.named[c.name()].(*db.DB).Refresh(s.Context()) },
	"checkpoint": func(s *script, c *statement) error { // and opens it
		d := s.in(c).(*db.DB)
		_, err := d.Checkpoint(s.Context(), c.name(), nil)
		if err == nil {
			s.named[c.name()], err = db.Open(c.name(), &s.o)
		}
		return err
	},
	"pause": func(s *script, c *statement) error {
		resume, err := s.d.PauseCompactions(s.Context())
		if err == nil {
			s.named[c.name()] = closer(resume)
		}
		return err
	},

	// Writes.
	"put": func(s *script, c *statement) error { return write(s.in(c), s.entries(c)...) },
	"load": func(s *script, c *statement) error {
		l, err := s.d.NewLoader()
		if err != nil {
			return err
		}
		if err := write(l, s.entries(c)...); err != nil {
			s.show("put: %s", failure(err))
		}
		return l.Commit()
	},
	"batch": func(s *script, c *statement) error {
		var b db.Batch
		return errors.Join(write(&b, s.entries(c)...), s.d.Apply(&b, db.NoSync))
	},
	"ingest": func(s *script, c *statement) error {
		_, err := s.d.Ingest(s.Context(), []string{s.first(c)}, nil)
		return err
	},
	"fill":  (*script).fill,
	"erase": (*script).fill,
	"deleterange": func(s *script, c *statement) error {
		from, to := c.bounds()
		if tx, ok := s.in(c).(*db.Transaction); ok {
			return tx.DeleteRange(from, to)
		}
		return s.d.DeleteRange(s.Context(), from, to, nil)
	},
	"modify": (*script).modify,
	"swap": func(s *script, c *statement) error { // key=(old, new) or key=(old, new, time to live)
		for _, a := range c.args {
			var swapped bool
			var err error
			if key, old, value := word(a.Key), word(a.Vals[0]), word(a.Vals[1]); len(a.Vals) == 2 {
				swapped, err = s.d.CompareAndSwap(key, old, value, nil)
			} else {
				swapped, err = s.d.CompareAndSwapTTL(key, old, value, sure(time.ParseDuration(a.Vals[2])), nil)
			}
			if err != nil {
				return err
			}
			s.show("%s: swapped is %v", a.Key, swapped)
		}
		return nil
	},

	// What is seen.
	"scan": func(s *script, c *statement) error { // the store, or what has the names
		from, to := c.bounds()
		o := &db.IterOptions{LowerBound: from, UpperBound: to}
		if len(c.args) == 0 {
			s.show("%s", s.content(s.d, o))
		}
		for _, a := range c.args {
			s.show("%s: %s", a.Key, s.content(s.called(a.Key), o))
		}
		return nil
	},
	"everywhere": (*script).everywhere,
	"get": func(s *script, c *statement) error {
		r := s.in(c).(db.Reader)
		s.show("%s", strings.Join(s.lookUp(r, s.entries(c)...), "\n"))
		return nil
	},
	"ttl": (*script).ttl,
	"explain": func(s *script, c *statement) error {
		for _, e := range s.entries(c) {
			x, err := s.d.Explain(e.key)
			if err != nil {
				return err
			}
			s.show("%s: found is %v, deleted %v, expired %v", text(e.key), x.Found, x.Deleted, x.Expired)
			require.Equal(s, x.Expired, strings.Contains(x.String(), "expired: "))
		}
		return nil
	},
	"entries": func(s *script, c *statement) error { // of keys, in the tables
		for _, a := range c.args {
			s.show("%s: %q", a.Key, entriesOf(s, s.mem, string(word(a.Key))))
		}
		return nil
	},
	"namespaces": func(s *script, _ *statement) error {
		names, err := s.d.Namespaces()
		s.show("%q", names)
		return err
	},
	"changes": func(s *script, _ *statement) error {
		for change, err := range s.d.Changes(s.Context(), 0, &db.ChangeOptions{Unsynced: true}) {
			if err != nil {
				return err
			}
			for e, err := range change.Entries() {
				require.NoError(s, err)
				s.show("%s=%s %v", text(e.Key), text(e.Value), e.TTL)
			}
		}
		oldest, last, err := s.d.ChangePositions()
		s.show("positions %d to %d, cursors %v", oldest, last, sure(s.d.Cursors()))
		return err
	},
	"cursor": func(s *script, c *statement) error {
		return s.d.SetCursor(c.name(), uint64(c.number(c.name(), 0)))
	},
	"size": func(s *script, c *statement) error {
		n, err := s.d.ApproximateSize(c.bounds())
		s.show("%d bytes", n)
		return err
	},
	"tables": func(s *script, _ *statement) error {
		for _, t := range sure(s.d.Tables()) {
			s.show("level %d: %s, %s to %s, %d entries, %d deleted", t.Level, t.Name, text(t.Smallest), text(t.Largest), t.Entries, t.Deletions)
		}
		return nil
	},
	"values": func(s *script, _ *statement) error { // the value tables
		all, err := s.d.ValueTables()
		for _, t := range all {
			s.show("%s: %d bytes of values, %d live, compressed is %v", t.Name, t.ValueBytes, t.LiveBytes, t.Bytes < t.ValueBytes/2)
		}
		if len(all) == 0 {
			s.show("no value tables")
		}
		return err
	},
	"levels": func(s *script, _ *statement) error {
		var all []string
		for i, l := range s.d.Metrics().Levels {
			if l.Tables > 0 {
				all = append(all, fmt.Sprintf("level %d: %d tables", i, l.Tables))
			}
		}
		if files := len(fixture.Names(s, s.o.FS, base.FileTable)); files != s.d.Metrics().Total().Tables {
			all = append(all, fmt.Sprintf("%d files", files))
		}
		s.show("%s", cmp.Or(strings.Join(all, ", "), "no tables"))
		return nil
	},
	"reads": func(s *script, _ *statement) error { s.show("%d reads of tables", s.reads.Swap(0)); return nil },
	"events": func(s *script, _ *statement) error { // since they were shown last
		s.mu.Lock()
		events := s.events
		s.events = nil
		s.mu.Unlock()
		s.show("%s", strings.Join(events, "\n"))
		return nil
	},
	"files": func(s *script, c *statement) error { // that match, and whether they hold a text
		holds := c.take("holds", "")
		names, err := s.mem.List("db")
		for _, name := range names {
			switch match := sure(filepath.Match(c.name(), name)); {
			case match && holds == "":
				s.show("%s", name)
			case match:
				s.show("%s: %v", name, bytes.Contains(readFile(s, s.mem, filepath.Join("db", name)), []byte(holds)))
			}
		}
		return err
	},
	"check": func(s *script, _ *statement) error {
		r, err := s.d.Check(s.Context())
		s.show("faults: %q", r.Faults)
		return err
	},
	"print": func(s *script, c *statement) error { // fields of what describes the store
		from := map[string]func() any{
			"metrics":  func() any { return s.in(c).(*db.DB).Metrics() },
			"options":  func() any { return s.in(c).(*db.DB).Options() },
			"opening":  func() any { return s.in(c).(*db.DB).OpenReport() },
			"recorded": func() any { return sure(db.RecordedOptions(c.take("dir", "db"), &db.Options{FS: s.o.FS})) },
		}[c.name()]()
		for _, a := range c.args[1:] {
			s.show("%s=%v", a.Key, field(reflect.ValueOf(from), a.Key))
		}
		return nil
	},
}

// first returns the path of the first file that matches the statement's first argument.
func (s *script) first(c *statement) string {
	dir := c.take("dir", "db")
	names := slices.DeleteFunc(sure(s.mem.List(dir)), func(name string) bool { return !sure(filepath.Match(c.name(), name)) })
	require.NotEmpty(s, names, c.name())
	return filepath.Join(dir, names[0])
}

// closer is a function that Close calls.
type closer func()

func (f closer) Close() error { f(); return nil }

func (s *script) reopen(c *statement) error {
	if err := s.d.Close(); err != nil && err != db.ErrClosed {
		s.show("close: %s", failure(err))
	}
	return s.open(c)
}

// open opens the database. If that fails, it has changed nothing.
func (s *script) open(c *statement) (err error) {
	if c.take("as", "") == "recorded" {
		s.o = sure(db.RecordedOptions("db", &db.Options{FS: s.o.FS})).Options
	}
	setOptions(&s.o, c)
	var before fixture.Dir
	if _, missing := s.mem.Stat("db"); missing == nil {
		before = fixture.ReadDir(s, s.mem, "db")
	}
	if s.d, err = db.Open("db", &s.o); err != nil && before != nil {
		require.Equal(s, before, fixture.ReadDir(s, s.mem, "db"))
	}
	require.False(s, s.d.IsFollower())
	return err
}

// fill puts, or erases, n numbered keys, with a pause after each or in batches. Their values are those of
// fixture.Value, or as long as size says.
func (s *script) fill(c *statement) error {
	from, n, step, size, batch := c.number("from", 0), c.number("n", 1), c.number("step", 1), c.number("size", 100), c.number("batch", 0)
	prefix, suffix, every := c.take("prefix", ""), c.take("suffix", ""), c.time("every")
	e := entry{ttl: c.time("ttl"), deleted: c.verb == "erase"}
	e.expires = e.ttl != 0
	var b db.Batch
	for i := range n {
		e.key = slices.Concat([]byte(prefix), testKey(from+i*step), []byte(suffix))
		e.value = bytes.Repeat(testValue(from+i*step), size/100)
		err := error(nil)
		switch {
		case batch == 0:
			err = write(s.d, e)
		case b.Len() == batch-1:
			err = errors.Join(write(&b, e), s.d.Apply(&b, db.NoSync))
			b.Reset()
		default:
			err = write(&b, e)
		}
		if err != nil {
			return err
		}
		synctest.Wait()
		time.Sleep(every)
	}
	return nil
}

// modify appends to values, or shows them and sets them with a time to live.
func (s *script) modify(c *statement) (err error) {
	for _, e := range s.entries(c) {
		if e.expires {
			err = s.d.ModifyTTL(e.key, func(old []byte, ttl time.Duration) ([]byte, time.Duration, error) {
				s.show("%s was %s, %v", text(e.key), text(old), ttl)
				return e.value, e.ttl, nil
			}, nil)
		} else {
			err = s.d.Modify(e.key, func(old []byte) ([]byte, error) { return append(old, e.value...), nil }, nil)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// everywhere shows the content, which a flush and a compaction must not change.
func (s *script) everywhere(*statement) error {
	was := s.content(s.d, nil)
	s.show("%s", was)
	require.NoError(s, s.d.Flush())
	require.Equal(s, was, s.content(s.d, nil), "after a flush")
	require.NoError(s, s.d.Compact(s.Context(), nil, nil))
	require.Equal(s, was, s.content(s.d, nil), "after a compaction")
	return nil
}

// content returns what iterators of r show, forward and backward alike. Lookups of all these keys, and of all others
// that the script has named, must agree.
func (s *script) content(r any, o *db.IterOptions) string {
	it, kept := r.(*db.Iterator)
	if !kept {
		it = sure(r.(db.Reader).NewIterator(o))
		defer it.Close()
	}
	found := map[string]string{}
	walk := func(ok bool, step func() bool) (shown []string, err error) {
		for ; ok; ok = step() {
			e := text(it.Key()) + "=" + text(it.Value())
			shown, found[string(it.Key())] = append(shown, e), e
		}
		return shown, it.Err()
	}
	forward, err := walk(it.First(), it.Next)
	backward, backErr := walk(it.Last(), it.Prev)
	if err != nil {
		return fmt.Sprintf("%q, then %s\nbackward: %q, then %s", forward, failure(err), backward, failure(backErr))
	}
	slices.Reverse(backward)
	require.Equal(s, forward, backward)
	if !kept && (o == nil || o.LowerBound == nil && o.UpperBound == nil) {
		for _, key := range slices.AppendSeq(slices.Clone(s.keys), maps.Keys(found)) {
			e := cmp.Or(found[key], text([]byte(key))+": "+failure(db.ErrNotFound))
			require.Equal(s, []string{e}, s.lookUp(r.(db.Reader), entry{key: []byte(key)}))
		}
	}
	return cmp.Or(strings.Join(forward, " "), "(empty)")
}

// lookUp returns what Get finds. Has and MultiGet must agree.
func (s *script) lookUp(r db.Reader, all ...entry) (shown []string) {
	var keys, found [][]byte
	failed := false
	for _, e := range all {
		value, err := r.Get(e.key)
		has, hasErr := r.Has(e.key)
		keys, found = append(keys, e.key), append(found, value)
		switch {
		case err == nil:
			shown = append(shown, text(e.key)+"="+text(value))
		case err != db.ErrNotFound && hasErr == nil: // Has reads no value that is apart
			shown = append(shown, fmt.Sprintf("%s: %s, but Has returns %v", text(e.key), failure(err), has))
		default:
			shown = append(shown, text(e.key)+": "+failure(err))
		}
		require.True(s, hasErr == nil || err != nil)
		require.True(s, hasErr != nil || has == (err != db.ErrNotFound))
		failed = failed || err != nil && err != db.ErrNotFound
	}
	values, err := r.MultiGet(keys)
	require.Equal(s, failed, err != nil, "MultiGet: %v", err)
	require.True(s, failed || reflect.DeepEqual(found, values), "MultiGet")
	return shown
}

// ttl shows values and when they expire, by lookups and by iterators.
func (s *script) ttl(c *statement) error {
	r := s.in(c).(interface {
		db.Reader
		GetTTL(key []byte) ([]byte, time.Duration, error)
	})
	for _, e := range s.entries(c) {
		value, left, err := r.GetTTL(e.key)
		if err != nil {
			return err
		}
		it := sure(r.NewIterator(nil))
		require.True(s, it.SeekGE(e.key))
		require.Equal(s, left, it.TTL())
		for ok := it.Last(); ok && string(it.Key()) != string(e.key); ok = it.Prev() {
			continue
		}
		require.Equal(s, left, it.TTL(), "backward")
		require.NoError(s, it.Close())
		s.show("%s=%s %v", text(e.key), text(value), left)
	}
	return nil
}
