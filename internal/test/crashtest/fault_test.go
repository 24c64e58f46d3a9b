package crashtest

import (
	"errors"
	"flag"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/test/crashtest/cuts"
	"github.com/sievedb/sievedb/internal/test/crashtest/order"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/race"
	"github.com/sievedb/sievedb/internal/test/storetest"
	"github.com/sievedb/sievedb/vfs"
)

// faultKind is an error and the operations that fail with it.
type faultKind struct {
	name  string
	fault func(op wrap.Op) *wrap.Fault // nil for an operation that does not fail
	// space is set if only operations that need space on the disk fail, so that reads must work.
	space bool
}

var faultKinds = []faultKind{
	{name: "EIO", fault: func(wrap.Op) *wrap.Fault { return &wrap.Fault{Err: syscall.EIO} }},
	{name: "ENOSPC", space: true, fault: noSpaceFault},
	{name: "short", fault: shortWriteFault},
}

func shortWriteFault(op wrap.Op) *wrap.Fault {
	if op.Kind == wrap.OpWrite {
		return &wrap.Fault{Err: syscall.EIO, Short: (op.Length + 1) / 2}
	}
	return nil
}

func noSpaceFault(op wrap.Op) *wrap.Fault {
	switch op.Kind {
	case wrap.OpCreate, wrap.OpWrite, wrap.OpSync, wrap.OpSyncDir, wrap.OpMkdirAll, wrap.OpLink, wrap.OpRename, wrap.OpLock,
		wrap.OpReserve, wrap.OpCut:
		return &wrap.Fault{Err: syscall.ENOSPC, Short: op.Length / 2}
	}
	return nil
}

// faultCase is one run with one or two failures.
type faultCase struct {
	kind    faultKind
	sticky  bool
	at      uint64       // counts only the operations that fail with the kind, from 1
	then    *secondFault // may be nil
	seed    uint64
	scale   int      // of the workload
	logDirs []string // see faultRun
}

// secondFault fails one more operation, distance of those that fail with its kind after the first failure.
type secondFault struct {
	kind     faultKind
	distance uint64
}

func (c faultCase) String() string {
	how := "once"
	if c.sticky {
		how = "from then on"
	}
	if c.then != nil {
		how = fmt.Sprintf("then %s %d operations later", c.then.kind.name, c.then.distance)
	}
	return fmt.Sprintf("%s at operation %d, %s, seed %d", c.kind.name, c.at, how, c.seed)
}

// fault returns the fault of an operation, or nil. first and then count the operations of the kinds so far.
func (c faultCase) fault(op wrap.Op, first, then *atomic.Uint64) *wrap.Fault {
	if f := c.kind.fault(op); f != nil {
		if n := first.Add(1); n == c.at || c.sticky && n > c.at {
			return f
		}
	}
	if c.then != nil && first.Load() >= c.at {
		if f := c.then.kind.fault(op); f != nil && then.Add(1) == c.then.distance {
			return f
		}
	}
	return nil
}

// run runs the workload with the failures, then opens the remaining files without them.
func (c faultCase) run() error {
	mem := vfs.NewMem()
	counting := wrap.NewCounting(fixture.LogsOf(c.seed, mem))
	var hit atomic.Bool
	var failedOp atomic.Value
	var first, then atomic.Uint64
	faulty := wrap.NewFaulty(counting, func(op wrap.Op) *wrap.Fault {
		f := c.fault(op, &first, &then)
		if f != nil && hit.CompareAndSwap(false, true) {
			failedOp.Store(fmt.Sprintf("%v %s", op.Kind, op.Name))
		}
		return f
	})
	checker := order.New(faulty)
	r := newFaultRun(c.seed, c.scale)
	r.logDirs = c.logDirs
	r.readsMustWork = c.kind.space && (c.then == nil || c.then.kind.space)
	err := r.workload(checker)
	if err == nil {
		err = c.after(mem, counting, checker, r)
	}
	if err != nil {
		return fmt.Errorf("%v (%v): %w", c, failedOp.Load(), err)
	}
	return nil
}

// after checks the files that Close leaves, and opens them twice.
func (c faultCase) after(mem *vfs.Mem, counting *wrap.Counting, checker *order.FS, r *faultRun) error {
	if v := checker.Violations(); len(v) > 0 {
		return fmt.Errorf("order of operations: %s", strings.Join(v, "; "))
	}
	if n := counting.Snapshot().Total.OpenFiles; n != 0 {
		return fmt.Errorf("%d files are open after Close", n)
	}
	return r.opensAlike(mem, func(d *db.DB) (vfs.FS, error) {
		storetest.WaitUntilIdle(d)
		return mem, storetest.StrayFilesWhenIdle(d, withLogs{mem})
	})
}

// withLogs lists the files of "logs" with those of the database.
type withLogs struct{ *vfs.Mem }

// List implements vfs.FS.
func (w withLogs) List(dir string) ([]string, error) {
	logs, _ := w.Mem.List("logs")
	names, err := w.Mem.List(dir)
	return append(names, logs...), err
}

// The defaults suit every run of the tests; docs/reliability-runs.md describes the long runs.
var (
	faultOps   = flag.Int("fault.ops", 500, "least number of operations in the workload of the fault tests")
	faultPairs = flag.Int("fault.pairs", 400, "number of sampled pairs of operations that fail in one run")
)

// faultWorkload returns the scale of a workload with more than fault.ops operations, and its faultCounts.
func faultWorkload(t *testing.T, seed uint64) (scale int, counts []uint64) {
	for scale = 1; ; scale++ {
		counts = faultCounts(t, fixture.LogsOf(seed, vfs.NewMem()), newFaultRun(seed, scale))
		if slices.Max(counts) > uint64(*faultOps) {
			return scale, counts
		}
	}
}

