//go:build unix

package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestMain runs the tool instead of the tests in the processes that start makes.
func TestMain(m *testing.M) {
	if os.Getenv("SIEVEDB_TEST_TOOL") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// start starts the tool as a process. The test fails if it has not ended after a minute.
func start(t *testing.T, args ...string) (cmd *exec.Cmd, stdin io.WriteCloser, stdout io.ReadCloser, stderr *bytes.Buffer) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	cmd = exec.CommandContext(ctx, os.Args[0], args...)
	cmd.Env = append(os.Environ(), "SIEVEDB_TEST_TOOL=1")
	stderr = new(bytes.Buffer)
	cmd.Stderr = stderr
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err = cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	return cmd, stdin, stdout, stderr
}

// '| head' killed the process with the database open; its exit code was that of a signal.
func TestVerbsEndWhenTheReaderOfTheOutputIsGone(t *testing.T) {
	dir := manyKeys(t, 10_000) // more than a pipe holds
	for _, args := range [][]string{
		{"scan", dir}, {"scan", "--json", dir}, {"export", dir}, {"export", "--format", "binary", dir},
		{"dump", "--all", "--entries", dir}, {"diff", dir, filepath.Dir(dir) + "/empty"},
	} {
		if args[0] == "diff" {
			works(t, "create", args[2])
		}
		cmd, _, stdout, stderr := start(t, args...)
		_, err := bufio.NewReaderSize(stdout, 16).ReadByte()
		require.NoError(t, err)
		require.NoError(t, stdout.Close())
		var exit *exec.ExitError
		require.ErrorAs(t, cmd.Wait(), &exit, args)
		require.Equal(t, exitBrokenPipe, exit.ExitCode(), "%s: %s", args, stderr)
		require.Empty(t, stderr.String(), args)
	}
}

type closedPipe struct{}

func (closedPipe) Write([]byte) (int, error) { return 0, syscall.EPIPE }

// 'sievedb help | head' printed an error.
func TestHelpEndsWhenItsReaderIsGone(t *testing.T) {
	for _, args := range [][]string{{"help"}, {"get", "--help"}, {"completion", "bash"}, {"--version"}, {"version"}} {
		var stderr bytes.Buffer
		require.Equal(t, exitBrokenPipe, run(t.Context(), args, strings.NewReader(""), closedPipe{}, &stderr), args)
		require.Empty(t, stderr.String(), args)
	}
}

// Verbs that wait for input or for changes end at signals, and the database opens again. Other tests
// interrupt verbs within the process.
func TestSignalsEndVerbsThatWait(t *testing.T) {
	dir := newDatabase(t)
	for _, c := range []struct {
		args   []string
		signal syscall.Signal
		ready  string // a line of the output that shows that the verb waits
	}{
		{[]string{"follow", dir, "--interval", "1h", "--json"}, syscall.SIGINT, "lastSequence"},
		{[]string{"shell", dir}, syscall.SIGTERM, "value of pear"},
	} {
		cmd, stdin, stdout, stderr := start(t, c.args...)
		if c.args[0] == "shell" {
			_, err := io.WriteString(stdin, "get pear\n")
			require.NoError(t, err)
		}
		line, err := bufio.NewReader(stdout).ReadString('\n')
		require.NoError(t, err, stderr)
		require.Contains(t, line, c.ready)
		require.NoError(t, cmd.Process.Signal(c.signal))
		var exit *exec.ExitError
		require.ErrorAs(t, cmd.Wait(), &exit, c.args)
		require.Equal(t, exitInterrupted, exit.ExitCode(), "%s: %s", c.args, stderr)
		require.Contains(t, stderr.String(), "interrupted")
	}
	works(t, "put", dir, "a", "b")
}
