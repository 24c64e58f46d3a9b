// Package cuts judges all states in which power cuts may leave the files of a recorded run, on all processors. The
// flags of the test binary choose how many: docs/promises.md describes the long runs.
package cuts

import (
	"errors"
	"flag"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/test/crashtest/recorder"
	"github.com/sievedb/sievedb/vfs/outfile"
)

var (
	states = flag.String("crash.states", "M0,M1,M2", "crash models to build, M0 to M5, separated by commas")
	seeds  = flag.Int("crash.seeds", 1, "number of workloads, each with its own seed")
	// Seed is the first seed, 0 for a random one, and Limit the number of recoveries for each seed, 0 for all.
	Seed  = flag.Uint64("crash.seed", 0, "first seed; 0 chooses a random one")
	Limit = flag.Int("crash.limit", 0,
		"recoveries to run for each seed, spread over all cuts; 0 means all, or as many as the build affords")
)

// Models returns the models that the flags choose.
func Models(t testing.TB) (models []recorder.Model) {
	for _, s := range strings.Split(*states, ",") {
		m, err := recorder.ParseModel(s)
		require.NoError(t, err)
		models = append(models, m)
	}
	return models
}

// Seeds runs f as a subtest for each seed that the flags choose.
func Seeds(t *testing.T, f func(t *testing.T, seed uint64)) {
	from := *Seed
	if from == 0 {
		from = rand.Uint64N(1 << 40)
	}
	for i := range uint64(*seeds) {
		t.Run(fmt.Sprintf("seed=%d", from+i), func(t *testing.T) { f(t, from+i) })
	}
}

// EachState calls judge, on all processors, for every state of the models at every cut, or for about
// limit of them if limit is not 0. It returns the number of states and the first failure.
//
//race:apart
func EachState(trace *recorder.Trace, models []recorder.Model, seed uint64, limit int, judge func(s recorder.State, cut int, m recorder.Model) error) (int, error) {
	stride := uint64(1)
	if limit > 0 {
		stride = max(1, uint64(len(trace.Ops)*len(models))/uint64(limit))
	}
	j := judging{trace: trace, seed: seed, judge: judge}
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // the stores are small and soon dropped
	var group sync.WaitGroup
	workers := runtime.GOMAXPROCS(0)
	for w := range workers {
		group.Go(func() {
			c := trace.Cursor()
			for cut := 0; cut <= len(trace.Ops); cut++ {
				c.Seek(cut)
				if cut%workers == w && !j.cut(c, models, cut, uint64(cut/workers)*uint64(len(models)), stride) {
					return
				}
			}
		})
	}
	group.Wait()
	if f := j.failed.Load(); f != nil {
		return int(j.states.Load()), f
	}
	return int(j.states.Load()), nil
}

// cut judges every stride-th state of a cut, whose first one has the number first. It returns false after a failure.
func (j *judging) cut(c *recorder.Cursor, models []recorder.Model, cut int, first, stride uint64) bool {
	for i, m := range models {
		if (first+uint64(i))%stride == j.seed%stride && !j.all(c.States(m, j.seed), cut, m) {
			return false
		}
	}
	return true
}

// judging is the state that the workers of EachState share.
type judging struct {
	trace  *recorder.Trace
	seed   uint64
	judge  func(s recorder.State, cut int, m recorder.Model) error
	states atomic.Int64 // judged
	failed atomic.Pointer[Failure]
}

// all judges the states of a model at a cut. It returns false if a state was judged wrong, here or by another worker.
func (j *judging) all(states iter.Seq[recorder.State], cut int, m recorder.Model) bool {
	for s := range states {
		if j.failed.Load() != nil {
			return false
		}
		j.states.Add(1)
		if err := j.judge(s, cut, m); err != nil {
			j.failed.CompareAndSwap(nil, &Failure{j.seed, cut, m, s, j.trace.At(cut), err})
			return false
		}
	}
	return true
}

// Failure is a state that was judged wrong.
type Failure struct {
	seed  uint64
	cut   int
	model recorder.Model
	state recorder.State
	at    string
	err   error
}

// Error identifies the state and says why it is wrong.
func (f *Failure) Error() string {
	return fmt.Sprintf("seed %d, %v, %s %s: %v", f.seed, f.model, f.at, f.state.Detail, f.err)
}

// RequireNoFailure fails the test with the failed state. A trace depends on how the goroutines ran, so
// the files themselves are kept: opening them shows the failure again.
func RequireNoFailure(t testing.TB, err error) {
	t.Helper()
	var f *Failure
	if errors.As(err, &f) {
		require.NoError(t, err, "the disk is "+f.keep())
	}
	require.NoError(t, err)
}

func (f *Failure) keep() string {
	dir, err := os.MkdirTemp("", "sievedb-crash-")
	for _, d := range f.state.Dirs {
		_ = os.MkdirAll(filepath.Join(dir, d), 0o700)
	}
	for _, file := range f.state.Files {
		if err == nil {
			err = outfile.Write(filepath.Join(dir, file.Path), file.Data, 0o600)
		}
	}
	if err != nil {
		return "lost: " + err.Error()
	}
	return "kept in " + dir
}
