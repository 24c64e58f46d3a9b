package docs_test

import (
	"go/ast"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// eachTest calls f with each test of the repository, its directory from the root, and its file.
func eachTest(t *testing.T, f func(dir, file string, test *ast.FuncDecl)) {
	for _, source := range goFiles(t) {
		if !source.isTest() {
			continue
		}
		for _, decl := range source.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && fn.Recv == nil && strings.HasPrefix(fn.Name.Name, "Test") && fn.Name.Name != "TestMain" {
				f(path.Dir(source.name), source.name, fn)
			}
		}
	}
}

// startsGoroutines reports whether the text of a test has a go statement or a call of Go or t.Parallel.
func startsGoroutines(test *ast.FuncDecl) (found bool) {
	ast.Inspect(test, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			found = true
		case *ast.SelectorExpr:
			found = found || n.Sel.Name == "Go" || n.Sel.Name == "Parallel"
		}
		return !found
	})
	return found
}

// makeVariable returns the value of a variable of the Makefile.
func makeVariable(t *testing.T, name string) string {
	m := regexp.MustCompile(`(?m)^` + name + ` *[?:]?= *(.*)$`).FindStringSubmatch(read(t, "Makefile"))
	require.NotNil(t, m, name)
	return m[1]
}

// racing returns the tests that make race runs, each after its directory.
func racing(t *testing.T) map[string]bool {
	leftOut := strings.Fields(makeVariable(t, "LEFT_OUT"))
	var patterns []string
	for dir := range modules(t) {
		pattern := "./" + path.Join(dir, "...")
		if !slices.Contains([]string{standIn, s3Test, compareServers}, dir) && !slices.Contains(leftOut, pattern) {
			patterns = append(patterns, pattern)
		}
	}
	chosen := map[string]bool{}
	for base, patterns := range map[string][]string{".": patterns, standIn: {"./..."}} {
		args := append([]string{"run", "./internal/test/choose", "-C", base, "-why", "race"}, patterns...)
		for line := range strings.Lines(run(t, root, nil, "go", args...)) {
			dir, rest, _ := strings.Cut(line, " ")
			test, _, ok := strings.Cut(rest, ": ")
			require.True(t, ok, line)
			chosen[path.Join(base, dir)+" "+test] = true
		}
	}
	return chosen
}

// runsPrograms reports whether tests in a directory build programs and run them, in which the race detector is not.
func runsPrograms(t *testing.T, dir string) bool {
	runs := regexp.MustCompile(`exec\.Command(Context)?\([^"\n]*"go"|/processtest"`)
	return slices.ContainsFunc(filesThatEnd(t, "_test.go"), func(f file) bool {
		return path.Dir(f.name) == dir && runs.MatchString(f.text)
	})
}

// The bug: .ci/run chose the tests for the race detector by words in their names, and 61 tests that start goroutines
// had none of them.
func TestTestsThatStartGoroutinesRunUnderTheRaceDetector(t *testing.T) {
	chosen := racing(t)
	require.Greater(t, len(chosen), 150)
	apart := []string{s3Test, compareServers}
	for _, pattern := range strings.Fields(makeVariable(t, "LEFT_OUT")) {
		apart = append(apart, path.Dir(pattern))
	}
	found := 0
	eachTest(t, func(dir, file string, test *ast.FuncDecl) {
		if !startsGoroutines(test) || slices.ContainsFunc(apart, func(a string) bool { return strings.HasPrefix(dir+"/", path.Clean(a)+"/") }) {
			return
		}
		found++
		require.True(t, chosen[dir+" "+test.Name.Name] || runsPrograms(t, dir),
			"%s: %s starts goroutines, but make race does not run it: let internal/test/choose see what it does", file, test.Name.Name)
	})
	require.Greater(t, found, 100)
}

