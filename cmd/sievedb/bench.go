package main

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/sievedb/sievedb/cmd/internal/bench"
	"github.com/sievedb/sievedb/db"
)

type benchFlags struct {
	num       int
	valueSize int
	seed      uint64
	workloads []string
}

func (b *benchFlags) add(f *pflag.FlagSet) {
	f.IntVar(&b.num, "num", 100_000, "the number of keys")
	f.IntVar(&b.valueSize, "value-size", 100, "bytes of a value")
	f.Uint64Var(&b.seed, "seed", 1, "the seed of keys and values")
	f.StringSliceVar(&b.workloads, "workloads", []string{"fillseq", "fillrandom", "readrandom", "readmissing", "readseq"},
		"what to measure, in this order")
}

// benched is the result of one workload.
type benched struct {
	Workload       string
	Operations     uint64
	PerSecond      float64
	MicrosPerOp    float64
	BytesPerSecond size
	// BlocksRead and ReadsSaved are by lookups: data blocks read or found in the cache, and those that a filter saved.
	BlocksRead, ReadsSaved uint64
	Duration               time.Duration
}

// bencher measures workloads on one store.
type bencher struct {
	a      *app
	store  *db.DB
	flags  *benchFlags
	rng    *rand.Rand
	values *bench.ValueSource
}

// workloads are those of 'bench'. Each does one operation and returns its bytes.
var workloads = map[string]func(b *bencher, i int) (int, error){
	"fillseq":    func(b *bencher, i int) (int, error) { return b.put(i) },
	"fillrandom": func(b *bencher, _ int) (int, error) { return b.put(b.rng.IntN(b.flags.num)) },
	"fillsync": func(b *bencher, _ int) (int, error) {
		key, value := benchKey(b.rng.IntN(b.flags.num)), b.values.Next(b.flags.valueSize)
		return len(key) + len(value), b.store.Put(key, value, db.Sync)
	},
	"readrandom":  func(b *bencher, _ int) (int, error) { return b.get(benchKey(b.rng.IntN(b.flags.num))) },
	"readmissing": func(b *bencher, _ int) (int, error) { return b.get(append(benchKey(b.rng.IntN(b.flags.num)), '.')) },
	"readseq":     nil, // one iterator, and not an operation each
}

func benchKey(i int) []byte { return fmt.Appendf(nil, "%016d", i) }

func (b *bencher) put(i int) (int, error) {
	key, value := benchKey(i), b.values.Next(b.flags.valueSize)
	return len(key) + len(value), b.store.Put(key, value, db.NoSync)
}

func (b *bencher) get(key []byte) (int, error) {
	value, err := b.store.Get(key)
	if errors.Is(err, db.ErrNotFound) {
		err = nil
	}
	return len(value), err
}

// bench measures a new database in a temporary directory, or below the given one.
func (a *app) bench(args []string, flags *benchFlags) error {
	if flags.num < 1 || flags.valueSize < 0 || flags.valueSize > 1<<20 {
		return misuse("--num must be 1 or more, and --value-size 0 to %d", 1<<20)
	}
	for _, name := range flags.workloads {
		if _, ok := workloads[name]; !ok {
			return misuse("--workloads: there is no %q", name)
		}
	}
	parent := ""
	if len(args) > 0 {
		parent = args[0]
	}
	temp, err := os.MkdirTemp(parent, "sievedb-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	var results []benched
	err = a.open(filepath.Join(temp, "db"), &db.Options{}, func(store *db.DB) error {
		rng := rand.New(rand.NewPCG(flags.seed, 0))
		b := &bencher{a: a, store: store, flags: flags, rng: rng, values: bench.NewValueSource(rng, flags.valueSize, 0.5)}
		for _, name := range flags.workloads {
			r, err := b.run(name)
			if r.Operations > 0 { // what an interruption has left is a result too
				results = append(results, r)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if len(results) == 0 {
		return err
	}
	return errors.Join(err, a.out.result(struct{ Workloads []benched }{results}, func() {
		t := a.out.table("workload", "operations", "per second", "µs each", "bytes per second", "+blocks read", "+reads saved by filters")
		for _, r := range results {
			t.row(r.Workload, r.Operations, fmt.Sprintf("%.0f", r.PerSecond), fmt.Sprintf("%.3f", r.MicrosPerOp), r.BytesPerSecond, r.BlocksRead, r.ReadsSaved)
		}
		t.print()
	}))
}

// run measures one workload. Reads begin when writes are in tables: lookups of memtables would say
// nothing about filters.
func (b *bencher) run(name string) (r benched, err error) {
	if strings.HasPrefix(name, "read") {
		if err := b.store.Flush(); err != nil {
			return r, err
		}
	}
	p := b.a.progressTo(name, "operation", uint64(b.flags.num))
	defer p.close()
	before := b.store.Metrics().Total()
	began := b.a.now()
	bytes := uint64(0)
	if op := workloads[name]; op != nil {
		for i := 0; i < b.flags.num && err == nil; i++ {
			if i%1024 == 0 && b.a.ctx.Err() != nil {
				err = b.a.ctx.Err()
				break
			}
			var n int
			if n, err = op(b, i); err == nil {
				r.Operations++
			}
			bytes += uint64(n)
			p.add(1, 0)
		}
	} else {
		err = b.a.each(b.store, &db.IterOptions{}, false, func(key, value []byte) (bool, error) {
			r.Operations++
			bytes += uint64(len(key) + len(value))
			p.add(1, 0)
			return true, nil
		})
	}
	r.Workload, r.Duration = name, b.a.now().Sub(began)
	seconds := max(r.Duration.Seconds(), 1e-9)
	r.PerSecond, r.BytesPerSecond = float64(r.Operations)/seconds, size(float64(bytes)/seconds)
	r.MicrosPerOp = 1e6 * seconds / float64(max(r.Operations, 1))
	after := b.store.Metrics().Total()
	r.BlocksRead = after.BlocksFromCache + after.BlocksFromDisk - before.BlocksFromCache - before.BlocksFromDisk
	r.ReadsSaved = after.FilterNegatives - before.FilterNegatives
	return r, err
}

// workloadNames are for the help.
func workloadNames() string { return strings.Join(slices.Sorted(maps.Keys(workloads)), ", ") }
