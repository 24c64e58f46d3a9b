package db_test

import (
	"context"
	"fmt"
	"io/fs"
	"iter"
	"math"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/test/script/stores"
	"github.com/sievedb/sievedb/vfs"
)

// The bug: methods of a nil or zero DB, Snapshot, Iterator, Loader and of a nil Batch panicked
// with the runtime's nil-pointer error.
func TestMethodsOfStoresThatAreNotOpenReturnErrClosed(t *testing.T) {
	closed := mustOpen(t, testOptions(vfs.NewMem()))
	require.NoError(t, closed.Close())
	for name, d := range map[string]*db.DB{"nil": nil, "zero": {}, "closed": closed} {
		for method, err := range errorsOfDB(d) {
			require.Equal(t, db.ErrClosed, err, "%s DB: %s", name, method)
		}
		require.NotNil(t, d.Metrics())
		require.Zero(t, d.OpenReport().Logs)
		s := d.NewSnapshot()
		for method, err := range errorsOfReader(s) {
			require.Equal(t, db.ErrClosed, err, "snapshot of a %s DB: %s", name, method)
		}
		require.Equal(t, db.ErrClosed, s.Close(), name)
	}
	for name, s := range map[string]*db.Snapshot{"nil": nil, "zero": {}} {
		for method, err := range errorsOfReader(s) {
			require.Equal(t, db.ErrClosed, err, "%s Snapshot: %s", name, method)
		}
		require.Equal(t, db.ErrClosed, s.Close(), name)
	}
	d := openTest(t, testOptions(vfs.NewMem()))
	require.NoError(t, d.Put([]byte("key"), nil, db.NoSync))
	n, err := d.Namespace("n")
	require.NoError(t, err)
	for name, r := range map[string]db.Reader{
		"nil Transaction": (*db.Transaction)(nil), "zero Transaction": &db.Transaction{}, "nil Namespace": (*db.Namespace)(nil), "zero Namespace": &db.Namespace{},
		"nil Namespace in a DB": (*db.Namespace)(nil).In(d), "Namespace in nil": n.In(nil), "Namespace in a nil DB": n.In((*db.DB)(nil)),
	} {
		for method, err := range errorsOfReader(r) {
			require.Equal(t, db.ErrClosed, err, "%s: %s", name, method)
		}
	}
	for name, l := range map[string]*db.Loader{"nil": nil, "zero": {}} {
		for method, err := range map[string]error{
			"Put": l.Put(nil, nil), "Delete": l.Delete(nil), "Commit": l.Commit(), "Close": l.Close(),
		} {
			require.Equal(t, db.ErrClosed, err, "%s Loader: %s", name, method)
		}
	}
	for name, it := range map[string]*db.Iterator{"nil": nil, "zero": {}} {
		for method, moved := range map[string]bool{
			"First": it.First(), "Last": it.Last(), "SeekGE": it.SeekGE(nil), "SeekLT": it.SeekLT(nil),
			"Next": it.Next(), "Prev": it.Prev(), "Valid": it.Valid(),
		} {
			require.False(t, moved, "%s Iterator: %s", name, method)
		}
		for range it.All() {
			require.Fail(t, "the iterator has an entry")
		}
		for range it.Backward() {
			require.Fail(t, "the iterator has an entry")
		}
		it.SetBounds(nil, nil)
		_, err := it.Clone(nil)
		require.Equal(t, db.ErrClosed, err, name)
		require.Nil(t, it.Key())
		require.Nil(t, it.Value())
		require.Equal(t, db.ErrClosed, it.Err(), name)
		require.Equal(t, db.ErrClosed, it.Close(), name)
	}
}

