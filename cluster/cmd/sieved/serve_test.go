package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/cluster"
	"github.com/sievedb/sievedb/cluster/internal/processtest"
)

// asCommand makes the test program act as sieved, so that the demonstration can start it again.
const asCommand = "SIEVED_TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		main()
		return
	}
	if err := os.Setenv(asCommand, "1"); err != nil { // of the processes that tests start
		panic(err)
	}
	os.Exit(processtest.Run(m))
}

// parallel lets a test run beside others, because it waits for elections most of the time.
//
//race:clock
func parallel(t *testing.T) { t.Parallel() }

// The demonstration starts three processes, writes, kills one, goes on, starts it again, and compares everything.
//
//make:smoke
func TestTheDemonstrationVerifiesWhatItSays(t *testing.T) {
	parallel(t)
	var out bytes.Buffer
	require.NoError(t, runDemo(t.Context(), &out, 50*time.Millisecond, false), out.String())
	t.Log(out.String())
	require.Contains(t, out.String(), "none is lost")
	require.Contains(t, out.String(), "All of this was verified.")
}

func run1(t *testing.T, ctx context.Context, args ...string) (string, error) {
	var out bytes.Buffer
	root := rootCommand()
	root.SetArgs(args)
	root.SetOut(&out)
	root.SetErr(&out)
	root.SetIn(strings.NewReader("")) // its end stops the node
	err := root.ExecuteContext(ctx)
	return out.String(), err
}

func TestAPortAloneMeansLoopback(t *testing.T) {
	dir := t.TempDir()
	_, err := run1(t, context.Background(), "init", "--id", "1", "--dir", dir, "--groups", "1")
	require.NoError(t, err)
	out, err := run1(t, context.Background(), "--id", "1", "--dir", dir, "--listen", ":0", "--stop-with-parent")
	if err != nil {
		require.ErrorIs(t, err, context.Canceled) // it was stopped while it started
	}
	require.Contains(t, out, "listens on loopback only")
}

func TestFlagsThatCannotWorkAreRefused(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty")
	require.NoError(t, os.WriteFile(empty, []byte("\n"), 0o600))
	password := filepath.Join(t.TempDir(), "password")
	require.NoError(t, os.WriteFile(password, []byte("open sesame\n"), 0o600))
	for want, args := range map[string][]string{
		"Password needs Secret or TLS": {"--id", "1", "--dir", t.TempDir(), "--password-file", password},
		"Options.ID":                   {"--dir", t.TempDir()},
		"Options.Dir":                  {"--id", "1"},
		"Options.Shape.Groups is 5":    {"init", "--id", "1", "--dir", t.TempDir(), "--groups", "5"},
		"--log-format":                 {"--id", "1", "--dir", t.TempDir(), "--log-format", "xml"},
		"is empty":                     {"--id", "1", "--dir", t.TempDir(), "--password-file", empty},
		"unknown command":              {"begin"},
	} {
		_, err := run1(t, context.Background(), args...)
		require.ErrorContains(t, err, want)
	}
}

func TestAScrubRateOfZeroTurnsTheScrubOff(t *testing.T) {
	for text, want := range map[string]int64{"0": -1, "1000": 1000} {
		var s settings
		require.NoError(t, s.setScrub(text))
		require.Equal(t, want, s.options.Limits.ScrubBytesPerSecond)
	}
	require.Error(t, new(settings).setScrub("-1"))
	require.Error(t, new(settings).setScrub("fast"))
}

func TestVersionIsPrinted(t *testing.T) {
	out, err := run1(t, context.Background(), "version")
	require.NoError(t, err)
	require.Regexp(t, `^sieved \S+, go\S+, \w+/\w+\n$`, out)
}

func TestOnlyInitCreatesACluster(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d1")
	_, err := run1(t, context.Background(), "--id", "1", "--dir", dir, "--listen", "127.0.0.1:0")
	require.ErrorIs(t, err, cluster.ErrNoNode)
	require.ErrorContains(t, err, "sieved init --id 1 --dir "+dir)
	require.NoDirExists(t, dir)
	out, err := run1(t, context.Background(), "init", "--id", "1", "--dir", dir, "--groups", "16")
	require.NoError(t, err)
	require.Contains(t, out, "16 groups with 3 replicas each")
	require.Contains(t, out, "sieved --id 1 --dir "+dir+" --listen HOST:PORT")
	require.Contains(t, out, "--join HOST:PORT")
	_, err = run1(t, context.Background(), "init", "--id", "1", "--dir", dir)
	require.ErrorContains(t, err, "node.json")
}

// The unit in docs/cluster.md does not start a node again after 3 and 4.
func TestExitCodesSayWhetherANodeMayBeStartedAgain(t *testing.T) {
	for want, err := range map[int]error{
		0: nil, 1: errors.New("the address is in use"), 3: fmt.Errorf("node 1: %w", cluster.ErrRemoved),
		4: fmt.Errorf("node 1: %w", cluster.ErrForked), 130: context.Canceled,
	} {
		require.Equal(t, want, exitCode(err))
	}
	require.Equal(t, 4, exitCode(cluster.ErrNoNode))
	require.Equal(t, 4, exitCode(cluster.ErrRolledBack))
	text, err := os.ReadFile("../../../docs/cluster.md")
	require.NoError(t, err)
	require.Contains(t, string(text), "RestartPreventExitStatus=3 4\n")
}
