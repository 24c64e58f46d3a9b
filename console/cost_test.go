package console

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

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
// two seconds and for the curve every ten. Together they take less than 1 % of the time of one processor.
func TestWatchingCostsLessThanAPercent(t *testing.T) {
	status, tables, plan := answersOf(openTables(t, 250))
	fastest := func(f func() error) time.Duration {
		best := time.Hour
		for range 20 {
			begin := time.Now()
			require.NoError(t, f())
			best = min(best, time.Since(begin))
		}
		return best
	}
	perSecond := fastest(status) + fastest(tables)/2 + fastest(plan)/10
	t.Logf("%s of each second", perSecond)
	require.Less(t, perSecond, 10*time.Millisecond)
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
