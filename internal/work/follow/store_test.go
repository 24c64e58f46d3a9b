package follow_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/race"
	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/internal/test/storetest"
	"github.com/sievedb/sievedb/report"
	"github.com/sievedb/sievedb/vfs"
)

func TestAFollowerShowsWhatTheWriterWrote(t *testing.T) {
	o := storetest.Options(vfs.NewMem())
	d := storetest.MustOpen(t, o)
	storetest.PutAll(t, d, "a", "1", "b", "1")
	f := storetest.MustFollow(t, o)
	storetest.RequireContent(t, f, "a", "1", "b", "1")
	storetest.PutAll(t, d, "a", "2")
	storetest.RequireContent(t, f, "a", "1", "b", "1")
	lag := result.Of(f.Lag())(t)
	require.Equal(t, uint64(1), lag.Operations)
	require.Positive(t, lag.Bytes)
	require.Positive(t, lag.Time)
	require.NoError(t, f.Refresh(t.Context()))
	storetest.RequireContent(t, f, "a", "2", "b", "1")
	lag = result.Of(f.Lag())(t)
	require.Equal(t, report.Lag{Seq: 3}, lag)

	snapshot := f.NewSnapshot()
	defer snapshot.Close()
	require.NoError(t, d.Delete([]byte("b"), nil))
	require.NoError(t, d.Compact(t.Context(), nil, nil))
	storetest.PutAll(t, d, "c", "3")
	require.NoError(t, d.Compact(t.Context(), nil, nil)) // the tables of the snapshot are removed
	require.NoError(t, f.Refresh(t.Context()))
	storetest.RequireContent(t, f, "a", "2", "b", "", "c", "3")
	require.Equal(t, "1", string(result.Of(snapshot.Get([]byte("b")))(t)))

	require.NoError(t, d.Close())
	d = storetest.Open(t, o)
	storetest.PutAll(t, d, "d", "4")
	require.NoError(t, f.Refresh(t.Context()))
	storetest.RequireContent(t, f, "a", "2", "b", "", "c", "3", "d", "4")
	require.ErrorIs(t, f.Put([]byte("a"), nil, nil), db.ErrReadOnly)
}

// A follower is refreshed now and then while a writer does all that it can, and must equal what the
// writer had at the follower's sequence number.
func TestAFollowerAgreesWithAModel(t *testing.T) {
	rounds := uint64(12)
	if race.Sampled() {
		rounds = 3
	}
	for seed := range rounds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 18))
			o := storetest.Options(vfs.NewMem())
			o.Memtables.Size, o.Limits.ManifestSize = 8<<10, 4<<10
			w := newFollowedWriter(t, o, rnd)
			f := storetest.MustFollow(t, o)
			for range 400 {
				w.step()
				if rnd.IntN(3) == 0 {
					w.check(f)
				}
			}
			require.NoError(t, w.d.Close())
			w.check(f)
		})
	}
}

// followedWriter writes, and notes the content after each write.
type followedWriter struct {
	t    *testing.T
	o    *db.Options
	rnd  *rand.Rand
	d    *db.DB
	now  map[string]string
	past map[uint64]map[string]string // by sequence number
}

func newFollowedWriter(t *testing.T, o *db.Options, rnd *rand.Rand) *followedWriter {
	w := &followedWriter{t: t, o: o, rnd: rnd, now: map[string]string{}, past: map[uint64]map[string]string{}}
	w.d = storetest.MustOpen(t, o)
	w.note()
	return w
}

func (w *followedWriter) note() { w.past[w.d.Metrics().LastSequence] = maps.Clone(w.now) }

func (w *followedWriter) key() string { return fmt.Sprintf("%03d", w.rnd.IntN(200)) }

