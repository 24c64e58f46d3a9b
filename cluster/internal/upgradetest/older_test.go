package upgradetest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/cluster/internal/processtest"
	"github.com/sievedb/sievedb/cluster/internal/wire"
)

// olderBuild builds the last commit whose nodes spoke another version of the protocol than this one, and returns the
// program and that version.
func olderBuild(t *testing.T) (program, version string) {
	t.Helper()
	top, err := exec.Command("git", "rev-parse", "--show-toplevel").Output()
	if err != nil {
		t.Skip("there is no history of git: ", err)
	}
	git := func(args ...string) string {
		out, err := exec.Command("git", append([]string{"-C", strings.TrimSpace(string(top))}, args...)...).Output()
		require.NoError(t, err, "git %v", args)
		return strings.TrimSpace(string(out))
	}
	const file = "cluster/internal/wire/hello.go"
	raised := git("log", "-1", "--format=%H", fmt.Sprintf("-Sconst Version = %d", wire.Version), "--", file)
	if raised == "" || exec.Command("git", "rev-parse", raised+"^").Run() != nil {
		t.Skip("the history of git does not reach back to an earlier version of the protocol")
	}
	match := regexp.MustCompile(`const Version = (\d+)`).FindStringSubmatch(git("show", raised+"^:"+file))
	require.Len(t, match, 2)
	dir := t.TempDir()
	git("archive", "--output", filepath.Join(dir, "source.tar"), raised+"^")
	out, err := exec.Command("tar", "-xf", filepath.Join(dir, "source.tar"), "-C", dir).CombinedOutput()
	require.NoError(t, err, "%s", out)
	program = filepath.Join(dir, "older-sieved")
	build := exec.Command("go", "build", "-o", program, "./cmd/sieved")
	build.Dir = filepath.Join(dir, "cluster")
	out, err = build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return program, match[1]
}

// Nodes of an earlier version and of this one refuse each other, and say why. All stopped and started again as this
// version, they have all data.
func TestNodesOfAnEarlierBuildAreRefusedByNameAndUpgradedTogether(t *testing.T) {
	if testing.Short() {
		t.Skip("an earlier version is built")
	}
	program, version := olderBuild(t)
	c := processtest.Start(t, processtest.Options{Groups: groups, Program: program})
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: c.Addrs()})
	defer func() { _ = client.Close() }()
	fill(t, client)

	third := c.Node("3")
	require.NoError(t, third.Stop())
	require.NoError(t, processtest.Upgrade(third))
	before, err := os.ReadFile(third.Log)
	require.NoError(t, err)
	require.NoError(t, third.Start())
	says := func(n *processtest.Node, from int, texts ...string) {
		require.NoError(t, processtest.Wait("the log of node "+n.ID, func(context.Context) error {
			for _, text := range texts {
				if !strings.Contains(n.LogText()[from:], text) {
					return fmt.Errorf("it does not say %q", text)
				}
			}
			return nil
		}))
	}
	this := fmt.Sprint(wire.Version)
	says(third, len(before), "node 1 speaks version "+version+" and this node version "+this+": upgrade node 1", "node 2 speaks version "+version)
	says(c.Node("1"), 0, "version "+version, "version "+this)
	require.NoError(t, client.Set(t.Context(), "{tag0}:0", "value 0", 0).Err(), "two nodes serve all groups")
	require.Equal(t, 1, strings.Count(third.LogText()[len(before):], "node 1 speaks"), third.LogText())

	for _, n := range c.Nodes {
		require.NoError(t, n.Stop())
		require.NoError(t, processtest.Upgrade(n))
		require.NoError(t, n.Start())
	}
	require.NoError(t, c.Settle())
	for key, want := range goldenKeys() {
		require.NoError(t, processtest.Wait("a key", func(ctx context.Context) error {
			got, err := client.Get(ctx, key).Result()
			if err == nil {
				require.Equal(t, want, got)
			}
			return err
		}))
	}
}
