package conformance

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// slow are those of goleveldb's own tests that take seconds. With -short they are left out.
var slow = []string{"TestLevelDB", "TestCacheMap", "TestDB_Concurrent", "TestDB_ConcurrentWrite", "TestDB_GoleveldbIssue74", "TestLRUCache_GetLatency"}

// goleveldb's own tests pass, those that use only what it exports.
func TestGoleveldbsOwnTestsPass(t *testing.T) {
	own := copyWithTests(t)
	packages, exports := listTested(t, own)
	require.GreaterOrEqual(t, len(packages), 8)
	var tests, paths []string
	for _, p := range packages {
		for _, name := range prune(t, p, exports) {
			tests = append(tests, p.Name+"."+name)
		}
		paths = append(paths, p.ImportPath)
	}
	t.Logf("%d tests: %v", len(tests), tests)
	require.Greater(t, len(tests), 60)
	args := []string{"test", "-count=1", "-short", "-vet=off"}
	if testing.Short() {
		args = append(args, "-skip", "^("+strings.Join(slow, "|")+")$")
	}
	out, err := own.command(append(args, paths...)...).CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// copyWithTests copies the module to a folder, with goleveldb's test files and its package testutil, and with a
// go.mod and go.sum that have what these need.
func copyWithTests(t *testing.T) *side {
	dir := t.TempDir()
	original := strings.TrimSpace(string(output(t, theirs.command("list", "-m", "-f", "{{.Dir}}", goleveldb))))
	require.NoError(t, os.CopyFS(dir, os.DirFS(moduleDir)))
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "leveldb", "testutil")))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "leveldb", "testutil"), 0o700))
	for _, name := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile(filepath.Join("testdata", "own"+filepath.Ext(name)))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), text, 0o600))
	}
	require.NoError(t, filepath.WalkDir(original, func(path string, _ os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") && (filepath.Base(filepath.Dir(path)) != "testutil" || filepath.Ext(path) != ".go") {
			return err
		}
		relative, err := filepath.Rel(original, path)
		if err != nil {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, relative), text, 0o600)
	}))
	edit := exec.Command("go", "mod", "edit", "-require=github.com/stretchr/testify@v1.12.1")
	edit.Dir = dir
	output(t, edit)
	work := filepath.Join(dir, "go.work")
	text := fmt.Sprintf("go 1.25.0\nuse (\n\t.\n\t%[1]s\n)\nreplace github.com/sievedb/sievedb v0.0.0 => %[1]s\n", absolute("../.."))
	require.NoError(t, os.WriteFile(work, []byte(text), 0o600))
	return &side{name: "own", dir: dir, work: work}
}
