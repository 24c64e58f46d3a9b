package db_test

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"math"
	"reflect"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/test/script/stores"
	"github.com/sievedb/sievedb/vfs"
)

// errorsOf calls the methods that T has and that return an error, Close last.
func errorsOf[T any](v T, ctx context.Context) map[string]error {
	of, own := map[string]error{}, map[reflect.Type]any{
		reflect.TypeFor[[]byte](): []byte("key"), reflect.TypeFor[[][]byte](): [][]byte{[]byte("key")}, reflect.TypeFor[[]string](): []string{"table"},
		reflect.TypeFor[context.Context](): ctx, reflect.TypeFor[time.Duration](): time.Hour, reflect.TypeFor[string](): "name",
		reflect.TypeFor[int](): 10, reflect.TypeFor[*db.Batch](): new(db.Batch),
	}
	if d, ok := any(v).(*db.DB); ok {
		o := d.Options()
		own[reflect.TypeFor[*db.Options]()] = &o
	}
	call := func(name string) {
		method := reflect.ValueOf(&v).Elem().MethodByName(name)
		var args []reflect.Value
		for i := range method.Type().NumIn() {
			in := method.Type().In(i)
			switch {
			case own[in] != nil:
				args = append(args, reflect.ValueOf(own[in]))
			case in.Kind() == reflect.Func:
				args = append(args, reflect.MakeFunc(in, func([]reflect.Value) (zeros []reflect.Value) {
					for i := range in.NumOut() {
						zeros = append(zeros, reflect.Zero(in.Out(i)))
					}
					return zeros
				}))
			default:
				args = append(args, reflect.Zero(in))
			}
		}
		out := method.Call(args)
		switch last := out[len(out)-1].Interface().(type) {
		case iter.Seq2[db.Change, error]:
			of[name] = firstError(last)
		case func() error: // of a loop
			for range out[0].Interface().(iter.Seq2[[]byte, []byte]) {
				break
			}
			of[name] = last()
		case error, nil:
			of[name], _ = last.(error)
			if c, ok := out[0].Interface().(io.Closer); ok && of[name] == nil {
				_ = c.Close()
			}
			if resume, ok := out[0].Interface().(func()); ok && resume != nil {
				resume()
			}
		}
	}
	returnsError := regexp.MustCompile(`error\)?$|Seq2\[[^ ]*Change,error\]$`)
	for i, all := 0, reflect.TypeFor[T](); i < all.NumMethod(); i++ {
		if m := all.Method(i); m.Name != "Close" && m.Name != "Examine" && returnsError.MatchString(m.Type.String()) {
			call(m.Name)
		}
	}
	if _, ok := any(v).(io.Closer); ok && reflect.TypeFor[T]().Kind() != reflect.Interface {
		call("Close")
	}
	return of
}

func errorsOfReader(r db.Reader) map[string]error { return errorsOf(r, background) }

// The bug: methods of a nil or zero DB, Snapshot, Iterator, Loader and of a nil Batch panicked with the runtime's
// nil-pointer error.
func TestMethodsOfStoresThatAreNotOpenReturnErrClosed(t *testing.T) {
	requireClosed := func(errs map[string]error, what string) {
		t.Helper()
		require.Greater(t, len(errs), 1)
		for method, err := range errs {
			require.Equal(t, db.ErrClosed, err, "%s: %s", what, method)
		}
	}
	closed := mustOpen(t, testOptions(vfs.NewMem()))
	require.NoError(t, closed.Close())
	for name, d := range map[string]*db.DB{"nil": nil, "zero": {}, "closed": closed} {
		errs := errorsOf(d, background)
		require.Greater(t, len(errs), 50)
		requireClosed(errs, name+" DB")
		require.NotNil(t, d.Metrics())
		require.Zero(t, d.OpenReport().Logs)
		requireClosed(errorsOf(d.NewSnapshot(), background), "Snapshot of a DB: "+name)
	}
	requireClosed(errorsOf[*db.Snapshot](nil, background), "nil Snapshot")
	requireClosed(errorsOf(&db.Snapshot{}, background), "zero Snapshot")
	requireClosed(errorsOf[*db.Loader](nil, background), "nil Loader")
	requireClosed(errorsOf(&db.Loader{}, background), "zero Loader")
	d := openTest(t, testOptions(vfs.NewMem()))
	require.NoError(t, d.Put([]byte("key"), nil, db.NoSync))
	n, err := d.Namespace("n")
	require.NoError(t, err)
	for name, r := range map[string]db.Reader{
		"nil Transaction": (*db.Transaction)(nil), "zero Transaction": &db.Transaction{}, "nil Namespace": (*db.Namespace)(nil), "zero Namespace": &db.Namespace{},
		"nil Namespace in a DB": (*db.Namespace)(nil).In(d), "Namespace in nil": n.In(nil), "Namespace in a nil DB": n.In((*db.DB)(nil)),
	} {
		requireClosed(errorsOfReader(r), name)
	}
	for name, it := range map[string]*db.Iterator{"nil": nil, "zero": {}} {
		for _, moved := range []bool{it.First(), it.Last(), it.SeekGE(nil), it.SeekLT(nil), it.Next(), it.Prev(), it.Valid()} {
			require.False(t, moved, name)
		}
		for range it.All() {
			require.Fail(t, "the iterator has an entry")
		}
		for range it.Backward() {
			require.Fail(t, "the iterator has an entry")
		}
		it.SetBounds(nil, nil)
		require.Nil(t, it.Key())
		require.Nil(t, it.Value())
		requireClosed(errorsOf(it, background), name+" Iterator")
	}
}

