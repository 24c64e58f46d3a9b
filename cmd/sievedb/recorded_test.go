package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/filter/rangefilter"
	"github.com/sievedb/sievedb/internal/disk/tables"
	"github.com/sievedb/sievedb/vfs"
)

// everyOption are options with another value than the default for everything that a database records.
func everyOption() *db.Options {
	o := &db.Options{FileMode: 0o640, Memtables: db.MemtableOptions{Size: 64 << 10}}
	o.Filters.Policy = filter.FusePolicy{}
	o.Filters.RangePolicies = []rangefilter.Policy{rangefilter.NewPrefix(rangefilter.FixedPrefix(3), 12)}
	o.Tables = db.TableOptions{
		Size: 32 << 10, BlockSize: 2 << 10, RestartInterval: 8, Compression: db.ZstdCompression,
		LevelCompression: []db.Compression{db.ZstdCompression},
	}
	o.Changes = db.ChangeRetention{Bytes: 64 << 20, Age: 24 * time.Hour}
	o.Expiry.Prefixes = [][]byte{[]byte("t/")}
	o.Limits.DiskReserve = -1
	return o
}

// newStoreOfEveryOption makes a database with tables, a log that is not flushed, changes and a cursor.
func newStoreOfEveryOption(t *testing.T, change func(*db.Options)) (dir string) {
	t.Helper()
	home := t.TempDir()
	dir = filepath.Join(home, "db")
	o := everyOption()
	o.LogDir = filepath.Join(home, "logs")
	if change != nil {
		change(o)
	}
	store, err := db.Open(dir, o)
	require.NoError(t, err)
	for i := range 3000 {
		require.NoError(t, store.Put(fmt.Appendf(nil, "key%05d", i), bytes.Repeat(fmt.Append(nil, i), 20), db.NoSync))
	}
	require.NoError(t, store.PutTTL([]byte("t/a"), []byte("soon gone"), time.Hour, nil))
	if o.Changes.Bytes > 0 {
		require.NoError(t, store.SetCursor("reader", 5))
	}
	require.NoError(t, store.Flush())
	require.NoError(t, store.Put([]byte("key00001"), []byte("newest"), nil))
	require.NoError(t, store.Close())
	return dir
}

// requireAsRecorded fails if a database is not as newStoreOfEveryOption made it, option by option. Its history of
// changes begins with the first one.
func requireAsRecorded(t *testing.T, dir string, before *db.Recorded) {
	t.Helper()
	r, err := db.RecordedOptions(dir, nil)
	require.NoError(t, err)
	require.Equal(t, before, r)
	o := r.Options
	store, err := db.Open(dir, &o)
	require.NoError(t, err)
	require.Empty(t, store.OpenReport().OptionsChanged)
	require.Equal(t, []string{"t/"}, strings.Fields(string(bytes.Join(store.ExpiryPrefixes(), []byte(" ")))))
	_, err = store.Get([]byte("t/a"))
	require.NoError(t, err)
	if o.Changes.Bytes > 0 {
		changes := uint64(0)
		for c, err := range store.Changes(context.Background(), 0, nil) {
			require.NoError(t, err)
			require.Equal(t, changes+1, c.First)
			changes = c.Last
		}
		require.GreaterOrEqual(t, changes, uint64(3002))
		cursors, err := store.Cursors()
		require.NoError(t, err)
		require.EqualValues(t, 5, cursors["reader"])
	}
	require.NoError(t, store.Close())
	o.ReadOnly = true // a compaction would remove tables between their list and their reading
	store, err = db.Open(dir, &o)
	require.NoError(t, err)
	tables, err := store.Tables()
	require.NoError(t, err)
	require.NotEmpty(t, tables)
	for _, table := range tables {
		requireTableAsRecorded(t, filepath.Join(dir, table.Name))
	}
	require.NoError(t, store.Close())
}

func requireTableAsRecorded(t *testing.T, path string) {
	t.Helper()
	f, err := vfs.OS.Open(path)
	require.NoError(t, err)
	sample, err := tables.SampleCompression(f, 100)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	require.Zero(t, sample.Snappy, path)
	require.Positive(t, sample.Zstd+sample.Raw, path)
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Contains(t, string(content), "filter.sievedb.BinaryFuse8", path)
	require.Contains(t, string(content), "filter.sievedb.range.sievedb.PrefixBloom.fixed:3", path)
	require.NotContains(t, string(content), "CacheLineBloom", path)
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Zero(t, info.Mode()&0o007, path)
}

