package metamorphic

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/stretchr/testify/require"
)

var (
	firstSeed = flag.Uint64("meta.seed", 0, "seed of the first history; the others count up; 0: choose one")
	seeds     = flag.Int("meta.seeds", defaultSeeds, "number of histories")
	ops       = flag.Int("meta.ops", 1000, "operations in each history")
	sets      = flag.Int("meta.sets", 21, "option sets that each history runs under")
)

//make:portable
//make:wasm
func TestOptionsDoNotChangeAnswers(t *testing.T) {
	first := *firstSeed
	if first == 0 {
		first = rand.Uint64() >> 1
	}
	if testing.Short() && *seeds == defaultSeeds {
		*seeds = max(2, defaultSeeds/10)
	}
	t.Logf("seeds %d to %d, %d operations, %d option sets", first, first+uint64(*seeds)-1, *ops, *sets)
	t.Logf("%d operations answered", answerSeeds(t, first))
	if !t.Failed() {
		require.Empty(t, storeGoroutines(), "goroutines of closed stores")
	}
}

// answerSeeds runs all seeds from first on, and returns the number of operations that were answered.
//
//race:apart
func answerSeeds(t *testing.T, first uint64) int64 {
	var workers sync.WaitGroup
	var next, done atomic.Int64
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for i := next.Add(1) - 1; i < int64(*seeds) && !t.Failed(); i = next.Add(1) - 1 {
				out := Run(Config{Seed: first + uint64(i), Ops: *ops, Sets: *sets})
				done.Add(int64(out.Ops))
				report(t, out)
			}
		})
	}
	workers.Wait()
	return done.Load()
}

// storeGoroutines returns the stacks of the goroutines that package db runs.
func storeGoroutines() []string { return fixture.Goroutines("sievedb/db.") }

// report fails the test where the outcome has differences, and keeps the history.
func report(t *testing.T, out *Outcome) {
	if len(out.Differences) == 0 {
		return
	}
	var b strings.Builder
	for _, d := range out.Differences {
		fmt.Fprintf(&b, "set %d (%s)\n  operation %d: %s\n  answered: %s\n  right:    %s\n", d.Set, d.Options, d.Index, d.Op, d.Answer, d.RightAnswer)
	}
	t.Errorf("seed %d: %d option sets differ; run again with -meta.seed=%d -meta.seeds=1 -meta.ops=%d -meta.sets=%d\n%s\nhistory: %s",
		out.Seed, len(out.Differences), out.Seed, *ops, *sets, b.String(), keep(out))
}

// keep writes the history to a file that outlives the test, and returns its name.
func keep(out *Outcome) string {
	f, err := os.CreateTemp("", fmt.Sprintf("sievedb-history-%d-*.txt", out.Seed))
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	if err := out.WriteHistory(f); err != nil {
		return err.Error()
	}
	return f.Name()
}

func TestASeedIsOneHistory(t *testing.T) {
	texts := map[string]bool{}
	for range 2 {
		for seed := range uint64(3) {
			out := Run(Config{Seed: seed, Ops: 200, Sets: 1})
			report(t, out)
			var b strings.Builder
			require.NoError(t, out.WriteHistory(&b))
			texts[b.String()] = true
		}
	}
	require.Len(t, texts, 3)
}

func TestHistoriesHoldEveryOperation(t *testing.T) {
	var seen [Finish + 1]int
	orders, durabilities := map[string]bool{}, map[db.WriteOptions]bool{}
	for seed := range uint64(20) {
		h := NewHistory(seed, 1000)
		orders[h.Comparer.Name] = true
		for _, o := range h.Ops {
			seen[o.Kind]++
			if o.Kind == Put || o.Kind == Delete || o.Kind == Apply {
				durabilities[*o.writeOptions()] = true
			}
		}
	}
	for kind, n := range seen {
		require.NotZero(t, n, Kind(kind).String())
	}
	require.Len(t, orders, 2)
	require.Len(t, durabilities, 3)
}

func TestSetsAreValidAndDiffer(t *testing.T) {
	filters, texts := map[string]bool{}, map[string]bool{}
	for i := range 200 {
		o, text := Set(1, i)
		require.NoError(t, o.Validate(), text)
		texts[text] = true
		if i > 0 {
			filters[describeFilter(o.Filters.Policy)] = true
		}
	}
	require.Len(t, texts, 200)
	require.Len(t, filters, 18, "each policy of the lottery")
}

// A new option must be added to the lottery, or here, with the reason.
func TestEveryOptionIsInTheLottery(t *testing.T) {
	drawn := map[string]bool{
		"FS": true, "Comparer": true, "ReadOnly": true, "EventListener": true, // the run and the history set them
		"Expiry.Prefixes": true, "Expiry.Clock": true, "Expiry.Namespaces": true, // the history sets them; namespaces are prefixes
		"Expiry.Raw":         true,                        // shows stored values, which are other answers
		"Limits.DiskReserve": true,                        // concerns full disks alone
		"Logger":             true,                        // gets the same events as EventListener
		"ErrorIfMissing":     true, "ErrorIfExists": true, // concern the opening alone
		"Salvage":        true,                      // concerns damaged files alone
		"FollowInterval": true,                      // concerns followers alone
		"KeepRecord":     true,                      // concerns RecordedOptions alone
		"Changes.Bytes":  true, "Changes.Age": true, // the histories have no reader of changes; db has tests of their own
	}
	for i := range 200 {
		o, _ := Set(2, i)
		recordDrawn(drawn, "", reflect.ValueOf(*o))
	}
	require.Contains(t, drawn, "Memtables.Size", "groups are walked")
	for name, ok := range drawn {
		require.True(t, ok, name)
	}
}

// recordDrawn records which fields of v, and of the groups in it, are set.
func recordDrawn(drawn map[string]bool, group string, v reflect.Value) {
	for i := range v.NumField() {
		name := group + v.Type().Field(i).Name
		if f := v.Field(i); f.Kind() == reflect.Struct {
			recordDrawn(drawn, name+".", f)
		} else {
			drawn[name] = drawn[name] || !f.IsZero()
		}
	}
}
