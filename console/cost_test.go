package console

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/vfs"
)

// openTables returns a store with about so many tables, all of which are open.
func openTables(t testing.TB, tables int) *db.DB {
	o := &db.Options{FS: vfs.NewMem()}
	o.Tables.Size = 4 << 10
	o.Cache.MaxOpenFiles = 2 * tables
	store, err := db.Open("dir", o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	l, err := store.NewLoader()
	require.NoError(t, err)
	value := make([]byte, 1000)
	for i := range tables * 5 {
		for j := range value {
			value[j] = byte(uint32(i*1000+j) * 2654435761 >> 24) // hardly compressed
		}
		require.NoError(t, l.Put(fmt.Appendf(nil, "key%08d", i), value))
	}
	require.NoError(t, l.Commit())
	for i := range tables * 5 {
		_, err := store.Has(fmt.Appendf(nil, "key%08d", i))
		require.NoError(t, err)
	}
	return store
}

// answersOf returns functions that make the answers for which a page asks again and again.
func answersOf(store *db.DB) (status, tables, plan func() error) {
	h := &handler{store: store}
	answer := func(make func(context.Context) (any, error)) func() error {
		return func() error {
			value, err := make(context.Background())
			if err == nil {
				_, err = json.Marshal(value)
			}
			return err
		}
	}
	return answer(h.readStatus), answer(h.readTables), answer(h.plan)
}

// A visible page asks for the status once a second and, if tables have changed, for the tables every
// two seconds and for the curve every ten. The status costs the same with any number of tables, the others
// some allocations for each, and none reads a file. BenchmarkWatching has the times.
func TestWatchingCostsLittle(t *testing.T) {
	const tables = 250
	store := openTables(t, tables)
	status, list, plan := answersOf(store)
	before := store.Metrics()
	for _, answer := range []struct {
		name  string
		make  func() error
		limit float64
	}{{"status", status, 100}, {"tables", list, 20 * tables}, {"plan", plan, 20 * tables}} {
		allocations := testing.AllocsPerRun(10, func() { require.NoError(t, answer.make()) })
		require.LessOrEqual(t, allocations, answer.limit, answer.name)
	}
	after := store.Metrics()
	require.Equal(t, before.Tables, after.Tables)
	require.Equal(t, before.Cache, after.Cache)
}

func BenchmarkWatching(b *testing.B) {
	for _, n := range []int{10, 250, 4000} {
		status, tables, plan := answersOf(openTables(b, n))
		for name, f := range map[string]func() error{"status": status, "tables": tables, "plan": plan} {
			b.Run(fmt.Sprintf("%s/tables=%d", name, n), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					require.NoError(b, f())
				}
			})
		}
	}
}
