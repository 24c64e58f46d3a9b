package upgradetest

import (
	"context"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/cluster/internal/kv"
	"github.com/sievedb/sievedb/cluster/internal/layout"
	"github.com/sievedb/sievedb/cluster/internal/logstore"
	"github.com/sievedb/sievedb/cluster/internal/machine"
	"github.com/sievedb/sievedb/cluster/internal/processtest"
	"github.com/sievedb/sievedb/cluster/internal/slot"
	"github.com/sievedb/sievedb/db"
)

var writeGolden = flag.Bool("golden.write", false, "write testdata by this version; an old format then loses its test")

// What testdata has.
const (
	aloneDir   = "testdata/alone"        // a node that is a cluster of one group
	memberDir  = "testdata/member"       // node 2 of three
	streamFile = "testdata/state.stream" // the state of group 1 of the same cluster
	streamed   = 1
)

// never is a time at which keys expire after all tests: 2100-01-01.
const never = 4102444800000

// goldenKeys are the keys of testdata that are there for ever, with their values. "later" expires at never. There is
// also the key "soon", which expires 3 s after it was written.
func goldenKeys() map[string]string {
	all := map[string]string{
		"empty": "", "later": "alligator", "counter": "42", "with\x00\r\nspace and \xff": "binary \x00\r\n\xff",
		"long": strings.Repeat("0123456789", 300),
	}
	for i := range 80 {
		all[fmt.Sprintf("{tag%d}:%d", i%16, i)] = fmt.Sprintf("value %d", i)
	}
	return all
}

// fill writes the golden keys, with some that are overwritten and deleted on the way.
func fill(t *testing.T, c redis.Cmdable) {
	t.Helper()
	ctx := t.Context()
	require.NoError(t, c.Set(ctx, "deleted", "gone", 0).Err())
	require.NoError(t, c.Set(ctx, "later", "overwritten", time.Hour).Err())
	for key, value := range goldenKeys() {
		if key == "counter" {
			require.NoError(t, c.IncrBy(ctx, key, 40).Err())
			require.NoError(t, c.IncrBy(ctx, key, 2).Err())
			continue
		}
		require.NoError(t, c.Set(ctx, key, value, 0).Err())
	}
	require.True(t, c.PExpireAt(ctx, "later", time.UnixMilli(never)).Val())
	require.EqualValues(t, 1, c.Del(ctx, "deleted").Val())
	require.NoError(t, c.Set(ctx, "soon", "ends", 3*time.Second).Err())
}

func TestMain(m *testing.M) { os.Exit(processtest.Run(m)) }

// With -golden.write the tests first write testdata. They use what is there in any case.
func golden(t *testing.T) {
	t.Helper()
	if !*writeGolden {
		return
	}
	*writeGolden = false
	require.NoError(t, os.RemoveAll(aloneDir))
	require.NoError(t, os.RemoveAll(memberDir))
	writeAlone(t)
	writeMember(t)
	writeStream(t)
}

// writeAlone writes a node that was killed. Its log has entries that are not in tables.
func writeAlone(t *testing.T) {
	c := processtest.Start(t, processtest.Options{Nodes: 1, Groups: 1})
	n := c.Nodes[0]
	client := n.Client()
	defer func() { _ = client.Close() }()
	require.NoError(t, client.Set(t.Context(), "{tag0}:0", "old", 0).Err())
	_, err := n.Do(t.Context(), "RAFT.SNAPSHOT", 0)
	require.NoError(t, err)
	fill(t, client)
	n.Kill()
	copyDir(t, n.Dir, aloneDir)
}

// writeMember writes a node that was stopped.
func writeMember(t *testing.T) {
	c := processtest.Start(t, processtest.Options{Groups: groups})
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: c.Addrs()})
	defer func() { _ = client.Close() }()
	fill(t, client)
	require.NoError(t, c.Node("2").Stop())
	copyDir(t, c.Node("2").Dir, memberDir)
}

func writeStream(t *testing.T) {
	m := openMachine(t, filepath.Join(memberDir, fmt.Sprintf("group-%04d", streamed)))
	f, err := os.Create(streamFile)
	require.NoError(t, err)
	_, err = m.WriteState(t.Context(), f)
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

// copyDir copies a directory without its lock files.
func copyDir(t *testing.T, from, to string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(from, path)
		if err != nil || d.Name() == "LOCK" {
			return err
		}
		if d.IsDir() {
			return os.MkdirAll(filepath.Join(to, relative), 0o755)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, relative), text, 0o644)
	}))
}

// copied returns a copy of a golden directory, because opening it changes it.
func copied(t *testing.T, dir string) string {
	t.Helper()
	golden(t)
	to := filepath.Join(t.TempDir(), "copy")
	copyDir(t, dir, to)
	return to
}

func openMachine(t *testing.T, dir string) *machine.Machine {
	t.Helper()
	to := filepath.Join(t.TempDir(), "copy")
	copyDir(t, dir, to)
	m, err := machine.Open(machine.Options{Dir: to})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	return m
}