func (w *followedWriter) step() {
	t := w.t
	switch w.rnd.IntN(40) {
	case 0:
		require.NoError(t, w.d.Compact(t.Context(), nil, nil))
	case 1:
		require.NoError(t, w.d.Flush())
	case 2:
		require.NoError(t, w.d.Close())
		w.d = storetest.MustOpen(t, w.o)
	case 3:
		a, b := w.key(), w.key()
		a, b = min(a, b), max(a, b)
		require.NoError(t, w.d.DeleteRange(t.Context(), []byte(a), []byte(b), nil))
		maps.DeleteFunc(w.now, func(k, _ string) bool { return k >= a && k < b })
	case 4:
		w.load()
	default:
		w.apply()
	}
	w.note()
}

func (w *followedWriter) load() {
	l := result.Of(w.d.NewLoader())(w.t)
	for i := w.rnd.IntN(50); i < 200; i += 1 + w.rnd.IntN(20) {
		key, value := fmt.Sprintf("%03d", i), fmt.Sprint("loaded", w.rnd.Uint32())
		require.NoError(w.t, l.Put([]byte(key), []byte(value)))
		w.now[key] = value
	}
	require.NoError(w.t, l.Commit())
}

func (w *followedWriter) apply() {
	var b db.Batch
	for range 1 + w.rnd.IntN(10) {
		key, value := w.key(), fmt.Sprintf("%0*d", 1+w.rnd.IntN(300), w.rnd.Uint32())
		if w.rnd.IntN(4) == 0 {
			b.Delete([]byte(key))
			delete(w.now, key)
		} else {
			b.Put([]byte(key), []byte(value))
			w.now[key] = value
		}
	}
	require.NoError(w.t, w.d.Apply(&b, nil))
}

// check refreshes f and compares it with what the writer had, and has.
func (w *followedWriter) check(f *db.DB) {
	require.NoError(w.t, f.Refresh(w.t.Context()))
	lag := result.Of(f.Lag())(w.t)
	require.Zero(w.t, lag.Operations) // but a compaction may have added an edit
	want, ok := w.past[lag.Seq]
	require.True(w.t, ok, "%d is within a batch", lag.Seq)
	require.Equal(w.t, want, storetest.Contents(w.t, f))
	require.Equal(w.t, w.now, want)
}

// Lag gives the error of Refresh when a smaller database has the place of the one that is followed.
func TestLagOfADatabaseThatWasCreatedAgain(t *testing.T) {
	o := storetest.Options(vfs.NewMem())
	d := storetest.MustOpen(t, o)
	storetest.PutAll(t, d, "a", "1", "b", "1", "c", "1")
	f := storetest.MustFollow(t, o)
	require.NoError(t, d.Close())
	require.NoError(t, db.Destroy("db", o))
	d = storetest.Open(t, o)
	storetest.PutAll(t, d, "a", "new")
	_, err := f.Lag()
	require.ErrorContains(t, err, "the last operation is number 1 now, but it was 3: the database was restored, repaired or replaced")
	require.Equal(t, err.Error(), f.Refresh(t.Context()).Error())
	storetest.RequireContent(t, f, "a", "1", "b", "1", "c", "1")
}

func TestAFollowerOfNothing(t *testing.T) {
	o := storetest.Options(vfs.NewMem())
	require.ErrorContains(t, result.Err(db.OpenFollower("db", o)), "there is no database")
	require.NoError(t, o.FS.MkdirAll("db"))
	require.ErrorContains(t, result.Err(db.OpenFollower("db", o)), "there is no database")
	require.Empty(t, result.Of(o.FS.List("db"))(t))
	d := storetest.Open(t, o)
	require.ErrorContains(t, d.Refresh(t.Context()), "not a follower")
	require.ErrorContains(t, result.Err(d.Lag()), "not a follower")
}

