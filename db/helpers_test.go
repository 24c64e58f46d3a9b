package db_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/race"
	"github.com/sievedb/sievedb/internal/test/storetest"
	"github.com/sievedb/sievedb/internal/write/commit"
)

// Short names for helpers of internal/test/fixture.
var (
	testKey, testValue = fixture.Key, fixture.Value
	eventually         = fixture.Eventually
	firstError         = fixture.FirstError[db.Change]
	checkOrder         = fixture.CheckOrder
	always             = fixture.Always
	within             = fixture.Within

	readFile, writeFile = fixture.ReadFile, fixture.WriteFile
	namesOf, isTable    = fixture.Names, fixture.IsTable
	copyFS, readDir     = fixture.CopyFS, fixture.ReadDir
	craftTable          = fixture.Table
	restampFirstBlock   = fixture.RestampFirstBlock
	imageOf, fsOf       = fixture.Image, fixture.ImageFS
	prefixOfTen         = fixture.PrefixOfTen

	watchTables = fixture.WatchTables

	sampled, skipInShortRace = race.Sampled, race.SkipInShort
)

// And of internal/test/storetest.
var (
	testOptions                       = storetest.Options
	mustOpen, openTest, openDir       = storetest.MustOpen, storetest.Open, storetest.OpenDir
	newLoader, watchedOptions, walk   = storetest.NewLoader, storetest.WatchedOptions, storetest.Walk
	checkpointTo, budgetOptions       = storetest.CheckpointTo, storetest.BudgetOptions
	grown, fill, filledLevels         = storetest.Grown, storetest.Fill, storetest.FilledLevels
	putAll, settle                    = storetest.PutAll, storetest.Settle
	waitUntilIdle, strayFilesWhenIdle = storetest.WaitUntilIdle, storetest.StrayFilesWhenIdle
	requireValue, requireNoFaults     = storetest.RequireValue, storetest.RequireNoFaults
	requireContent, contentsIn        = storetest.RequireContent, storetest.Contents
	requireAbsent                     = storetest.RequireAbsent
	sampleStore, fateOf, repaired     = storetest.Sample, storetest.FateOf, storetest.Repaired
)

const (
	raceEnabled = race.Enabled
)

var background = context.Background()

type (
	repairDir = fixture.Dir
	contents  = fixture.Contents
	renamed   = fixture.Renamed
)

// second returns the error of a call with another result.
func second[T any](_ T, err error) error { return err }

// largeWrite is the size from which a Put makes no batch; package commit says why.
const largeWrite = 1 << 20

// holdWriters leads the queue of writers until release is called.
func holdWriters(t testing.TB, d *db.DB) (release func()) {
	t.Helper()
	leads, end, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- d.Committer().Lead(background, func(*commit.Leader) error {
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
func waitForWriters(t testing.TB, d *db.DB, n int) {
	t.Helper()
	eventually(t, func() bool { return d.Committer().Status().Queued == n })
}

// advance makes seq the last sequence number.
func advance(t testing.TB, d *db.DB, seq uint64) {
	t.Helper()
	require.NoError(t, d.Committer().Lead(background, func(l *commit.Leader) error {
		l.Advance(seq, true)
		return nil
	}))
}

// idle reports whether no compaction and no flush is running.
func idle(d *db.DB) bool {
	s := d.Scheduler().Status()
	return s.Running == 0 && !s.Flushing
}
