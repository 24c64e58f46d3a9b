package machine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/cluster/internal/kv"
	"github.com/sievedb/sievedb/cluster/internal/layout"
	"github.com/sievedb/sievedb/cluster/internal/slot"
	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/vfs"
)

// open opens a machine with small memtables, so that tests reach tables. It is closed at the end of the test, unless the
// test has closed it.
func open(t testing.TB, fsys vfs.FS) *Machine {
	t.Helper()
	m, err := Open(smallOptions(fsys))
	require.NoError(t, err)
	t.Cleanup(func() {
		if err := m.Close(); !errors.Is(err, kv.ErrClosed) {
			require.NoError(t, err)
		}
	})
	return m
}

func smallOptions(fsys vfs.FS) Options {
	return Options{Dir: "replica", FS: fsys, DB: func(o *db.Options) { o.Memtables.Size = 16 << 10 }}
}

func closeMachine(t testing.TB, m *Machine) {
	t.Helper()
	require.NoError(t, m.Close())
}

// write is a change of one key. A nil value deletes it.
type write struct {
	key string
	v   *kv.Value
}

// command returns an entry of the log. term is that of its evaluation.
func command(t testing.TB, index, logTerm, term uint64, time int64, writes ...write) *raft.Log {
	t.Helper()
	return chained(t, index, logTerm, layout.Chain{Term: term}, time, writes...)
}

// chained returns an entry of the log with a place.
func chained(t testing.TB, index, logTerm uint64, chain layout.Chain, time int64, writes ...write) *raft.Log {
	t.Helper()
	var b db.Batch
	for _, w := range writes {
		key := layout.AppendKey(nil, slot.Of([]byte(w.key)), []byte(w.key))
		if w.v == nil {
			b.Delete(key)
			continue
		}
		b.Put(key, layout.AppendValue(nil, *w.v))
		if w.v.ExpireAt != 0 {
			b.Put(layout.AppendHint(nil, layout.ExpiryPrefix, w.v.ExpireAt, slot.Of([]byte(w.key)), []byte(w.key)), nil)
		}
	}
	data := layout.AppendEntryHeader(nil, layout.Entry{Kind: layout.EntryBatch, Chain: chain, Time: time})
	data, err := b.AppendBinary(data)
	require.NoError(t, err)
	return &raft.Log{Index: index, Term: logTerm, Data: data}
}

func put(key, value string) write { return write{key, &kv.Value{Data: []byte(value)}} }

// simple is a command that puts one key.
func simple(t testing.TB, index uint64) *raft.Log {
	return command(t, index, 1, 1, int64(index), put(fmt.Sprintf("key-%d", index%50), fmt.Sprintf("value-%d", index)))
}

func deleteAll(index, term uint64) *raft.Log {
	return &raft.Log{Index: index, Term: term, Data: layout.AppendEntryHeader(nil, layout.Entry{Kind: layout.EntryDeleteAll, Chain: layout.Chain{Term: term}, Time: 1})}
}

func configuration(index uint64, servers ...string) *raft.Log {
	var c raft.Configuration
	for _, s := range servers {
		c.Servers = append(c.Servers, raft.Server{ID: raft.ServerID(s), Address: raft.ServerAddress(s)})
	}
	return &raft.Log{Index: index, Term: 1, Type: raft.LogConfiguration, Data: raft.EncodeConfiguration(c)}
}

// fill applies simple entries.
func fill(t testing.TB, m *Machine, first, last uint64) {
	t.Helper()
	for i := first; i <= last; i++ {
		require.Equal(t, []any{nil}, m.ApplyBatch([]*raft.Log{simple(t, i)}))
	}
}

// content returns all keys of the database that entries write.
func content(t testing.TB, m *Machine) map[string]string {
	t.Helper()
	got := make(map[string]string)
	require.NoError(t, m.WithDB(func(d *db.DB) error {
		all, errOf := d.All(nil)
		for k, v := range all {
			if k[0] != layout.MetaPrefix {
				got[string(k)] = string(v)
			}
		}
		return errOf()
	}))
	return got
}

// replay returns what the entries of a log up to an index write.
func replay(t testing.TB, logs []*raft.Log, upTo uint64) (want map[string]string, clock int64) {
	t.Helper()
	want = make(map[string]string)
	var last layout.Chain
	for _, l := range logs {
		if l.Index > upTo || l.Type != raft.LogCommand {
			continue
		}
		e, err := layout.ParseEntry(l.Data)
		require.NoError(t, err)
		if !e.Continues(last, l.Term) {
			continue
		}
		last = e.Chain
		clock = max(clock, e.Time)
		if e.Kind == layout.EntryDeleteAll {
			clear(want)
			continue
		}
		var b db.Batch
		require.NoError(t, b.UnmarshalBinary(e.Payload))
		for _, w := range b.All() {
			if w.Kind == db.EntryDelete {
				delete(want, string(w.Key))
			} else {
				want[string(w.Key)] = string(w.Value)
			}
		}
	}
	return want, clock
}

// randomLog returns entries of all kinds, with gaps where raft has barriers.
func randomLog(t testing.TB, r *rand.Rand, n int) (logs []*raft.Log) {
	index, term := uint64(0), uint64(1)
	var last layout.Chain
	for range n {
		index++
		if r.IntN(10) == 0 {
			index, term = index+1, term+1
		}
		switch r.IntN(40) {
		case 0:
			logs = append(logs, deleteAll(index, term))
			last = layout.Chain{Term: term}
		case 1:
			logs = append(logs, configuration(index, "a", fmt.Sprint("b", index)))
		case 2:
			logs = append(logs, command(t, index, term, term-1, 1<<40, put("superseded", "x")))
		default:
			var writes []write
			for range 1 + r.IntN(5) {
				w := write{key: fmt.Sprintf("key-%d", r.IntN(60))}
				if r.IntN(4) > 0 {
					w.v = &kv.Value{Data: bytes.Repeat([]byte{byte(index)}, r.IntN(200)), ExpireAt: max(0, r.Int64N(100)-50)}
				}
				writes = append(writes, w)
			}
			place := layout.Chain{Term: last.Term, Epoch: last.Epoch, Number: last.Number + 1}
			switch {
			case last.Term != term || r.IntN(20) == 0: // a leadership begins
				place = layout.Chain{Term: term, Epoch: last.Epoch + 1}
			case r.IntN(20) == 0: // an entry before this one was lost
				place.Number++
			}
			if place.Continues(last, term) {
				last = place
			}
			logs = append(logs, chained(t, index, term, place, r.Int64N(100), writes...))
		}
	}
	return logs
}

// stream returns the present state as a stream.
func stream(t testing.TB, m *Machine) []byte {
	t.Helper()
	var b bytes.Buffer
	_, err := m.WriteState(context.Background(), &b)
	require.NoError(t, err)
	return b.Bytes()
}

// dirs returns the directories and files of a replica.
func dirs(t testing.TB, fsys vfs.FS) []string {
	t.Helper()
	names, err := fsys.List("replica")
	require.NoError(t, err)
	return names
}
