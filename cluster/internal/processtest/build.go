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
