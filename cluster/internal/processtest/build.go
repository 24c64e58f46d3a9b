package processtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// sieved is the path of the program that Run has built.
var sieved string

// Run builds sieved, runs the tests and returns their exit code. finish is called after them; it may be nil.
func Run(m *testing.M, finish func()) int {
	dir, err := os.MkdirTemp("", "sieved-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "processtest:", err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	sieved = filepath.Join(dir, "sieved")
	build := exec.Command("go", "build", "-o", sieved, "github.com/sievedb/sievedb/cluster/cmd/sieved")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "processtest: build sieved: %v\n%s", err, out)
		return 1
	}
	code := m.Run()
	if finish != nil {
		finish()
	}
	return code
}

// Need returns the path of an installed program. If it is missing, the test fails if SIEVEDB_REQUIRE_ALL is set, as in
// CI; otherwise it logs what was not run, and ok is false. pkg is Debian's package of the program.
func Need(t testing.TB, name, pkg string) (path string, ok bool) {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		Missing(t, fmt.Sprintf("%s is not installed; Debian has it in %s", name, pkg))
	}
	return path, err == nil
}

// Missing reports that a test cannot run here: it fails if SIEVEDB_REQUIRE_ALL is set, and otherwise logs why.
func Missing(t testing.TB, why string) {
	t.Helper()
	if os.Getenv("SIEVEDB_REQUIRE_ALL") != "" {
		t.Fatalf("SIEVEDB_REQUIRE_ALL is set, and %s", why)
	}
	t.Logf("not run: %s", why)
}