// errorsOfDB calls the methods of d that return an error, Close last.
func errorsOfDB(d *db.DB) map[string]error {
	ctx, key, of := context.Background(), []byte("key"), map[string]error{}
	of["Put"] = d.Put(key, key, nil)
	of["Put with NoSync"] = d.Put(key, key, db.NoSync)
	of["Delete"] = d.Delete(key, db.Buffered)
	of["Apply"] = d.Apply(&db.Batch{}, nil)
	of["Apply of nil"] = d.Apply(nil, nil)
	of["SyncLog"] = d.SyncLog()
	of["Flush"] = d.Flush()
	of["Compact"] = d.Compact(ctx, key, nil)
	_, of["Get"] = d.Get(key)
	_, of["GetTo"] = d.GetTo(nil, key)
	_, of["Has"] = d.Has(key)
	_, of["MultiGet"] = d.MultiGet([][]byte{key})
	_, of["NewIterator"] = d.NewIterator(nil)
	of["All"], of["Backward"] = errorOfLoop(d.All(nil)), errorOfLoop(d.Backward(nil))
	_, of["GetWith"] = d.GetWith(nil, key, nil)
	_, of["NewLoader"] = d.NewLoader()
	_, of["DiskUsage"] = d.DiskUsage()
	_, of["EstimateSize"] = d.EstimateSize(nil, nil)
	_, of["ApproximateSize"] = d.ApproximateSize(nil, nil)
	_, of["Check"] = d.Check(ctx)
	of["Refresh"] = d.Refresh(ctx)
	_, of["Lag"] = d.Lag()
	_, of["Checkpoint"] = d.Checkpoint(ctx, "copy", nil)
	_, of["Ingest"] = d.Ingest(ctx, []string{"table"}, nil)
	of["Changes"] = firstError(d.Changes(ctx, 0, nil))
	of["WaitForChange"] = d.WaitForChange(ctx, 0)
	_, _, of["ChangePositions"] = d.ChangePositions()
	of["SetCursor"] = d.SetCursor("cursor", 0)
	of["DropCursor"] = d.DropCursor("cursor")
	_, of["Cursors"] = d.Cursors()
	_, of["Explain"] = d.Explain(key)
	_, of["Filters"] = d.Filters(ctx, 0)
	o := d.Options()
	of["SetOptions"] = d.SetOptions(&o)
	_, of["PauseCompactions"] = d.PauseCompactions(ctx)
	_, of["Tables"] = d.Tables()
	_, of["UpgradeFilters"] = d.UpgradeFilters(ctx, nil, nil)
	of["Close"] = d.Close()
	return of
}

// errorsOfReader returns what the methods of a Reader return.
func errorsOfReader(r db.Reader) map[string]error {
	key, of := []byte("key"), map[string]error{}
	_, of["Get"] = r.Get(key)
	_, of["GetTo"] = r.GetTo(nil, key)
	_, of["GetWith"] = r.GetWith(nil, key, nil)
	_, of["Has"] = r.Has(key)
	_, of["MultiGet"] = r.MultiGet([][]byte{key})
	_, of["NewIterator"] = r.NewIterator(nil)
	of["All"], of["Backward"] = errorOfLoop(r.All(nil)), errorOfLoop(r.Backward(nil))
	return of
}

func errorOfLoop(entries iter.Seq2[[]byte, []byte], failed func() error) error {
	for range entries {
		return nil
	}
	return failed()
}

// The bug: a nil Batch and a nil context panicked with the runtime's nil-pointer error, and
// meaningless arguments were accepted.
func TestInvalidArgumentsAreRefusedAndNothingIsLost(t *testing.T) {
	o := testOptions(vfs.NewMem())
	d := mustOpen(t, o)
	require.NoError(t, d.Put(testKey(1), testValue(1), db.NoSync))
	var none context.Context
	for name, c := range map[string]struct {
		call func() error
		want string
	}{
		"Apply of a nil batch":     {func() error { return d.Apply(nil, nil) }, "the batch is nil"},
		"Compact, nil context":     {func() error { return d.Compact(none, nil, nil) }, "Compact: the context is nil"},
		"DeleteRange, nil context": {func() error { return d.DeleteRange(none, nil, nil, nil) }, "the context is nil"},
		"PauseCompactions, nil":    {func() error { _, err := d.PauseCompactions(none); return err }, "PauseCompactions: the context is nil"},
		"Check, nil context":       {func() error { _, err := d.Check(none); return err }, "Check: the context is nil"},
		"Filters, nil context":     {func() error { _, err := d.Filters(none, 0); return err }, "Filters: the context is nil"},
		"UpgradeFilters, nil":      {func() error { _, err := d.UpgradeFilters(none, nil, nil); return err }, "UpgradeFilters: the context is nil"},
		"Filters, negative number": {func() error { _, err := d.Filters(t.Context(), -1); return err }, "-1 probes"},
		"Compact, wrong order":     {func() error { return d.Compact(t.Context(), []byte("b"), []byte("a")) }, "start is after limit"},
		"DeleteRange, wrong order": {func() error { return d.DeleteRange(t.Context(), []byte("b"), []byte("a"), nil) }, "start is after limit"},
		"UpgradeFilters, negative rate": {func() error {
			_, err := d.UpgradeFilters(t.Context(), nil, &db.UpgradeOptions{BytesPerSecond: -1})
			return err
		}, "-1 bytes per second"},
	} {
		require.ErrorContains(t, c.call(), c.want, name)
	}
	var b *db.Batch
	require.Zero(t, b.Len()+b.Size())
	b.Reset()
	require.PanicsWithValue(t, "sievedb: a write to a nil *Batch; use &db.Batch{}", func() { b.Put(nil, nil) })
	require.NoError(t, d.Close())
	d = openTest(t, o)
	requireValue(t, d, testKey(1), testValue(1))
	require.EqualValues(t, 1, d.Metrics().LastSequence)
}