// The bug: a nil Batch and a nil context panicked with the runtime's nil-pointer error, and
// meaningless arguments were accepted.
func TestInvalidArgumentsAreRefusedAndNothingIsLost(t *testing.T) {
	o := testOptions(vfs.NewMem())
	d := mustOpen(t, o)
	require.NoError(t, d.Put(testKey(1), testValue(1), db.NoSync))
	for name, c := range map[string]struct {
		call func() error
		want string
	}{
		"Apply of a nil batch":     {func() error { return d.Apply(nil, nil) }, "the batch is nil"},
		"Filters, negative number": {func() error { _, err := d.Filters(t.Context(), -1); return err }, "-1 probes"},
		"Compact, wrong order":     {func() error { return d.Compact(t.Context(), []byte("b"), []byte("a")) }, "start is after limit"},
		"DeleteRange, wrong order": {func() error { return d.DeleteRange(t.Context(), []byte("b"), []byte("a"), nil) }, "start is after limit"},
		"UpgradeFilters, negative rate": {func() error {
			return second(d.UpgradeFilters(t.Context(), nil, &db.UpgradeOptions{BytesPerSecond: -1}))
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

	errs, methods := errorsOf(d, nil), reflect.TypeFor[*db.DB]()
	for i := range methods.NumMethod() {
		m := methods.Method(i)
		if m.Type.NumIn() > 1 && m.Type.In(1) == reflect.TypeFor[context.Context]() {
			require.ErrorContains(t, errs[m.Name], "the context is nil", m.Name)
		}
	}
}

// The bug: meaningless options were accepted.
func TestInvalidOptionsAreRefused(t *testing.T) {
	type refusal struct {
		o    db.Options
		want string
	}
	refused := map[string]refusal{
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
	}
	for _, mode := range []fs.FileMode{0o400, 0o200, 0o066, 0o1600, fs.ModeSetuid | 0o600, fs.ModeDir | 0o700} {
		refused[mode.String()] = refusal{db.Options{FileMode: mode}, "Options.FileMode"}
	}
	for _, p := range []filter.Policy{filter.None, filter.LegacyBloom, always, filter.NewCacheLineBloomPolicy(10)} {
		o := db.Options{Filters: db.FilterOptions{ForGoleveldb: true, Policy: p}}
		refused["for goleveldb: "+p.Name()] = refusal{o, "Options.Filters.ForGoleveldb lists filters of filter.NewBloomPolicy"}
		require.ErrorContains(t, o.Validate(), p.Name())
	}
	for name, c := range refused {
		require.ErrorContains(t, c.o.Validate(), c.want, name)
		c.o.FS = vfs.NewMem()
		require.ErrorContains(t, second(db.Open("db", &c.o)), c.want, name)
		_, err := c.o.FS.Stat("db")
		require.ErrorIs(t, err, fs.ErrNotExist, "%s: nothing was created", name)
	}
	require.NoError(t, (*db.Options)(nil).Validate())
	for _, mode := range []fs.FileMode{0, 0o600, 0o640, 0o644, 0o666, 0o777} {
		require.NoError(t, (&db.Options{FileMode: mode}).Validate())
	}
	for _, p := range []filter.Policy{nil, filter.NewBloomPolicy(16), filter.Several(always, filter.NewBloomPolicy(16))} {
		require.NoError(t, (&db.Options{Filters: db.FilterOptions{ForGoleveldb: true, Policy: p}}).Validate())
	}
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
