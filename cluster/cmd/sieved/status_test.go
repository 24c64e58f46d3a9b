package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/cluster"
	"github.com/sievedb/sievedb/cluster/internal/kv"
	"github.com/sievedb/sievedb/cluster/internal/nettest"
	"github.com/sievedb/sievedb/cluster/internal/overview"
	"github.com/sievedb/sievedb/cluster/internal/processtest"
)

func TestACommandShowsAClusterThroughANode(t *testing.T) {
	parallel(t)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	dir := t.TempDir()
	password := filepath.Join(dir, "password")
	require.NoError(t, os.WriteFile(password, []byte("open sesame\n"), 0o600))
	n := testNode(t, ctx, filepath.Join(dir, "node"), filepath.Join(dir, "repository"))
	ask := func(args ...string) string {
		out, err := run1(t, ctx, append(args, "--node", n.Addr(), "--password-file", password)...)
		require.NoError(t, err, out)
		return out
	}
	require.Regexp(t, `(?s)^1 of 1 nodes answer node 1, 4 of 4 groups have a leader
NOTE      The cluster has 1 node for 3 replicas of each group\. .*
node  state .* memory
   1  up `, ask("status"))
	require.Contains(t, ask("nodes"), n.Addr())
	require.Regexp(t, `(?s)^group  slots .*\n    3  12288-16383 +1 `, ask("groups"))
	require.Regexp(t, `(?m)^    3     1  leader +\d+ +\d+ +0  works$`, ask("groups", "--replicas"))
	require.Regexp(t, `^healthy: 1 of 1 nodes`, ask("health"))

	var status answer
	require.NoError(t, json.Unmarshal([]byte(ask("status", "--json")), &status))
	require.Equal(t, "1", status.Node)
	require.Len(t, status.Groups, 4)
	var nodes []overview.Node
	require.NoError(t, json.Unmarshal([]byte(ask("nodes", "--json")), &nodes))
	require.Equal(t, overview.Up, nodes[0].State)
	var groups []overview.Group
	require.NoError(t, json.Unmarshal([]byte(ask("groups", "--json")), &groups))
	require.Equal(t, uint16(16383), groups[3].Last)
	require.Contains(t, ask("health", "--json"), `"healthy": true`)

	_, err := run1(t, ctx, "status", "--node", n.Addr())
	require.ErrorContains(t, err, "--password-file is missing: NOAUTH")
	nobody := "127.0.0.1:1"
	out, err := run1(t, ctx, "health", "--node", n.Addr()+","+nobody, "--password-file", password)
	require.ErrorContains(t, err, "not healthy")
	require.Contains(t, out, nobody+" gives no overview: ")
	out, err = run1(t, ctx, "status", "--node", nobody, "--node", n.Addr(), "--password-file", password)
	require.NoError(t, err, "one answer is enough to show something")
	require.Contains(t, out, "connection refused")
}

func TestACommandRemovesANode(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	dir := t.TempDir()
	password := filepath.Join(dir, "password")
	require.NoError(t, os.WriteFile(password, []byte("open sesame\n"), 0o600))
	first := testNode(t, ctx, filepath.Join(dir, "1"), filepath.Join(dir, "repository"))
	second, err := cluster.Start(ctx, cluster.Options{
		ID: "2", Dir: filepath.Join(dir, "2"), Disk: cluster.DiskOptions{Reserve: 1},
		Network:  cluster.NetworkOptions{Listen: "127.0.0.1:0", Join: []string{first.Addr()}},
		Timing:   cluster.TimingOptions{Heartbeat: 200 * time.Millisecond, Gossip: 50 * time.Millisecond},
		Security: cluster.SecurityOptions{Password: "open sesame", Secret: "0123456789abcdef"},
	})
	require.NoError(t, err)
	defer func() { require.NoError(t, second.Close()) }()
	remove := func(id string) (string, error) {
		return run1(t, ctx, "remove", id, "--node", first.Addr(), "--password-file", password)
	}
	_, err = remove("9")
	require.ErrorContains(t, err, "the cluster has no node 9")
	out, err := remove("2")
	require.NoError(t, err)
	require.Contains(t, out, "node 2 is being removed")
	select {
	case <-second.Done():
	case <-ctx.Done():
	}
	require.ErrorIs(t, second.Err(), cluster.ErrRemoved)
}

