package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/filter/rangefilter"
	"github.com/sievedb/sievedb/util"
	"github.com/stretchr/testify/require"
)

// tool runs the command and returns its exit code and output.
func tool(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), args, strings.NewReader(""), &out, &errs)
	return code, out.String(), errs.String()
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

func TestFiltersNamesFiltersOfRanges(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	store, err := db.Open(dir, &db.Options{
		Filters: db.FilterOptions{RangePolicies: []rangefilter.Policy{rangefilter.NewPrefix(rangefilter.FixedPrefix(4), 10)}},
	})
	require.NoError(t, err)
	require.NoError(t, store.Put([]byte("apple"), nil, nil))
	require.NoError(t, store.Flush())
	require.NoError(t, store.Close())
	code, out, stderr := tool(t, "filters", dir)
	require.Equal(t, exitOK, code, stderr)
	require.Contains(t, out, "range filter")
	require.Regexp(t, `sievedb.PrefixBloom.fixed:4\t67\t536.0\tunknown range filter policy: sievedb: no policy of that name`, out)

	names := "sievedb.PrefixBloom.fixed:4,sievedb.Grafite.fixed:0.be8"
	code, out, stderr = tool(t, "upgrade-filters", "--ranges", names, dir)
	require.Equal(t, exitOK, code, stderr)
	require.Contains(t, out, "1 upgraded")
	code, out, stderr = tool(t, "filters", "--ranges", names, dir)
	require.Equal(t, exitOK, code, stderr)
	require.Regexp(t, `sievedb.PrefixBloom.fixed:4\t67\t536.0\tnot queried yet`, out)
	require.Regexp(t, `sievedb.Grafite.fixed:0.be8\t\d+\t[\d.]+\tnot queried yet`, out)
	code, _, stderr = tool(t, "check", "--ranges", names, dir)
	require.Equal(t, exitOK, code, stderr)
	code, _, stderr = tool(t, "check", "--ranges", "fixed:4", dir)
	require.Equal(t, exitUsage, code)
	require.Contains(t, stderr, "--ranges")
}

func TestCommandsThatLook(t *testing.T) {
	dir := newDatabase(t)
	cases := []struct {
		name string
		args []string
		code int
		want []string // parts of the output
	}{
		{"get prints the value", []string{"get", dir, "pear"}, exitOK, []string{"value of pear\n"}},
		{"get in hexadecimal", []string{"--hex", "get", dir, "00ff"}, exitOK, []string{"76616c7565206f6620"}},
		{"scan quotes what a terminal cannot show", []string{"scan", dir}, exitOK, []string{"\"\\x00\\xff\"\t", "apple\tvalue of apple\npear\tvalue of pear\n"}},
		{"scan takes bounds", []string{"scan", dir, "b", "q"}, exitOK, []string{"pear\tvalue of pear\n"}},
		{"scan takes a limit", []string{"scan", "--limit", "1", dir}, exitOK, []string{"\n"}},
		{"explain names the table and the filter's verdict", []string{"explain", dir, "pear"}, exitOK, []string{"filter: maybe", "by sievedb.CacheLineBloom", "found: "}},
		{"explain of a deleted key", []string{"explain", dir, "plum"}, exitNotFound, []string{"deleted: "}},
		{"stats lists levels", []string{"stats", dir}, exitOK, []string{"level", "all", "last sequence\t5", "MANIFEST-"}},
		{"tables lists filters", []string{"tables", dir}, exitOK, []string{"sievedb.CacheLineBloom", "whole table"}},
		{"filters measures them", []string{"filters", dir}, exitOK, []string{"sievedb.CacheLineBloom, whole table", "all 1", "good"}},
		{"filters as JSON", []string{"--json", "filters", dir}, exitOK, []string{`"verdict": "good"`, `"predicted": `, `"low": 0`, `"advice": "nothing"`}},
		{"flags after the directory", []string{"filters", dir, "--json"}, exitOK, []string{`"verdict": "good"`}},
		{"a dry run of an upgrade", []string{"upgrade-filters", "--filter", "fuse", "-n", dir}, exitOK, []string{"1 to upgrade, 0 have", "to be copied", "expected", "without --dry-run to do it"}},
		{"a flag that is none, without sixty lines of help", []string{"-no-such-flag", "filters", dir}, exitUsage, nil},
		{"a dry run by its long name", []string{"upgrade-filters", "--dry-run", "--filter", "fuse", dir}, exitOK, []string{"nothing was changed"}},
		{"check finds no fault", []string{"check", dir}, exitOK, []string{"0 faults"}},
	}
	before, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			code, stdout, stderr := tool(t, c.args...)
			require.Equal(t, c.code, code, stderr)
			for _, want := range c.want {
				require.Contains(t, stdout, want)
			}
		})
	}
	after, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Equal(t, before, after, "looking changes nothing")
}

