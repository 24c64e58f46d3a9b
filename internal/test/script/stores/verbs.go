package stores

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/script"
	"github.com/sievedb/sievedb/report"
	"github.com/sievedb/sievedb/vfs"
)

// verbs are the statements.
var verbs = script.Verbs[*state]{
	"*": (*state).call,

	// The store.
	"open":   func(s *state, c *statement) error { s.begin(); return s.open(c) },
	"reopen": (*state).reopen, // with the same options but for those of the statement
	"crash":  func(s *state, c *statement) error { s.use(s.mem.Crash()); return s.reopen(c) },
	"open-again": func(s *state, c *statement) error { // while it is open
		o := s.o
		setOptions(&o, c)
		d, err := db.Open(s.dir, &o)
		_ = d.Close()
		return err
	},
	"cut-power": func(s *state, c *statement) error { s.use(s.mem.Crash()); return s.close() },
	"set": func(s *state, c *statement) error {
		before := s.d.Options()
		o := before
		setOptions(&o, c)
		err := s.d.SetOptions(&o)
		if err != nil {
			require.Equal(s, fmt.Sprintf("%+v", before), fmt.Sprintf("%+v", s.d.Options()))
		}
		return err
	},
	"readonly": func(s *state, _ *statement) error {
		err := s.d.SetReadOnly()
		s.ended.CompareAndSwap(0, storeReadOnly)
		return err
	},
	"flush":   func(s *state, _ *statement) error { return s.d.Flush() },
	"sync":    func(s *state, _ *statement) error { return s.d.SyncLog() },
	"compact": func(s *state, c *statement) error { from, to := bounds(c); return s.d.Compact(s.Context(), from, to) },
	"look": func(s *state, _ *statement) error { // at the time, and at what is due
		s.d.Metrics()
		o := s.d.Options()
		return s.d.SetOptions(&o)
	},
	"upgrade": func(s *state, c *statement) error {
		r, err := s.d.UpgradeFilters(s.Context(), nil, &db.UpgradeOptions{DryRun: c.Take("dry", "") == "true"})
		s.Show("%d tables have new filters", r.Upgraded)
		return err
	},
	"repair": func(s *state, c *statement) error {
		_ = s.d.Close()
		s.dir = c.Take("dir", s.dir)
		o := s.o
		o.ReadOnly = false
		setOptions(&o, c)
		return s.unchanged(func() error {
			r, err := db.RepairWithReport(s.dir, &o)
			if err == nil {
				s.Show("healthy is %v %s", r.Healthy, r.ManifestProblem)
			}
			if r != nil && r.LogsAbandoned != "" {
				s.Show("logs are abandoned: %s", r.LogsAbandoned)
			}
			return err
		})
	},
	"destroy": func(s *state, c *statement) error {
		dir, o := c.Take("dir", s.dir), s.o
		setOptions(&o, c)
		return s.unchanged(func() error { return db.Destroy(dir, &o) })
	},
	"write": func(s *state, c *statement) error { // files
		dir := c.Take("dir", "db")
		for _, e := range s.entries(c) {
			if err := vfs.MkdirAllSynced(s.mem, dir); err != nil {
				return err
			}
			fixture.WriteFile(s, s.mem, filepath.Join(dir, string(e.key)), e.value)
		}
		return nil
	},
	"damage": func(s *state, c *statement) error { // a bit of a file
		at, path := c.Number("at", 0), s.first(c)
		data := fixture.ReadFile(s, s.mem, path)
		data[at] ^= 1
		fixture.WriteFile(s, s.mem, path, data)
		return nil
	},
	"cut": func(s *state, c *statement) error { // takes the last byte of a file away
		path := s.first(c)
		whole := fixture.ReadFile(s, s.mem, path)
		fixture.WriteFile(s, s.mem, path, whole[:len(whole)-1])
		return nil
	},
	"remove": func(s *state, c *statement) error { // files
		dir := c.Take("dir", "db")
		for _, name := range script.Sure(s.mem.List(dir)) {
			if script.Sure(filepath.Match(c.Name(), name)) {
				require.NoError(s, s.mem.Remove(filepath.Join(dir, name)))
			}
		}
		return nil
	},
	"mkdir": func(s *state, c *statement) error { return vfs.MkdirAllSynced(s.mem, c.Name()) },
	"rmdir": func(s *state, c *statement) error { // with its files
		for _, name := range script.Sure(s.mem.List(c.Name())) {
			require.NoError(s, s.mem.Remove(filepath.Join(c.Name(), name)))
		}
		return s.mem.Remove(c.Name())
	},
	"copy": func(s *state, c *statement) error { // the files of a directory that match, by default all but LOCK
		from, to, glob := c.Take("from", "db"), c.Take("to", "db"), c.Take("files", "[^L]*")
		require.NoError(s, vfs.MkdirAllSynced(s.mem, to))
		for name, data := range fixture.ReadDir(s, s.mem, from) {
			if script.Sure(filepath.Match(glob, name)) || glob == "[^L]*" && strings.HasPrefix(name, "LOG") {
				fixture.WriteFile(s, s.mem, filepath.Join(to, c.Take("as", name)), data)
			}
		}
		return s.mem.SyncDir(to)
	},
	"fail": func(s *state, c *statement) error { // operations such as "create db/MANIFEST*" with an error, until "heal"
		s.failing.Store(&failing{c.Name(), c.Args[1].Key, faults[c.Args[2].Key]})
		return nil
	},
	"heal": func(s *state, _ *statement) error { s.failing.Store(nil); return nil },
	"earlier": func(s *state, c *statement) error { // makes the MANIFEST one of a version that recorded less
		setEarlierRecord(s, s.o.FS, c.Take("time", "") == "recorded")
		return nil
	},
	"disk": func(s *state, c *statement) error { s.full.Store(c.Name() == "full"); return nil }, // for new tables
	"hold": func(s *state, c *statement) error { // the next operation such as "create *.ldb", until "release"
		s.release = make(chan struct{})
		s.held.Store(&held{c.Name(), c.Args[1].Key, s.release})
		return nil
	},
	"timed": func(s *state, c *statement) error { // shows how long another statement takes, rounded
		to, start := c.Time("to"), time.Now()
		s.Do(c.Rest(), "")
		s.Show("%v passed", time.Since(start).Round(to))
		return nil
	},
	"closing": func(s *state, c *statement) error { // opens the store again, and closes it while a call waits for a table
		if err := s.reopen(&statement{}); err != nil {
			return err
		}
		h := &held{"open", "*.ldb", make(chan struct{})}
		s.held.Store(h)
		rest := c.Rest()
		rest.Aside = true
		go s.Do(rest, "has ended")
		synctest.Wait()
		err := s.close()
		close(h.release)
		return err
	},
	"release": func(s *state, _ *statement) error { close(s.release); return nil },
	"sleep":   func(_ *state, c *statement) error { time.Sleep(script.Sure(time.ParseDuration(c.Name()))); return nil },
	"clock": func(s *state, c *statement) error {
		s.ahead.Add(int64(script.Sure(time.ParseDuration(c.Name()))))
		return nil
	},

	// What has a name. "close" without one closes the store.
	"close": func(s *state, c *statement) error {
		if len(c.Args) == 0 {
			return s.close()
		}
		return s.named[c.Name()].(io.Closer).Close()
	},
	"snapshot": func(s *state, c *statement) error { s.named[c.Name()] = s.d.NewSnapshot(); return nil },
	"txn":      func(s *state, c *statement) error { s.named[c.Name()] = s.d.NewTransaction(nil); return nil },
	"commit":   func(s *state, c *statement) error { return s.named[c.Name()].(*db.Transaction).Commit() },
	"iter": func(s *state, c *statement) (err error) {
		s.named[c.Name()], err = s.in(c).(db.Reader).NewIterator(nil)
		return err
	},
	"namespace": func(s *state, c *statement) (err error) {
		in := s.in(c).(interface {
			Namespace(string) (*db.Namespace, error)
		})
		s.named[c.Name()], err = in.Namespace(c.Name())
		return err
	},
	"follow": func(s *state, c *statement) (err error) {
		f, err := db.OpenFollower(c.Take("dir", "db"), &s.o)
		require.Equal(s, err == nil, f.IsFollower())
		s.named[c.Name()] = f
		return err
	},
	"refresh": func(s *state, c *statement) error { return s.named[c.Name()].(*db.DB).Refresh(s.Context()) },
	"checkpoint": func(s *state, c *statement) error { // and opens it
		d := s.in(c).(*db.DB)
		_, err := d.Checkpoint(s.Context(), c.Name(), nil)
		if err == nil {
			s.named[c.Name()], err = db.Open(c.Name(), &s.o)
		}
		return err
	},
	"pause": func(s *state, c *statement) error {
		resume, err := s.d.PauseCompactions(s.Context())
		if err == nil {
			s.named[c.Name()] = closer(resume)
		}
		return err
	},

	// Writes.
	"put": func(s *state, c *statement) error { return write(s.in(c), s.entries(c)...) },
	"load": func(s *state, c *statement) error {
		l, err := s.d.NewLoader()
		if err != nil {
			return err
		}
		if err := write(l, s.entries(c)...); err != nil {
			s.Show("put: %s", script.Failure(err))
		}
		return l.Commit()
	},
	"batch": func(s *state, c *statement) error {
		var b db.Batch
		return errors.Join(write(&b, s.entries(c)...), s.d.Apply(&b, db.NoSync))
	},
	"ingest": func(s *state, c *statement) error {
		_, err := s.d.Ingest(s.Context(), []string{s.first(c)}, nil)
		return err
	},
	"fill":  (*state).fill,
	"erase": (*state).fill,
	"deleterange": func(s *state, c *statement) error {
		from, to := bounds(c)
		if tx, ok := s.in(c).(*db.Transaction); ok {
			return tx.DeleteRange(from, to)
		}
		return s.d.DeleteRange(s.Context(), from, to, nil)
	},
	"modify": (*state).modify,
	"swap": func(s *state, c *statement) error { // key=(old, new) or key=(old, new, time to live)
		for _, a := range c.Args {
			var swapped bool
			var err error
			if key, old, value := script.Word(a.Key), script.Word(a.Vals[0]), script.Word(a.Vals[1]); len(a.Vals) == 2 {
				swapped, err = s.d.CompareAndSwap(key, old, value, nil)
			} else {
				swapped, err = s.d.CompareAndSwapTTL(key, old, value, script.Sure(time.ParseDuration(a.Vals[2])), nil)
			}
			if err != nil {
				return err
			}
			s.Show("%s: swapped is %v", a.Key, swapped)
		}
		return nil
	},

	// What is seen.
	"scan": func(s *state, c *statement) error { // the store, or what has the names
		from, to := bounds(c)
		o := &db.IterOptions{LowerBound: from, UpperBound: to}
		if len(c.Args) == 0 {
			s.Show("%s", s.content(s.d, o))
		}
		for _, a := range c.Args {
			s.Show("%s: %s", a.Key, s.content(s.called(a.Key), o))
		}
		return nil
	},
	"everywhere": (*state).everywhere,
	"get": func(s *state, c *statement) error {
		r := s.in(c).(db.Reader)
		s.Show("%s", strings.Join(s.lookUp(r, s.entries(c)...), "\n"))
		return nil
	},
	"ttl": (*state).ttl,
	"explain": func(s *state, c *statement) error {
		for _, e := range s.entries(c) {
			x, err := s.d.Explain(e.key)
			if err != nil {
				return err
			}
			last := append([]report.ExplainStep{{Run: "nowhere"}}, x.Steps...)[len(x.Steps)]
			s.Show("%s: found is %v, deleted %v, expired %v, %s", script.Text(e.key), x.Found, x.Deleted, x.Expired, last.Run)
			require.Equal(s, x.Expired, strings.Contains(x.String(), "expired: "))
		}
		return nil
	},
	"entries": func(s *state, c *statement) error { // of keys, in the tables
		for _, a := range c.Args {
			s.Show("%s: %q", a.Key, fixture.ReadDir(s, s.mem, "db").Entries(s, string(script.Word(a.Key))))
		}
		return nil
	},
	"namespaces": func(s *state, _ *statement) error {
		names, err := s.d.Namespaces()
		s.Show("%q", names)
		return err
	},
	"changes": func(s *state, _ *statement) error {
		for change, err := range s.d.Changes(s.Context(), 0, &db.ChangeOptions{Unsynced: true}) {
			if err != nil {
				return err
			}
			for e, err := range change.Entries() {
				require.NoError(s, err)
				s.Show("%s=%s %v", script.Text(e.Key), script.Text(e.Value), e.TTL)
			}
		}
		oldest, last, err := s.d.ChangePositions()
		s.Show("positions %d to %d, cursors %v", oldest, last, script.Sure(s.d.Cursors()))
		return err
	},
	"cursor": func(s *state, c *statement) error {
		return s.d.SetCursor(c.Name(), uint64(c.Number(c.Name(), 0)))
	},
	"size": func(s *state, c *statement) error {
		n, err := s.d.ApproximateSize(bounds(c))
		s.Show("%d bytes", n)
		return err
	},
	"tables": func(s *state, _ *statement) error {
		for _, t := range script.Sure(s.d.Tables()) {
			s.Show("level %d: %s, %s to %s, %d entries, %d deleted", t.Level, t.Name, script.Text(t.Smallest), script.Text(t.Largest), t.Entries, t.Deletions)
		}
		return nil
	},
	"compression": func(s *state, _ *statement) error { // of the first block of each table
		for _, t := range script.Sure(s.d.Tables()) {
			s.Show("level %d: compression %d", t.Level, fixture.CompressionOf(fixture.ReadFile(s, s.mem, filepath.Join("db", t.Name))))
		}
		return nil
	},
	"values": func(s *state, _ *statement) error { // the value tables
		all, err := s.d.ValueTables()
		for _, t := range all {
			s.Show("%s: %d bytes of values, %d live, compressed is %v", t.Name, t.ValueBytes, t.LiveBytes, t.Bytes < t.ValueBytes/2)
		}
		if len(all) == 0 {
			s.Show("no value tables")
		}
		return err
	},
	"levels": func(s *state, _ *statement) error {
		var all []string
		for i, l := range s.d.Metrics().Levels {
			if l.Tables > 0 {
				all = append(all, fmt.Sprintf("level %d: %d tables", i, l.Tables))
			}
		}
		if files := len(fixture.Names(s, s.o.FS, base.FileTable)); files != s.d.Metrics().Total().Tables {
			all = append(all, fmt.Sprintf("%d files", files))
		}
		s.Show("%s", cmp.Or(strings.Join(all, ", "), "no tables"))
		return nil
	},
	"reads": func(s *state, _ *statement) error { s.Show("%d reads of tables", s.reads.Swap(0)); return nil },
	"events": func(s *state, _ *statement) error { // since they were shown last
		s.mu.Lock()
		events := s.events
		s.events = nil
		s.mu.Unlock()
		s.Show("%s", strings.Join(events, "\n"))
		return nil
	},
	"files": func(s *state, c *statement) error { // that match, and whether they hold a text
		holds, dir := c.Take("holds", ""), c.Take("dir", "db")
		names, err := s.mem.List(dir)
		for _, name := range names {
			switch match := script.Sure(filepath.Match(c.Name(), name)); {
			case match && holds == "":
				s.Show("%s", name)
			case match:
				s.Show("%s: %v", name, bytes.Contains(fixture.ReadFile(s, s.mem, filepath.Join(dir, name)), script.Word(holds)))
			}
		}
		return err
	},
	"check": func(s *state, _ *statement) error {
		r, err := s.d.Check(s.Context())
		s.Show("faults: %q", r.Faults)
		return err
	},
	"print": func(s *state, c *statement) error { // fields of what describes the store, sums rounded
		from := map[string]func() any{
			"metrics":  func() any { return s.in(c).(*db.DB).Metrics() },
			"options":  func() any { return s.in(c).(*db.DB).Options() },
			"usage":    func() any { return script.Sure(s.in(c).(*db.DB).DiskUsage()) },
			"opening":  func() any { return s.in(c).(*db.DB).OpenReport() },
			"recorded": func() any { return script.Sure(db.RecordedOptions(c.Take("dir", "db"), &db.Options{FS: s.o.FS})) },
		}[c.Name()]()
		to := uint64(c.Number("to", 1))
		for _, a := range c.Args[1:] {
			v := Field(reflect.ValueOf(from), a.Key)
			if v.Kind() == reflect.Uint64 {
				v = reflect.ValueOf((v.Uint() + to/2) / to * to)
			}
			s.Show("%s=%v", a.Key, v)
		}
		return nil
	},
}

