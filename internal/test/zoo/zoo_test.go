//go:build linux

package zoo

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/test/race"
)

var (
	all  = flag.Bool("zoo.all", false, "plant all bugs, not a few")
	some = flag.String("zoo.bugs", "B26,B10c,B21b,B39e,B48d", "the bugs to plant, separated by commas")
)

// numBugs is how many classic bugs the list has that the zoo is made after.
const numBugs = 28

func TestEachClassicBugIsInTheZoo(t *testing.T) {
	seen := map[string]bool{}
	for _, b := range bugs {
		require.Regexp(t, `^B[0-9]+[a-z]?$`, b.id)
		require.False(t, seen[b.id], "%s is there twice", b.id)
		seen[b.id], seen[b.number()] = true, true
		require.NotEmpty(t, b.what, b.id)
		require.NotEmpty(t, b.seen, b.id)
		require.NotEmpty(t, b.plant, b.id)
		require.NotEmpty(t, b.caught, b.id)
		for _, c := range b.caught {
			require.NotEmpty(t, c.sees, "%s: %s", b.id, c.test)
		}
	}
	for i := range numBugs {
		require.True(t, seen[fmt.Sprintf("B%d", i+1)], "B%d is missing", i+1)
	}
}

// It runs in every short run, so that a change of the code or of a test brings the bugs up to date.
func TestTheBugsFitTheCodeAndTheTests(t *testing.T) {
	tests := map[string]string{} // the test files of each package
	for _, b := range bugs {
		_, err := apply(b.plant, readSource(t))
		require.NoError(t, err, "bug %s", b.id)
		for _, c := range b.caught {
			if tests[c.pkg] == "" {
				files, err := filepath.Glob(filepath.Join(root(t), c.pkg, "*_test.go"))
				require.NoError(t, err)
				for _, file := range files {
					text, err := os.ReadFile(file)
					require.NoError(t, err)
					tests[c.pkg] += string(text)
				}
			}
			if !strings.Contains(tests[c.pkg], "\nfunc "+c.test+"(") {
				t.Errorf("bug %s: package %s has no %s", b.id, c.pkg, c.test)
			}
		}
	}
}

// Bugs are patches, so the released code has no switch for one.
func TestReleasedCodeNamesNoPlantedBug(t *testing.T) {
	equipment := filepath.Join(root(t), "internal", "test")
	require.NoError(t, filepath.WalkDir(root(t), func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case name == equipment || d.Name() == ".git":
			return fs.SkipDir
		case filepath.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(name)
		require.NotRegexp(t, "(?i)planted", string(text), name)
		return err
	}))
}

// Patches that do not overlap are compiled together: a run of the go command costs more than a package.
func TestEveryBugCanBePlanted(t *testing.T) {
	if testing.Short() {
		t.Skip("builds most of the module; runs without -short")
	}
	read := readSource(t)
	var rounds [][]patch
	for _, b := range bugs {
		fits := slices.IndexFunc(rounds, func(round []patch) bool {
			_, err := apply(slices.Concat(round, b.plant), read)
			return !errors.Is(err, errOverlap)
		})
		if fits < 0 {
			fits, rounds = len(rounds), append(rounds, nil)
		}
		rounds[fits] = append(rounds[fits], b.plant...)
	}
	for _, round := range rounds {
		patched, err := apply(round, read)
		require.NoError(t, err)
		packages := map[string]bool{}
		for file := range patched {
			packages["./"+path.Dir(file)] = true
		}
		args := []string{"build", "-overlay", overlay(t, patched)}
		for p := range packages {
			args = append(args, p)
		}
		out, err := goCommand(t, args...)
		require.NoError(t, err, "planted code does not compile; the file name contains the bug:\n%s", out)
	}
	t.Logf("%d bugs in %d rounds", len(bugs), len(rounds))
}

// chosen returns the bugs that the flags ask for.
func chosen(t *testing.T) []bug {
	if *all {
		return bugs
	}
	var list []bug
	for _, id := range strings.Split(*some, ",") {
		n := len(list)
		for _, b := range bugs {
			if b.id == id || b.number() == id {
				list = append(list, b)
			}
		}
		require.Greater(t, len(list), n, "there is no bug %s", id)
	}
	return list
}