func TestCommandsThatWrite(t *testing.T) {
	dir := newDatabase(t)
	code, _, stderr := tool(t, "put", dir, "new", "thing")
	require.Equal(t, exitOK, code, stderr)
	_, stdout, _ := tool(t, "get", dir, "new")
	require.Equal(t, "thing\n", stdout)
	code, _, _ = tool(t, "delete", dir, "new")
	require.Equal(t, exitOK, code)
	code, _, stderr = tool(t, "get", dir, "new")
	require.Equal(t, exitNotFound, code)
	require.Contains(t, stderr, "not found")
	code, stdout, _ = tool(t, "compact", dir)
	require.Equal(t, exitOK, code)
	require.Contains(t, stdout, "became 1 of")
}

func TestACheckpointOpens(t *testing.T) {
	dir := newDatabase(t)
	dest := filepath.Join(t.TempDir(), "copies", "today")
	code, stdout, stderr := tool(t, "checkpoint", dir, dest)
	require.Equal(t, exitOK, code, stderr)
	require.Contains(t, stdout, "1 tables and 0 logs; ")
	require.Contains(t, stdout, "last sequence 5")
	code, stdout, _ = tool(t, "get", dest, "pear")
	require.Equal(t, exitOK, code)
	require.Equal(t, "value of pear\n", stdout)
	code, _, stderr = tool(t, "checkpoint", dir, dest)
	require.Equal(t, exitFailed, code)
	require.Contains(t, stderr, "choose a directory that does not exist")
}

func TestALiveDatabaseCanBeRead(t *testing.T) {
	dir := newDatabase(t)
	store, err := db.Open(dir, nil)
	require.NoError(t, err)
	require.NoError(t, store.Put([]byte("melon"), []byte("just written"), nil))
	dest := filepath.Join(t.TempDir(), "copy")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"get", dir, "melon"}, "just written"}, {[]string{"scan", dir, "m"}, "just written"},
		{[]string{"explain", dir, "melon"}, "memtable"}, {[]string{"stats", dir}, "MANIFEST"}, {[]string{"tables", dir}, ".ldb"},
		{[]string{"check", dir}, "0 faults"}, {[]string{"filters", dir}, ".ldb"}, {[]string{"checkpoint", dir, dest}, "last sequence 6"},
	} {
		code, stdout, stderr := tool(t, c.args...)
		require.Equal(t, exitOK, code, "%s: %s", c.args[0], stderr)
		require.Contains(t, stdout, c.want)
		require.Contains(t, stderr, "another process has the database open")
	}
	repo, restored := filepath.Join(t.TempDir(), "repo"), filepath.Join(t.TempDir(), "restored")
	code, _, stderr := tool(t, "backup", dir, repo)
	require.Equal(t, exitOK, code, stderr)
	code, _, stderr = tool(t, "restore", repo, restored)
	require.Equal(t, exitOK, code, stderr)
	_, stdout, _ := tool(t, "get", restored, "melon")
	require.Equal(t, "just written\n", stdout)
	_, stdout, _ = tool(t, "get", dest, "melon")
	require.Equal(t, "just written\n", stdout)
	code, _, stderr = tool(t, "put", dir, "melon", "2")
	require.Equal(t, exitFailed, code)
	require.Contains(t, stderr, "locked")
	require.NoError(t, store.Close())
}

func TestRepairBringsBackWhatIsThere(t *testing.T) {
	dir := newDatabase(t)
	require.NoError(t, os.Remove(filepath.Join(dir, "CURRENT")))
	code, _, stderr := tool(t, "get", dir, "pear")
	require.Equal(t, exitFailed, code)
	require.Contains(t, stderr, "sievedb repair")
	code, stdout, stderr := tool(t, "repair", dir)
	require.Equal(t, exitOK, code, stderr)
	require.NotEmpty(t, stdout)
	_, stdout, _ = tool(t, "get", dir, "pear")
	require.Equal(t, "value of pear\n", stdout)
}

