package db

import (
	"errors"
	"flag"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/test/crashtest/order"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/vfs"
)

// faultKind is an error and the operations that fail with it.
type faultKind struct {
	name  string
	fault func(op wrap.Op) *wrap.Fault
	// space is set if only operations that need space on the disk fail, so that reads must work.
	space bool
}

var faultKinds = []faultKind{
	{name: "EIO", fault: func(wrap.Op) *wrap.Fault { return &wrap.Fault{Err: syscall.EIO} }},
	{name: "ENOSPC", space: true, fault: noSpaceFault},
	{name: "short", fault: func(op wrap.Op) *wrap.Fault { return &wrap.Fault{Err: syscall.EIO, Short: (op.Length + 1) / 2} }},
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
	at      uint64
	then    *secondFault // may be nil
	seed    uint64
	scale   int      // of the workload
	logDirs []string // see faultRun
}

// secondFault fails one more operation, distance operations after the first.
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

// fault returns the fault of an operation, or nil.
func (c faultCase) fault(op wrap.Op) *wrap.Fault {
	switch {
	case op.Index == c.at, c.sticky && op.Index > c.at:
		return c.kind.fault(op)
	case c.then != nil && op.Index == c.at+c.then.distance:
		return c.then.kind.fault(op)
	}
	return nil
}

// run runs the workload with the failures, then opens the remaining files without them.
func (c faultCase) run() error {
	mem := vfs.NewMem()
	counting := wrap.NewCounting(fixture.LogsOf(c.seed, mem))
	var hit atomic.Bool
	var failedOp atomic.Value
	faulty := wrap.NewFaulty(counting, func(op wrap.Op) *wrap.Fault {
		f := c.fault(op)
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
	return r.opensAlike(mem, func(d *DB) (vfs.FS, error) {
		waitUntilIdle(d)
		return mem, strayFilesWhenIdle(d, d.files.FS)
	})
}

// The defaults suit every run of the tests; docs/reliability-runs.md describes the long runs.
var (
	faultOps   = flag.Int("fault.ops", 500, "least number of operations in the workload of the fault tests")
	faultPairs = flag.Int("fault.pairs", 400, "number of sampled pairs of operations that fail in one run")
)

// faultWorkload returns the scale of a workload with more than fault.ops operations, and their number.
func faultWorkload(t *testing.T, seed uint64) (scale int, total uint64) {
	for scale = 1; ; scale++ {
		counter := wrap.NewFaulty(fixture.LogsOf(seed, vfs.NewMem()), nil)
		r := newFaultRun(seed, scale)
		r.readsMustWork = true
		require.NoError(t, r.workload(counter))
		require.Zero(t, r.failures)
		if total = counter.Ops(); total > uint64(*faultOps) {
			return scale, total
		}
	}
}

// Each operation of a small run fails, alone or with all that follow, in each of three ways. Every
// answer is right or an error, and nothing acknowledged is lost.
//
//make:gates
func TestAnErrorAtEveryOperation(t *testing.T) {
	testSeeds(t, func(t *testing.T, seed uint64) {
		scale, total := faultWorkload(t, seed)
		step := uint64(1)
		if sampled() {
			step = 23
		}
		before := runtime.NumGoroutine()
		for _, kind := range faultKinds {
			for _, sticky := range []bool{false, true} {
				runs := int((total + step - 1) / step)
				require.NoError(t, runFaultCases(runs, 10, func(i int) error {
					return faultCase{kind: kind, sticky: sticky, at: uint64(i) * step, seed: seed, scale: scale}.run()
				}))
				t.Logf("seed %d: %d operations, %d runs of %s, sticky: %v", seed, total, runs, kind.name, sticky)
			}
		}
		eventually(t, func() bool { return runtime.NumGoroutine() <= before })
	})
}

// Two operations of one run fail, often close to each other, so that the second failure meets the
// handling of the first.
func TestTwoErrorsInOneRun(t *testing.T) {
	testSeeds(t, func(t *testing.T, seed uint64) {
		scale, total := faultWorkload(t, seed)
		pairs := *faultPairs
		if sampled() {
			pairs = min(pairs, 50)
		}
		rnd := rand.New(rand.NewPCG(seed, 4))
		before := runtime.NumGoroutine()
		cases := make([]faultCase, pairs)
		for i := range cases {
			distance := 1 + rnd.Uint64N(1<<rnd.IntN(bits.Len64(total))) // evenly by magnitude
			cases[i] = faultCase{
				kind: faultKinds[rnd.IntN(len(faultKinds))], at: rnd.Uint64N(total), seed: seed, scale: scale,
				then: &secondFault{kind: faultKinds[rnd.IntN(len(faultKinds))], distance: distance},
			}
		}
		require.NoError(t, runFaultCases(pairs, 10, func(i int) error { return cases[i].run() }))
		t.Logf("seed %d: %d operations, %d runs", seed, total, pairs)
		eventually(t, func() bool { return runtime.NumGoroutine() <= before })
	})
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
