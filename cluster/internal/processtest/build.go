package processtest

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// Sieved builds the program, unless it did before, and returns its path.
var Sieved = sync.OnceValues(func() (path string, err error) {
	if built, err = os.MkdirTemp("", "sieved-test-"); err != nil {
		return "", err
	}
	path = filepath.Join(built, "sieved")
	out, err := exec.Command("go", "build", "-ldflags=-w", "-o", path, "github.com/sievedb/sievedb/cluster/cmd/sieved").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build sieved: %w\n%s", err, out)
	}
	return path, nil
})

var built string // the directory of the program

// Run runs the tests and returns their exit code. Then it removes sieved, which the first cluster builds. Tests that
// call t.Parallel mostly wait, for elections and for nodes to start, so more of them run at a time than there are
// processors, unless a flag says how many.
func Run(m *testing.M) int {
	flag.Parse()
	if at := flag.Lookup("test.parallel"); at.Value.String() == at.DefValue {
		_ = at.Value.Set("5")
	}
	code := m.Run()
	if built != "" {
		_ = os.RemoveAll(built)
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