// filesOf returns the files of a directory, and of those in it.
func filesOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			files[path] = "directory"
			return err
		}
		content, err := os.ReadFile(path)
		files[path] = string(content)
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
	t.Run("nothing is lost", func(t *testing.T) {
		dir := newDatabase(t)
		require.NoError(t, os.Remove(filepath.Join(dir, "CURRENT")))
		before := filesOf(t, dir)
		code, stdout, stderr := tool(t, "repair", "--dry-run", dir)
		require.Equal(t, exitOK, code, stderr)
		require.Contains(t, stdout, "nothing was lost")
		require.Equal(t, before, filesOf(t, dir))
	})
	t.Run("something is lost", func(t *testing.T) {
		dir := newDatabase(t)
		code, _, stderr := tool(t, "flush", dir)
		require.Equal(t, exitOK, code, stderr)
		table := onlyFile(t, dir, "*.ldb")
		require.NoError(t, os.Remove(table))
		before := filesOf(t, dir)
		code, stdout, _ := tool(t, "repair", "--dry-run", dir)
		require.Equal(t, exitFaults, code)
		require.Contains(t, stdout, filepath.Base(table)+": missing")
		require.Contains(t, stdout, "keys in 1 ranges may be missing or old: ")
		require.Equal(t, before, filesOf(t, dir))
		code, after, _ := tool(t, "repair", dir)
		require.Equal(t, exitFaults, code)
		lastLine := func(text string) string { return text[strings.LastIndex(strings.TrimSpace(text), "\n")+1:] }
		require.Equal(t, lastLine(after), lastLine(stdout), "the plan says what the repair says")
	})
	t.Run("nothing is wrong", func(t *testing.T) {
		dir := newDatabase(t)
		before := filesOf(t, dir)
		code, _, stderr := tool(t, "repair", "--dry-run", dir)
		require.Equal(t, exitOK, code, stderr)
		require.Equal(t, before, filesOf(t, dir))
	})
	t.Run("another engine's", func(t *testing.T) {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, "CURRENT"), []byte("\x80\x1d\x30\x01encrypted"), 0o600))
		before := filesOf(t, dir)
		code, _, stderr := tool(t, "repair", "--dry-run", dir)
		require.Equal(t, exitFailed, code)
		require.Contains(t, stderr, "NetEase")
		require.Equal(t, before, filesOf(t, dir))
	})
}

// A directory of a newer version was reported as damaged, with the advice to repair it.
func TestADirectoryOfANewerVersionIsNotToBeRepaired(t *testing.T) {
	dir := newDatabase(t)
	names, err := filepath.Glob(filepath.Join(dir, "MANIFEST-*"))
	require.NoError(t, err)
	edit := []byte{77, 1}
	chunk := append([]byte{0, 0, 0, 0, byte(len(edit)), 0, 1}, edit...)
	util.PutFixed32(chunk, util.MaskCRC(util.CRC32C(chunk[6:])))
	manifest, err := os.ReadFile(names[0])
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(names[0], append(manifest, chunk...), 0o600))
	for _, verb := range []string{"check", "repair", "scan"} {
		code, stdout, stderr := tool(t, verb, dir)
		require.Equal(t, exitFailed, code, verb)
		require.Empty(t, stdout)
		require.Contains(t, stderr, "written by a newer version")
		require.Contains(t, stderr, "tag 77 is unknown")
		require.NotContains(t, stderr, "sievedb repair")
	}
	code, stdout, _ := tool(t, "dump", names[0])
	require.Equal(t, exitFaults, code)
	require.Contains(t, stdout, "written by a newer version: tag 77 is unknown")
}

func TestWrongWordsAreExplained(t *testing.T) {
	cases := []struct {
		name string
		args []string
		code int
		want string
	}{
		{"no such command", []string{"frobnicate", "x"}, exitUsage, "sievedb help"},
		{"an argument missing", []string{"get", "x"}, exitUsage, "usage: sievedb get DIR KEY"},
		{"an argument too many", []string{"stats", "x", "y"}, exitUsage, "stats DIR"},
		{"no such flag", []string{"-nope"}, exitUsage, "nope"},
		{"a plan with a directory", []string{"plan", "x"}, exitUsage, "usage: sievedb plan"},
		{"a plan of nothing", []string{"plan", "--keys", "0"}, exitUsage, "plan for 0 keys"},
		{"a plan of no number", []string{"plan", "--keys", "many"}, exitUsage, "want a number"},
		{"less than nothing", []string{"plan", "--memory", "-1"}, exitUsage, "want a number"},
		{"a plan with letters for a billion", []string{"plan", "--keys", "1B"}, exitUsage, "want a number"},
		{"a flag that has no part in a plan", []string{"plan", "--bits", "12"}, exitUsage, "unknown flag: --bits"},
		{"a compaction that is to be a dry run", []string{"compact", "--dry-run", "x"}, exitUsage, "unknown flag: --dry-run"},
		{"no directory", []string{"filters"}, exitUsage, "filters DIR"},
		{"no probes", []string{"filters", "--probes", "0", "x"}, exitUsage, "--probes"},
		{"no such filter", []string{"upgrade-filters", "--filter", "sieve", "x"}, exitUsage, "both, cacheline, fuse, leveldb"},
		{"no bits", []string{"upgrade-filters", "--bits", "0", "x"}, exitUsage, "--bits"},
		{"a rate below nothing", []string{"upgrade-filters", "--rate", "-1", "x"}, exitUsage, "-rate is -1"},
		{"no rate at all", []string{"upgrade-filters", "--rate", "NaN", "x"}, exitUsage, "-rate is NaN"},
		{"bad hexadecimal", []string{"--hex", "explain", "x", "zz"}, exitUsage, "hexadecimal"},
		{"no database", []string{"get", filepath.Join(t.TempDir(), "none"), "k"}, exitFailed, "there is no database"},
		{"a repair of nothing", []string{"repair", filepath.Join(t.TempDir(), "none")}, exitFailed, "there is no database"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			code, _, stderr := tool(t, c.args...)
			require.Equal(t, c.code, code)
			require.Contains(t, stderr, c.want)
		})
	}
	code, stdout, _ := tool(t, "help")
	require.Equal(t, exitOK, code)
	for _, v := range verbsOf(t) {
		require.Contains(t, stdout, "\n  "+v.name())
	}
}

