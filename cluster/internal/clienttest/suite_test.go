package clienttest

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/cluster/internal/processtest"
)

// The units are replaced by a script that connects, so that Redis's sources are not needed.
func TestRedisSuiteStartsANodeAndCounts(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"tclsh", "redis-cli", "redis-benchmark", "redis-server"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Logf("not run: %s is not installed", name)
			return
		}
	}
	source := t.TempDir()
	for name, text := range map[string]string{
		"src/keep": "", "tests/support/test.tcl": "", "tests/support/server.tcl": "",
		"tests/test_helper.tcl": `
			set s [socket 127.0.0.1 [lindex $argv [expr {[lsearch $argv --port] + 1}]]]
			puts $s "GET ready"; flush $s; gets $s
			if {[gets $s] eq "1"} { puts "\[\033\[0;32mok\033\[0m\]: it is there" }`,
	} {
		path := filepath.Join(source, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o777))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o666))
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	_, port, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	require.NoError(t, l.Close())

	sieved, err := processtest.Sieved()
	require.NoError(t, err)
	cmd := command(t, "sh", "redis-suite.sh", "quit")
	cmd.Env = append(os.Environ(), "SIEVED="+sieved, "REDIS_SOURCE="+source, "PORT="+port)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Regexp(t, "\\| `quit` +\\| +1 \\| +0 \\|", string(out))
}