// A mark for a target that does not exist would choose nothing.
func TestMarkedTestsHaveATarget(t *testing.T) {
	targets := map[string]bool{}
	for _, m := range regexp.MustCompile(`\$\(CHOOSE\) (\w+) `).FindAllStringSubmatch(read(t, "Makefile"), -1) {
		targets[m[1]] = false
	}
	delete(targets, "race")
	require.NotEmpty(t, targets)
	eachTest(t, func(_, file string, test *ast.FuncDecl) {
		if test.Doc == nil {
			return
		}
		for _, c := range test.Doc.List {
			if kind, ok := strings.CutPrefix(c.Text, "//make:"); ok {
				require.Contains(t, targets, kind, "%s: %s", file, test.Name.Name)
				targets[kind] = true
			}
		}
	})
	for kind, used := range targets {
		require.True(t, used, "no test has the line //make:%s", kind)
	}
}

var packagePath = regexp.MustCompile(`(?:^|[\s=])\./([a-z][a-z0-9_/-]*)`)

// A package that was moved would be left out of what the Makefile builds and tests, or make it fail much later.
func TestPackagesThatTheMakefileNamesExist(t *testing.T) {
	found := 0
	for line := range strings.Lines(read(t, "Makefile")) {
		dir := ""
		if m := regexp.MustCompile(`\bcd ([a-z0-9/]+) &&`).FindStringSubmatch(line); m != nil {
			dir = m[1]
		}
		for _, m := range packagePath.FindAllStringSubmatch(line, -1) {
			info, err := os.Stat(filepath.Join(root, filepath.FromSlash(path.Join(dir, m[1]))))
			require.NoError(t, err)
			require.True(t, info.IsDir(), m[1])
			found++
		}
	}
	require.Greater(t, found, 20)
}

var makeRun = regexp.MustCompile(`(?m)^\t@?(?:cd (\S+) && )?\$\(GO\) test (.*-run .*)$`)

// A pattern of tests that were moved to another package passes and tests nothing.
func TestRunPatternsOfTheMakefileMatchTestsOfTheirPackages(t *testing.T) {
	tests := map[string][]string{} // by directory
	eachTest(t, func(dir, _ string, test *ast.FuncDecl) { tests[dir] = append(tests[dir], test.Name.Name) })
	found := 0
	for _, m := range makeRun.FindAllStringSubmatch(strings.ReplaceAll(read(t, "Makefile"), "$$", "$"), -1) {
		args := strings.Fields(m[2])
		at := slices.Index(args, "-run")
		pattern := strings.Trim(args[at+1], "'")
		if pattern == "^$" || strings.HasPrefix(pattern, "^$") {
			continue
		}
		for _, arg := range args {
			if arg != "." && !strings.HasPrefix(arg, "./") {
				continue
			}
			dir, below := strings.CutSuffix(path.Join(m[1], arg), "/...")
			for alternative := range strings.SplitSeq(pattern, "|") {
				matches := regexp.MustCompile(alternative).MatchString
				some := false
				for d, names := range tests {
					if d == dir || below && strings.HasPrefix(d+"/", dir+"/") {
						some = some || slices.ContainsFunc(names, matches)
					}
				}
				require.True(t, some, "no test in %s matches %s", dir, alternative)
				found++
			}
		}
	}
	require.Greater(t, found, 15)
}

var namedPage = regexp.MustCompile(`//.*?([A-Za-z0-9_./-]+\.md)\b`)

// The bug: a comment named a page that is not in the repository. Those of doc/ are LevelDB's, and table_format.md too.
func TestPagesThatCommentsNameExist(t *testing.T) {
	pages, found := documents(t), 0
	for _, f := range filesThatEnd(t, ".go") {
		for _, m := range namedPage.FindAllStringSubmatch(f.text, -1) {
			if page := path.Clean(m[1]); !strings.HasPrefix(page, "doc/") && page != "table_format.md" {
				require.True(t, slices.ContainsFunc(pages, func(p string) bool { return strings.HasSuffix("/"+p, "/"+strings.TrimPrefix(page, "../")) }),
					"%s names %s, which does not exist", f.name, m[1])
				found++
			}
		}
	}
	require.Greater(t, found, 20)
}
