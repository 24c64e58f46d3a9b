package db_test

import (
	"context"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/tables"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/report"
	"github.com/sievedb/sievedb/vfs"
)

// openAheadAndWait opens a database with Cache.OpenAhead and waits until its tables are open.
func openAheadAndWait(t *testing.T, o *db.Options) (*db.DB, report.OpenAheadInfo) {
	done := make(chan report.OpenAheadInfo, 2)
	c := *o
	c.Cache.OpenAhead, c.EventListener = true, &db.EventListener{TablesOpenedAhead: func(i report.OpenAheadInfo) { done <- i }}
	d := openTest(t, &c)
	info := <-done
	require.Empty(t, done)
	return d, info
}

func TestLookupsReadOnlyDataBlocksOfTablesOpenedAhead(t *testing.T) {
	for _, readOnly := range []bool{false, true} {
		w := watchTables(t)
		o := watchedOptions(w, nil)
		require.NoError(t, filledLevels(t, o, 4000).Close())
		o.ReadOnly = readOnly
		d, info := openAheadAndWait(t, o)
		m := d.Metrics()
		require.EqualValues(t, m.Total().Tables, info.Tables)
		require.Equal(t, m.Total().Tables, m.Tables.Open)
		require.EqualValues(t, m.Tables.Open, m.Tables.Openings)
		require.NoError(t, info.Err)
		indexBytes := m.Tables.IndexBytes

		parts := w.During(func() {
			for i := range 8000 {
				_, err := d.Get(testKey(i))
				require.Equal(t, i%2 == 0, err == nil)
			}
		})
		m = d.Metrics()
		require.Equal(t, map[string]int{"data": int(m.Total().BlocksFromDisk)}, parts)
		require.Equal(t, m.Total().FilterTruePositives+m.Total().FilterFalsePositives, m.Total().BlocksFromDisk)
		require.Equal(t, indexBytes, m.Tables.IndexBytes, "indexes were decoded")
		require.EqualValues(t, m.Tables.Open, m.Tables.Openings)
	}
}

func TestNoTableIsOpenedAheadWithoutTheOptionOrWithoutTables(t *testing.T) {
	w := watchTables(t)
	o := watchedOptions(w, nil)
	require.NoError(t, filledLevels(t, o, 4000).Close())
	o.EventListener = &db.EventListener{
		TablesOpenedAhead: func(report.OpenAheadInfo) { t.Error("TablesOpenedAhead was called") },
	}
	require.Empty(t, w.During(func() { require.Zero(t, openTest(t, o).Metrics().Tables.Openings) }))
	_, info := openAheadAndWait(t, testOptions(vfs.NewMem()))
	require.Zero(t, info.Tables+info.Failed)
}

// tablesOfLevel0 makes a database of n tables, all on level 0.
func tablesOfLevel0(t *testing.T, fsys vfs.FS, n int) *db.Options {
	o := testOptions(fsys)
	o.Compaction.L0Trigger, o.Compaction.L0Slowdown, o.Compaction.L0Stop = 1000, 1000, 2000
	o.Tables.Compression = db.SnappyCompression // otherwise Open opens tables to decide
	d := mustOpen(t, o)
	for i := range n {
		fill(t, d, 100*i, 100*i+100)
		require.NoError(t, d.Flush())
	}
	require.NoError(t, d.Close())
	return o
}

func TestOpenAheadOpensTheNewestTablesUpToMaxOpenFiles(t *testing.T) {
	o := tablesOfLevel0(t, vfs.NewMem(), 25)
	o.Cache.MaxOpenFiles = 10
	d, info := openAheadAndWait(t, o)
	require.Equal(t, 10, info.Tables)
	require.EqualValues(t, 10, d.Metrics().Tables.Openings)
	for i, f := range d.State().Version.Levels[0].Files {
		require.Equal(t, i < 10, tables.Of(f).Peek() != nil, "table %d of level 0", i)
	}
}

// Tables that were written after Open are opened on request, and those that are open cost nothing.
func TestOpenTablesOpensThoseThatAreNotOpen(t *testing.T) {
	w := watchTables(t)
	d := filledLevels(t, watchedOptions(w, nil), 4000)
	info, err := d.OpenTables(t.Context())
	require.NoError(t, err)
	require.Positive(t, info.Tables)
	require.Equal(t, d.Metrics().Total().Tables, d.Metrics().Tables.Open)
	require.Empty(t, w.During(func() { info, err = d.OpenTables(t.Context()) }))
	require.Zero(t, info.Tables+info.Failed)
	require.NoError(t, d.Put(testKey(1), nil, db.NoSync))
	require.NoError(t, d.Flush())
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = d.OpenTables(ended)
	require.ErrorIs(t, err, context.Canceled)
	info, err = d.OpenTables(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, info.Tables)
	var missing context.Context
	_, err = d.OpenTables(missing)
	require.ErrorContains(t, err, "OpenTables: the context is nil")
	require.NoError(t, d.Close())
	_, err = d.OpenTables(t.Context())
	require.Equal(t, db.ErrClosed, err)
}

func TestATableThatCannotBeOpenedAheadFailsOnlyItsOwnLookups(t *testing.T) {
	mem := vfs.NewMem()
	o := tablesOfLevel0(t, mem, 5)
	table := filepath.Join("db", namesOf(t, mem, base.FileTable)[1])
	data := readFile(t, mem, table)
	data[len(data)-1] ^= 1 // the magic number
	require.NoError(t, mem.Remove(table))
	writeFile(t, mem, table, data)

	d, info := openAheadAndWait(t, o)
	require.Equal(t, 4, info.Tables)
	require.Equal(t, 1, info.Failed)
	require.ErrorIs(t, info.Err, db.ErrCorruption)
	require.ErrorContains(t, info.Err, table)
	require.NoError(t, d.Metrics().BackgroundError)
	requireValue(t, d, testKey(5), testValue(5))
	_, err := d.Get(testKey(105))
	require.ErrorIs(t, err, db.ErrCorruption)
}

// Open does not wait for the tables. Close waits only for the one that is being opened.
func TestCloseStopsOpeningTablesAhead(t *testing.T) {
	mem := vfs.NewMem()
	o := tablesOfLevel0(t, mem, 20)
	reached, proceed := make(chan struct{}), make(chan struct{})
	var opens atomic.Int64
	var once sync.Once
	o.FS = wrap.NewFaulty(mem, func(op wrap.Op) *wrap.Fault {
		if op.Kind == wrap.OpOpen && isTable(op.Name) && opens.Add(1) == 3 {
			once.Do(func() { close(reached) })
			<-proceed
		}
		return nil
	})
	o.Cache.OpenAhead = true
	o.EventListener = &db.EventListener{
		TablesOpenedAhead: func(report.OpenAheadInfo) { t.Error("called before all tables were opened") },
	}
	d := mustOpen(t, o)
	<-reached
	closed := make(chan error)
	go func() { closed <- d.Close() }()
	<-d.Committer().Ending()
	close(proceed)
	require.NoError(t, <-closed)
	require.EqualValues(t, 3, opens.Load())
	require.EqualValues(t, 3, d.Metrics().Tables.Openings)
}
