package clienttest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/cluster/internal/nettest"
	"github.com/sievedb/sievedb/cluster/internal/processtest"
)

// runScript runs a client's script, and does what it asks for.
func runScript(t *testing.T, c *processtest.Cluster, cmd *exec.Cmd) {
	t.Helper()
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	ended := false
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		switch verb, argument, _ := strings.Cut(lines.Text(), " "); verb {
		case "ok":
			ended = true
		case "note":
			t.Log(argument)
		case "transfer":
			transfer(t, c, argument)
			_, err = io.WriteString(stdin, "done\n")
			require.NoError(t, err)
		case "kill":
			kill(t, c, argument)
			_, err = io.WriteString(stdin, "done\n")
			require.NoError(t, err)
		default:
			t.Log(lines.Text())
		}
	}
	require.NoError(t, cmd.Wait(), "%s", stderr.String())
	require.True(t, ended, "the script ended before its last check")
}

func command(t *testing.T, path string, args ...string) *exec.Cmd {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	t.Cleanup(cancel)
	return exec.CommandContext(ctx, path, args...)
}

func TestRedisPyUsesACluster(t *testing.T) {
	path, ok := nettest.Python(t, "redis.cluster")
	if !ok {
		return
	}
	c := newCluster(t)
	runScript(t, c, command(t, path, append([]string{filepath.Join("testdata", "client.py")}, c.Addrs()...)...))
}

const ioredis = "ioredis@5.8.2"

// installIoredis returns a directory with ioredis. A registry that does not answer in time does not fail the test.
func installIoredis(t *testing.T) (dir string, ok bool) {
	npm, ok := nettest.Need(t, "npm", "npm")
	if !ok {
		return "", false
	}
	dir = t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	install := exec.CommandContext(ctx, npm, "install", "--no-audit", "--no-fund", "--ignore-scripts",
		"--prefix", dir, ioredis)
	install.WaitDelay = time.Second
	out, err := install.CombinedOutput()
	switch {
	case err == nil:
		return dir, true
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		t.Logf("not run: npm install %s took more than a minute", ioredis)
	default:
		nettest.Missing(t, "npm install "+ioredis+" failed: "+string(out))
	}
	return "", false
}

func TestIoredisUsesACluster(t *testing.T) {
	node, ok := nettest.Need(t, "node", "nodejs")
	if !ok {
		return
	}
	dir, ok := installIoredis(t)
	if !ok {
		return
	}
	c := newCluster(t)
	script, err := filepath.Abs(filepath.Join("testdata", "client.js"))
	require.NoError(t, err)
	cmd := command(t, node, script, c.Nodes[0].Addr)
	cmd.Env = append(os.Environ(), "NODE_PATH="+filepath.Join(dir, "node_modules"))
	runScript(t, c, cmd)
}
