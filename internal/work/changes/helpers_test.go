package changes

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/batch"
	"github.com/sievedb/sievedb/internal/disk/wal"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/vfs"
)

// store writes logs as a database does, and has an Archive.
type store struct {
	t    testing.TB
	fsys vfs.FS
	o    Options
	a    *Archive
	log  *wal.Writer
	num  uint64 // of the log
	seq  uint64
	// tables counts the tables of loads.
	tables int
	now    time.Time
	// manifest is the number of the MANIFEST, which each opening increments.
	manifest uint64
	logNum   uint64 // the first log that is needed
}

func newStore(t testing.TB, fsys vfs.FS) *store {
	t.Helper()
	require.NoError(t, fsys.MkdirAll("db"))
	s := &store{t: t, fsys: fsys, now: time.Unix(1e9, 0)}
	s.o = Options{FS: fsys, Dir: "db", Logger: slog.New(slog.DiscardHandler), Now: func() time.Time { return s.now }}
	return s
}

// opened returns a store that is open.
func opened(t testing.TB) *store {
	t.Helper()
	s := newStore(t, vfs.NewMem())
	require.NoError(t, s.open())
	return s
}

// open begins the next opening: all logs are replayed.
func (s *store) open() error {
	names := result.Of(s.fsys.List("db"))(s.t)
	r := Recovered{LastSeq: s.seq, Manifest: s.manifest, LogNum: s.logNum}
	for _, name := range names {
		if kind, num, ok := base.ParseFileName(name); ok && kind == base.FileLog {
			r.Logs = append(r.Logs, num)
		}
	}
	return s.openWith(r)
}

func (s *store) openWith(r Recovered) (err error) {
	if s.a, err = New(s.o); err != nil {
		return err
	}
	plan, err := s.a.Examine(r)
	if err != nil {
		return err
	}
	s.begin()
	s.manifest, s.logNum = s.manifest+1, s.num
	if err := s.a.Start(plan, s.num); err != nil {
		return err
	}
	for _, num := range r.Logs {
		_ = s.fsys.Remove(filepath.Join("db", base.FileName(base.FileLog, num)))
	}
	return nil
}

// begin creates the next log.
func (s *store) begin() {
	s.num++
	f := result.Of(s.fsys.Create(s.path()))(s.t)
	s.log = wal.NewWriter(f)
}

func (s *store) path() string { return filepath.Join("db", base.FileName(base.FileLog, s.num)) }

// put writes a batch with these keys. A key that begins with a minus is deleted.
func (s *store) put(keys ...string) {
	s.write(s.seq+1, keys...)
	s.seq += uint64(len(keys))
}

func (s *store) write(seq uint64, keys ...string) {
	if s.log.Size() == 0 {
		require.NoError(s.t, batch.BufferPreamble(s.log, s.seq))
	}
	require.NoError(s.t, s.log.WriteRecord(recordOf(seq, keys...)))
	require.NoError(s.t, s.log.Sync())
}

func recordOf(seq uint64, keys ...string) []byte {
	b := batch.Batch{}
	for _, key := range keys {
		if deleted, ok := strings.CutPrefix(key, "-"); ok {
			b.Add(base.KindDelete, []byte(deleted), nil)
		} else {
			b.Add(base.KindSet, []byte(key), []byte("value of "+key))
		}
	}
	return b.Record(seq)
}

// flush begins another log and keeps the one before.
func (s *store) flush() error { return s.flushWith(s.seq) }

// flushWith is flush after writes that failed: their numbers end at last.
func (s *store) flushWith(last uint64) error {
	old := s.num
	require.NoError(s.t, s.log.Close())
	s.begin()
	s.a.SwitchLog(s.seq, last, s.num)
	s.seq, s.logNum = last, s.num
	return s.a.Keep(old)
}

// load adds a table with these keys by an edit, with the next 100 numbers.
func (s *store) load(kind Kind, e Event, keys ...string) error {
	var tables []string
	if keys != nil {
		tables = []string{s.table(keys...)}
	}
	e.Manifest = s.manifest
	p, err := s.a.Begin(kind, e, s.seq+100, tables)
	if err == nil {
		p.Commit()
		s.seq += 100
	}
	return err
}

