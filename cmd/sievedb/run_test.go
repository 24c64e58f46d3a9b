package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/util"
)

// tool runs the command and returns its exit code and output.
func tool(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), args, strings.NewReader(""), &out, &errs)
	return code, out.String(), errs.String()
}

// works runs the command, which must succeed, and returns its output.
func works(t *testing.T, args ...string) (stdout string) {
	t.Helper()
	code, stdout, stderr := tool(t, args...)
	require.Equal(t, exitOK, code, "%s: %s", args, stderr)
	return stdout
}

// fails runs the command, which must end with this code, and returns its messages.
func fails(t *testing.T, code int, args ...string) (stderr string) {
	t.Helper()
	got, _, stderr := tool(t, args...)
	require.Equal(t, code, got, "%s: %s", args, stderr)
	return stderr
}

func newDatabase(t *testing.T) string {
	dir := filepath.Join(t.TempDir(), "db")
	store, err := db.Open(dir, nil)
	require.NoError(t, err)
	for _, k := range []string{"apple", "pear", "plum", "\x00\xff"} {
		require.NoError(t, store.Put([]byte(k), []byte("value of "+k), nil))
	}
	require.NoError(t, store.Delete([]byte("plum"), nil))
	require.NoError(t, store.Flush())
	require.NoError(t, store.Close())
	return dir
}

// filesOf returns a checksum of each file of a directory, and of those in it.
func filesOf(t *testing.T, dir string) map[string]uint32 {
	t.Helper()
	files := map[string]uint32{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			files[path] = 0
			return err
		}
		content, err := os.ReadFile(path)
		files[path] = util.CRC32C(content)
		return err
	}))
	return files
}

func onlyFile(t *testing.T, dir, pattern string) string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, pattern))
	require.NoError(t, err)
	require.Len(t, names, 1)
	return names[0]
}

// The bug: check said "0 faults" about a directory whose log is missing.
func TestCheckReportsAMissingLog(t *testing.T) {
	dir := newDatabase(t)
	log := onlyFile(t, dir, "*.log")
	require.NoError(t, os.Remove(log))
	code, stdout, stderr := tool(t, "check", dir)
	require.Equal(t, exitFaults, code)
	require.Contains(t, stdout+stderr, filepath.Base(log))
	require.Contains(t, stdout+stderr, "missing")
	require.NotContains(t, stdout, "0 faults")
}

func TestRepairDryRunWritesNothing(t *testing.T) {
	remove := func(t *testing.T, dir, pattern string) { require.NoError(t, os.Remove(onlyFile(t, dir, pattern))) }
	for _, c := range []struct {
		claim string
		harm  func(t *testing.T, dir string)
		code  int
		says  string
	}{
		{"nothing is wrong", func(*testing.T, string) {}, exitOK, ""},
		{"nothing is lost", func(t *testing.T, dir string) { remove(t, dir, "CURRENT") }, exitOK, "nothing was lost"},
		{"something is lost", func(t *testing.T, dir string) { remove(t, dir, "*.ldb") }, exitFaults, "keys in 1 range may be missing or old: "},
		{"another engine's", func(t *testing.T, dir string) {
			require.NoError(t, os.RemoveAll(dir))
			require.NoError(t, os.Mkdir(dir, 0o700))
			require.NoError(t, os.WriteFile(filepath.Join(dir, "CURRENT"), []byte("\x80\x1d\x30\x01encrypted"), 0o600))
		}, exitFailed, "NetEase"},
	} {
		t.Run(c.claim, func(t *testing.T) {
			dir := newDatabase(t)
			c.harm(t, dir)
			before := filesOf(t, dir)
			code, stdout, stderr := tool(t, "repair", "--dry-run", dir)
			require.Equal(t, c.code, code, stderr)
			require.Contains(t, stdout+stderr, c.says)
			require.Equal(t, before, filesOf(t, dir))
			if code == exitFaults {
				_, after, _ := tool(t, "repair", dir)
				lastLine := func(text string) string { return text[strings.LastIndex(strings.TrimSpace(text), "\n")+1:] }
				require.Equal(t, lastLine(after), lastLine(stdout), "the plan says what the repair says")
			}
		})
	}
}

// A directory of a newer version was reported as damaged, with the advice to repair it.
func TestADirectoryOfANewerVersionIsNotToBeRepaired(t *testing.T) {
	dir := newDatabase(t)
	name := onlyFile(t, dir, "MANIFEST-*")
	edit := []byte{77, 1}
	chunk := append([]byte{0, 0, 0, 0, byte(len(edit)), 0, 1}, edit...)
	util.PutFixed32(chunk, util.MaskCRC(util.CRC32C(chunk[6:])))
	manifest, err := os.ReadFile(name)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(name, append(manifest, chunk...), 0o600))
	for _, verb := range []string{"check", "repair", "scan"} {
		code, stdout, stderr := tool(t, verb, dir)
		require.Equal(t, exitFailed, code, verb)
		require.Empty(t, stdout)
		require.Contains(t, stderr, "written by a newer version")
		require.Contains(t, stderr, "tag 77 is unknown")
		require.NotContains(t, stderr, "sievedb repair")
	}
	code, stdout, _ := tool(t, "dump", name)
	require.Equal(t, exitFaults, code)
	require.Contains(t, stdout, "written by a newer version: tag 77 is unknown")
}

func TestAPlanWithoutMemoryIsForNoFilters(t *testing.T) {
	stdout := works(t, "plan", "--memory", "0")
	require.Contains(t, stdout, "without filters")
	require.NotContains(t, stdout, "budget of", "whose 0 stands for ten bits a key")
}

func TestNumbers(t *testing.T) {
	for text, want := range map[string][2]uint64{ // keys, bytes
		"0": {}, "200": {200, 200}, "1e9": {1e9, 1e9}, "3k": {3000, 3072}, "1.5M": {1500000, 1572864}, "2G": {2e9, 2 << 30},
	} {
		count, err := parseCount("keys", text)
		require.NoError(t, err)
		size, err := parseSize("memory", text)
		require.NoError(t, err)
		require.Equal(t, want, [2]uint64{count, size}, text)
	}
	require.Equal(t, "105.5 TiB", planBytes(116e12))
	for text, size := range map[string]uint64{"2GiB": 2 << 30, "1TB": 1 << 40, "7B": 7} {
		n, err := parseSize("memory", text)
		require.NoError(t, err)
		require.Equal(t, size, n)
		_, err = parseCount("keys", text)
		require.Error(t, err, "bytes are no keys")
	}
	for _, bad := range []string{"", "k", "-1", "NaN", "1e30", "Inf", "ten"} {
		_, err := parseSize("memory", bad)
		require.Error(t, err, bad)
	}
}

func TestFiltersAsJSON(t *testing.T) {
	report := works(t, "--json", "filters", newDatabase(t))
	for _, want := range []string{`"verdict": "good"`, `"predicted": `, `"low": 0`, `"advice": "nothing"`} {
		require.Contains(t, report, want)
	}
}