func TestACommandLooksThroughTLS(t *testing.T) {
	parallel(t)
	dir := t.TempDir()
	ca := nettest.NewCA(t)
	cert, key := ca.Node(t, "1", nil)
	for name, text := range map[string][]byte{"cert": cert, "key": key, "ca": ca.PEM} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), text, 0o600))
	}
	o := cluster.Options{
		ID: "1", Dir: filepath.Join(dir, "node"), Network: cluster.NetworkOptions{Listen: "127.0.0.1:0"},
		Disk: cluster.DiskOptions{Reserve: 1}, Shape: cluster.ShapeOptions{Groups: 1},
		Security: cluster.SecurityOptions{
			CertFile: filepath.Join(dir, "cert"), KeyFile: filepath.Join(dir, "key"), CAFile: filepath.Join(dir, "ca"),
		},
	}
	require.NoError(t, cluster.Create(o))
	n, err := cluster.Start(t.Context(), o)
	require.NoError(t, err)
	defer func() { require.NoError(t, n.Close()) }()
	require.NoError(t, n.Ready(t.Context()))
	out, err := run1(t, t.Context(), "health", "--node", n.Addr(), "--tls-ca", filepath.Join(dir, "ca"))
	require.NoError(t, err, out)
	require.Contains(t, out, "healthy: 1 of 1 nodes")
	_, err = run1(t, t.Context(), "health", "--node", n.Addr())
	require.ErrorContains(t, err, "--tls-ca is missing")
}

// A process that is paused keeps its connections.
func TestHealthFindsAPausedNodeAndALostMajority(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts processes")
	}
	c := processtest.Start(t, processtest.Options{Groups: 16})
	health := func(want error, node *processtest.Node, sentences ...string) {
		t.Helper()
		require.Eventually(t, func() bool {
			out, err := run1(t, t.Context(), "health", "--node", node.Addr)
			for _, s := range sentences {
				if !strings.Contains(out, s) {
					return false
				}
			}
			return want == nil && err == nil || want != nil && err != nil && strings.Contains(err.Error(), want.Error())
		}, 2*time.Minute, 50*time.Millisecond, "%v", sentences)
	}
	health(nil, c.Nodes[0], "healthy: 3 of 3 nodes answer")
	paused, dead := c.Nodes[2], c.Nodes[1]
	require.NoError(t, paused.Signal(syscall.SIGSTOP))
	health(errors.New("1 warning"), c.Nodes[0], "1 of 3 nodes is silent (node 3 for ", "no answer in 500ms): reads "+
		"and writes continue, but one more would stop them")
	dead.Kill()
	health(errors.New("1 critical"), c.Nodes[0], "No reads and no writes: 2 of 3 nodes are silent", "connection "+
		"refused", "Start node 2 or 3", "sieved recover --id 1")
	require.NoError(t, paused.Signal(syscall.SIGCONT))
	health(errors.New("1 warning"), c.Nodes[0], "1 of 3 nodes is silent (node 2 for ")
	require.NoError(t, dead.Start())
	health(nil, dead, "healthy: 3 of 3 nodes answer")
}