// Readers of a follower that is refreshed all the time see whole batches and loads only, in their order,
// while the writer flushes, compacts, loads and deletes ranges.
func TestReadersOfAFollowerSeeWholeBatches(t *testing.T) {
	o := storetest.Options(vfs.NewMem())
	o.Memtables.Size, o.Limits.ManifestSize = 16<<10, 4<<10
	d := storetest.Open(t, o)
	const keys = 8
	names := make([][]byte, keys)
	for i := range names {
		names[i] = fmt.Appendf(nil, "key %d", i)
	}
	write := func(i int) error {
		value := fmt.Appendf(nil, "%08d%0*d", i, 1+i%500, 0)
		if i%100 == 50 {
			l, err := d.NewLoader()
			for _, name := range names {
				err = errors.Join(err, l.Put(name, value))
			}
			return errors.Join(err, l.Commit())
		}
		var b db.Batch
		for _, name := range names {
			b.Put(name, value)
		}
		err := d.Apply(&b, nil)
		switch i % 100 {
		case 20:
			err = errors.Join(err, d.Flush())
		case 70:
			err = errors.Join(err, d.Compact(context.Background(), nil, nil))
		}
		return err
	}
	require.NoError(t, write(0))
	f := storetest.MustFollow(t, o)
	done := make(chan struct{})
	var group sync.WaitGroup
	failures := make(chan error, 8)
	try := func(what func() error) {
		group.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if err := what(); err != nil {
					failures <- err
					return
				}
			}
		})
	}
	try(func() error { return f.Refresh(context.Background()) })
	for range 2 {
		last := ""
		try(func() error {
			shown, err := wholeBatch(f, names)
			if err == nil && shown < last {
				err = fmt.Errorf("%s follows %s", shown, last)
			}
			last = shown
			return err
		})
	}
	rounds := 1200
	if race.Sampled() {
		rounds = 400
	}
	for i := 1; i <= rounds; i++ {
		require.NoError(t, write(i))
	}
	close(done)
	group.Wait()
	select {
	case err := <-failures:
		require.NoError(t, err)
	default:
	}
}

// wholeBatch reads all names in several ways, and returns the number of the batch that wrote them.
func wholeBatch(f *db.DB, names [][]byte) (shown string, err error) {
	note := func(how string, value []byte) {
		if number := string(value[:min(8, len(value))]); number < shown {
			err = errors.Join(err, fmt.Errorf("%s shows %s after %s", how, number, shown))
		} else {
			shown = number
		}
	}
	same := func(how string, values [][]byte) {
		for _, v := range values {
			note(how, v)
			if string(v) != string(values[0]) {
				err = errors.Join(err, fmt.Errorf("%s shows %.8s and %.8s", how, values[0], v))
			}
		}
	}
	values, failed := f.MultiGet(names)
	if failed != nil {
		return "", failed
	}
	same("MultiGet", values)
	all, failure := f.All(nil)
	values = nil
	for _, v := range all {
		values = append(values, bytes.Clone(v))
	}
	if err := failure(); err != nil {
		return "", err
	}
	same("an iterator", values)
	if len(values) != len(names) {
		return "", fmt.Errorf("an iterator shows %d keys", len(values))
	}
	s := f.NewSnapshot()
	defer s.Close()
	values = nil
	for _, name := range names {
		v, failed := s.Get(name)
		if failed != nil {
			return "", failed
		}
		values = append(values, v)
	}
	same("a snapshot", values)
	for _, name := range names {
		v, failed := f.Get(name)
		if failed != nil {
			return "", failed
		}
		note("Get", v)
	}
	return shown, err
}

func TestAFollowerRefreshesByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := storetest.Options(vfs.NewMem())
		d := storetest.Open(t, o)
		storetest.PutAll(t, d, "a", "1")
		failed := make(chan error, 10)
		follow := *o
		follow.FollowInterval = time.Second
		follow.EventListener = &db.EventListener{BackgroundError: func(err error) { failed <- err }}
		f := storetest.MustFollow(t, &follow)
		storetest.PutAll(t, d, "a", "2")
		storetest.RequireContent(t, f, "a", "1")
		<-time.After(1100 * time.Millisecond)
		storetest.RequireContent(t, f, "a", "2")

		current := filepath.Join("db", base.CurrentName)
		require.NoError(t, o.FS.Rename(current, current+".away"))
		<-time.After(3 * time.Second) // before the writer verifies its files
		require.Len(t, failed, 1, "the first error of a series")
		require.ErrorIs(t, f.Metrics().BackgroundError, fs.ErrNotExist, "it was said once, and nowhere while it lasted")
		storetest.RequireContent(t, f, "a", "2")
		require.NoError(t, o.FS.Rename(current+".away", current))
		storetest.PutAll(t, d, "a", "3")
		<-time.After(2 * time.Second)
		storetest.RequireContent(t, f, "a", "3")
		require.NoError(t, f.Metrics().BackgroundError)
		require.NoError(t, f.Close())
		require.NoError(t, d.Close())
	})
}

func TestClosingAFollowerWhileItIsUsed(t *testing.T) {
	o := storetest.Options(vfs.NewMem())
	d := storetest.Open(t, o)
	storetest.PutAll(t, d, "a", "1")
	require.NoError(t, d.Flush())
	for range 20 {
		f := storetest.MustFollow(t, o)
		var group sync.WaitGroup
		for _, use := range []func() error{
			func() error { return f.Refresh(context.Background()) },
			func() error { _, err := f.Get([]byte("a")); return err },
			func() error { _, err := f.Lag(); return err },
			func() error { _, err := f.MultiGet([][]byte{[]byte("a")}); return err },
		} {
			group.Go(func() {
				for {
					if err := use(); err != nil {
						assert.Equal(t, db.ErrClosed, err)
						return
					}
				}
			})
		}
		require.NoError(t, d.Put([]byte("a"), []byte("2"), nil))
		require.NoError(t, d.Flush())
		require.NoError(t, f.Close())
		group.Wait()
	}
}

// The logs are in another directory, and move while the follower reads.
func TestAFollowerFindsTheLogs(t *testing.T) {
	o := storetest.Options(vfs.NewMem())
	o.LogDir = "logs"
	d := storetest.MustOpen(t, o)
	storetest.PutAll(t, d, "a", "1")
	follow := *o
	follow.LogDir = ""
	f := storetest.MustFollow(t, &follow)
	storetest.RequireContent(t, f, "a", "1")
	for i, dir := range []string{"db", "other", "db"} {
		require.NoError(t, d.Close())
		o.LogDir = dir
		d = storetest.MustOpen(t, o)
		storetest.PutAll(t, d, "a", dir)
		require.NoError(t, f.Refresh(t.Context()), "%d", i)
		storetest.RequireContent(t, f, "a", dir)
	}
	require.NoError(t, d.Close())
}

// A table that was removed can be read by all that was begun before, in any way.
func TestReadersOfRemovedTables(t *testing.T) {
	o := storetest.Options(vfs.NewMem())
	d := storetest.Open(t, o)
	storetest.PutAll(t, d, "a", "1", "b", "1")
	require.NoError(t, d.Compact(t.Context(), nil, nil))
	f := storetest.MustFollow(t, o)
	it := storetest.Iter(t, f, nil)
	storetest.PutAll(t, d, "a", "2")
	require.NoError(t, d.Compact(t.Context(), nil, nil))
	storetest.RequireContent(t, f, "a", "1", "b", "1")
	require.NoError(t, f.Refresh(t.Context()))
	require.True(t, it.First())
	require.Equal(t, "1", string(it.Value()))
	require.NoError(t, it.Close())
	storetest.RequireContent(t, f, "a", "2", "b", "1")
	storetest.RequireNoFaults(t, f)
	e := result.Of(f.Explain([]byte("a")))(t)
	require.True(t, e.Found)
}

func TestMain(m *testing.M) { os.Exit(fixture.Run(m)) }
