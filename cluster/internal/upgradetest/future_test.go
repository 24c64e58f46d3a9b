package upgradetest

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"os"
	"path/filepath"
	"testing"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/cluster/internal/kv"
	"github.com/sievedb/sievedb/cluster/internal/logstore"
	"github.com/sievedb/sievedb/cluster/internal/machine"
	"github.com/sievedb/sievedb/cluster/internal/processtest"
	"github.com/sievedb/sievedb/db"
)

// advice is what each error about something newer says.
const advice = "upgrade this node"

// lastEntry returns the last entry of a golden log, and its key in the database.
func lastEntry(t *testing.T, dir string, group kv.GroupID) (key []byte, l raft.Log) {
	t.Helper()
	logs, err := logstore.Open(dir, logstore.Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, logs.Close()) }()
	last, err := logs.Group(group).LastIndex()
	require.NoError(t, err)
	require.NoError(t, logs.Group(group).GetLog(last, &l))
	key = binary.BigEndian.AppendUint32(nil, uint32(group))
	return binary.BigEndian.AppendUint64(append(key, 'l'), last), l
}

func TestAnEntryOfTheLogStoreOfAFutureVersionIsRefused(t *testing.T) {
	dir := filepath.Join(copied(t, memberDir), "log")
	key, entry := lastEntry(t, dir, 2)
	d, err := db.Open(dir, &db.Options{})
	require.NoError(t, err)
	value, err := d.Get(key)
	require.NoError(t, err)
	value[0]++
	require.NoError(t, d.Put(key, value, nil))
	require.NoError(t, d.Close())

	logs, err := logstore.Open(dir, logstore.Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, logs.Close()) }()
	var l raft.Log
	require.ErrorContains(t, logs.Group(2).GetLog(entry.Index, &l), advice)
	require.NoError(t, logs.Group(1).GetLog(1, &l), "entries of this version are read")
}

func TestACommandOfAFutureVersionIsRefused(t *testing.T) {
	dir := copied(t, memberDir)
	for name, change := range map[string]func(data []byte){
		"version": func(data []byte) { data[0]++ },
		"kind":    func(data []byte) { data[1] = 200 },
	} {
		t.Run(name, func(t *testing.T) {
			m := openMachine(t, filepath.Join(dir, "group-0002"))
			applied, term := m.Applied()
			data := make([]byte, 64)
			data[0] = 1
			change(data)
			err, _ := m.Apply(&raft.Log{Index: applied + 1, Term: term, Type: raft.LogCommand, Data: data}).(error)
			require.ErrorContains(t, err, advice)
			require.ErrorContains(t, m.Err(), advice)
			after, _ := m.Applied()
			require.Equal(t, applied, after)
		})
	}
}

func TestAStreamOfAFutureVersionIsRefused(t *testing.T) {
	golden(t)
	stream, err := os.ReadFile(streamFile)
	require.NoError(t, err)
	const version, sum = 8, 37 // where the header has them
	stream[version]++
	binary.BigEndian.PutUint32(stream[sum:], crc32.Checksum(stream[:sum], crc32.MakeTable(crc32.Castagnoli)))
	m := openMachine(t, filepath.Join(memberDir, "group-0002"))
	before, _ := m.Applied()
	err = m.InstallState(t.Context(), bytes.NewReader(stream))
	require.ErrorIs(t, err, machine.ErrStream)
	require.ErrorContains(t, err, advice)
	after, _ := m.Applied()
	require.Equal(t, before, after, "the old state stays in force")
}

func TestANodeOfAFutureFormatIsRefused(t *testing.T) {
	dir := copied(t, aloneDir)
	name := filepath.Join(dir, "node.json")
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	changed := bytes.Replace(text, []byte(`"format": 1`), []byte(`"format": 3`), 1)
	require.NotEqual(t, text, changed)
	require.NoError(t, os.WriteFile(name, changed, 0o600))
	n := processtest.Continue(t, dir, "1")
	require.Error(t, n.Wait())
	require.Contains(t, n.LogText(), advice)
	after, err := os.ReadFile(name)
	require.NoError(t, err)
	require.Equal(t, changed, after)
}