// table writes a table of the database.
func (s *store) table(keys ...string) string {
	s.tables++
	path := filepath.Join("db", fmt.Sprintf("%06d.sst", 500+s.tables))
	var entries []fixture.Entry
	for _, key := range keys {
		if deleted, ok := strings.CutPrefix(key, "-"); ok {
			entries = append(entries, fixture.Del(deleted, s.seq+100))
		} else {
			entries = append(entries, fixture.Put(key, s.seq+100, "value of "+key))
		}
	}
	fixture.WriteFile(s.t, s.fsys, path, fixture.Table(s.t, entries...))
	return path
}

func (s *store) names() []string {
	names := result.Of(s.fsys.List("db/changes"))(s.t)
	return names
}

// read returns what a reader gets from a position, up to the last number: the keys of a change are separated by blanks.
func (s *store) read(since uint64) ([]string, error) {
	return readAll(s.a, s.fsys, since, s.seq, nil)
}

func readAll(src Source, fsys vfs.FS, since, limit uint64, prefix []byte) (changes []string, err error) {
	r := NewReader(src, since, ReaderOptions{FS: fsys, Cmp: base.Bytewise, Prefix: prefix})
	defer r.Close()
	for {
		c, err := r.Next(limit)
		if c == nil || err != nil {
			return changes, err
		}
		text, err := textOf(c, prefix)
		if err != nil {
			return changes, err
		}
		changes = append(changes, text)
	}
}

func textOf(c *Change, prefix []byte) (string, error) {
	words := []string{}
	switch c.Kind {
	case Batch:
	case Skipped:
		words = append(words, "skipped")
	default:
		words = append(words, suffixes[c.Kind])
	}
	for e, err := range c.Entries(prefix) {
		switch {
		case err != nil:
			return "", err
		case e.Kind == batch.EntryDelete:
			words = append(words, "-"+string(e.Key))
		case e.Kind == batch.EntryDeleteRange:
			words = append(words, fmt.Sprintf("%s..%s", e.Key, e.Value))
		default:
			words = append(words, string(e.Key))
		}
	}
	return strings.Join(words, " "), nil
}

// requireRead compares what a reader gets.
func (s *store) requireRead(since uint64, want ...string) {
	s.t.Helper()
	got := result.Of(s.read(since))(s.t)
	require.Equal(s.t, want, got)
}

// requireGone says that a position is refused and which one is the oldest.
func (s *store) requireGone(since, oldest uint64) {
	s.t.Helper()
	_, err := s.read(since)
	var gone *GoneError
	require.ErrorAs(s.t, err, &gone)
	require.ErrorIs(s.t, err, ErrGone)
	require.Equal(s.t, oldest, gone.Oldest, err)
	at := result.Of(s.a.Oldest())(s.t)
	require.Equal(s.t, oldest, at)
}

// filled returns a store with a history of each kind: positions 2, 3, 103, 105, 205, 305, 306.
func filled(t testing.TB, fsys vfs.FS) *store {
	s := newStore(t, fsys)
	require.NoError(t, s.open())
	require.NoError(t, s.fill())
	return s
}

func (s *store) fill() (err error) {
	s.put("a", "b")
	s.put("-a")
	err = s.flush()
	for _, step := range []func() error{
		func() error { return s.load(Load, Event{}, "l", "m") },
		func() error { s.put("c", "d"); return s.flush() },
		func() error { return s.load(Ingest, Event{}, "-i", "j") },
		func() error {
			return s.load(DeleteRange, Event{Ranges: []Range{{[]byte("a"), []byte("c")}, {nil, nil}}, Own: recordOf(1, "own")})
		},
		func() error { s.put("e"); return nil },
	} {
		if err == nil {
			err = step()
		}
	}
	return err
}

var filledChanges = []string{"a b", "-a", ".load l m", "c d", ".ingest -i j", ".delete a..c .. own", "e"}

// host is a Host without a database.
type host struct {
	limit   func() uint64
	visible uint64
	closing chan struct{}
	err     error
}

func (h *host) Limit(context.Context, bool) (uint64, error) { return h.limit(), h.err }
func (h *host) LastVisible() uint64                         { return h.visible }
func (h *host) Closing() <-chan struct{}                    { return h.closing }

func sorted(m map[string]uint64) (names []string) {
	for name, at := range m {
		names = append(names, fmt.Sprint(name, " ", at))
	}
	slices.Sort(names)
	return names
}
