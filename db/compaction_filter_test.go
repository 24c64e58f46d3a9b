package db_test

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/vfs"
)

// testFilter drops values that begin with "drop" and replaces those that begin with "raise" by
// the same in capital letters.
func testFilter(_, value []byte) ([]byte, bool) {
	switch {
	case bytes.HasPrefix(value, []byte("drop")):
		return nil, false
	case bytes.HasPrefix(value, []byte("raise")):
		return bytes.ToUpper(value), true
	}
	return value, true
}

// filterOptions returns options whose compactions begin only when a test wants one.
func filterOptions(filter func(key, value []byte) ([]byte, bool)) *db.Options {
	o := testOptions(vfs.NewMem())
	o.Compaction.Filter = filter
	o.Compaction.L0Trigger, o.Compaction.L0Slowdown, o.Compaction.L0Stop = 1000, 1000, 2000
	return o
}

// filterGate is a filter that stops at its first call until the test lets it continue.
type filterGate struct {
	begun, open chan struct{}
	called      atomic.Bool
}

func newFilterGate() *filterGate {
	return &filterGate{begun: make(chan struct{}), open: make(chan struct{})}
}

func (g *filterGate) filter(key, value []byte) ([]byte, bool) {
	if !g.called.Swap(true) {
		close(g.begun)
		<-g.open
	}
	return testFilter(key, value)
}

// A snapshot that is opened while the filter runs sees the values that the filter has not seen yet,
// or has seen already. It must keep them when the compaction ends.
func TestASnapshotOpenedDuringAFilteringCompactionKeepsItsView(t *testing.T) {
	g := newFilterGate()
	d := openTest(t, filterOptions(g.filter))
	putAll(t, d, "a", "drop 1", "b", "raise 1", "c", "drop 1")
	require.NoError(t, d.Flush())
	done := make(chan error)
	go func() { done <- d.Compact(context.Background(), nil, nil) }()
	<-g.begun
	during := d.NewSnapshot()
	putAll(t, d, "c", "later") // not visible to it
	close(g.open)
	require.NoError(t, <-done)
	after := d.NewSnapshot()
	defer after.Close()
	putAll(t, d, "a", "drop 3")
	require.NoError(t, d.Compact(t.Context(), nil, nil))
	requireContent(t, during, "a", "drop 1", "b", "raise 1", "c", "drop 1")
	requireContent(t, after, "a", "", "b", "RAISE 1", "c", "later")
	requireContent(t, d, "a", "", "b", "RAISE 1", "c", "later")
	values, err := during.MultiGet([][]byte{[]byte("a"), []byte("b")})
	require.NoError(t, err)
	require.Equal(t, []string{"drop 1", "raise 1"}, []string{string(values[0]), string(values[1])})

	it, err := during.NewIterator(nil)
	require.NoError(t, err)
	require.NoError(t, during.Close())
	require.True(t, it.First(), "an iterator of the snapshot outlives it")
	require.Equal(t, "drop 1", string(it.Value()))
	require.NoError(t, it.Close())
	require.NoError(t, strayFilesWhenIdle(d, d.Directory().FS), "the tables of the snapshot are removed")
	_, err = during.Get([]byte("a"))
	require.Equal(t, db.ErrClosed, err)
}

// A transaction that is opened while the filter runs still finds that others have written what it
// read, even if compactions drop those writes.
func TestATransactionOpenedDuringAFilteringCompactionFindsConflicts(t *testing.T) {
	g := newFilterGate()
	d := openTest(t, filterOptions(g.filter))
	putAll(t, d, "a", "raise 1", "b", "raise 1")
	require.NoError(t, d.Flush())
	done := make(chan error)
	go func() { done <- d.Compact(context.Background(), nil, nil) }()
	<-g.begun
	dropped, kept, free := readerOf(t, d, "a"), readerOf(t, d, "b"), readerOf(t, d, "c")
	putAll(t, d, "a", "drop 2", "b", "raise 2")
	close(g.open)
	require.NoError(t, <-done)
	require.NoError(t, d.Compact(t.Context(), nil, nil))
	requireContent(t, d, "a", "", "b", "RAISE 2")
	require.Equal(t, db.ErrConflict, dropped.Commit())
	require.Equal(t, db.ErrConflict, kept.Commit())
	require.NoError(t, free.Commit())
}

// Compact waits for a compaction that began before it: that one may have called the filter while a
// snapshot was open that is closed now.
func TestCompactCallsTheFilterForValuesThatAnEarlierCompactionKept(t *testing.T) {
	g := newFilterGate()
	o := filterOptions(g.filter)
	o.Compaction.MaxConcurrent = 2
	d := openTest(t, o)
	putAll(t, d, "b", "drop 1")
	s := d.NewSnapshot()
	putAll(t, d, "a", "raise 1") // the filter stops before a table is begun
	require.NoError(t, d.Flush())
	done := make(chan error, 2)
	go func() { done <- d.Compact(context.Background(), nil, nil) }()
	<-g.begun
	require.NoError(t, s.Close())
	go func() { done <- d.Compact(context.Background(), nil, nil) }()
	eventually(t, func() bool { // it waits for the first one
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		for _, stack := range bytes.Split(stacks, []byte("\n\n")) {
			if bytes.Contains(stack, []byte("sync.(*Cond).Wait")) && bytes.Contains(stack, []byte("compact.(*Scheduler).Compact(")) {
				return true
			}
		}
		return false
	})
	close(g.open)
	require.NoError(t, <-done)
	require.NoError(t, <-done)
	requireContent(t, d, "a", "RAISE 1", "b", "")
}

