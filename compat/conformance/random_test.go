package conformance

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// storages are those on which random programs run.
var storages = []string{"file", "mem", "custom"}

// Random programs get the same answers and errors from both.
func TestRandomProgramsGetGoleveldbsAnswers(t *testing.T) {
	first, n, steps := int64(1), 3, 500
	if *seeds > 0 {
		first, n, steps = rand.Int64N(1<<40), *seeds, 1500
	}
	for _, where := range storages {
		t.Run(where, func(t *testing.T) {
			for seed := first; seed < first+int64(n); seed++ {
				compareTranscripts(t, where, seed, steps)
			}
		})
	}
}

func compareTranscripts(t *testing.T, where string, seed int64, steps int) {
	args := func() []string {
		return []string{"-dir", t.TempDir(), "-storage", where, "-steps", strconv.Itoa(steps), "-seed", strconv.FormatInt(seed, 10)}
	}
	want, err := theirs.tryDrive(args()...)
	got := ours.drive(t, args()...)
	if err == nil && got == want {
		return
	}
	again, againErr := theirs.tryDrive(args()...)
	if err != nil || againErr != nil || again != want {
		t.Logf("seed %d on %s: goleveldb disagrees with itself, or fails: %v", seed, where, err)
		require.Positive(t, *seeds, "the fixed seeds are some with which goleveldb has no such problem")
		return
	}
	require.Failf(t, "other answers than goleveldb", "seed %d, storage %s, steps %d:\n%s", seed, where, steps, difference(want, got))
}

// difference returns the first line that differs.
func difference(want, got string) string {
	wantLines, gotLines := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i, line := range wantLines {
		if i >= len(gotLines) {
			return fmt.Sprintf("line %d is missing: %s", i+1, line)
		}
		if gotLines[i] != line {
			return fmt.Sprintf("line %d\ngoleveldb: %s\nhere:      %s", i+1, line, gotLines[i])
		}
	}
	return fmt.Sprintf("%d lines more", len(gotLines)-len(wantLines))
}