func TestPlansReportWhatABudgetSaves(t *testing.T) {
	code, stdout, stderr := tool(t, "plan", "--keys", "1e12", "--value-size", "100", "--memory", "1T")
	require.Equal(t, exitOK, code, stderr)
	for _, want := range []string{"1000000000000 keys of 16 bytes", "105.5 TiB", "absent, budget", "with 1.0 TiB of filters", "Options.Filters.Budget: 1099511627776"} {
		require.Contains(t, stdout, want)
	}
	_, same, _ := tool(t, "plan", "--keys", "1T", "--memory", "1TiB")
	require.Equal(t, stdout, same, "flags before or after, suffixes or exponents")
}

func TestAPlanWithoutMemoryIsForNoFilters(t *testing.T) {
	code, stdout, stderr := tool(t, "plan", "--memory", "0")
	require.Equal(t, exitOK, code, stderr)
	require.Contains(t, stdout, "filter.None")
	require.NotContains(t, stdout, "Filters.Budget", "whose 0 stands for ten bits a key")
}

func TestFiltersOfNoTablesAreEmptyLists(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	store, err := db.Open(dir, nil)
	require.NoError(t, err)
	require.NoError(t, store.Close())
	code, stdout, stderr := tool(t, "filters", "--json", dir)
	require.Equal(t, exitOK, code, stderr)
	require.JSONEq(t, `{"tables": [], "levels": []}`, stdout)
}

func TestNumbers(t *testing.T) {
	cases := []struct {
		text  string
		count uint64
		size  uint64
	}{
		{"0", 0, 0}, {"200", 200, 200}, {"1e9", 1e9, 1e9}, {"3k", 3000, 3072}, {"1.5M", 1500000, 1572864}, {"2G", 2e9, 2 << 30},
	}
	for _, c := range cases {
		t.Run(c.text, func(t *testing.T) {
			n, err := parseCount("keys", c.text)
			require.NoError(t, err)
			require.Equal(t, c.count, n)
			n, err = parseSize("memory", c.text)
			require.NoError(t, err)
			require.Equal(t, c.size, n)
		})
	}
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

func TestIngestAddsTablesOrNone(t *testing.T) {
	from, to := newDatabase(t), filepath.Join(t.TempDir(), "new")
	tables, err := filepath.Glob(filepath.Join(from, "*.ldb"))
	require.NoError(t, err)
	require.Len(t, tables, 1)
	for _, want := range []string{"1 tables linked, 0 copied, 0 rewritten", "0 tables linked, 0 copied, 1 rewritten"} {
		code, stdout, stderr := tool(t, "ingest", to, tables[0])
		require.Equal(t, exitOK, code, stderr)
		require.Contains(t, stdout, "5 entries; "+want)
	}
	code, stdout, _ := tool(t, "get", to, "pear")
	require.Equal(t, exitOK, code)
	require.Equal(t, "value of pear\n", stdout)
	bad := filepath.Join(from, "CURRENT")
	code, _, stderr := tool(t, "ingest", to, tables[0], bad)
	require.Equal(t, exitFailed, code)
	require.Contains(t, stderr, bad)
	code, _, _ = tool(t, "ingest", to)
	require.Equal(t, exitUsage, code)
}

// A cut CURRENT keeps the database from opening: for check that is a fault, not a failure of the verb.
func TestCheckOfADatabaseThatDoesNotOpen(t *testing.T) {
	dir := t.TempDir()
	code, _, stderr := tool(t, "create", dir)
	require.Equal(t, exitOK, code, stderr)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "CURRENT"), []byte("MANIF"), 0o600))
	code, _, stderr = tool(t, "check", dir)
	require.Equal(t, exitFaults, code)
	require.Contains(t, stderr, "CURRENT")
	code, _, _ = tool(t, "check", filepath.Join(dir, "none"))
	require.Equal(t, exitFailed, code)
}
