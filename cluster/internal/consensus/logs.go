package consensus

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/raft"

	"github.com/sievedb/sievedb/cluster/internal/kv"
)

// SoonDurable is a log store that can store entries before they are durable. With it, the entries of a leader travel to
// its followers while its own disk writes them.
//
// Raft does not know this: it counts its own server as soon as StoreLogs has returned. So no other server learns the
// commit index of a leader until its own log is durable up to there: the transport does not send it, and the state
// machine does not see the entries. So an entry that any server has applied or acknowledged is durable on a majority.
// Only entries with commands are stored this way. Raft acts on configurations and on the first entry of a term by its
// own commit index, so these must be durable. A deposed leader makes its log durable before it accepts entries of the
// new one, which may count the entries that it has.
type SoonDurable interface {
	raft.LogStore
	// StoreLogsSoon is StoreLogs, but the entries become durable after it has returned.
	StoreLogsSoon(logs []*raft.Log) error
	// Durable returns the index up to which all entries are durable.
	Durable() uint64
	// WaitDurable waits until the entries up to an index are durable.
	WaitDurable(ctx context.Context, index uint64) error
}

// logStore is the log store as raft sees it. It counts what was stored since the log was shortened.
type logStore struct {
	raft.LogStore
	soon    SoonDurable // nil: entries are durable when they are stored
	leading func() bool

	entries, bytes atomic.Uint64
	shortening     sync.Mutex // held by shorten, which subtracts what it has read
}

func newLogStore(logs raft.LogStore, leading func() bool) *logStore {
	soon, _ := logs.(SoonDurable)
	return &logStore{LogStore: logs, soon: soon, leading: leading}
}

// IsMonotonic implements raft.MonotonicLogStore.
func (l *logStore) IsMonotonic() bool {
	m, ok := l.LogStore.(raft.MonotonicLogStore)
	return ok && m.IsMonotonic()
}

// StoreLogs implements raft.LogStore.
func (l *logStore) StoreLogs(logs []*raft.Log) error {
	store, bytes := l.LogStore.StoreLogs, 0
	// Raft's main loop calls this, which alone changes who leads.
	commands := l.soon != nil && l.leading()
	for _, entry := range logs {
		bytes += len(entry.Data)
		commands = commands && entry.Type == raft.LogCommand
	}
	if commands {
		store = l.soon.StoreLogsSoon
	}
	if err := store(logs); err != nil {
		return err
	}
	l.entries.Add(uint64(len(logs)))
	l.bytes.Add(uint64(bytes))
	return nil
}

// StoreLog implements raft.LogStore.
func (l *logStore) StoreLog(entry *raft.Log) error { return l.StoreLogs([]*raft.Log{entry}) }

// waitAll waits until the log is durable.
func (l *logStore) waitAll(ctx context.Context) error {
	if l.soon == nil {
		return nil
	}
	last, err := l.soon.LastIndex()
	if err != nil || last <= l.soon.Durable() {
		return err
	}
	return l.soon.WaitDurable(ctx, last)
}

// announced returns the part of a commit index that others may know.
func (l *logStore) announced(commit uint64) uint64 {
	if l.soon == nil || commit == 0 {
		return commit
	}
	if last, err := l.soon.LastIndex(); err == nil && last == 0 {
		return commit // the log is empty, so the state has all that is committed
	}
	return min(commit, l.soon.Durable())
}

// durableMachine is a state machine that sees entries when they are durable here.
type durableMachine struct {
	raft.BatchingFSM
	logs *logStore
	ctx  context.Context // ends with the group
	// withheld is why the state did not get some entries. Raft calls the machine on one goroutine, so nothing guards
	// it.
	withheld error
}

// ApplyBatch implements raft.BatchingFSM. If the log fails or the group ends, the state does not get the entries, nor
// any later ones, and their responses say so.
func (m *durableMachine) ApplyBatch(entries []*raft.Log) []any {
	if m.withheld == nil && m.logs.soon != nil {
		m.withheld = m.logs.soon.WaitDurable(m.ctx, entries[len(entries)-1].Index)
	}
	if m.withheld != nil {
		return slices.Repeat([]any{fmt.Errorf("%w: %w", kv.ErrUnknown, m.withheld)}, len(entries))
	}
	return m.BatchingFSM.ApplyBatch(entries)
}

// Snapshot implements raft.FSM. Raft counts entries that the state did not get as applied, and a snapshot would be
// taken for one that has them.
func (m *durableMachine) Snapshot() (raft.FSMSnapshot, error) {
	if m.withheld != nil {
		return nil, fmt.Errorf("the state did not get all entries: %w", m.withheld)
	}
	return m.BatchingFSM.Snapshot()
}