// The result of the filter is not installed before the MANIFEST is synced. A snapshot that is opened
// meanwhile sees the values as they were.
func TestASnapshotOpenedBeforeAFilteredCompactionIsInstalledKeepsItsView(t *testing.T) {
	g := fixture.NewGate()
	o := filterOptions(testFilter)
	o.FS = wrap.NewFaulty(vfs.NewMem(), func(op wrap.Op) *wrap.Fault {
		if kind, _, ok := base.ParseFileName(filepath.Base(op.Name)); ok && kind == base.FileManifest && op.Kind == wrap.OpSync && g.Closed.Load() {
			g.Arrived <- struct{}{}
			<-g.Open
		}
		return nil
	})
	d := openTest(t, o)
	putAll(t, d, "a", "drop 1", "b", "raise 1")
	require.NoError(t, d.Flush())
	putAll(t, d, "a", "drop 1")
	require.NoError(t, d.Flush()) // two tables are merged; one would be moved first
	done := make(chan error)
	g.Closed.Store(true)
	go func() { done <- d.Compact(context.Background(), nil, nil) }()
	<-g.Arrived
	s := d.NewSnapshot()
	defer s.Close()
	close(g.Open)
	require.NoError(t, <-done)
	requireContent(t, s, "a", "drop 1", "b", "raise 1")
	requireContent(t, d, "a", "", "b", "RAISE 1")
}

// A filter runs in the goroutine of a compaction. Calls that may wait for compactions are refused.
func TestNoCallFromACompactionFilterHangs(t *testing.T) {
	p := &listenerProbe{}
	p.batch.Put(testKey(1), nil)
	o := filterOptions(func(_, value []byte) ([]byte, bool) { p.callAll("Filter"); return value, true })
	d := openTest(t, o)
	p.d.Store(d)
	within(t, "a call from the filter", func() {
		fill(t, d, 0, 50)
		require.NoError(t, d.Compact(t.Context(), nil, nil))
	})
	require.Positive(t, p.calls.Load())
	require.Empty(t, p.wrong)
	require.NoError(t, d.Put(testKey(1), nil, db.NoSync), "outside of the filter the calls work")
}

// Snapshots are opened and compared while compactions call the filter in several goroutines.
func TestSnapshotsAndFilteringCompactionsTogether(t *testing.T) {
	o := piecesOptions(vfs.NewMem(), 3)
	o.Compaction.Filter = testFilter
	o.Compaction.L0Trigger, o.Memtables.Size = 2, 8<<10
	d := openTest(t, o)
	stop := make(chan struct{})
	done := make(chan error)
	go func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				done <- nil
				return
			default:
			}
			value := fmt.Sprintf("%s %d %080d", []string{"keep", "drop", "raise"}[i%3], i, i)
			if err := d.Put(testKey(i*7919%1000), []byte(value), db.NoSync); err != nil {
				done <- err
				return
			}
		}
	}()
	for d.Metrics().Compactions.ValuesDropped < 2000 {
		s := d.NewSnapshot()
		first := contentsIn(t, s)
		for i := range 20 {
			key := testKey(i * 50)
			value, err := s.Get(key)
			if err != db.ErrNotFound {
				require.NoError(t, err)
				require.Equal(t, first[string(key)], string(value))
			}
		}
		require.Equal(t, first, contentsIn(t, s))
		require.NoError(t, s.Close())
	}
	close(stop)
	require.NoError(t, <-done)
	requireNoFaults(t, d)
}

// The bug: Compact took the copies that a filter upgrade made meanwhile for tables that it need not filter.
func TestCompactFiltersTablesThatAnUpgradeCopies(t *testing.T) {
	arrived, open := make(chan struct{}), make(chan struct{})
	var once sync.Once
	var active atomic.Bool
	o := filterOptions(func(key, value []byte) ([]byte, bool) {
		if !active.Load() {
			return value, true
		}
		if string(key) == "z" {
			once.Do(func() { close(arrived); <-open })
		}
		return value, string(value) != "gone"
	})
	o.Compaction.MaxConcurrent = 2
	d := mustOpen(t, o)
	putAll(t, d, "a", "gone", "b", "gone")
	require.NoError(t, d.Compact(t.Context(), nil, nil)) // to the last level
	require.NoError(t, d.Close())
	active.Store(true)
	o.Filters.Policy = always // the table needs other filters
	d = openTest(t, o)
	defer mustPause(t, d)()
	putAll(t, d, "y", "1", "z", "1")
	require.NoError(t, d.Flush())
	putAll(t, d, "y", "2", "z", "2")
	done := make(chan error)
	go func() { done <- d.Compact(t.Context(), nil, nil) }()
	<-arrived
	report, err := d.UpgradeFilters(t.Context(), nil, nil)
	require.NoError(t, err)
	require.Equal(t, 1, report.Upgraded)
	close(open)
	require.NoError(t, <-done)
	requireContent(t, d, "a", "", "b", "", "z", "2")
}
