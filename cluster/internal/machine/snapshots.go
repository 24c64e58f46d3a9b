package machine

import (
	"errors"
	"fmt"
	"io"

	"github.com/hashicorp/raft"

	"github.com/sievedb/sievedb/db"
)

// presentID is the name of the present state as a snapshot.
const presentID = "present"

// Snapshots returns the state as a raft.SnapshotStore.
func (m *Machine) Snapshots() raft.SnapshotStore { return (*snapshots)(m) }

type snapshots Machine

// List implements raft.SnapshotStore. It lists the present state, unless nothing was applied yet. Its Size is 0,
// since only a checkpoint has one.
func (s *snapshots) List() ([]*raft.SnapshotMeta, error) {
	m := (*Machine)(s)
	st, err := m.use()
	if err != nil {
		return nil, err
	}
	defer st.release()
	at := st.at.Load()
	if at.index == 0 {
		return nil, nil
	}
	return []*raft.SnapshotMeta{at.meta(presentID, 0)}, nil
}

// Open implements raft.SnapshotStore. The present state is a stream, with the index, term, configuration and size
// of a new checkpoint. A state that was received is only a name, for Restore.
func (s *snapshots) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	m := (*Machine)(s)
	if id != presentID {
		return m.openIncoming(id)
	}
	c, err := m.checkpoint(m.ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("open the state of a replica: %w", err)
	}
	return c.at.meta(id, int64(streamLen(c.files))), c.reader(), nil
}

// Create implements raft.SnapshotStore. What the sink is for shows when it is used: see the package comment.
func (s *snapshots) Create(_ raft.SnapshotVersion, index, term uint64, c raft.Configuration, configIndex uint64, _ raft.Transport) (raft.SnapshotSink, error) {
	m := (*Machine)(s)
	if err := m.Err(); err != nil {
		return nil, err
	}
	at := position{index: index, term: term, configuration: c.Clone(), configIndex: configIndex}
	return &sink{m: m, at: at}, nil
}

// sink is what raft writes a snapshot to. It is used by one goroutine at a time.
type sink struct {
	m  *Machine
	at position // as raft has it; without a clock
	// persisted is set by Persist: the present state is the snapshot.
	persisted bool
	in        *incoming // set by the first Write
}

// ID implements raft.SnapshotSink. raft asks for it at the end.
func (s *sink) ID() string {
	if s.in == nil {
		return presentID
	}
	return s.in.name
}

// Write takes a part of the stream of another replica's state.
func (s *sink) Write(p []byte) (int, error) {
	if s.persisted {
		return 0, errors.New("a snapshot of the present state has no bytes")
	}
	if s.in == nil {
		if applied, _ := s.m.Applied(); s.at.index < applied {
			return 0, fmt.Errorf("a state ends with entry %d, and this replica has applied entry %d", s.at.index, applied)
		}
		s.in = s.m.newIncoming(s.at)
	}
	n, err := s.in.w.Write(p)
	s.in.size += int64(n)
	return n, err
}

// Close ends the snapshot. A state that was received is complete and durable, or refused and removed.
func (s *sink) Close() error {
	switch {
	case s.persisted:
		return nil
	case s.in == nil:
		return fmt.Errorf("%w: it is empty", ErrStream)
	}
	return s.in.end()
}

// Cancel removes what was received.
func (s *sink) Cancel() error {
	if s.in == nil {
		return nil
	}
	return s.in.cancel()
}

// Snapshot implements raft.FSM.
func (m *Machine) Snapshot() (raft.FSMSnapshot, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if err := m.errLocked(); err != nil {
		return nil, err
	}
	return &snapshot{m, m.present}, nil
}

// snapshot is the present state as a snapshot that raft takes.
type snapshot struct {
	m  *Machine
	st *state
}

// Persist implements raft.FSMSnapshot. It makes the state durable at least up to raft's index, because raft then
// deletes entries up to there. It fails if another state was installed since Snapshot: raft would go back to its index.
func (p *snapshot) Persist(to raft.SnapshotSink) error {
	s, ok := to.(*sink)
	if !ok || s.m != p.m {
		return errors.New("a snapshot can only be stored in its machine's own snapshot store")
	}
	if err := p.record(s.at); err != nil {
		return fmt.Errorf("take a snapshot: %w", err)
	}
	st, err := p.m.use()
	if err != nil {
		return err
	}
	defer st.release()
	if st != p.st {
		return errReplaced
	}
	if err := st.db.SyncLog(); err != nil {
		if !errors.Is(err, db.ErrNoSpace) { // raft tries again, and the log has the entries
			err = p.m.fail(err)
		}
		return fmt.Errorf("take a snapshot: %w", err)
	}
	s.persisted = true
	return nil
}

var errReplaced = errors.New("the state was replaced by another one meanwhile")

// record moves the position forward to raft's. All entries in between are of kinds that raft does
// not show to a machine.
func (p *snapshot) record(at position) error {
	m := p.m
	m.writing.Lock()
	defer m.writing.Unlock()
	if err := m.Err(); err != nil {
		return err
	}
	if m.present != p.st {
		return errReplaced
	}
	old := m.present.at.Load()
	to := *old
	if at.index > to.index {
		to.index, to.term = at.index, at.term
	}
	if at.configIndex > to.configIndex {
		to.configIndex, to.configuration = at.configIndex, at.configuration
	}
	if to.index == old.index && to.configIndex == old.configIndex {
		return nil
	}
	m.batch.Reset()
	to.put(&m.batch, old)
	if err := m.present.write(&m.batch, to); err != nil {
		return m.fail(err)
	}
	m.waiters.advance(to.index)
	return nil
}

// Release implements raft.FSMSnapshot.
func (p *snapshot) Release() {}