func TestEachPlantedBugIsCaught(t *testing.T) {
	bugs := chosen(t)
	if (race.Enabled || testing.Short()) && !*all {
		bugs = bugs[:1] // the others are planted by the run without the detector
	}
	start := time.Now()
	caught := 0
	t.Run("without the bugs", func(t *testing.T) { testsPass(t, bugs) })
	t.Run("with", func(t *testing.T) {
		for _, b := range bugs {
			t.Run(b.id, func(t *testing.T) {
				t.Parallel()
				b.test(t)
			})
		}
		t.Cleanup(func() {
			if !t.Failed() {
				caught = len(bugs)
			}
		})
	})
	t.Logf("%d of %d caught in %v", caught, len(bugs), time.Since(start).Round(time.Second))
}

// testsPass runs each test once without any bug.
func testsPass(t *testing.T, bugs []bug) {
	byPackage := map[string]map[string]catch{}
	for _, b := range bugs {
		for _, c := range b.caught {
			if byPackage[c.pkg] == nil {
				byPackage[c.pkg] = map[string]catch{}
			}
			byPackage[c.pkg][c.command()] = c
		}
	}
	for pkg, tests := range byPackage {
		t.Run(pkg, func(t *testing.T) {
			t.Parallel()
			binary := build(t, pkg, "")
			for command, c := range tests {
				out, failed := run(t, binary, "", c)
				require.False(t, failed, "it fails without a bug: %s\n%s", command, tail(out))
			}
		})
	}
}

// test plants the bug and runs its tests.
func (b *bug) test(t *testing.T) {
	patched, err := apply(b.plant, readSource(t))
	require.NoError(t, err, "bug %s", b.id)
	list := overlay(t, patched)
	binaries := map[string]string{}
	for _, c := range b.caught {
		if binaries[c.pkg] == "" {
			binaries[c.pkg] = build(t, c.pkg, list)
		}
		start := time.Now()
		out, failed := run(t, binaries[c.pkg], list, c)
		if err := c.judge(out, failed); err != nil {
			t.Errorf("bug %s (%s) is not caught by %s: %v\n%s", b.id, b.what, c.command(), err, tail(out))
			continue
		}
		t.Logf("%s is caught by %s in %v: %s", b.id, c.test, time.Since(start).Round(10*time.Millisecond), c.excerpt(out))
	}
}

// excerpt returns what the output says from the words on that show that the bug was seen.
func (c catch) excerpt(out string) string {
	_, rest, _ := strings.Cut(out, c.sees)
	words := strings.Join(strings.Fields(c.sees+rest), " ")
	return words[:min(300, len(words))]
}

var rewrite = flag.Bool("zoo.rewrite", false, "rewrite the table of docs/reliability-runs.md")

var table = regexp.MustCompile(`(?s)<!-- zoo: begin -->\n\n.*\n<!-- zoo: end -->`)

func TestThePageListsTheBugs(t *testing.T) {
	page, err := readSource(t)("docs/reliability-runs.md")
	require.NoError(t, err)
	require.Len(t, table.FindAllString(page, -1), 1)
	want := table.ReplaceAllLiteralString(page, tableOf(bugs))
	if *rewrite {
		require.NoError(t, os.WriteFile(root(t)+"/docs/reliability-runs.md", []byte(want), 0o644))
		return
	}
	require.Equal(t, want, page, "go test ./internal/test/zoo -run %s -zoo.rewrite brings the page up to date", t.Name())
}

func tableOf(bugs []bug) string {
	var s strings.Builder
	s.WriteString("<!-- zoo: begin -->\n\n| bug | what is planted | seen | caught by |\n| --- | --- | --- | --- |\n")
	for _, b := range bugs {
		var tests []string
		for _, c := range b.caught {
			name := c.test
			if name == "TestScripts" {
				name += "/" + c.part // a file, which says what is tested
			}
			tests = append(tests, fmt.Sprintf("%s: `%s`", path.Base(c.pkg), name))
		}
		sort.Strings(tests)
		fmt.Fprintf(&s, "| %s | %s | %s | %s |\n", b.id, b.what, b.seen, strings.Join(tests, ", "))
	}
	return s.String() + "\n<!-- zoo: end -->"
}
