package clienttest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/cluster/internal/nettest"
	"github.com/sievedb/sievedb/cluster/internal/processtest"
)

// cli runs redis-cli -c on a node with a line for each command, and returns what it prints.
func cli(t *testing.T, path string, n *processtest.Node, lines ...string) string {
	t.Helper()
	return nettest.Output(t, nettest.RedisCLI(t, path, n.Addr, "-c"), lines...)
}

func TestRedisCLIUsesACluster(t *testing.T) {
	path, ok := nettest.Need(t, "redis-cli", "redis-tools")
	if !ok {
		return
	}
	c := newCluster(t)
	n := c.Nodes[0]
	out := cli(t, path, n, "SET cli:{a}1 one", "SET cli:{a}2 two", "MGET cli:{a}1 cli:{a}2 cli:{a}3",
		"MGET cli:{a}1 cli:{b}1")
	require.Contains(t, out, "one\ntwo\n\n")
	require.Contains(t, out, "CROSSSLOT")
	out = cli(t, path, n, "INCR cli:n", "INCRBY cli:n 41", "EXPIRE cli:n 100", "TTL cli:n", "PERSIST cli:n", "TTL cli:n")
	require.Regexp(t, `(?s)\b1\n42\n1\n(100|99|98|97|96|95)\n1\n-1\n`, out)
	out = cli(t, path, n, "PEXPIRE cli:n 1")
	require.True(t, strings.HasSuffix(out, "1\n"), "%q", out)
	require.NoError(t, processtest.Wait("a key to expire", func(context.Context) error {
		if out := cli(t, path, n, "EXISTS cli:n"); !strings.HasSuffix(out, "0\n") {
			return fmt.Errorf("EXISTS returns %q", out)
		}
		return nil
	}))
	cliStat(t, path, n)
	cliTransfer(t, c, path)
	cliDeath(t, c, path)
}

// redis-cli --stat shows 0 keys, and the smallest number, for what INFO lacks.
func cliStat(t *testing.T, path string, n *processtest.Node) {
	cmd := nettest.RedisCLI(t, path, n.Addr, "-c", "--stat", "-i", "0.01") // what it prints waits for 4 KiB
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	line := bufio.NewReader(out)
	for range 2 { // headings
		_, err = line.ReadString('\n')
		require.NoError(t, err)
	}
	figures, err := line.ReadString('\n')
	require.NoError(t, err)
	require.Regexp(t, `^\d+ +\d+\.\d+M +\d+ +0 +\d+ \(\+0\) +\d+ *$`, strings.TrimSpace(figures))
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
}

// redis-cli follows MOVED within a session.
func cliTransfer(t *testing.T, c *processtest.Cluster, path string) {
	const key = "cli:{moves}"
	g, err := c.Group(slotOf(key))
	require.NoError(t, err)
	cmd := nettest.RedisCLI(t, path, c.Node(g.Leader).Addr, "-c")
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	_, err = io.WriteString(stdin, "SET "+key+" before\n")
	require.NoError(t, err)
	out := bufio.NewReader(stdout)
	line, err := out.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "OK\n", line)
	_, to := transfer(t, c, key)
	_, err = io.WriteString(stdin, "GET "+key+"\nSET "+key+" after\nGET "+key+"\n")
	require.NoError(t, err)
	require.NoError(t, stdin.Close())
	rest, err := io.ReadAll(out)
	require.NoError(t, err)
	require.NoError(t, cmd.Wait())
	redirected := fmt.Sprintf("-> Redirected to slot [%d] located at %s\n", slotOf(key), to.Addr)
	require.Equal(t, redirected+"before\nOK\nafter\n", string(rest))
}

// After the death of a leader its users connect to another node, and find what was acknowledged.
func cliDeath(t *testing.T, c *processtest.Cluster, path string) {
	const key = "cli:{dies}"
	require.Contains(t, cli(t, path, c.Nodes[0], "SET "+key+" kept"), "OK")
	kill(t, c, key)
	n := c.Running()[0]
	attempts := persist(t, func() error {
		out := cli(t, path, n, "SET "+key+"2 v")
		if strings.HasSuffix(out, "OK\n") {
			return nil
		}
		return errors.New(out)
	})
	t.Logf("the first write succeeded after %d that failed", attempts)
	require.Contains(t, cli(t, path, n, "GET "+key), "kept\n")
	restart(t, c)
	require.Contains(t, cli(t, path, c.Nodes[0], "GET "+key), "kept\n")
}
