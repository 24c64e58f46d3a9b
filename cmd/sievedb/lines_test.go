package main

import (
	"bufio"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// After --resume, messages counted lines from the place of the interruption.
func TestAResumedImportCountsLinesOfTheFile(t *testing.T) {
	path, dir := filepath.Join(t.TempDir(), "lines"), filepath.Join(t.TempDir(), "db")
	require.NoError(t, os.WriteFile(path, []byte(strings.Repeat("k\tv\n", 3000)+"wrong\n"), 0o600))
	for _, words := range [][]string{{"import", dir, path}, {"import", dir, path, "--resume"}} {
		require.Contains(t, fails(t, exitFailed, words...), "import: line 3001: ", words)
	}
}

// An import that had written nothing left a state, and one whose state could not be written ended there.
func TestImportsDoWithoutAState(t *testing.T) {
	path, dir := filepath.Join(t.TempDir(), "lines"), filepath.Join(t.TempDir(), "db")
	require.NoError(t, os.WriteFile(path, []byte("wrong\n"), 0o600))
	fails(t, exitFailed, "import", dir, path)
	require.NoFileExists(t, path+stateSuffix)
	fails(t, exitFailed, "import", dir, dir)
	require.NoFileExists(t, dir+stateSuffix)

	require.NoError(t, os.Mkdir(path+stateSuffix, 0o700)) // in the way of the state
	require.NoError(t, os.WriteFile(path, []byte(strings.Repeat("k\tv\n", 3000)+"wrong\n"), 0o600))
	stderr := fails(t, exitFailed, "import", dir, path)
	require.Contains(t, stderr, "an interrupted import cannot be resumed, but repeated")
	require.Contains(t, stderr, "the same input can be imported again")
}

// endless is a device such as /dev/zero, which has no line ends.
type endless struct{ reads func() }

func (e endless) Read(p []byte) (int, error) {
	e.reads()
	return len(p), nil
}

// A line without an end filled the memory, and Ctrl-C did not end the import of a file meanwhile.
func TestLinesHaveALimit(t *testing.T) {
	_, err := readLine(bufio.NewReaderSize(endless{func() {}}, 16), 1000)
	require.ErrorContains(t, err, "longer than 1000 bytes")
	text, err := readLine(bufio.NewReaderSize(strings.NewReader(strings.Repeat("x", 100)+"\n"), 16), 1000)
	require.NoError(t, err)
	require.Len(t, text, 101)

	ctx, cancel := context.WithCancel(t.Context())
	n := 0
	in := interruptible{ctx, endless{func() {
		if n++; n == 3 {
			cancel()
		}
	}}}
	_, err = io.Copy(io.Discard, in)
	require.ErrorIs(t, err, context.Canceled)
}
