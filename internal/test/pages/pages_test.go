// Package pages_test runs the Go of pages: the recipes of the cookbook, with tests of what the page says about them, and
// the tour.
package pages_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const root = "../../.."

var (
	goBlock = regexp.MustCompile("(?ms)^```go\n(.*?)^```$")
	place   = regexp.MustCompile(`(?m)^\t*// The next snippet\.$`)
)

// The tests are in testdata, because they compile only with the snippets of the pages in their places.
func TestGoOnPagesDoesWhatTheyPromise(t *testing.T) {
	args := []string{"test", "-ldflags=-w"}
	info, _ := debug.ReadBuildInfo()
	for _, s := range info.Settings { // as this test was built, so that no package is compiled anew
		if s.Key == "-gcflags" || s.Key == "-race" || s.Key == "-trimpath" {
			args = append(args, s.Key+"="+s.Value)
		}
	}
	dir := t.TempDir()
	for page, tests := range map[string]string{"cookbook.md": "recipes_test.go", "getting-started.md": "tour_test.go"} {
		code := read(t, "testdata", tests)
		for _, snippet := range goBlock.FindAllStringSubmatch(read(t, root, "docs", page), -1) {
			if strings.Contains(snippet[1], "bolt.") { // its module has bbolt
				require.Contains(t, read(t, root, "cmd/peerbench/example_bbolt_test.go"), "\n"+snippet[1])
				continue
			}
			at := place.FindStringIndex(code)
			require.NotNil(t, at, "%s has no place for %s", tests, snippet[1])
			code = code[:at[0]] + snippet[1] + code[at[1]:]
		}
		require.NotRegexp(t, place, code, tests)
		args = append(args, filepath.Join(dir, tests))
		require.NoError(t, os.WriteFile(filepath.Join(dir, tests), []byte(code), 0o600))
	}
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
}

func read(t *testing.T, path ...string) string {
	text, err := os.ReadFile(filepath.Join(path...))
	require.NoError(t, err)
	return strings.ReplaceAll(string(text), "\r\n", "\n")
}
