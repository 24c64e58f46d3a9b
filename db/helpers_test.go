package db

import (
	"context"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/test/crashtest/cuts"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/race"
	"github.com/sievedb/sievedb/internal/write/commit"
	"github.com/sievedb/sievedb/vfs"
)

// Short names for helpers of internal/test/fixture and internal/test/crashtest/cuts.
var (
	testKey, testValue = fixture.Key, fixture.Value
	eventually         = fixture.Eventually
	firstError         = fixture.FirstError[Change]
	checkOrder         = fixture.CheckOrder
	always             = fixture.Always

	readFile, writeFile = fixture.ReadFile, fixture.WriteFile
	namesOf, isTable    = fixture.Names, fixture.IsTable
	copyFS, readDir     = fixture.CopyFS, fixture.ReadDir
	logBytes            = fixture.Log
	hostileEdit         = fixture.EmptyEdit
	craftTable          = fixture.Table
	put                 = fixture.Put
	restampFirstBlock   = fixture.RestampFirstBlock
	imageOf, fsOf       = fixture.Image, fixture.ImageFS
	recordEnds          = fixture.RecordEnds
	kindName            = fixture.KindName
	filterBlockOf       = fixture.FilterBlock
	prefixOfTen         = fixture.PrefixOfTen

	watchTables = fixture.WatchTables
	shortened   = fixture.ShortReads

	crashLimit                  = cuts.Limit
	crashModels, testSeeds      = cuts.Models, cuts.Seeds
	eachState, requireNoFailure = cuts.EachState, cuts.RequireNoFailure

	sampled, skipInShortRace = race.Sampled, race.SkipInShort
)

const (
	raceEnabled = race.Enabled
	bloomName   = fixture.BloomName
)

var background = context.Background()

type (
	repairDir = fixture.Dir
	contents  = fixture.Contents
	version   = fixture.Version
	versions  = fixture.Versions
	renamed   = fixture.Renamed

	iterable = interface {
		NewIterator(o *IterOptions) (*Iterator, error)
	}
	readable = interface {
		NewIterator(o *IterOptions) (*Iterator, error)
		Get(key []byte) ([]byte, error)
	}
)

// Helpers of internal/test/storetest, which imports this package: only a test outside of it can set them, in
// helpers_storetest_test.go.
var (
	testOptions        func(fsys vfs.FS) *Options
	mustOpen, openTest func(t testing.TB, o *Options) *DB
	mustFollow         func(t testing.TB, o *Options) *DB
	newLoader          func(t testing.TB, d *DB) *Loader
	watchedOptions     func(w *fixture.TableWatch, policy filter.Policy) *Options
	walk               func(t testing.TB, it *Iterator, backward bool) []string
	checkpointTo       func(t testing.TB, d *DB, dir string) CheckpointInfo
	budgetOptions      func(fsys vfs.FS) *Options
	grown              func(t testing.TB, o *Options, n int) *DB
	fill               func(t testing.TB, d *DB, from, to int)
	filledLevels       func(t testing.TB, o *Options, n int) *DB
	putAll             func(t testing.TB, d *DB, pairs ...string)
	settle             func(t testing.TB, d *DB)
	waitUntilIdle      func(d *DB)
	strayFilesWhenIdle func(d *DB, fsys vfs.FS) error
	requireValue       func(t testing.TB, d *DB, key, want []byte)
	requireNoFaults    func(t testing.TB, d *DB)
	requireContent     func(t testing.TB, r readable, pairs ...string)
	contentsIn         func(t testing.TB, r iterable) contents
	sampleStore        func(t testing.TB) (repairDir, contents)
	fateOf             func(t testing.TB, rep *RepairReport, name string) RepairedFile
	repaired           func(t testing.TB, d repairDir) (contents, *RepairReport, repairDir)
)

// SetHelpers sets these variables, in their order.
func SetHelpers(functions ...any) {
	for i, v := range []any{
		&testOptions, &mustOpen, &openTest, &mustFollow, &newLoader, &watchedOptions, &walk, &checkpointTo, &budgetOptions, &grown, &fill, &filledLevels,
		&putAll, &settle, &waitUntilIdle, &strayFilesWhenIdle,
		&requireValue, &requireNoFaults, &requireContent, &contentsIn, &sampleStore, &fateOf, &repaired,
	} {
		reflect.ValueOf(v).Elem().Set(reflect.ValueOf(functions[i]))
	}
}

// second returns the error of a call with another result.
func second[T any](_ T, err error) error { return err }

// openDir opens a database in any directory.
func openDir(t testing.TB, dir string, o *Options) *DB {
	t.Helper()
	d, err := Open(dir, o)
	require.NoError(t, err)
	return d
}

// requireAbsent requires that Get finds none of the keys.
func requireAbsent(t testing.TB, r readable, keys ...[]byte) {
	t.Helper()
	for _, key := range keys {
		_, err := r.Get(key)
		require.Equal(t, ErrNotFound, err, "%q", key)
	}
}

// largeWrite is the size from which a Put makes no batch; package commit says why.
const largeWrite = 1 << 20

// holdWriters leads the queue of writers until release is called.
func holdWriters(t testing.TB, d *DB) (release func()) {
	t.Helper()
	leads, end, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- d.commit.Lead(background, func(*commit.Leader) error {
			close(leads)
			<-end
			return nil
		})
	}()
	<-leads
	return func() {
		close(end)
		require.NoError(t, <-ended)
	}
}

// waitForWriters returns when n writers wait for the leader.
func waitForWriters(t testing.TB, d *DB, n int) {
	t.Helper()
	eventually(t, func() bool { return d.commit.Status().Queued == n })
}

// advance makes seq the last sequence number.
func advance(t testing.TB, d *DB, seq uint64) {
	t.Helper()
	require.NoError(t, d.commit.Lead(background, func(l *commit.Leader) error {
		l.Advance(seq, true)
		return nil
	}))
}

// idle reports whether no compaction and no flush is running.
func idle(d *DB) bool {
	s := d.compactor.Status()
	return s.Running == 0 && !s.Flushing
}
