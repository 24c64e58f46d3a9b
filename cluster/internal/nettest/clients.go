package nettest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

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

// RedisCLI returns a run of a redis-cli on a node.
func RedisCLI(t testing.TB, path, addr string, flags ...string) *exec.Cmd {
	t.Helper()
	host, port, err := net.SplitHostPort(addr)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	return exec.CommandContext(ctx, path, append([]string{"-h", host, "-p", port}, flags...)...)
}

// Output runs a program with lines on its standard input and returns what it prints, also if it ends with a failure.
func Output(t testing.TB, cmd *exec.Cmd, lines ...string) string {
	t.Helper()
	if len(lines) > 0 {
		cmd.Stdin = strings.NewReader(strings.Join(lines, "\n") + "\n")
	}
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	require.True(t, err == nil || errors.As(err, &exit), "%v", err)
	return string(out)
}

// Python returns a Python that has redis-py with a module. Debian's package is for Debian's Python, which may be another
// than the first one of PATH. Without one it is Missing.
func Python(t testing.TB, module string) (path string, ok bool) {
	t.Helper()
	for _, path := range []string{"python3", "/usr/bin/python3"} {
		if exec.Command(path, "-c", "import "+module).Run() == nil {
			return path, true
		}
	}
	Missing(t, "no python3 has "+module+" of redis-py 4 or newer; Debian has it in python3-redis")
	return "", false
}
