package main

import (
	"context"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/backup"
	"github.com/sievedb/sievedb/cluster"
)

func testNode(t *testing.T, ctx context.Context, dir, repository string) *cluster.Node {
	storage, err := backup.NewDir(nil, repository)
	require.NoError(t, err)
	o := cluster.Options{
		ID: "1", Dir: dir, Network: cluster.NetworkOptions{Listen: "127.0.0.1:0"}, Disk: cluster.DiskOptions{Reserve: 1},
		Timing:   cluster.TimingOptions{Heartbeat: 200 * time.Millisecond, Gossip: 50 * time.Millisecond},
		Security: cluster.SecurityOptions{Password: "open sesame", Secret: "0123456789abcdef"}, Backups: storage,
	}
	if _, err := os.Stat(dir); err != nil {
		require.NoError(t, cluster.Create(o))
	}
	n, err := cluster.Start(ctx, o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, n.Close()) })
	require.NoError(t, n.Ready(ctx))
	return n
}

func TestAClusterIsBackedUpAndRestoredByCommands(t *testing.T) {
	parallel(t)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	dir := t.TempDir()
	repository, password := filepath.Join(dir, "repository"), filepath.Join(dir, "password")
	require.NoError(t, os.WriteFile(password, []byte("open sesame\n"), 0o600))
	n := testNode(t, ctx, filepath.Join(dir, "old"), repository)
	c := redis.NewClient(&redis.Options{Addr: n.Addr(), Password: "open sesame"})
	defer func() { require.NoError(t, c.Close()) }()
	require.NoError(t, c.Set(ctx, "greeting", "hello", 0).Err())

	_, err := run1(t, ctx, "backups", "--repository", repository)
	require.ErrorContains(t, err, "--repository", "a wrong name was taken for an empty repository")
	_, err = run1(t, ctx, "backup", "--node", n.Addr())
	require.ErrorContains(t, err, "NOAUTH")
	for range 2 {
		out, err := run1(t, ctx, "backup", "--node", n.Addr(), "--password-file", password)
		require.NoError(t, err, out)
		require.Contains(t, out, ": 4 groups with ")
	}
	out, err := run1(t, ctx, "backups", "--repository", repository)
	require.NoError(t, err)
	require.Equal(t, 3, strings.Count(out, "\n"), out)
	out, err = run1(t, ctx, "prune", "--repository", repository, "--keep-last", "1", "--dry-run")
	require.NoError(t, err)
	require.Contains(t, out, "1 backups would be kept, and the 1 above removed")
	out, err = run1(t, ctx, "prune", "--repository", repository, "--keep-last", "1")
	require.NoError(t, err)
	require.Contains(t, out, "1 backups kept; the 1 above")
	out, err = run1(t, ctx, "verify", "--repository", repository)
	require.NoError(t, err)
	require.Contains(t, out, "1 backups, ")
	require.Contains(t, out, " 0 faults")

	fresh := filepath.Join(dir, "new")
	out, err = run1(t, ctx, "restore", "--repository", repository, "--id", "1", "--dir", fresh, "--listen", "127.0.0.1:1")
	require.NoError(t, err, out)
	_, err = run1(t, ctx, "restore", "--repository", repository, "--id", "1", "--dir", fresh)
	require.ErrorContains(t, err, "is empty or does not exist")
	restored := testNode(t, ctx, fresh, repository)
	again := redis.NewClient(&redis.Options{Addr: restored.Addr(), Password: "open sesame"})
	defer func() { require.NoError(t, again.Close()) }()
	require.Equal(t, "hello", again.Get(ctx, "greeting").Val())
	require.Eventually(t, func() bool {
		nodes, err := again.Do(ctx, "CLUSTER", "NODES").Text()
		require.NoError(t, err)
		return strings.Contains(nodes, restored.Addr())
	}, 2*time.Minute, 20*time.Millisecond, "the node does not announce its new address")

	require.NoError(t, restored.Close())
	_, err = run1(t, ctx, "recover", "--id", "1", "--dir", fresh)
	require.ErrorContains(t, err, "--accept-data-loss")
	out, err = run1(t, ctx, "recover", "--id", "1", "--dir", fresh, "--accept-data-loss")
	require.NoError(t, err, out)
	require.Contains(t, out, "WARNING")
	recovered := testNode(t, ctx, fresh, repository)
	last := redis.NewClient(&redis.Options{Addr: recovered.Addr(), Password: "open sesame"})
	defer func() { require.NoError(t, last.Close()) }()
	require.Equal(t, "hello", last.Get(ctx, "greeting").Val())
}

func TestTheConsoleIsServedToThisMachineOnly(t *testing.T) {
	parallel(t)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	n := testNode(t, ctx, filepath.Join(t.TempDir(), "node"), filepath.Join(t.TempDir(), "repository"))
	_, err := serveConsole(":0", n, slog.New(slog.DiscardHandler))
	require.ErrorContains(t, err, "other machines could reach")
	var log strings.Builder
	page, err := serveConsole("127.0.0.1:0", n, slog.New(slog.NewTextHandler(&log, nil)))
	require.NoError(t, err)
	defer func() { require.NoError(t, page.Close()) }()
	url := strings.TrimSpace(log.String()[strings.Index(log.String(), "http://"):])
	answer, err := http.Get(url + "api/cluster")
	require.NoError(t, err)
	defer func() { require.NoError(t, answer.Body.Close()) }()
	require.Equal(t, http.StatusOK, answer.StatusCode)
	answer, err = http.Get(url + "group/2/")
	require.NoError(t, err)
	defer func() { require.NoError(t, answer.Body.Close()) }()
	require.Equal(t, http.StatusOK, answer.StatusCode)
}