// The bugs: verbs opened databases with the defaults of the tool. They ended the history of changes, and wrote tables
// with other compression and filters than those of the owner.
func TestTheBareCommandLeavesADatabaseOfEveryOptionAsItWas(t *testing.T) {
	calls := [][]string{
		{"shell", "--write"}, {"serve", "--allow-write", "--address", "127.0.0.1:0"}, {"delete", "none", "key00002"}, {"options"},
	}
	for _, v := range verbsOf(t) {
		if v.noDir || v.name() == "create" || v.name() == "destroy" {
			continue
		}
		calls = append(calls, append([]string{v.name()}, matrixArgs(t, v)...))
	}
	input := map[string]string{"shell": "get key00001\n", "shell --write": "put key00001 1\n", "load": "zzz\t1\n", "import": "zzz\t1\n"}
	for _, call := range calls {
		t.Run(call[0]+fmt.Sprint(len(call)), func(t *testing.T) {
			t.Parallel()
			dir := newStoreOfEveryOption(t, nil)
			before, err := db.RecordedOptions(dir, nil)
			require.NoError(t, err)
			require.Len(t, before.List, 11)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var stdout, stderr bytes.Buffer
			var out io.Writer = &stdout
			if call[0] == "serve" {
				out = &cancelingWriter{cancel: cancel}
			}
			words := append([]string{call[0], dir}, call[1:]...)
			stdin := input[strings.Join(call, " ")]
			code := run(ctx, words, strings.NewReader(stdin), out, &stderr)
			if call[0] != "ingest" && call[0] != "diff" { // there is no such table; the logs are elsewhere
				require.NotContains(t, []int{exitFailed, exitUsage}, code, "%s: %s", words, stderr.String())
			}
			require.NotContains(t, stderr.String(), "overrides")
			requireAsRecorded(t, dir, before)
		})
	}
}

func TestCopiesHaveTheRecordedOptions(t *testing.T) {
	dir := newStoreOfEveryOption(t, nil)
	home := filepath.Dir(dir)
	before, err := db.RecordedOptions(dir, nil)
	require.NoError(t, err)
	before.LogDir = ""
	repo := filepath.Join(home, "repo")
	works(t, "checkpoint", dir, filepath.Join(home, "checkpoint"))
	works(t, "archive", dir, repo)
	works(t, "put", dir, "key00001", "newer")
	works(t, "archive", dir, repo)
	works(t, "restore", repo, filepath.Join(home, "restored"))
	works(t, "restore", repo, filepath.Join(home, "restored at"), "--at", "3003")
	for _, copied := range []string{"checkpoint", "restored", "restored at"} {
		r, err := db.RecordedOptions(filepath.Join(home, copied), nil)
		require.NoError(t, err)
		require.Equal(t, before, r, copied)
	}
}

func TestARepairWritesTablesAsRecorded(t *testing.T) {
	dir := newStoreOfEveryOption(t, func(o *db.Options) { o.Changes, o.LogDir = db.ChangeRetention{}, "" })
	before, err := db.RecordedOptions(dir, nil)
	require.NoError(t, err)
	tables, err := filepath.Glob(filepath.Join(dir, "*.ldb"))
	require.NoError(t, err)
	content, err := os.ReadFile(tables[0])
	require.NoError(t, err)
	content[10] ^= 1
	require.NoError(t, os.WriteFile(tables[0], content, 0o600))
	fails(t, exitFaults, "repair", dir)
	requireAsRecorded(t, dir, before)
}

func TestFlagsOverrideTheRecordAloud(t *testing.T) {
	dir := newStoreOfEveryOption(t, nil)
	before, err := db.RecordedOptions(dir, nil)
	require.NoError(t, err)
	code, _, stderr := tool(t, "compact", dir, "--compression", "none", "--ranges", "sievedb.PrefixBloom.fixed:2")
	require.Equal(t, exitOK, code, stderr)
	require.Contains(t, stderr, "--compression overrides what the database has recorded (Tables.Compression zstd; Tables.LevelCompression zstd) for this time")
	require.Contains(t, stderr, "--ranges overrides what the database has recorded (Filters.RangePolicies sievedb.PrefixBloom.fixed:3:12)")
	r, err := db.RecordedOptions(dir, nil)
	require.NoError(t, err)
	require.Equal(t, before, r)
	code, _, stderr = tool(t, "upgrade-filters", dir, "--filter", "leveldb")
	require.Equal(t, exitOK, code, stderr)
	require.Contains(t, stderr, "--filter overrides what the database has recorded (Filters.Policy sievedb.BinaryFuse8)")
	works(t, "upgrade-filters", dir)
	works(t, "compact", dir)
	made := filepath.Join(t.TempDir(), "made")
	works(t, "create", made, "--compression", "zstd")
	require.Contains(t, works(t, "options", made), "Tables.Compression\tzstd")
}

