package main

import (
	"errors"
	"io"
	"testing"

	"github.com/stretchr/testify/require"
)

// testSession has settings and no database.
func testSession() *session {
	cfg := &config{Seed: 1, ValueSize: 10, CompressionRatio: 0.5, Histogram: true}
	return &session{cfg: cfg, stdout: io.Discard, stderr: io.Discard}
}

var sink []byte

func TestMeasureCountsStepsAndAllocations(t *testing.T) {
	const steps = 1000
	r, err := testSession().measure(t.Context(), job{name: "x", threads: 1, steps: steps,
		begin: func(th *thread) (step, func() error, error) {
			return func(int) error {
				sink = make([]byte, 64)
				th.bytes += 64
				return nil
			}, nil, nil
		}})
	require.NoError(t, err)
	require.EqualValues(t, steps, r.Ops)
	require.EqualValues(t, 64*steps, r.Bytes)
	require.InDelta(t, 1, r.AllocsPerOp, 0.5) // the loop itself allocates a few times
	require.Greater(t, r.AllocBytes, 63.0)
	require.NotNil(t, r.Latency)
}

func TestAThreadThatFailsEndsTheOthers(t *testing.T) {
	failure := errors.New("failed")
	_, err := testSession().measure(t.Context(), job{name: "x", threads: 2, steps: 1 << 30,
		begin: func(th *thread) (step, func() error, error) {
			fails := th.rng.Uint64() == testSession().newThread().rng.Uint64() // the first of the two
			return func(i int) error {
				if fails && i == 100 {
					return failure
				}
				return nil
			}, nil, nil
		}})
	require.ErrorIs(t, err, failure)
}

func TestThreadsDrawDifferentNumbers(t *testing.T) {
	s := testSession()
	require.NotEqual(t, s.newThread().rng.Uint64(), s.newThread().rng.Uint64())
}

func TestAThreadThatIsDoneDoesNotFail(t *testing.T) {
	ended := 0
	r, err := testSession().measure(t.Context(), job{name: "x", threads: 1, steps: 100,
		begin: func(*thread) (step, func() error, error) {
			return func(i int) error {
				if i == 7 {
					return errDone
				}
				return nil
			}, func() error { ended++; return nil }, nil
		}})
	require.NoError(t, err)
	require.EqualValues(t, 7, r.Ops)
	require.Equal(t, 1, ended)
}