func TestSievedContinuesAGoldenNode(t *testing.T) {
	n := processtest.Continue(t, copied(t, aloneDir), "1")
	require.NoError(t, processtest.Wait("the golden node", n.Well), n.LogText())
	ctx := t.Context()
	c := n.Client()
	defer func() { _ = c.Close() }()
	for key, want := range goldenKeys() {
		got, err := c.Get(ctx, key).Result()
		require.NoError(t, err, "%q", key)
		require.Equal(t, want, got, "%q", key)
	}
	require.Equal(t, time.Duration(never)*time.Millisecond, c.PExpireTime(ctx, "later").Val())
	require.ErrorIs(t, c.Get(ctx, "soon").Err(), redis.Nil)
	require.ErrorIs(t, c.Get(ctx, "deleted").Err(), redis.Nil)
	require.EqualValues(t, len(goldenKeys()), c.DBSize(ctx).Val())
	require.NoError(t, c.Incr(ctx, "counter").Err())
	require.NoError(t, n.Stop(), n.LogText())
}

// The log of a member has all entries, and its states with the rest of the log have all keys.
func TestTheLogAndTheStatesOfAGoldenNodeAreRead(t *testing.T) {
	dir := copied(t, memberDir)
	logs, err := logstore.Open(filepath.Join(dir, "log"), logstore.Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, logs.Close()) }()
	ids, err := logs.Groups()
	require.NoError(t, err)
	require.Equal(t, []kv.GroupID{0, 1, 2, 3}, ids)
	for _, id := range ids {
		m := openMachine(t, filepath.Join(dir, fmt.Sprintf("group-%04d", id)))
		replay(t, logs.Group(id), m)
		requireState(t, m, id)
	}
}

// replay reads the log of a group, and applies to its state what that lacks.
func replay(t *testing.T, log *logstore.Group, m *machine.Machine) {
	t.Helper()
	term, err := log.GetUint64([]byte("CurrentTerm"))
	require.NoError(t, err)
	require.Positive(t, term)
	first, err := log.FirstIndex()
	require.NoError(t, err)
	last, err := log.LastIndex()
	require.NoError(t, err)
	require.Positive(t, first)
	commands := 0
	for index := first; index <= last; index++ {
		var l raft.Log
		require.NoError(t, log.GetLog(index, &l))
		require.Equal(t, index, l.Index)
		require.LessOrEqual(t, l.Term, term)
		if l.Type == raft.LogCommand {
			commands++
			e, err := layout.ParseEntry(l.Data)
			require.NoError(t, err)
			if len(e.Payload) > 0 {
				require.NoError(t, new(db.Batch).UnmarshalBinary(e.Payload))
			}
		}
		if l.Type == raft.LogCommand || l.Type == raft.LogConfiguration {
			require.Nil(t, m.Apply(&l))
		}
	}
	require.Greater(t, commands, 5)
}

// requireState checks all that a state of the golden cluster has.
func requireState(t *testing.T, m *machine.Machine, id kv.GroupID) {
	t.Helper()
	configuration, _ := m.Configuration()
	var servers []string
	for _, s := range configuration.Servers {
		require.Equal(t, raft.Voter, s.Suffrage)
		servers = append(servers, string(s.ID))
	}
	require.ElementsMatch(t, []string{"1.1", "2.1", "3.1"}, servers)
	index, term := m.Applied()
	require.Positive(t, index)
	require.Positive(t, term)
	require.Greater(t, m.Clock(), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli())
	first, last := slot.Range(id, groups)
	found := map[string]kv.Value{}
	require.NoError(t, m.View(func(r kv.Reader) error {
		for s := int(first); s <= int(last); s++ {
			err := r.Scan(uint16(s), nil, nil, false, func(key []byte, v kv.Value) bool {
				found[string(key)] = kv.Value{Data: append([]byte{}, v.Data...), ExpireAt: v.ExpireAt}
				return true
			})
			if err != nil {
				return err
			}
		}
		return nil
	}))
	delete(found, "soon") // the time of the log may be before its end
	want := map[string]kv.Value{}
	for key, value := range goldenKeys() {
		if slot.GroupOf(slot.Of([]byte(key)), groups) == id {
			want[key] = kv.Value{Data: []byte(value)}
		}
	}
	if v, ok := want["later"]; ok {
		v.ExpireAt = never
		want["later"] = v
	}
	require.Equal(t, want, found)
}

func TestAGoldenStreamIsInstalled(t *testing.T) {
	golden(t)
	m, err := machine.Open(machine.Options{Dir: t.TempDir()})
	require.NoError(t, err)
	defer func() { require.NoError(t, m.Close()) }()
	f, err := os.Open(streamFile)
	require.NoError(t, err)
	defer func() { _ = f.Close() }()
	require.NoError(t, m.InstallState(context.Background(), f))
	requireState(t, m, streamed)
}
