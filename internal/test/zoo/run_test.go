//go:build linux

package zoo

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// root is the module's, from the folder that tests run in.
func root(t testing.TB) string {
	dir, err := filepath.Abs("../../..")
	require.NoError(t, err)
	return dir
}

func readSource(t testing.TB) func(file string) (string, error) {
	dir := root(t)
	return func(file string) (string, error) {
		text, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(file)))
		return strings.ReplaceAll(string(text), "\r\n", "\n"), err
	}
}

// overlay writes the patched files to a temporary directory and returns the overlay file for the go command.
func overlay(t testing.TB, patched map[string]string) string {
	dir := t.TempDir()
	replace := map[string]string{}
	for file, text := range patched {
		to := filepath.Join(dir, strings.ReplaceAll(file, "/", "_"))
		require.NoError(t, os.WriteFile(to, []byte(text), 0o600))
		replace[filepath.Join(root(t), filepath.FromSlash(file))] = to
	}
	list, err := json.Marshal(map[string]any{"Replace": replace})
	require.NoError(t, err)
	path := filepath.Join(dir, "overlay.json")
	require.NoError(t, os.WriteFile(path, list, 0o600))
	return path
}

// goCommand runs the go command in the module's root and returns what it says.
func goCommand(t testing.TB, args ...string) (string, error) {
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = root(t)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// build makes the test binary of a package. An empty list plants nothing.
func build(t testing.TB, pkg, list string) string {
	binary := filepath.Join(t.TempDir(), strings.ReplaceAll(pkg, "/", "_")+".test")
	args := []string{"test", "-c", "-vet=off", "-ldflags=-s -w", "-o", binary}
	if list != "" {
		args = append(args, "-overlay", list)
	}
	out, err := goCommand(t, append(args, "./"+pkg)...)
	require.NoError(t, err, "the planted code does not compile:\n%s", out)
	return binary
}

// run runs one test of a binary. What the test itself builds, as the tests of the cluster do with sieved, gets the
// overlay too.
func run(t testing.TB, binary, list string, c catch) (out string, failed bool) {
	args := []string{"-test.run", c.pattern(), "-test.timeout", "3m"}
	cmd := exec.CommandContext(t.Context(), binary, append(args, strings.Fields(c.args)...)...)
	cmd.Dir = filepath.Join(root(t), filepath.FromSlash(c.pkg))
	cmd.Env = append(os.Environ(), "TMPDIR="+t.TempDir()) // where failures keep what they found
	if list != "" {
		cmd.Env = append(cmd.Env, "GOFLAGS="+os.Getenv("GOFLAGS")+" -overlay="+list)
	}
	b, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		require.NoError(t, err)
	}
	require.NotContains(t, string(b), "no tests to run", "there is no %s", c.test)
	return string(b), err != nil
}

// deaths are how a test binary ends that does not fail its tests.
var deaths = []string{"panic:", "fatal error:"}

// judge returns why the result of a test does not count as catching the bug.
func (c catch) judge(out string, failed bool) error {
	if !failed {
		return fmt.Errorf("the test passes")
	}
	dies := false
	for _, death := range deaths {
		expected := strings.HasPrefix(c.sees, death)
		dies = dies || expected
		if !expected && strings.Contains("\n"+out, "\n"+death) {
			return fmt.Errorf("the test dies (%s) and should fail", death)
		}
	}
	switch {
	case !dies && !strings.Contains(out, "--- FAIL: "+c.test):
		return fmt.Errorf("something else than the test fails")
	case !strings.Contains(out, c.sees):
		return fmt.Errorf("the test fails, but does not say %q", c.sees)
	}
	return nil
}

// tail is the end of a long output.
func tail(out string) string {
	const most = 4000
	if len(out) > most {
		return "…" + out[len(out)-most:]
	}
	return out
}
