package backup_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/backup"
	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/disk/tables"
	"github.com/sievedb/sievedb/internal/test/backuptest"
	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/vfs"
)

// expiringLater is a database that was archived before it had expiry prefixes, and afterward.
type expiringLater struct {
	*timeline
	options db.Options
}

func newExpiringLater(t *testing.T, cmp *db.Comparer) *expiringLater {
	l := newTimeline(t, vfs.NewMem(), backuptest.NewMem())
	require.NoError(t, l.d.Close())
	l.dir = "later"
	e := &expiringLater{l, l.timeline()}
	e.options.Comparer = cmp
	e.d = open(t, e.dir, e.with())
	return e
}

// timeline returns the options of a timeline, without expiry prefixes.
func (l *timeline) timeline() db.Options {
	o := l.options(l.fs)
	o.Expiry.Prefixes = nil
	return *o
}

func (e *expiringLater) with(prefixes ...string) *db.Options {
	o := e.options
	for _, p := range prefixes {
		o.Expiry.Prefixes = append(o.Expiry.Prefixes, []byte(p))
	}
	return &o
}

func (e *expiringLater) reopenWith(prefixes ...string) {
	require.NoError(e.t, e.d.Close())
	e.d = open(e.t, e.dir, e.with(prefixes...))
}

// restored restores the state with a sequence number and opens it without naming prefixes.
func (e *expiringLater) restored(seq uint64) *db.DB {
	mem := vfs.NewMem()
	_, err := e.repo.RestoreAt(background, "", backup.Point{Sequence: seq}, "restored", &backup.RestoreOptions{FS: mem, Comparer: e.options.Comparer})
	require.NoError(e.t, err)
	o := e.with()
	o.FS, o.ErrorIfMissing = mem.Crash(), true
	return open(e.t, "restored", o)
}

func prefixesOf(d *db.DB) (all []string) {
	for _, p := range d.ExpiryPrefixes() {
		all = append(all, string(p))
	}
	return all
}

// The bug: a backup from before the first expiry prefix and segments from after it made a database that did not know
// its prefixes, so it showed envelopes as parts of the values and expired values as live.
func TestARestoredPointKnowsItsExpiryPrefixes(t *testing.T) {
	reverse := &db.Comparer{Name: "test.reverse", Compare: func(a, b []byte) int { return db.BytewiseComparer.Compare(b, a) }}
	for _, cmp := range []*db.Comparer{nil, reverse} {
		e := newExpiringLater(t, cmp)
		e.put("a", "1")
		e.archive()
		e.put("s/plain", "deleted before the prefix is added")
		plain := e.d.Metrics().LastSequence
		e.delete("s/plain")
		e.reopenWith("t/")
		require.NoError(t, e.d.PutTTL([]byte("t/a"), []byte("2"), time.Minute, nil))
		e.put("t/b", "3")
		middle := e.archive().Last
		e.reopenWith("s/")
		require.NoError(t, e.d.PutTTL([]byte("s/a"), []byte("4"), time.Hour, nil))
		last := e.archive().Last

		d := e.restored(last)
		require.Equal(t, []string{"s/", "t/"}, prefixesOf(d))
		require.Equal(t, map[string]string{"a": "1", "t/a": "2", "t/b": "3", "s/a": "4"}, contents(t, d))
		_, ttl, err := d.GetTTL([]byte("t/a"))
		require.NoError(t, err)
		require.Equal(t, time.Minute, ttl)
		require.NoError(t, d.Close())

		e.now = e.now.Add(2 * time.Minute)
		d = e.restored(last)
		require.Equal(t, map[string]string{"a": "1", "t/b": "3", "s/a": "4"}, contents(t, d))
		require.NoError(t, d.Close())

		d = e.restored(middle)
		require.Equal(t, []string{"t/"}, prefixesOf(d))
		require.NoError(t, d.Close())

		d = e.restored(plain)
		require.Equal(t, map[string]string{"a": "1", "s/plain": "deleted before the prefix is added"}, contents(t, d))
		require.NoError(t, d.Close())
		require.NoError(t, e.d.Close())
	}
}

// A segment can begin before the prefix was added that it notes. Values of that time have no envelope, so with the
// prefix a scan of the restored state would end with an error.
func TestAPrefixIsNotRestoredBeforeItWasAdded(t *testing.T) {
	e := newExpiringLater(t, nil)
	e.archive()
	e.put("t/plain", "1")
	before := e.d.Metrics().LastSequence
	e.delete("t/plain")
	e.reopenWith("t/")
	require.NoError(t, e.d.PutTTL([]byte("t/a"), []byte("2"), time.Minute, nil))
	last := e.archive().Last
	d := e.restored(before)
	require.Empty(t, prefixesOf(d))
	require.Equal(t, map[string]string{"t/plain": "1"}, contents(t, d))
	require.NoError(t, d.Close())
	d = e.restored(last)
	require.Equal(t, []string{"t/"}, prefixesOf(d))
	require.Equal(t, map[string]string{"t/a": "2"}, contents(t, d))
	require.NoError(t, d.Close())
	require.NoError(t, e.d.Close())
}

// What a restore to a point writes, beyond the tables of the backup, is as the database has recorded.
func TestARestoredPointHasTablesAsRecorded(t *testing.T) {
	mem := vfs.NewMem()
	repo := backup.Open(backuptest.NewMem())
	o := &db.Options{FS: mem, Changes: db.ChangeRetention{Bytes: 64 << 20}}
	o.Tables.Compression = db.ZstdCompression
	d := open(t, "db", o)
	put(t, d, "before", "1")
	result.Of(repo.Archive(background, d, nil))(t)
	for i := range 100 {
		put(t, d, fmt.Sprintf("key%03d", i), strings.Repeat("value", 20_000))
	}
	info := result.Of(repo.Archive(background, d, nil))(t)
	want := result.Of(db.RecordedOptions("db", &db.Options{FS: mem}))(t)
	_, err := repo.RestoreAt(background, "", backup.Point{Sequence: info.Last}, "restored", &backup.RestoreOptions{FS: mem})
	require.NoError(t, err)
	got := result.Of(db.RecordedOptions("restored", &db.Options{FS: mem}))(t)
	require.Equal(t, want, got)
	names := result.Of(mem.List("restored"))(t)
	found := 0
	for _, name := range names {
		if !strings.HasSuffix(name, ".ldb") {
			continue
		}
		f := result.Of(mem.Open("restored/" + name))(t)
		sample := result.Of(tables.SampleCompression(f, 100))(t)
		require.Zero(t, sample.Snappy, name)
		require.NoError(t, f.Close())
		found++
	}
	require.Positive(t, found)
}