// programsPolicy is a filter policy that the tool does not have.
type programsPolicy struct{ filter.BloomPolicy }

func (programsPolicy) Name() string { return "program.policy" }

func TestFiltersThatTheToolLacksAreNotDroppedInSilence(t *testing.T) {
	dir := newStoreOfEveryOption(t, func(o *db.Options) { o.Filters.Policy = programsPolicy{} })
	before := filesOf(t, dir)
	for _, args := range [][]string{{"put", dir, "a", "b"}, {"compact", dir}, {"archive", dir, t.TempDir()}, {"options", dir, "--end-changes", "--yes"}} {
		require.Contains(t, fails(t, exitFailed, args...), "an option that this tool does not have (Filters.Policy: program.policy)")
	}
	require.Equal(t, before, filesOf(t, dir))
	require.Equal(t, "newest\n", works(t, "get", dir, "key00001"), "it can be read")
	code, _, stderr := tool(t, "options", dir)
	require.Equal(t, exitOK, code)
	require.Contains(t, stderr, "this tool does not have Filters.Policy: program.policy")
	recorded, err := db.RecordedOptions(dir, nil)
	require.NoError(t, err)
	works(t, "put", dir, "a", "b", "--ignore-record")
	r, err := db.RecordedOptions(dir, nil)
	require.NoError(t, err)
	require.Equal(t, recorded, r)
}

// hostilePolicy has a name that clears the screen.
type hostilePolicy struct{ filter.BloomPolicy }

func (hostilePolicy) Name() string { return "\x1b[2Jpolicy" }

func TestRecordedNamesDoNotCommandATerminal(t *testing.T) {
	order := *db.BytewiseComparer
	order.Name = "\x1b]0;order"
	dir := newStoreOfEveryOption(t, func(o *db.Options) {
		o.Filters.Policy, o.Filters.RangePolicies, o.Comparer = hostilePolicy{}, nil, &order
	})
	for _, args := range [][]string{{"options", dir}, {"put", dir, "a", "b"}, {"dump", dir}} {
		_, stdout, stderr := tool(t, args...)
		require.NotContains(t, stdout+stderr, "\x1b", args[0])
		require.NotEmpty(t, stdout+stderr)
	}
	require.Contains(t, works(t, "options", dir), `"\x1b[2Jpolicy"`)
}

func TestOnlyAnExplicitWordEndsTheHistoryOfChanges(t *testing.T) {
	dir := newStoreOfEveryOption(t, nil)
	require.Contains(t, fails(t, exitUsage, "options", dir, "--end-changes"), "nothing was changed: add --yes to do it")
	require.True(t, keepsChanges(dir))
	works(t, "options", dir, "--end-changes", "--yes")
	require.False(t, keepsChanges(dir))
	r, err := db.RecordedOptions(dir, nil)
	require.NoError(t, err)
	require.Equal(t, db.ChangeRetention{}, r.Options.Changes)
	require.Len(t, r.List, 9, "all else")
	works(t, "put", dir, "a", "b")
	require.False(t, keepsChanges(dir))
}

func TestAValueCanExpireUnderARecordedPrefix(t *testing.T) {
	dir := newStoreOfEveryOption(t, nil)
	works(t, "put", dir, "t/b", "1", "--ttl", "1h")
	require.Equal(t, "1\n", works(t, "get", dir, "t/b"))
	require.Contains(t, fails(t, exitUsage, "put", newDatabase(t), "t/b", "1", "--ttl", "1h"), "the database has recorded none")
}

func TestAShellOnlyReadsUnlessItMayWrite(t *testing.T) {
	dir := newStoreOfEveryOption(t, nil)
	before := filesOf(t, dir)
	var stdout, stderr bytes.Buffer
	require.Equal(t, exitFailed, run(t.Context(), []string{"shell", dir}, strings.NewReader("get key00001\nput a b\n"), &stdout, &stderr))
	require.Equal(t, "newest\n", stdout.String())
	require.Contains(t, stderr.String(), "'sievedb shell --write' opens a database for writing")
	require.Equal(t, before, filesOf(t, dir))
}