// large is a cluster with long names and much trouble.
func large() *answer {
	a := &answer{Overview: overview.Overview{Node: "node-of-a-long-name-1",
		Replicas: 3, HeartbeatMs: 1000, DeadAfterMs: 300_000}}
	for i := range 5 {
		a.Nodes = append(a.Nodes, overview.Node{
			ID:   fmt.Sprintf("node-of-a-long-name-%d", i+1),
			Addr: fmt.Sprintf("node-%d.of.a.long.domain.example.com:7001", i), Zone: "rack-1-row-2\x1b[31m",
			State: overview.Silent, Why: "no answer in 1s",
			SilentMs: 3_000_000, Leads: 64, Replicas: 64, Answered: i == 0, Figures: &overview.Figures{
				Version:       "v0.0.0-20261126191000-96236473abcd",
				UptimeSeconds: 7_000_000, DiskUsedBytes: 1 << 42, DiskFreeBytes: 1 << 43,
				DiskReserveBytes: 1 << 30, MemoryBytes: 1 << 35, FsyncP99Us: 900_000, CommandsPerSecond: 1_234_567,
			},
		})
	}
	for group := range kv.GroupID(64) {
		g := overview.Group{Group: group, First: uint16(group) * 256, Last: uint16(group)*256 + 255, Term: 123456, Commit: 1 << 40}
		for i := range 5 {
			g.Replicas = append(g.Replicas, overview.Replica{
				Node: a.Nodes[i].ID, Voter: i < 3, Known: i < 2, Applied: 1 << 40, Last: 1 << 40,
				Lag: 1 << 30, AgeMs: 100_000, Failed: "a reason\nof many words",
			})
		}
		a.Groups = append(a.Groups, g)
	}
	a.Findings = overview.Findings(&a.Overview)
	a.Unanswered = []unanswered{{"node-7.of.a.long.domain.example.com:7001", "dial tcp: lookup " +
		"node-7.of.a.long.domain.example.com: no such host"}}
	return a
}

func TestADiskThatWasNotMeasuredIsNotKnown(t *testing.T) {
	a := large()
	a.Nodes, a.Findings = a.Nodes[:1], nil
	a.Nodes[0].Figures.DiskUsedBytes = 0
	var out strings.Builder
	require.NoError(t, (&paper{out: &out}).status(a))
	require.Regexp(t, ` 900 ms +- +8\.0 TiB +32 GiB\n`, out.String())
}

func TestTablesAndSentencesFitATerminal(t *testing.T) {
	for name, print := range map[string]func(p *paper, a *answer) error{
		"status": (*paper).status, "nodes": (*paper).nodes, "groups": (*paper).groups, "replicas": (*paper).replicas,
	} {
		for _, width := range []int{0, 80} {
			var out strings.Builder
			p := paper{out: &out, width: width}
			require.NoError(t, print(&p, large()))
			require.NotContains(t, out.String(), "\x1b")
			for line := range strings.Lines(out.String()) {
				wide := len([]rune(strings.TrimSuffix(line, "\n")))
				require.True(t, width == 0 || wide <= width, "%s: %d columns: %s", name, wide, line)
			}
			if width == 0 {
				require.Contains(t, out.String(), "node-of-a-long-name-2", "only a terminal gets cut cells")
			}
		}
	}
}

func TestTheViewOfTheLargerPartIsShown(t *testing.T) {
	view := func(node string, answering int) *overview.Overview {
		o := &overview.Overview{Node: node, Cluster: "c", MapVersion: 7}
		for i := range 3 {
			o.Nodes = append(o.Nodes, overview.Node{ID: fmt.Sprint(i + 1), Answered: i < answering})
		}
		return o
	}
	removed := view("4", 3)
	removed.Removed = true
	other := view("9", 3)
	other.Cluster = "d"
	newer := view("3", 2)
	newer.MapVersion = 8
	for name, c := range map[string]struct {
		views        []*overview.Overview
		node         string
		disagreement string
	}{
		"the network is cut": {[]*overview.Overview{view("1", 1), nil, view("3", 2)}, "3", "Node 1 at a0 reaches 1 " +
			"nodes, node 3 reaches 2: is the network cut?"},
		"a newer map": {[]*overview.Overview{view("1", 2), newer}, "3", ""},
		"one was removed": {[]*overview.Overview{removed, view("1", 2)}, "1", "Node 4 at a0 was removed from " +
			"the cluster."},
		"another cluster": {[]*overview.Overview{view("1", 3), other}, "1", "a1 is of another cluster, d."},
	} {
		t.Run(name, func(t *testing.T) {
			errs := []error{nil, errors.New("nobody"), nil}
			a, found := choose([]string{"a0", "a1", "a2"}, c.views, errs)
			require.True(t, found)
			require.Equal(t, c.node, a.Node)
			require.Equal(t, c.disagreement, strings.Join(a.Disagree, "; "))
			require.Equal(t, c.disagreement != "" || len(a.Unanswered) > 0, a.problems() != nil)
		})
	}
	_, found := choose([]string{"a0"}, []*overview.Overview{nil}, []error{errors.New("nobody")})
	require.False(t, found)
}
