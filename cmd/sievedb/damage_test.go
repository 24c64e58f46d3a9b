package main

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
)

// newLogged makes a closed database whose entries are in its log.
func newLogged(t *testing.T) (dir, log string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "db")
	store, err := db.Open(dir, nil)
	require.NoError(t, err)
	for i := range 3 {
		require.NoError(t, store.Put([]byte("key"+strconv.Itoa(i)), []byte("value"), nil))
	}
	require.NoError(t, store.Close())
	return dir, onlyFile(t, dir, "*.log")
}

// readers are verbs that read entries, with their arguments after the directory.
var readers = map[string][]string{
	"get": {"key0"}, "has": {"key0"}, "scan": nil, "count": nil, "stats": nil, "size": nil, "tables": nil, "explain": {"key0"},
	"filters": nil, "check": nil, "diff": {"--from-seq", "0"}, "changes": nil, "follow": {"--count", "1"}, "export": nil, "dump": {"--all"},
}

// The bug: changes and follow printed what is before the damage at the end of a log, and ended with 0.
func TestNoVerbIsCalmAboutADamagedLog(t *testing.T) {
	dir, log := newLogged(t)
	whole, err := os.ReadFile(log)
	require.NoError(t, err)
	last := len(whole)
	damages := map[string][]byte{
		"its last byte": append(whole[:last-1:last-1], whole[last-1]^0x40), "cut": whole[:last-10], "without its last record": whole[:last-29],
	}
	if !testing.Short() {
		for at := 40; at < last; at += 7 {
			damages[strconv.Itoa(at)] = append(append(whole[:at:at], whole[at]^1), whole[at+1:]...)
		}
	}
	for name, content := range damages {
		require.NoError(t, os.WriteFile(log, content, 0o600))
		for verb, args := range readers {
			code, stdout, stderr := tool(t, append([]string{verb, dir}, args...)...)
			require.Equal(t, exitFaults, code, "%s: %s: %s", name, verb, stderr)
			require.Contains(t, stdout+stderr, filepath.Base(log), "%s: %s", name, verb)
		}
	}
	require.NoError(t, os.WriteFile(log, whole, 0o600))
	for verb, args := range readers {
		works := map[bool]int{true: exitDifferent, false: exitOK}[verb == "diff"]
		code, _, stderr := tool(t, append([]string{verb, dir}, args...)...)
		require.Equal(t, works, code, "%s: %s", verb, stderr)
	}
}

// The bug: without the log, whose entries are lost, verbs printed the rest and ended with 0.
func TestNoVerbIsCalmAboutAMissingLog(t *testing.T) {
	dir := newDatabase(t)
	log := onlyFile(t, dir, "*.log")
	require.NoError(t, os.Remove(log))
	for verb, args := range readers {
		code, stdout, stderr := tool(t, append([]string{verb, dir}, args...)...)
		require.Equal(t, exitFaults, code, "%s: %s", verb, stderr)
		require.Contains(t, stdout+stderr, filepath.Base(log), verb)
	}
	code, _, stderr := tool(t, "put", dir, "k", "v")
	require.Equal(t, exitOK, code, "what a verb writes is written")
	require.Contains(t, stderr, "entries are lost")
}

// The bug: a follower whose last look met damage ended with 0.
func TestFollowEndsWithTheExitCodeOfDamage(t *testing.T) {
	dir, _ := newLogged(t)
	var stderr bytes.Buffer
	a := &app{ctx: t.Context(), stderr: &stderr, out: &output{w: bufio.NewWriter(io.Discard)}}
	err := a.followed(dir, func(store *db.DB, inUse bool) error {
		require.False(t, inUse)
		require.NoError(t, os.WriteFile(filepath.Join(dir, "CURRENT"), []byte("MANIF"), 0o600))
		return a.eachMoment(store, time.Hour, func() (bool, error) { return false, nil })
	})
	require.Equal(t, exitFaults, codeOf(err))
	require.Contains(t, stderr.String(), "CURRENT")
}