// faultCounts returns how many operations of a workload fail with each of faultKinds. No other one is worth a run.
//
//race:apart
func faultCounts(t *testing.T, fsys vfs.FS, r *faultRun) []uint64 {
	counts := make([]uint64, len(faultKinds))
	var mu sync.Mutex
	r.readsMustWork = true
	require.NoError(t, r.workload(wrap.NewFaulty(fsys, func(op wrap.Op) *wrap.Fault {
		mu.Lock()
		defer mu.Unlock()
		for i, kind := range faultKinds {
			if kind.fault(op) != nil {
				counts[i]++
			}
		}
		return nil
	})))
	require.Zero(t, r.failures)
	return counts
}

// Each operation of a small run fails, alone or with all that follow, in each of three ways. Every
// answer is right or an error, and nothing acknowledged is lost.
//
//make:gates
func TestAnErrorAtEveryOperation(t *testing.T) {
	cuts.Seeds(t, func(t *testing.T, seed uint64) {
		scale, counts := faultWorkload(t, seed)
		step := uint64(1)
		if race.Sampled() {
			step = 41
		}
		before := runtime.NumGoroutine()
		runEachKind(t, counts, step, faultCase{at: 1, seed: seed, scale: scale})
		fixture.Eventually(t, func() bool { return runtime.NumGoroutine() <= before })
	})
}

// Two operations of one run fail, often close to each other, so that the second failure meets the
// handling of the first.
func TestTwoErrorsInOneRun(t *testing.T) {
	cuts.Seeds(t, func(t *testing.T, seed uint64) {
		scale, counts := faultWorkload(t, seed)
		pairs := *faultPairs
		if race.Sampled() {
			pairs = min(pairs, 20)
		}
		rnd := rand.New(rand.NewPCG(seed, 4))
		before := runtime.NumGoroutine()
		cases := make([]faultCase, pairs)
		for i := range cases {
			first, then := rnd.IntN(len(faultKinds)), rnd.IntN(len(faultKinds))
			distance := 1 + rnd.Uint64N(1<<rnd.IntN(bits.Len64(counts[then]))) // evenly by magnitude
			cases[i] = faultCase{
				kind: faultKinds[first], at: 1 + rnd.Uint64N(counts[first]), seed: seed, scale: scale,
				then: &secondFault{kind: faultKinds[then], distance: distance},
			}
		}
		require.NoError(t, runFaultCases(pairs, 10, func(i int) error { return cases[i].run() }))
		t.Logf("seed %d: %d runs", seed, pairs)
		fixture.Eventually(t, func() bool { return runtime.NumGoroutine() <= before })
	})
}

// runEachKind runs the case with each kind of failure, once or from then on, at every step-th operation from its own.
func runEachKind(t *testing.T, counts []uint64, step uint64, c faultCase) {
	t.Helper()
	for k, kind := range faultKinds {
		for _, sticky := range []bool{false, true} {
			runs := int((counts[k] + step - c.at) / step)
			require.NoError(t, runFaultCases(runs, 10, func(i int) error {
				c := c
				c.kind, c.sticky, c.at = kind, sticky, c.at+uint64(i)*step
				return c.run()
			}))
			t.Logf("seed %d: %d runs of %s, sticky: %v", c.seed, runs, kind.name, sticky)
		}
	}
}

// runFaultCases runs cases in parallel, more than there are processors, because many of them wait
// after a failure. It stops after about maxErrors errors and returns them.
//
//race:apart
func runFaultCases(n, maxErrors int, run func(i int) error) error {
	var next atomic.Int64
	var mu sync.Mutex
	var errs []error
	var group sync.WaitGroup
	for range 16 * runtime.GOMAXPROCS(0) {
		group.Go(func() {
			for {
				i := int(next.Add(1) - 1)
				mu.Lock()
				enough := len(errs) >= maxErrors
				mu.Unlock()
				if i >= n || enough {
					return
				}
				if err := run(i); err != nil {
					mu.Lock()
					errs = append(errs, err)
					mu.Unlock()
				}
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

// Each operation fails, alone or with all that follow, while the logs move. Every answer is right or an
// error, nothing acknowledged is lost, and the store opens afterwards without LogDir.
func TestAnErrorAtEveryOperationWhileTheLogsMove(t *testing.T) {
	step := uint64(inRun(29, 353))
	cuts.Seeds(t, func(t *testing.T, seed uint64) {
		r := newFaultRun(seed, 1)
		r.logDirs = []string{"logs", "", "db", "logs"}
		counts := faultCounts(t, vfs.NewMem(), r)
		runEachKind(t, counts, step, faultCase{at: 1 + seed%step, seed: seed, scale: 1, logDirs: r.logDirs})
	})
}

func TestShortReadsChangeNoAnswer(t *testing.T) {
	cuts.Seeds(t, func(t *testing.T, seed uint64) {
		mem := vfs.NewMem()
		r := newFaultRun(seed, 1)
		r.readsMustWork = true
		require.NoError(t, r.workload(fixture.ShortReads(mem)))
		require.Zero(t, r.failures)

		d, err := db.Open("db", crashOptions(fixture.ShortReads(mem), seed&^3)) // with the same Expiry as 0
		require.NoError(t, err)
		require.NoError(t, d.Compact(t.Context(), nil, nil))
		require.NoError(t, r.readAll(d))
		report, err := d.Check(t.Context())
		require.NoError(t, err)
		require.NotZero(t, report)
		require.NoError(t, d.Close())
		require.NoError(t, r.workload(mem), "the files are complete")
	})
}
