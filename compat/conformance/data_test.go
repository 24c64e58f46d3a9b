package conformance

import (
	"cmp"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A directory of goleveldb opens with nothing lost, and goleveldb opens it again afterwards.
func TestDirectoriesGoBothWays(t *testing.T) {
	for _, kind := range []string{"file", "filter", "strict"} {
		t.Run(kind, func(t *testing.T) {
			dir := t.TempDir()
			args := func(task, seed string) []string {
				return []string{"-task", task, "-storage", kind, "-dir", dir, "-seed", seed}
			}
			theirs.drive(t, args("fill", "1")...)
			want := theirs.drive(t, args("dump", "")[:6]...)
			require.Equal(t, want, ours.drive(t, args("dump", "")[:6]...))
			ours.drive(t, args("fill", "2")...)
			want = ours.drive(t, args("dump", "")[:6]...)
			require.Equal(t, want, theirs.drive(t, args("dump", "")[:6]...))
			theirs.drive(t, args("fill", "3")...)
			want = theirs.drive(t, args("dump", "")[:6]...)
			require.Equal(t, want, ours.drive(t, args("dump", "")[:6]...))
			require.Greater(t, strings.Count(want, "\n"), 3000)
		})
	}
}

// goleveldb mixes up the levels of a database with a comparer that does not order like bytes.Compare, and
// then misses keys. Here they are all there. (Deletions whose tombstones goleveldb has dropped are not.)
func TestCustomComparersLoseNothing(t *testing.T) {
	work := func(s *side, task, dir string) string {
		return s.drive(t, "-task", task, "-storage", "comparer", "-dir", dir)
	}
	sound, dir := t.TempDir(), t.TempDir()
	work(ours, "fill", sound)
	work(theirs, "fill", dir)
	got := lineSet(work(ours, "dump", dir))
	want := work(ours, "dump", sound)
	for line := range strings.Lines(want) {
		require.True(t, got[line], "lost: %s", line)
	}
	require.Equal(t, want, work(theirs, "dump", sound))
}

// A directory with another comparer is refused by both.
func TestAnotherComparerIsRefused(t *testing.T) {
	for _, writer := range []*side{theirs, ours} {
		dir := t.TempDir()
		writer.drive(t, "-task", "fill", "-storage", "comparer", "-dir", dir)
		for _, reader := range []*side{theirs, ours} {
			require.Equal(t, "open: corrupted\n", reader.drive(t, "-task", "salvage", "-storage", "file", "-dir", dir))
		}
	}
}

// goleveldb skips log records that are older than the last sequence number of the MANIFEST.
func TestOldLogRecordsAreKept(t *testing.T) {
	dir := t.TempDir()
	dump := []string{"-task", "dump", "-storage", "file", "-dir", dir}
	theirs.drive(t, "-task", "fill", "-storage", "file", "-dir", dir)
	theirs.drive(t, dump...)
	theirs.drive(t, "-task", "old", "-storage", "file", "-dir", dir)
	lost := copyDir(t, dir)
	require.NotContains(t, theirs.drive(t, "-task", "dump", "-storage", "file", "-dir", lost), `"old"`)
	require.Contains(t, ours.drive(t, dump...), `"old" = "value"`)
	require.Contains(t, theirs.drive(t, dump...), `"old" = "value"`)
}

func lineSet(text string) map[string]bool {
	set := map[string]bool{}
	for line := range strings.Lines(text) {
		set[line] = true
	}
	return set
}

// copyDir copies the first of the folders that is named.
func copyDir(t *testing.T, dirs ...string) string {
	to := t.TempDir()
	require.NoError(t, os.CopyFS(to, os.DirFS(cmp.Or(dirs...))))
	return to
}

// Of a damaged directory at least as much can be read as with goleveldb, or the damage is reported; and
// never a value that was not written.
func TestDamageCostsNoMoreThanInGoleveldb(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	dir := t.TempDir()
	written := lineSet(theirs.drive(t, "-task", "fill", "-storage", "filter", "-dir", dir))
	// Opening it again removes the inputs of the last compaction, from which goleveldb would recover
	// entries of a damaged table. It also empties the log.
	settled := copyDir(t, dir)
	var whole map[string]bool
	for range 3 { // a compaction may be running at the end of the first one
		whole = lineSet(theirs.drive(t, "-task", "dump", "-storage", "filter", "-dir", settled))
	}
	n := 30
	switch {
	case *damages > 0:
		n = *damages
	case testing.Short():
		n = 9
	}
	outcomes, lost := map[string]int{}, map[string]int{}
	for i := range n {
		pattern := []string{"*.ldb", "*.log", "MANIFEST-*"}[i%3]
		damaged := copyDir(t, map[string]string{"*.ldb": settled}[pattern], dir)
		what := damage(t, damaged, pattern, rnd)
		read := map[*side]int{}
		recovered := map[*side]int{}
		told := map[*side]string{}
		for _, s := range []*side{theirs, ours} {
			out, err := s.tryDrive("-task", "salvage", "-storage", "filter", "-dir", copyDir(t, damaged))
			told[s], read[s] = classify(t, s, whole, written, out, err)
			outcomes[pattern+" "+s.name+": "+told[s]]++
			lost[pattern+" "+s.name] += len(whole) - read[s]

			out, err = s.tryDrive("-task", "recover", "-storage", "filter", "-dir", copyDir(t, damaged))
			_, recovered[s] = classify(t, s, whole, written, out, err)
			lost[pattern+" "+s.name+" after RecoverFile"] += len(whole) - recovered[s]
		}
		require.GreaterOrEqual(t, recovered[ours], recovered[theirs], what)
		if told[ours] == silent {
			require.Equal(t, silent, told[theirs], what)
			require.GreaterOrEqual(t, read[ours], read[theirs], what)
		}
	}
	t.Logf("%d damages to %d entries: %v; entries lost: %v", n, len(whole), outcomes, lost)
}

// silent is a loss without an error.
const silent = "silent loss"

// damage changes one byte of a file that matches, or cuts the file.
func damage(t *testing.T, dir, pattern string, rnd *rand.Rand) string {
	names, err := filepath.Glob(filepath.Join(dir, pattern))
	require.NoError(t, err)
	name := names[rnd.IntN(len(names))]
	content, err := os.ReadFile(name)
	require.NoError(t, err)
	if len(content) == 0 {
		return name + " is empty"
	}
	at := rnd.IntN(len(content))
	if rnd.IntN(4) == 0 {
		content = content[:at]
	} else {
		content[at] ^= 1 << rnd.IntN(8)
	}
	require.NoError(t, os.WriteFile(name, content, 0o600))
	return filepath.Base(name)
}

// classify says how reading a damaged directory ended, and counts the entries that were read.
func classify(t *testing.T, s *side, whole, written map[string]bool, out string, err error) (outcome string, read int) {
	if err != nil {
		require.NotSame(t, ours, s, "a crash: %v", err)
		return "crash", 0
	}
	reported := false
	for line := range strings.Lines(out) {
		switch {
		case whole[line]:
			read++
		case strings.HasPrefix(line, "open:"), strings.HasPrefix(line, "read:"):
			reported = true
		default: // an older value, after the loss of a newer one
			require.True(t, written[line], "%s reads what was never written: %s", s.name, line)
		}
	}
	switch {
	case read == len(whole):
		return "nothing lost", read
	case reported:
		return "reported", read
	}
	return silent, read
}