// The bug: meaningless options were accepted.
func TestInvalidOptionsAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		o    db.Options
		want string
	}{
		"a filter policy without a name":  {db.Options{Filters: db.FilterOptions{Policy: renamed{}}}, "without a Name"},
		"read-only and only if it is new": {db.Options{ReadOnly: true, ErrorIfExists: true}, "exclude each other"},
		"if it exists and if not":         {db.Options{ErrorIfMissing: true, ErrorIfExists: true}, "Options.ErrorIfMissing"},
		"a comparer without a function":   {db.Options{Comparer: &db.Comparer{Name: "no function"}}, "Options.Comparer"},
		"too large a block":               {db.Options{Tables: db.TableOptions{BlockSize: 8 << 20}}, "Options.Tables.BlockSize"},
		"too many compactions":            {db.Options{Compaction: db.CompactionOptions{MaxConcurrent: 65}}, "Options.Compaction.MaxConcurrent"},
		"a slowdown before the trigger":   {db.Options{Compaction: db.CompactionOptions{L0Trigger: 8, L0Slowdown: 7}}, "Options.Compaction.L0Slowdown"},
		"a stop before the slowdown":      {db.Options{Compaction: db.CompactionOptions{L0Slowdown: 20, L0Stop: 20}}, "Options.Compaction.L0Stop is 20"},
		"too small a level":               {db.Options{Compaction: db.CompactionOptions{MaxLevelBase: 1}}, "Options.Compaction.MaxLevelBase"},
		"a MANIFEST that cannot be read":  {db.Options{Limits: db.LimitOptions{ManifestSize: 1 << 20, ManifestRead: 1 << 20}}, "Options.Limits.ManifestRead"},
	} {
		require.ErrorContains(t, c.o.Validate(), c.want, name)
		c.o.FS = vfs.NewMem()
		_, err := db.Open("db", &c.o)
		require.ErrorContains(t, err, c.want, name)
		_, err = c.o.FS.Stat("db")
		require.ErrorIs(t, err, fs.ErrNotExist, "%s: nothing was created", name)
	}
	require.NoError(t, (*db.Options)(nil).Validate())
}

// A new number needs bounds, or a row here.
func TestEachNumberAmongTheOptionsHasBounds(t *testing.T) {
	unbounded := map[string]int64{"Changes.Bytes": math.MinInt64, "Changes.Age": math.MaxInt64, "Limits.DiskReserve": math.MinInt64}
	var visit func(group string, of reflect.Type)
	visit = func(group string, of reflect.Type) {
		for i := range of.NumField() {
			name := group + of.Field(i).Name
			switch of.Field(i).Type.Kind() {
			case reflect.Struct:
				visit(name+".", of.Field(i).Type)
			case reflect.Int, reflect.Int64:
				for _, n := range []int64{math.MinInt64, math.MaxInt64} {
					var o db.Options
					stores.Field(reflect.ValueOf(&o), name).SetInt(n)
					if name != "Cache.Size" && name != "Filters.Budget" && unbounded[name] != n { // the second has a test in filterplan
						require.ErrorContains(t, o.Validate(), fmt.Sprintf("Options.%s is %d; it must be from", name, n))
					}
				}
			}
		}
	}
	visit("", reflect.TypeFor[db.Options]())
}
