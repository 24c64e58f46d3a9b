package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// fullDisk is standard output on a full disk.
type fullDisk struct{}

var errFull = errors.New("write /dev/stdout: no space left on device")

func (fullDisk) Write([]byte) (int, error) { return 0, errFull }

// A diff whose output was lost ended with "there are differences", and help with 0.
func TestLostOutputIsAFailure(t *testing.T) {
	dir := newDatabase(t)
	for _, args := range [][]string{
		{"diff", dir, "--from-seq", "1"}, {"has", dir, "zzz"}, {"get", dir, "pear", "zzz"}, {"scan", dir},
		{"help"}, {"help", "get"}, {"get", "--help"}, {"--version"}, {"completion", "bash"}, {"version"},
	} {
		var stderr bytes.Buffer
		require.Equal(t, exitFailed, run(t.Context(), args, strings.NewReader(""), fullDisk{}, &stderr), args)
		require.Regexp(t, "(?m)^sievedb: write /dev/stdout: no space left on device\n\\z", stderr.String(), args)
	}
}