// first returns the path of the first file that matches the statement's first argument.
func (s *state) first(c *statement) string {
	dir := c.Take("dir", "db")
	names := slices.DeleteFunc(script.Sure(s.mem.List(dir)), func(name string) bool { return !script.Sure(filepath.Match(c.Name(), name)) })
	require.NotEmpty(s, names, c.Name())
	return filepath.Join(dir, names[0])
}

// closer is a function that Close calls.
type closer func()

func (f closer) Close() error { f(); return nil }

// call calls the method of the store, or of what "in" names, whose name is the verb. It gets the arguments, and zero
// values for those that are missing, but a context, which may end "within" a time. A result is shown if it is plain, or
// named by "as".
func (s *state) call(c *statement) (failed error) {
	ctx, cancel := context.WithCancel(s.Context())
	defer cancel()
	if limit := c.Time("within"); limit > 0 {
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	as, times, method := c.Take("as", ""), c.Number("times", 1), reflect.ValueOf(s.in(c)).MethodByName(c.Verb)
	require.True(s, method.IsValid(), "there is no verb %q", c.Verb)
	var in, results []reflect.Value
	for i := range method.Type().NumIn() {
		arg := reflect.New(method.Type().In(i)).Elem()
		if arg.Type() == reflect.TypeFor[context.Context]() {
			arg.Set(reflect.ValueOf(ctx))
		} else if len(c.Args) > 0 {
			to := arg
			if arg.Kind() == reflect.Pointer && len(c.Args[0].Vals) > 0 { // a field of options
				arg.Set(reflect.New(arg.Type().Elem()))
				to = Field(arg, c.Args[0].Key)
			}
			setOption(to, c.Args[0])
			c.Args = c.Args[1:]
		}
		in = append(in, arg)
	}
	for range times {
		results = method.Call(in)
	}
	for _, out := range results {
		switch v := out.Interface().(type) {
		case nil:
		case error:
			failed = v
		case bool, uint64, time.Duration:
			s.Show("%v", v)
		case []byte:
			s.Show("%s", script.Text(v))
		default:
			s.named[as] = v
		}
	}
	return failed
}

func (s *state) reopen(c *statement) error {
	if err := s.close(); err != nil && err != db.ErrClosed {
		s.Show("close: %s", script.Failure(err))
	}
	return s.open(c)
}

// open opens the database. If that fails, it has changed nothing.
func (s *state) open(c *statement) (err error) {
	if c.Take("as", "") == "recorded" {
		s.o = script.Sure(db.RecordedOptions("db", &db.Options{FS: s.o.FS})).Options
	}
	s.dir = c.Take("dir", s.dir)
	setOptions(&s.o, c)
	return s.unchanged(func() error {
		o := s.o
		o.FS = s.endingFS()
		s.d, err = db.Open(s.dir, &o)
		require.False(s, s.d.IsFollower())
		return err
	})
}

// unchanged requires that a call that fails changes no file, but for the LOCK of directories of logs.
func (s *state) unchanged(call func() error) error {
	before := fixture.ReadDir(s, s.mem, ".")
	err := call()
	if err != nil {
		after := fixture.ReadDir(s, s.mem, ".")
		maps.DeleteFunc(after, func(name string, b []byte) bool {
			return filepath.Base(name) == base.LockName && filepath.Dir(name) != s.dir && before[name] == nil
		})
		before.RequireSame(s, after)
	}
	return err
}

// fill puts, or erases, n numbered keys, with a pause after each or in batches. Their values are those of
// fixture.Value, or as long as size says.
func (s *state) fill(c *statement) error {
	from, n, step, size, batch := c.Number("from", 0), c.Number("n", 1), c.Number("step", 1), c.Number("size", 100), c.Number("batch", 0)
	prefix, suffix, every := c.Take("prefix", ""), c.Take("suffix", ""), c.Time("every")
	e := entry{ttl: c.Time("ttl"), deleted: c.Verb == "erase"}
	e.expires = e.ttl != 0
	var b db.Batch
	for i := range n {
		e.key = slices.Concat([]byte(prefix), fixture.Key(from+i*step), []byte(suffix))
		e.value = bytes.Repeat(fixture.Value(from+i*step), size/100)
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
		if !c.Aside {
			synctest.Wait()
		}
		time.Sleep(every)
	}
	return nil
}

// modify appends to values, or shows them and sets them with a time to live.
func (s *state) modify(c *statement) (err error) {
	for _, e := range s.entries(c) {
		if e.expires {
			err = s.d.ModifyTTL(e.key, func(old []byte, ttl time.Duration) ([]byte, time.Duration, error) {
				s.Show("%s was %s, %v", script.Text(e.key), script.Text(old), ttl)
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
func (s *state) everywhere(*statement) error {
	was := s.content(s.d, nil)
	s.Show("%s", was)
	require.NoError(s, s.d.Flush())
	require.Equal(s, was, s.content(s.d, nil), "after a flush")
	require.NoError(s, s.d.Compact(s.Context(), nil, nil))
	require.Equal(s, was, s.content(s.d, nil), "after a compaction")
	return nil
}

// content returns what iterators of r show, forward and backward alike. Lookups of all these keys, and of all others
// that the script has named, must agree.
func (s *state) content(r any, o *db.IterOptions) string {
	it, kept := r.(*db.Iterator)
	if !kept {
		it = script.Sure(r.(db.Reader).NewIterator(o))
		defer it.Close()
	}
	found := map[string]string{}
	walk := func(ok bool, step func() bool) (shown []string, err error) {
		for ; ok; ok = step() {
			e := script.Text(it.Key()) + "=" + script.Text(it.Value())
			shown, found[string(it.Key())] = append(shown, e), e
		}
		return shown, it.Err()
	}
	forward, err := walk(it.First(), it.Next)
	backward, backErr := walk(it.Last(), it.Prev)
	if err != nil {
		return fmt.Sprintf("%q, then %s\nbackward: %q, then %s", forward, script.Failure(err), backward, script.Failure(backErr))
	}
	slices.Reverse(backward)
	require.Equal(s, forward, backward)
	if !kept && (o == nil || o.LowerBound == nil && o.UpperBound == nil) {
		for _, key := range slices.AppendSeq(slices.Clone(s.keys), maps.Keys(found)) {
			e := cmp.Or(found[key], script.Text([]byte(key))+": "+script.Failure(db.ErrNotFound))
			require.Equal(s, []string{e}, s.lookUp(r.(db.Reader), entry{key: []byte(key)}))
		}
	}
	all := cmp.Or(strings.Join(forward, " "), "(empty)")
	if len(forward) > 50 {
		return fmt.Sprintf("%d entries, %08x", len(forward), crc32.ChecksumIEEE([]byte(all)))
	}
	return all
}

// lookUp returns what Get finds. Has and MultiGet must agree.
func (s *state) lookUp(r db.Reader, all ...entry) (shown []string) {
	var keys, found [][]byte
	failed := false
	for _, e := range all {
		value, err := r.Get(e.key)
		has, hasErr := r.Has(e.key)
		keys, found = append(keys, e.key), append(found, value)
		switch {
		case err == nil:
			shown = append(shown, script.Text(e.key)+"="+script.Text(value))
		case err != db.ErrNotFound && hasErr == nil: // Has reads no value that is apart
			shown = append(shown, fmt.Sprintf("%s: %s, but Has returns %v", script.Text(e.key), script.Failure(err), has))
		default:
			shown = append(shown, script.Text(e.key)+": "+script.Failure(err))
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
func (s *state) ttl(c *statement) error {
	r := s.in(c).(interface {
		db.Reader
		GetTTL(key []byte) ([]byte, time.Duration, error)
	})
	for _, e := range s.entries(c) {
		value, left, err := r.GetTTL(e.key)
		if err != nil {
			return err
		}
		it := script.Sure(r.NewIterator(nil))
		require.True(s, it.SeekGE(e.key))
		require.Equal(s, left, it.TTL())
		for ok := it.Last(); ok && string(it.Key()) != string(e.key); ok = it.Prev() {
			continue
		}
		require.Equal(s, left, it.TTL(), "backward")
		require.NoError(s, it.Close())
		s.Show("%s=%s %v", script.Text(e.key), script.Text(value), left)
	}
	return nil
}

// setEarlierRecord makes the MANIFEST one of a version that recorded only the time, or nothing.
func setEarlierRecord(t testing.TB, fsys vfs.FS, recorded bool) {
	t.Helper()
	set, st, err := manifest.Load(manifest.SetOptions{FS: fsys, Dir: "db", Cmp: db.BytewiseComparer})
	require.NoError(t, err)
	edit := &manifest.Edit{
		Comparer: db.BytewiseComparer.Name, LogNum: manifest.Num(st.LogNum), PrevLogNum: manifest.Num(0),
		NextFileNum: manifest.Num(set.NextFileNum() + 1), LastSeq: manifest.Num(st.LastSeq),
	}
	set.Current().Files(func(level int, f *version.FileMeta) {
		edit.Added = append(edit.Added, version.LevelFile{Level: level, File: f})
	})
	if recorded {
		user := binary.LittleEndian.AppendUint64([]byte("sievedb.time\x00"), st.Recorded.Time)
		key := base.AppendInternalKey(nil, user, 0, base.KindDelete)
		edit.CompactPointers = []manifest.CompactPointer{{Level: 6, Key: key}}
	}
	num := set.NextFileNum()
	require.NoError(t, manifest.WriteFile(fsys, "db", num, edit))
	require.NoError(t, manifest.SetCurrent(fsys, "db", num))
}
